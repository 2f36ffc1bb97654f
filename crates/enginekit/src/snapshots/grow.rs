//! A tree that changes and grows at random: names, depths and sizes of many kinds.

use futures::future::join;
use runtime::Random;
use vfs::{FileSystem, FsError, ObjectId, SetAttributes, Stability};
use vnode::Engine;

use crate::random::Seeded;
use crate::volume::Volume;

const DEEPEST: usize = 6;
const LARGEST: u64 = 60_000;

struct Directory {
    id: ObjectId,
    depth: usize,
}

struct File {
    id: ObjectId,
    parent: ObjectId,
    name: String,
}

/// Changes a volume.
pub(super) struct Grower<'a, E: Engine> {
    volume: &'a Volume<E>,
    chance: Seeded,
    directories: Vec<Directory>,
    files: Vec<File>,
    serial: u64,
}

impl<'a, E: Engine> Grower<'a, E> {
    /// A grower that starts in the root.
    pub(super) fn new(volume: &'a Volume<E>, chance: Seeded) -> Self {
        let root = Directory { id: volume.files.root(), depth: 0 };
        Self { volume, chance, directories: vec![root], files: Vec::new(), serial: 0 }
    }

    fn below(&self, limit: u64) -> u64 {
        self.chance.next_u64() % limit
    }

    /// An unused name.
    fn name(&mut self) -> String {
        self.serial += 1;
        let long = "n".repeat(self.below(3) as usize * self.below(100) as usize);
        let first = [".snapshot.", "snapshot", "", "ä"][self.below(4) as usize];
        format!("{first}{:x}-{}{long}", self.chance.next_u64() & 0xffff, self.serial)
    }

    fn some_directory(&self) -> &Directory {
        &self.directories[self.below(self.directories.len() as u64) as usize]
    }

    /// A random file, if there is any.
    fn some_file(&self) -> Option<usize> {
        let count = self.files.len() as u64;
        (count > 0).then(|| self.below(count) as usize)
    }

    /// Makes this many changes.
    pub(super) async fn change(&mut self, times: usize) -> Result<(), String> {
        for _ in 0..times {
            let what = self.below(12);
            let done = match what {
                0 | 1 => self.mkdir().await,
                2..=4 => self.create().await,
                5 | 6 => self.write().await,
                7 => self.resize().await,
                8 => self.remove().await,
                9 => self.rename().await,
                10 => self.symlink().await,
                _ => self.chmod().await,
            };
            done.map_err(|error| format!("change {what}: {error}"))?;
        }
        Ok(())
    }

    /// Makes a file while another operation is in progress.
    pub(super) async fn change_beside<T>(
        &mut self,
        other: impl Future<Output = T>,
    ) -> (T, Result<(), String>) {
        let made = async { self.create().await.map_err(|error| error.to_string()) };
        join(other, made).await
    }

    async fn mkdir(&mut self) -> Result<(), FsError> {
        let name = self.name();
        let Directory { id, depth } = *self.some_directory();
        if depth < DEEPEST {
            let id = self.volume.mkdir(id, &name).await?;
            self.directories.push(Directory { id, depth: depth + 1 });
        }
        Ok(())
    }

    async fn create(&mut self) -> Result<(), FsError> {
        let name = self.name();
        let parent = self.some_directory().id;
        let id = self.volume.create(parent, &name).await?;
        self.files.push(File { id, parent, name });
        Ok(())
    }

    async fn write(&mut self) -> Result<(), FsError> {
        let Some(file) = self.some_file() else { return Ok(()) };
        let limit = [1, 100, 5_000, LARGEST][self.below(4) as usize];
        let (offset, length) = (self.below(limit), self.below(limit) + 1);
        let data = (0..length).map(|at| (at ^ offset ^ self.serial) as u8).collect();
        let stability = [Stability::Unstable, Stability::DataSync, Stability::FileSync];
        let stability = stability[self.below(3) as usize];
        self.volume.write(self.files[file].id, offset, data, stability).await
    }

    async fn resize(&mut self) -> Result<(), FsError> {
        let Some(file) = self.some_file() else { return Ok(()) };
        self.volume.resize(self.files[file].id, self.below(2 * LARGEST)).await
    }

    async fn remove(&mut self) -> Result<(), FsError> {
        if self.below(4) == 0 && self.directories.len() > 1 {
            return self.rmdir().await;
        }
        let Some(file) = self.some_file() else { return Ok(()) };
        let File { parent, name, .. } = self.files.swap_remove(file);
        self.volume.remove(parent, &name).await
    }

    /// Removes a directory of the grower's, if it is empty.
    async fn rmdir(&mut self) -> Result<(), FsError> {
        let last = self.directories.len() - 1;
        let id = self.directories[last].id;
        let parent = self.volume.lookup(id, "..").await?;
        let entries = self.volume.entries(parent, true).await;
        let own = entries.iter().find(|entry| entry.id == id && *entry.name != *b".");
        let name = own.map(|entry| String::from_utf8_lossy(&entry.name).into_owned());
        match self.volume.rmdir(parent, &name.ok_or(FsError::NoEntry)?).await {
            Err(FsError::NotEmpty) => Ok(()),
            gone => gone.map(|()| _ = self.directories.pop()),
        }
    }

    async fn rename(&mut self) -> Result<(), FsError> {
        let Some(file) = self.some_file() else { return Ok(()) };
        let (name, parent) = (self.name(), self.some_directory().id);
        let from = &self.files[file];
        self.volume.rename((from.parent, &from.name), (parent, &name)).await?;
        let id = from.id;
        self.files[file] = File { id, parent, name };
        Ok(())
    }

    async fn symlink(&mut self) -> Result<(), FsError> {
        let (name, parent) = (self.name(), self.some_directory().id);
        let target = "t/".repeat(self.below(200) as usize + 1);
        self.volume.symlink(parent, &name, target.as_bytes()).await?;
        if let Some(file) = self.some_file() {
            let (name, parent) = (self.name(), self.some_directory().id);
            self.volume.link(self.files[file].id, parent, &name).await?;
        }
        Ok(())
    }

    async fn chmod(&mut self) -> Result<(), FsError> {
        let Some(file) = self.some_file() else { return Ok(()) };
        let mode = Some((self.chance.next_u64() & 0o777) as u16);
        let changes = SetAttributes { mode, ..SetAttributes::default() };
        let set = self.volume.files.setattr(&self.volume.root, self.files[file].id, changes, None);
        set.await.open().await.map_err(|_| FsError::Io)?.into_inner().result
    }
}
