//! A recovered file system: reads it, and checks that it can be used.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use vfs::{
    CreateHow, FileKind, FileSystem, FsError, Name, ObjectId, Requester, Sealed, SetAttributes,
    Stability,
};

use super::Before;
use super::model::{Held, Seen, Shown, View, What};

/// Bytes, more than any file of a workload has.
const LONGEST: u32 = 1 << 20;
/// Bytes between the end of a file and the start of a write behind it, and bytes of the write.
const GAP: usize = 3000;
const MORE: usize = 1000;

/// A file system, and the user that calls it.
pub struct Driver {
    files: Rc<dyn FileSystem>,
    who: Requester,
}

/// The result of an answer, once it is durable.
async fn opened<T, W>(sealed: Sealed<vfs::Answer<T, W>>) -> Result<T, FsError> {
    sealed.open().await.map_err(|_| FsError::Io)?.into_inner().result
}

fn name(text: &str) -> Name {
    Name::parse(text.as_bytes()).expect("workloads have legal names")
}

fn with_mode(mode: u16) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..SetAttributes::default() }
}

impl Driver {
    /// Calls a file system as the superuser.
    pub fn new(files: Rc<dyn FileSystem>) -> Self {
        Self { files, who: Requester::root() }
    }

    /// The root directory.
    pub fn root(&self) -> ObjectId {
        self.files.root()
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// The error of the call.
    pub async fn mkdir(&self, path: &str) -> Result<(), FsError> {
        let (parent, last) = self.parent(path).await?;
        opened(self.files.mkdir(&self.who, parent, &last, with_mode(0o755)).await).await?;
        Ok(())
    }

    /// Makes a regular file with these bytes.
    ///
    /// # Errors
    /// The error of the call.
    pub async fn fill(&self, path: &str, data: Vec<u8>) -> Result<(), FsError> {
        let (parent, last) = self.parent(path).await?;
        let id = self.create(parent, &last, 0o644).await?;
        self.write(id, 0, data).await
    }

    /// Writes from the start of a file.
    ///
    /// # Errors
    /// The error of the call.
    pub async fn overwrite(&self, path: &str, data: Vec<u8>) -> Result<(), FsError> {
        self.write(self.find(path).await?, 0, data).await
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// The error of the call.
    pub async fn symlink(&self, path: &str, target: &[u8]) -> Result<(), FsError> {
        let (parent, last) = self.parent(path).await?;
        let set = SetAttributes::default();
        opened(self.files.symlink(&self.who, parent, &last, target, set).await).await.map(drop)
    }

    /// Sets the length of a file.
    ///
    /// # Errors
    /// The error of the call.
    pub async fn resize(&self, path: &str, size: u64) -> Result<(), FsError> {
        let id = self.find(path).await?;
        let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
        opened(self.files.setattr(&self.who, id, changes, None).await).await
    }

    /// Removes a name of a file.
    ///
    /// # Errors
    /// The error of the call.
    pub async fn unlink(&self, path: &str) -> Result<(), FsError> {
        let (parent, last) = self.parent(path).await?;
        self.remove(parent, &last).await
    }

    async fn create(&self, parent: ObjectId, last: &Name, mode: u16) -> Result<ObjectId, FsError> {
        let how = CreateHow::Guarded(with_mode(mode));
        Ok(opened(self.files.create(&self.who, parent, last, how).await).await?.id)
    }

    async fn remove(&self, parent: ObjectId, last: &Name) -> Result<(), FsError> {
        opened(self.files.remove(&self.who, parent, last).await).await
    }

    async fn write(&self, id: ObjectId, offset: u64, data: Vec<u8>) -> Result<(), FsError> {
        let pieces = vec![Bytes::from(data)];
        let stability = Stability::FileSync;
        let written = self.files.write(&self.who, id, offset, pieces, stability).await;
        opened(written).await.map(drop)
    }

    /// All bytes of a file.
    ///
    /// # Errors
    /// The error of the call.
    pub async fn read(&self, id: ObjectId) -> Result<Vec<u8>, FsError> {
        Ok(opened(self.files.read(&self.who, id, 0, LONGEST).await).await?.data.concat())
    }

    async fn lookup(&self, directory: ObjectId, last: &str) -> Result<ObjectId, FsError> {
        let found = opened(self.files.lookup(&self.who, directory, &name(last)).await).await?;
        Ok(found.id)
    }

    /// The file at a path.
    ///
    /// # Errors
    /// The error of a LOOKUP.
    pub async fn find(&self, path: &str) -> Result<ObjectId, FsError> {
        let mut id = self.files.root();
        for part in path.split('/') {
            id = self.lookup(id, part).await?;
        }
        Ok(id)
    }

    async fn parent(&self, path: &str) -> Result<(ObjectId, Name), FsError> {
        match path.rsplit_once('/') {
            None => Ok((self.files.root(), name(path))),
            Some((above, last)) => Ok((self.find(above).await?, name(last))),
        }
    }

    /// The attributes of a file.
    ///
    /// # Errors
    /// The error of the call.
    pub async fn attributes(&self, id: ObjectId) -> Result<vfs::Attributes, FsError> {
        self.files.getattr(id).await.open().await.map_err(|_| FsError::Io)?.into_inner()
    }

    /// The names in a directory.
    ///
    /// # Errors
    /// The error of the call.
    pub async fn list(&self, directory: ObjectId) -> Result<Vec<(String, ObjectId)>, FsError> {
        let mut accept = |_: &vfs::DirectoryEntry| true;
        let listed = self.files.readdir(&self.who, directory, 0, true, &mut accept).await;
        let listed = opened(listed).await?;
        let entries =
            listed.entries.into_iter().filter(|one| !matches!(&one.name[..], b"." | b".."));
        Ok(entries.map(|one| (String::from_utf8_lossy(&one.name).into_owned(), one.id)).collect())
    }

    /// The whole tree, and the id behind each handle, by the numbers of the files.
    ///
    /// # Errors
    /// The first error of a call.
    pub async fn view(&self) -> Result<Shown, FsError> {
        self.view_of(self.files.root()).await
    }

    /// The same for each snapshot, by its name.
    ///
    /// # Errors
    /// The first error of a call.
    pub async fn held(&self) -> Result<Held<Shown>, FsError> {
        let mut held = Held::new();
        if self.files.snapshots().is_some() {
            let listing = self.lookup(self.files.root(), ".snapshot").await?;
            for (last, id) in self.list(listing).await? {
                if self.lookup(listing, &last).await? != id {
                    return Err(FsError::Corrupt);
                }
                held.insert(last, self.view_of(id).await?);
            }
        }
        Ok(held)
    }

    async fn view_of(&self, root: ObjectId) -> Result<Shown, FsError> {
        let mut view = View::new();
        let (mut files, mut ids) = (BTreeMap::new(), Vec::new());
        let mut waiting = vec![(String::new(), root)];
        while let Some((prefix, directory)) = waiting.pop() {
            for (last, _) in self.list(directory).await? {
                let id = self.lookup(directory, &last).await?;
                let attributes = self.attributes(id).await?;
                let path = format!("{prefix}{last}");
                let what = match attributes.kind {
                    FileKind::Directory => {
                        waiting.push((format!("{path}/"), id));
                        What::Directory
                    }
                    FileKind::Symlink => {
                        let target = opened(self.files.readlink(&self.who, id).await).await?;
                        What::Symlink(Rc::new(target.to_vec()))
                    }
                    FileKind::Fifo => What::Fifo,
                    _ => What::Regular(Rc::new(self.read(id).await?)),
                };
                let file = *files.entry(id).or_insert_with(|| {
                    ids.push(id);
                    ids.len() - 1
                });
                let (mode, links) = (attributes.mode, attributes.nlink);
                view.insert(path, Seen { what, mode, links, file });
            }
        }
        Ok((view, ids))
    }

    /// Makes a new file.
    ///
    /// # Errors
    /// The error of the call.
    pub async fn probe(&self) -> Result<ObjectId, FsError> {
        self.create(self.files.root(), &name("probe"), 0o600).await
    }

    /// Uses every file and every directory, then removes them all, and the probe. No handle of
    /// `before`, nor an invented one, may name a file that does not exist.
    ///
    /// # Errors
    /// The path at which a call failed, and its error.
    pub async fn use_and_empty(
        &self,
        view: &View,
        ids: &[ObjectId],
        before: &Before,
        probe: ObjectId,
    ) -> Result<(), String> {
        let gone = before.values().filter(|id| !ids.contains(id)).copied();
        let never = ids.iter().chain([&probe]).map(|id| {
            let generation = id.generation.wrapping_add(1);
            ObjectId { generation, ..*id }
        });
        for id in gone.chain(never) {
            if self.attributes(id).await != Err(FsError::Stale) {
                return Err("the handle of a file that is gone names something".to_owned());
            }
        }
        let removed = self.remove(self.files.root(), &name("probe")).await;
        removed.map_err(|error| format!("the probe: {error}"))?;
        // In reverse, so that a directory comes after its contents.
        for (path, seen) in view.iter().rev() {
            let done = self.use_and_remove(path, seen).await;
            done.map_err(|error| format!("{path}: {error}"))?;
        }
        match self.list(self.files.root()).await {
            Ok(rest) if rest.is_empty() => Ok(()),
            rest => Err(format!("after everything was removed there is {rest:?}")),
        }
    }

    async fn use_and_remove(&self, path: &str, seen: &Seen) -> Result<(), String> {
        let said = |error: FsError| error.to_string();
        let id = self.find(path).await.map_err(said)?;
        let (parent, last) = self.parent(path).await.map_err(said)?;
        match &seen.what {
            What::Directory => {
                let inside = name("inside");
                self.create(id, &inside, 0o600).await.map_err(said)?;
                self.remove(id, &inside).await.map_err(said)?;
                let gone = self.files.rmdir(&self.who, parent, &last).await;
                opened(gone).await.map_err(said)
            }
            What::Regular(bytes) => {
                self.lengthen(id, bytes).await?;
                self.remove(parent, &last).await.map_err(said)
            }
            What::Symlink(_) | What::Fifo => self.remove(parent, &last).await.map_err(said),
        }
    }

    /// Writes behind the end of a file. The gap must be zeros, whatever the disk holds.
    async fn lengthen(&self, id: ObjectId, bytes: &[u8]) -> Result<(), String> {
        let said = |error: FsError| error.to_string();
        // The file may have been written under another name.
        let size = self.attributes(id).await.map_err(said)?.size as usize;
        self.write(id, (size + GAP) as u64, vec![7; MORE]).await.map_err(said)?;
        let found = self.read(id).await.map_err(said)?;
        let mut expected = if size == bytes.len() { bytes } else { &found[..size] }.to_vec();
        expected.resize(size + GAP, 0);
        expected.resize(size + GAP + MORE, 7);
        if found == expected { Ok(()) } else { Err("it grew, and shows other bytes".to_owned()) }
    }

    /// Stops the file system cleanly.
    ///
    /// # Errors
    /// [`FsError::Io`].
    pub async fn stop(&self) -> Result<(), FsError> {
        self.files.shutdown().await
    }
}
