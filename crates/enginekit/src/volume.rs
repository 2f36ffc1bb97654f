//! Compact verbs of a volume, and actors that change it while they remember its expected state.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

use bytes::Bytes;
use namespace::Namespace;
use runtime::Random;
use vfs::{
    Attributes, CreateHow, DirectoryEntry, FileSystem, FsError, FsStat, Lost, Name, ObjectId,
    Requester, SetAttributes, Stability, Verifier,
};
use vnode::{Engine, Files};

use crate::random::Seeded;

/// An open volume.
pub struct Volume<E: Engine> {
    /// The verbs.
    pub files: Namespace<Files<E>>,
    /// The superuser, who may do everything.
    pub root: Requester,
}

/// A name.
///
/// # Panics
/// When the name is illegal.
pub fn name(text: &str) -> Name {
    Name::parse(text.as_bytes()).expect("a legal name")
}

/// Compact verbs: the result of an answer, once it is durable; [`FsError::Io`] if it never is.
impl<E: Engine> Volume<E> {
    /// A volume with these files.
    pub fn new(files: Rc<Files<E>>) -> Self {
        Self { files: Namespace::new(files), root: Requester::root() }
    }

    /// Waits until removed files are free again.
    pub async fn settle(&self) {
        self.files.store().quiesce().await.expect("running");
    }

    /// Makes a directory.
    pub async fn mkdir(&self, parent: ObjectId, text: &str) -> Result<ObjectId, FsError> {
        let mode = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
        let sealed = self.files.mkdir(&self.root, parent, &name(text), mode).await;
        sealed.open().await.map_err(|Lost| FsError::Io)?.into_inner().result.map(|found| found.id)
    }

    /// Makes a new file.
    pub async fn create(&self, parent: ObjectId, text: &str) -> Result<ObjectId, FsError> {
        let how = CreateHow::Guarded(SetAttributes { mode: Some(0o644), ..Default::default() });
        let sealed = self.files.create(&self.root, parent, &name(text), how).await;
        sealed.open().await.map_err(|Lost| FsError::Io)?.into_inner().result.map(|found| found.id)
    }

    /// Writes with the requested stability.
    pub async fn write(
        &self,
        id: ObjectId,
        offset: u64,
        data: Vec<u8>,
        stability: Stability,
    ) -> Result<(), FsError> {
        let pieces = vec![Bytes::from(data)];
        let sealed = self.files.write(&self.root, id, offset, pieces, stability).await;
        sealed.open().await.map_err(|Lost| FsError::Io)?.into_inner().result.map(|_| ())
    }

    /// Makes a file longer or shorter.
    pub async fn resize(&self, id: ObjectId, size: u64) -> Result<(), FsError> {
        let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
        let sealed = self.files.setattr(&self.root, id, changes, None).await;
        sealed.open().await.map_err(|Lost| FsError::Io)?.into_inner().result
    }

    /// Makes all of a file durable.
    pub async fn commit(&self, id: ObjectId) -> Result<Verifier, FsError> {
        let sealed = self.files.commit(&self.root, id, 0, 0).await;
        sealed.open().await.map_err(|Lost| FsError::Io)?.into_inner().result
    }

    /// Makes a symbolic link.
    pub async fn symlink(
        &self,
        parent: ObjectId,
        text: &str,
        target: &[u8],
    ) -> Result<ObjectId, FsError> {
        let (name, mode) = (name(text), SetAttributes::default());
        let sealed = self.files.symlink(&self.root, parent, &name, target, mode).await;
        sealed.open().await.map_err(|Lost| FsError::Io)?.into_inner().result.map(|found| found.id)
    }

    /// Gives a file another name.
    pub async fn link(&self, id: ObjectId, parent: ObjectId, text: &str) -> Result<(), FsError> {
        let sealed = self.files.link(&self.root, id, parent, &name(text)).await;
        sealed.open().await.map_err(|Lost| FsError::Io)?.into_inner().result
    }

    /// The attributes of an existing file.
    pub async fn attributes(&self, id: ObjectId) -> Attributes {
        let sealed = self.files.getattr(id).await;
        sealed.open().await.expect("running").into_inner().expect("it is there")
    }

    /// The free space, from a FSSTAT.
    pub async fn space(&self) -> FsStat {
        let sealed = self.files.fsstat(&self.root, self.files.root()).await;
        sealed.open().await.expect("running").into_inner().result.expect("of the root")
    }

    /// Removes a name.
    pub async fn remove(&self, parent: ObjectId, text: &str) -> Result<(), FsError> {
        let sealed = self.files.remove(&self.root, parent, &name(text)).await;
        sealed.open().await.map_err(|Lost| FsError::Io)?.into_inner().result
    }

    /// Removes a directory.
    pub async fn rmdir(&self, parent: ObjectId, text: &str) -> Result<(), FsError> {
        let sealed = self.files.rmdir(&self.root, parent, &name(text)).await;
        sealed.open().await.map_err(|Lost| FsError::Io)?.into_inner().result
    }

    /// Moves a name.
    pub async fn rename(
        &self,
        from: (ObjectId, &str),
        to: (ObjectId, &str),
    ) -> Result<(), FsError> {
        let (old, new) = (name(from.1), name(to.1));
        let sealed = self.files.rename(&self.root, from.0, &old, to.0, &new).await;
        sealed.open().await.map_err(|Lost| FsError::Io)?.into_inner().result
    }

    /// All bytes of a file.
    pub async fn read(&self, id: ObjectId) -> Result<Vec<u8>, FsError> {
        let mut all = Vec::new();
        loop {
            let at = all.len() as u64;
            let sealed = self.files.read(&self.root, id, at, 100_000).await;
            let read = sealed.open().await.map_err(|Lost| FsError::Io)?.into_inner().result?;
            all.extend(read.data.concat());
            if read.eof {
                return Ok(all);
            }
        }
    }

    /// The object under a name.
    pub async fn lookup(&self, parent: ObjectId, text: &str) -> Result<ObjectId, FsError> {
        let sealed = self.files.lookup(&self.root, parent, &name(text)).await;
        sealed.open().await.map_err(|Lost| FsError::Io)?.into_inner().result.map(|found| found.id)
    }

    /// The entries of a directory, with their files if requested.
    ///
    /// # Panics
    /// When it is not a directory.
    pub async fn entries(&self, directory: ObjectId, with_files: bool) -> Vec<DirectoryEntry> {
        let mut all = |_: &DirectoryEntry| true;
        let sealed = self.files.readdir(&self.root, directory, 0, with_files, &mut all).await;
        sealed.open().await.expect("running").into_inner().result.expect("a directory").entries
    }

    /// All names of a directory, read in several calls.
    pub async fn list(&self, directory: ObjectId) -> Result<Vec<String>, FsError> {
        let mut names = Vec::new();
        let mut cookie = 0;
        loop {
            let mut left = 7;
            let mut accept = |_: &DirectoryEntry| {
                left -= 1;
                left > 0
            };
            let sealed = self.files.readdir(&self.root, directory, cookie, true, &mut accept).await;
            let listed = sealed.open().await.map_err(|Lost| FsError::Io)?.into_inner().result?;
            for entry in listed.entries {
                cookie = entry.cookie;
                names.push(String::from_utf8_lossy(&entry.name).into_owned());
            }
            if listed.eof {
                return Ok(names);
            }
        }
    }
}

/// An actor in a directory of its own, with the expected content of its files.
pub struct Actor<'a, E: Engine> {
    /// The volume.
    pub volume: &'a Volume<E>,
    /// Its directory.
    pub directory: ObjectId,
    /// The source of its decisions.
    pub chance: Seeded,
    /// The expected files.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Whether every write must be durable.
    pub stable: bool,
}

impl<E: Engine> Actor<'_, E> {
    /// A number below `limit`.
    pub fn below(&self, limit: u64) -> u64 {
        self.chance.next_u64() % limit
    }

    /// One of its files, if it has any.
    pub fn some_file(&self) -> Option<String> {
        let count = self.files.len() as u64;
        (count > 0).then(|| {
            let index = self.below(count) as usize;
            self.files.keys().nth(index).expect("in range").clone()
        })
    }

    /// The stability of the next write.
    pub fn stability(&self) -> Stability {
        match self.below(3) {
            0 if !self.stable => Stability::Unstable,
            1 => Stability::DataSync,
            _ => Stability::FileSync,
        }
    }

    /// Makes a random operation.
    pub async fn step(&mut self, largest: u64) {
        match self.below(10) {
            0..=2 => self.create().await,
            3..=5 => self.write(largest).await,
            6 => self.resize(largest).await,
            7 => self.remove().await,
            8 => self.rename().await,
            _ => self.check().await,
        }
    }

    /// Makes a file.
    pub async fn create(&mut self) {
        let text = format!("{:x}", self.below(1 << 20)).repeat(1 + self.below(12) as usize);
        let made = self.volume.create(self.directory, &text).await;
        match self.files.entry(text) {
            Entry::Occupied(_) => assert_eq!(made, Err(FsError::Exists)),
            Entry::Vacant(new) => {
                made.expect("there is room");
                new.insert(Vec::new());
            }
        }
    }

    /// Writes into a file.
    pub async fn write(&mut self, largest: u64) {
        let Some(text) = self.some_file() else { return };
        let id = self.volume.lookup(self.directory, &text).await.expect("it is there");
        let limit = if self.below(4) == 0 { largest } else { largest / 20 };
        let offset = self.below(limit);
        let data: Vec<u8> = (0..self.below(limit) + 1).map(|i| (i ^ offset) as u8 | 1).collect();
        let stability = self.stability();
        self.volume.write(id, offset, data.clone(), stability).await.expect("there is room");
        let content = self.files.get_mut(&text).expect("chosen from it");
        let end = offset as usize + data.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset as usize..end].copy_from_slice(&data);
    }

    /// Makes a file longer or shorter.
    pub async fn resize(&mut self, largest: u64) {
        let Some(text) = self.some_file() else { return };
        let id = self.volume.lookup(self.directory, &text).await.expect("it is there");
        let size = self.below(largest);
        self.volume.resize(id, size).await.expect("there is room");
        self.files.get_mut(&text).expect("chosen from it").resize(size as usize, 0);
    }

    /// Removes a file.
    pub async fn remove(&mut self) {
        let Some(text) = self.some_file() else { return };
        self.volume.remove(self.directory, &text).await.expect("it is there");
        self.files.remove(&text);
    }

    /// Moves a file, perhaps over another one.
    pub async fn rename(&mut self) {
        let (Some(from), Some(over)) = (self.some_file(), self.some_file()) else { return };
        let to = if self.below(2) == 0 { over } else { format!("moved-{}", self.below(1000)) };
        let names = ((self.directory, &*from), (self.directory, &*to));
        self.volume.rename(names.0, names.1).await.expect("both may be there");
        if from != to {
            let content = self.files.remove(&from).expect("chosen from it");
            self.files.insert(to, content);
        }
    }

    /// Reads a file.
    pub async fn check(&mut self) {
        let Some(text) = self.some_file() else { return };
        let id = self.volume.lookup(self.directory, &text).await.expect("it is there");
        let content = self.volume.read(id).await.expect("it can be read");
        assert!(content == self.files[&text], "{text}: {} bytes", content.len());
    }

    /// Reads everything.
    pub async fn check_all(&self) {
        let mut names = self.volume.list(self.directory).await.expect("it can be listed");
        names.sort();
        let mut expected: Vec<_> = self.files.keys().cloned().collect();
        expected.extend([".".to_owned(), "..".to_owned()]);
        expected.sort();
        assert_eq!(names, expected);
        for (text, content) in &self.files {
            let id = self.volume.lookup(self.directory, text).await.expect("it is there");
            let found = self.volume.read(id).await.expect("it can be read");
            assert!(found == *content, "{text}: {} and {} bytes", found.len(), content.len());
        }
    }

    /// Removes everything.
    pub async fn clear(&mut self) {
        while self.some_file().is_some() {
            self.remove().await;
        }
    }
}
