//! The contents of a volume, and their comparison with a model.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use vfs::{Attributes, FileKind, FileSystem, FsError, ObjectId};
use vnode::Engine;

use super::content::Content;
use super::model::{Kind, Model, Thing};
use crate::volume::Volume;

type Names = BTreeMap<String, ObjectId>;

/// A whole volume.
pub struct Found {
    /// Directories, each with its names and their files.
    pub directories: BTreeMap<ObjectId, Names>,
    attributes: BTreeMap<ObjectId, Attributes>,
    contents: BTreeMap<ObjectId, Vec<u8>>,
    targets: BTreeMap<ObjectId, Bytes>,
    /// Link counts may be too high: the engine still looks for the remains of a cut.
    may_count_more: bool,
}

fn wrong(text: &str) -> impl Fn(FsError) -> String {
    move |error| format!("{text}: {error}")
}

impl Found {
    /// Reads everything, and checks the rules for every tree: a directory has one name, ".." names
    /// its parent, and link counts are the numbers of names.
    ///
    /// # Errors
    /// The violation.
    pub async fn read(volume: &Volume<impl Engine>) -> Result<Self, String> {
        let root = volume.files.root();
        let mut found = Self {
            directories: BTreeMap::new(),
            attributes: BTreeMap::new(),
            contents: BTreeMap::new(),
            targets: BTreeMap::new(),
            may_count_more: volume.files.store().engine().may_have_second_names(),
        };
        let mut open = vec![(root, root)];
        while let Some((directory, parent)) = open.pop() {
            let up = volume.lookup(directory, "..").await.map_err(wrong(".."))?;
            if up != parent {
                return Err(format!("'..' of {directory:?} is {up:?}, and not {parent:?}"));
            }
            let mut names = Names::new();
            for text in volume.list(directory).await.map_err(wrong("list"))? {
                if text == "." || text == ".." {
                    continue;
                }
                let id = volume.lookup(directory, &text).await.map_err(wrong(&text))?;
                if found.take(volume, id).await.map_err(wrong(&text))? == FileKind::Directory {
                    open.push((id, directory));
                }
                if names.insert(text.clone(), id).is_some() {
                    return Err(format!("{text} stands twice"));
                }
            }
            if found.directories.insert(directory, names).is_some() {
                return Err(format!("directory {directory:?} has two names"));
            }
        }
        found.check_links()?;
        Ok(found)
    }

    async fn take(
        &mut self,
        volume: &Volume<impl Engine>,
        id: ObjectId,
    ) -> Result<FileKind, FsError> {
        if let Some(attributes) = self.attributes.get(&id) {
            return Ok(attributes.kind);
        }
        let attributes =
            volume.files.getattr(id).await.open().await.expect("running").into_inner()?;
        self.attributes.insert(id, attributes);
        match attributes.kind {
            FileKind::Regular => {
                self.contents.insert(id, volume.read(id).await?);
            }
            FileKind::Symlink => {
                let sealed = volume.files.readlink(&volume.root, id).await;
                let target = sealed.open().await.expect("running").into_inner().result?;
                self.targets.insert(id, target);
            }
            _ => {}
        }
        Ok(attributes.kind)
    }

    fn check_links(&self) -> Result<(), String> {
        let mut names: BTreeMap<ObjectId, u32> = BTreeMap::new();
        for entries in self.directories.values() {
            entries.values().for_each(|&id| *names.entry(id).or_default() += 1);
        }
        for (id, attributes) in &self.attributes {
            let expected = match self.directories.get(id) {
                None => names[id],
                Some(entries) => {
                    let below = entries.values().filter(|id| self.directories.contains_key(id));
                    2 + below.count() as u32
                }
            };
            let may_be_more = self.may_count_more && attributes.nlink > expected;
            if attributes.nlink != expected && !may_be_more {
                return Err(format!("{id:?} counts {} links for {expected}", attributes.nlink));
            }
        }
        Ok(())
    }

    fn names(&self, directory: ObjectId, prefix: char) -> Option<Names> {
        let names = self.directories.get(&directory)?.iter();
        let own = names.filter(|(name, _)| name.starts_with(prefix));
        Some(own.map(|(name, &id)| (name.clone(), id)).collect())
    }

    /// The first difference between an actor's names and `model`.
    pub(crate) fn differs(&self, model: &Model, prefix: char) -> Option<String> {
        for id in model.ids() {
            let thing = model.thing(id);
            if let Kind::Directory(entries) = &thing.kind {
                let Some(names) = self.names(id, prefix) else {
                    return Some(format!("directory {id:?} is gone"));
                };
                if names != *entries {
                    return Some(format!("{id:?} has {names:?}, and not {entries:?}"));
                }
            }
            if !model.roots.contains(&id)
                && let Some(difference) = self.thing_differs(id, &[thing])
            {
                return Some(difference);
            }
        }
        None
    }

    /// The same for several concurrent operations: each name is as in one of the states, and every
    /// file that lives in all of them has a name.
    pub(crate) fn differs_from_all(&self, models: &[Model], prefix: char) -> Option<String> {
        let ids: BTreeSet<ObjectId> = models.iter().flat_map(Model::ids).collect();
        let mut reached = BTreeSet::new();
        for &id in &ids {
            let things: Vec<&Thing> = models.iter().filter_map(|model| model.get(id)).collect();
            if let Some(names) = self.names(id, prefix) {
                reached.extend(names.values().copied());
                if let Some(difference) = names_differ(&names, &things) {
                    return Some(format!("{id:?}: {difference}"));
                }
            }
            if self.attributes.contains_key(&id)
                && !models[0].roots.contains(&id)
                && let Some(difference) = self.thing_differs(id, &things)
            {
                return Some(difference);
            }
        }
        let lost = ids.iter().find(|&&id| {
            let lives = models.iter().all(|model| model.get(id).is_some());
            lives && !models[0].roots.contains(&id) && !reached.contains(&id)
        });
        lost.map(|id| format!("{id:?} has lost all its names"))
    }

    fn thing_differs(&self, id: ObjectId, things: &[&Thing]) -> Option<String> {
        let Some(attributes) = self.attributes.get(&id) else {
            return Some(format!("{id:?} is gone"));
        };
        if things.iter().all(|thing| thing.mode != attributes.mode) {
            return Some(format!("{id:?} has mode {:o}", attributes.mode));
        }
        let mut content: Option<Content> = None;
        for thing in things {
            match &thing.kind {
                Kind::Directory(_) if attributes.kind == FileKind::Directory => {}
                Kind::Symlink(target) if self.targets.get(&id).is_some_and(|it| it == target) => {}
                Kind::File(more) if attributes.kind == FileKind::Regular => match &mut content {
                    None => content = Some(more.clone()),
                    Some(content) => content.join(more),
                },
                _ => return Some(format!("{id:?} is another thing, or points elsewhere")),
            }
        }
        let content = content?;
        let found = &self.contents[&id];
        (!content.allows(found)).then(|| format!("{id:?}: foreign content, {} bytes", found.len()))
    }
}

fn names_differ(names: &Names, things: &[&Thing]) -> Option<String> {
    let states = || {
        things.iter().filter_map(|thing| match &thing.kind {
            Kind::Directory(entries) => Some(entries),
            _ => None,
        })
    };
    let all: BTreeSet<&String> = names.keys().chain(states().flat_map(BTreeMap::keys)).collect();
    let foreign =
        all.into_iter().find(|name| states().all(|state| state.get(*name) != names.get(*name)));
    foreign.map(|name| format!("{name} is {:?}, as it never was", names.get(name)))
}

/// Shows that the volume works: makes a file in every directory, then deletes everything, and
/// checks that all space and all inodes are free again.
///
/// # Errors
/// The failure.
pub async fn use_and_empty(volume: &Volume<impl Engine>, found: &Found) -> Result<(), String> {
    let root = volume.files.root();
    for (index, &directory) in found.directories.keys().enumerate() {
        let text = "z".repeat(1 + index * 40 % 200);
        let id = volume.create(directory, &text).await.map_err(wrong("create after the cut"))?;
        let data = vec![7; 700];
        let written = volume.write(id, 0, data, vfs::Stability::FileSync).await;
        written.map_err(wrong("write after the cut"))?;
    }
    empty(volume, root).await.map_err(wrong("deleting everything"))?;
    volume.files.store().engine().end_background().await; // waits for its end
    volume.settle().await;
    let sealed = volume.files.fsstat(&volume.root, root).await;
    let stat =
        sealed.open().await.expect("running").into_inner().result.map_err(wrong("fsstat"))?;
    let about = volume.files.getattr(root).await.open().await.expect("running").into_inner();
    let used = about.map_err(wrong("getattr"))?.used;
    if stat.free_files + 1 != stat.total_files || stat.free_bytes + used != stat.total_bytes {
        return Err(format!("an empty volume is not free: {stat:?}, {used} bytes in the root"));
    }
    Ok(())
}

async fn empty(volume: &Volume<impl Engine>, directory: ObjectId) -> Result<(), FsError> {
    for text in volume.list(directory).await? {
        if text == "." || text == ".." {
            continue;
        }
        match volume.remove(directory, &text).await {
            Err(FsError::IsDirectory) => {
                let below = volume.lookup(directory, &text).await?;
                Box::pin(empty(volume, below)).await?;
                volume.rmdir(directory, &text).await?;
            }
            other => other?,
        }
    }
    Ok(())
}
