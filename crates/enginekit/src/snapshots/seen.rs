//! A tree as a client sees it.

use std::collections::BTreeMap;

use vfs::{Attributes, FileKind, FileSystem, FsError, Ino, ObjectId, Timestamp};
use vnode::Engine;

use crate::volume::Volume;

/// The object that was reported under each file id.
#[derive(Default)]
pub(super) struct FileIds(BTreeMap<Ino, ObjectId>);

impl FileIds {
    /// Notes an object that was reported with these attributes.
    pub(super) fn note(&mut self, attributes: &Attributes, id: ObjectId) -> Result<(), String> {
        match self.0.insert(attributes.ino, id) {
            Some(other) if other != id => {
                Err(format!("{other:?} and {id:?} have the file id {:?}", attributes.ino))
            }
            _ => Ok(()),
        }
    }
}

/// A file in any tree.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    ino: Ino,
    generation: u32,
    kind: FileKind,
    mode: u16,
    nlink: u32,
    size: u64,
    times: (Timestamp, Timestamp),
    content: Vec<u8>,
}

/// All files, by their paths from a root, which has the path ''.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tree(BTreeMap<String, Seen>);

impl Tree {
    /// Reads everything below a directory.
    pub(super) async fn read(
        volume: &Volume<impl Engine>,
        root: ObjectId,
        ids: &mut FileIds,
    ) -> Result<Self, String> {
        let mut files = BTreeMap::new();
        let mut next = vec![(String::new(), root)];
        while let Some((path, id)) = next.pop() {
            let seen = Seen::read(volume, id, ids).await.map_err(|e| format!("{path:?}: {e}"))?;
            if seen.kind == FileKind::Directory {
                for entry in volume.entries(id, true).await {
                    let name = String::from_utf8_lossy(&entry.name).into_owned();
                    if entry.id.snapshot != id.snapshot && name != ".." {
                        return Err(format!("{path}/{name} is in another tree: {:?}", entry.id));
                    }
                    let told = entry.attributes.map(|attributes| attributes.ino);
                    if told != Some(entry.id.file_id()) {
                        return Err(format!("{path}/{name} is {:?}, told {told:?}", entry.id));
                    }
                    if name != "." && name != ".." {
                        next.push((format!("{path}/{name}"), entry.id));
                    }
                }
            }
            files.insert(path, seen);
        }
        Ok(Self(files))
    }

    /// The first difference between two trees.
    pub(super) fn differs(&self, other: &Self) -> Option<String> {
        let paths = self.0.keys().chain(other.0.keys());
        paths.into_iter().find_map(|path| {
            let (right, found) = (self.0.get(path), other.0.get(path));
            let short = |seen: Option<&Seen>| format!("{:.400}", format!("{seen:?}"));
            (right != found).then(|| format!("{path:?} is {}, not {}", short(found), short(right)))
        })
    }

    /// The directories, with their ids in the live tree.
    pub(super) fn directories(&self) -> impl Iterator<Item = (&str, ObjectId)> {
        let all = self.0.iter().filter(|(_, seen)| seen.kind == FileKind::Directory);
        all.map(|(path, seen)| (path.as_str(), seen.id()))
    }

    /// The parent of a path, unless that is the root.
    pub(super) fn parent_of(&self, path: &str) -> Option<ObjectId> {
        let (above, _) = path.rsplit_once('/')?;
        self.0.get(above).map(Seen::id)
    }

    /// All files, with their ids in the live tree.
    pub(super) fn ids(&self) -> impl Iterator<Item = ObjectId> {
        self.0.values().map(Seen::id)
    }
}

impl Seen {
    fn id(&self) -> ObjectId {
        ObjectId::live(self.ino, self.generation)
    }

    async fn read(
        volume: &Volume<impl Engine>,
        id: ObjectId,
        ids: &mut FileIds,
    ) -> Result<Self, String> {
        let told = volume.files.getattr(id).await.open().await.map_err(|e| e.to_string())?;
        let told = told.into_inner().map_err(|error: FsError| error.to_string())?;
        ids.note(&told, id)?;
        let content = match told.kind {
            FileKind::Regular => volume.read(id).await.map_err(|error| error.to_string())?,
            FileKind::Symlink => {
                let target = volume.files.readlink(&volume.root, id).await.open().await;
                let target = target.map_err(|e| e.to_string())?.into_inner().result;
                target.map_err(|error| error.to_string())?.to_vec()
            }
            _ => Vec::new(),
        };
        if told.kind == FileKind::Regular && content.len() as u64 != told.size {
            return Err(format!("{} bytes of {}", content.len(), told.size));
        }
        if !id.is_live() && volume.attributes(id).await != told {
            return Err("reading it has changed it".to_owned());
        }
        let Attributes { kind, mode, nlink, size, generation, .. } = told;
        let times = (told.mtime, told.ctime);
        Ok(Self { ino: id.ino, generation, kind, mode, nlink, size, times, content })
    }
}
