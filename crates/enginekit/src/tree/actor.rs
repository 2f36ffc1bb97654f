//! An actor that makes, moves, links and removes, and remembers the expected tree.
//!
//! It does not wait for every answer: it issues some operations before the earlier ones are
//! durable. The operations that it has issued and not seen acknowledged are one *step*.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use runtime::Random;
use vfs::{CreateHow, FileSystem, FsError, ObjectId, Sealed, SetAttributes, Stability};
use vnode::Engine;

use super::content::Content;
use super::model::{Kind, Model, Place, Thing};
use crate::random::Seeded;
use crate::volume::{Volume, name};

/// Names that an actor chooses from: few, so that names are reused while their removal is in
/// progress.
const NAMES: u64 = 10;
const DIRECTORIES_MAX: usize = 9;
const FILES_MAX: usize = 24;

pub(crate) struct TreeActor<'a, E: Engine> {
    pub(crate) volume: &'a Volume<E>,
    /// The first letter of all its names.
    pub(crate) prefix: char,
    pub(crate) chance: Seeded,
    pub(crate) block_size: u64,
    pub(crate) model: Model,
    /// States that a cut may leave: after each operation of the step, and within it.
    pub(crate) states: Vec<Model>,
    pub(crate) operations: Vec<String>,
    pub(crate) receipts: Vec<LocalBoxFuture<'a, ()>>,
    pub(crate) serial: u64,
}

impl<E: Engine> TreeActor<'_, E> {
    fn below(&self, limit: u64) -> u64 {
        self.chance.next_u64() % limit
    }

    fn choose<T: Clone>(&self, things: &[T]) -> Option<T> {
        let index = self.below(things.len().max(1) as u64) as usize;
        things.get(index).cloned()
    }

    /// Issues operations and waits for all of them.
    pub(crate) async fn step(&mut self) {
        self.states = vec![self.model.clone()];
        self.operations.clear();
        let mut left = [1, 1, 2, 4][self.below(4) as usize];
        while left > 0 {
            let before = self.operations.len();
            self.operate().await;
            left -= (self.operations.len() - before).max(usize::from(self.below(8) == 0));
        }
        self.states.push(self.model.clone());
        for receipt in std::mem::take(&mut self.receipts) {
            receipt.await;
        }
    }

    /// Moves one directory between the roots.
    pub(crate) async fn wander(&mut self) {
        self.states = vec![self.model.clone()];
        self.operations.clear();
        while self.operations.is_empty() {
            self.rename(true).await;
        }
        self.states.push(self.model.clone());
        for receipt in std::mem::take(&mut self.receipts) {
            receipt.await;
        }
    }

    async fn operate(&mut self) {
        match self.below(23) {
            0..=3 => self.create().await,
            4 | 5 => self.mkdir().await,
            6 => self.symlink().await,
            7 | 8 => self.link().await,
            9..=11 => self.rename(false).await,
            12 | 13 => self.rename(true).await,
            14 | 15 => self.remove().await,
            16 => self.rmdir().await,
            17 => self.chmod().await,
            18..=20 => self.write().await,
            21 => self.resize().await,
            _ => self.commit().await,
        }
    }

    /// Records an issued operation; returns its answer before that is durable.
    fn issued<T: 'static, W: 'static>(
        &mut self,
        what: String,
        sealed: Sealed<vfs::Answer<T, W>>,
    ) -> T {
        let mut answered: Option<Result<T, FsError>> = None;
        let receipt = sealed.map(|answer| answered = Some(answer.result));
        let opened = receipt.open().map(|durable| {
            durable.expect("running");
        });
        self.receipts.push(opened.boxed_local());
        let answered = answered.expect("the answer is there");
        if self.operations.len() > self.receipts.len() {
            unreachable!("every operation has a receipt");
        }
        let result = answered.unwrap_or_else(|error| panic!("{}: {what}: {error}", self.prefix));
        self.operations.push(what);
        result
    }

    /// Records the state between two operations of a step.
    fn note(&mut self) {
        self.states.push(self.model.clone());
    }

    fn free_name(&self, directory: ObjectId) -> Option<String> {
        let number = self.below(NAMES);
        let text = format!("{}{number}{}", self.prefix, "-long".repeat(number as usize * 3));
        (!self.model.entries(directory).contains_key(&text)).then_some(text)
    }

    /// A directory, and an unused name in it.
    fn free_place(&self) -> Option<(ObjectId, String)> {
        let directory = self.choose(&self.model.directories())?;
        Some((directory, self.free_name(directory)?))
    }

    fn some_place(&self, wanted: impl Fn(&Kind) -> bool) -> Option<Place> {
        let mut places = self.model.places();
        places.retain(|place| wanted(&self.model.thing(place.id).kind));
        self.choose(&places)
    }

    async fn create(&mut self) {
        let Some((directory, text)) = self.free_place() else { return };
        if self.model.places().len() >= FILES_MAX {
            return;
        }
        let how = CreateHow::Guarded(SetAttributes { mode: Some(0o644), ..Default::default() });
        let volume = self.volume;
        let sealed = volume.files.create(&volume.root, directory, &name(&text), how).await;
        let id = self.issued(format!("create {text}"), sealed).id;
        let thing = Thing { mode: 0o644, kind: Kind::File(Content::empty()) };
        self.model.add_new(Place { directory, name: text, id }, thing);
        self.note();
    }

    async fn mkdir(&mut self) {
        let Some((directory, text)) = self.free_place() else { return };
        if self.model.directories().len() >= DIRECTORIES_MAX {
            return;
        }
        let mode = SetAttributes { mode: Some(0o750), ..SetAttributes::default() };
        let volume = self.volume;
        let sealed = volume.files.mkdir(&volume.root, directory, &name(&text), mode).await;
        let id = self.issued(format!("mkdir {text}"), sealed).id;
        let thing = Thing { mode: 0o750, kind: Kind::Directory(Default::default()) };
        self.model.add_new(Place { directory, name: text, id }, thing);
        self.note();
    }

    async fn symlink(&mut self) {
        let Some((directory, text)) = self.free_place() else { return };
        let target =
            format!("{}-{}/", self.prefix, self.serial).repeat(1 + self.below(60) as usize);
        let mode = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
        let volume = self.volume;
        let (new, bytes) = (name(&text), target.as_bytes());
        let sealed = volume.files.symlink(&volume.root, directory, &new, bytes, mode).await;
        let id = self.issued(format!("symlink {text}"), sealed).id;
        self.serial += 1;
        let thing = Thing { mode: 0o777, kind: Kind::Symlink(target) };
        self.model.add_new(Place { directory, name: text, id }, thing);
        self.note();
    }

    async fn link(&mut self) {
        let Some((directory, text)) = self.free_place() else { return };
        let Some(old) = self.some_place(|kind| matches!(kind, Kind::File(_))) else { return };
        let volume = self.volume;
        let sealed = volume.files.link(&volume.root, old.id, directory, &name(&text)).await;
        self.issued(format!("link {} {text}", old.name), sealed);
        self.model.add(directory, &text, old.id);
        self.note();
    }

    async fn rename(&mut self, directories: bool) {
        let is_directory = |kind: &Kind| matches!(kind, Kind::Directory(_));
        let Some(old) = self.some_place(|kind| is_directory(kind) == directories) else { return };
        let replaced = self.some_place(|kind| match kind {
            Kind::Directory(entries) => directories && entries.is_empty(),
            _ => !directories,
        });
        let over = replaced.filter(|place| self.below(2) == 0 && place.id != old.id);
        // A shared directory may have names of others in it, so a root is never replaced.
        let new = over.map(|place| (place.directory, place.name)).or_else(|| self.free_place());
        let Some((directory, text)) = new else { return };
        if directories && self.model.is_below(directory, old.id) {
            return;
        }
        let volume = self.volume;
        let names = (name(&old.name), name(&text));
        let sealed =
            volume.files.rename(&volume.root, old.directory, &names.0, directory, &names.1).await;
        self.issued(format!("rename {} {text}", old.name), sealed);
        let replaces = self.model.entries(directory).contains_key(&text);
        if replaces {
            self.model.drop_name(directory, &text);
            if directories {
                self.note(); // the empty directory is gone, and ".." still names the old parent
            }
        }
        self.model.add(directory, &text, old.id);
        if !directories {
            self.note(); // both names
        }
        self.model.drop_name(old.directory, &old.name);
        self.note();
    }

    async fn remove(&mut self) {
        let Some(old) = self.some_place(|kind| !matches!(kind, Kind::Directory(_))) else { return };
        let volume = self.volume;
        let sealed = volume.files.remove(&volume.root, old.directory, &name(&old.name)).await;
        self.issued(format!("remove {}", old.name), sealed);
        self.model.drop_name(old.directory, &old.name);
        self.note();
    }

    async fn rmdir(&mut self) {
        let empty = |kind: &Kind| matches!(kind, Kind::Directory(entries) if entries.is_empty());
        let Some(old) = self.some_place(empty) else { return };
        let volume = self.volume;
        let sealed = volume.files.rmdir(&volume.root, old.directory, &name(&old.name)).await;
        self.issued(format!("rmdir {}", old.name), sealed);
        self.model.drop_name(old.directory, &old.name);
        self.note();
    }

    async fn set(&mut self, what: String, id: ObjectId, changes: SetAttributes) {
        let volume = self.volume;
        let sealed = volume.files.setattr(&volume.root, id, changes, None).await;
        self.issued(what, sealed);
    }

    async fn chmod(&mut self) {
        let Some(old) = self.some_place(|kind| !matches!(kind, Kind::Symlink(_))) else { return };
        let mode = 0o700 | self.below(0o100) as u16;
        let changes = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        self.set(format!("chmod {}", old.name), old.id, changes).await;
        self.model.change(old.id).mode = mode;
        self.note();
    }

    /// Most writes are small; some reach into indirect blocks, a few into those of two levels.
    fn some_range(&self) -> (u64, u64) {
        let block = self.block_size;
        match self.below(20) {
            0 => (block * (12 + block / 8) + self.below(block), 1 + self.below(2 * block)),
            1..=5 => (self.below(20 * block), 1 + self.below(6 * block)),
            6..=9 => (self.below(2 * block), 1 + self.below(block)),
            10..=14 => (0, 1 + self.below(200)),
            _ => (0, 1 + self.below(1500)),
        }
    }

    async fn write(&mut self) {
        let Some(old) = self.some_place(|kind| matches!(kind, Kind::File(_))) else { return };
        let (mut offset, length) = self.some_range();
        let size = self.model.content(old.id).newest().len() as u64;
        if self.below(3) == 0 && size < 30 * self.block_size {
            offset = size; // append
        }
        self.serial += 1;
        let seed = u64::from(self.prefix) << 32 | self.serial;
        let data: Vec<u8> = (0..length)
            .map(|at| {
                ((at + 1).wrapping_mul(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 | 1
            })
            .collect();
        let stable = self.below(3) > 0;
        let stability = if stable { Stability::FileSync } else { Stability::Unstable };
        let volume = self.volume;
        let pieces = vec![data.clone().into()];
        let sealed = volume.files.write(&volume.root, old.id, offset, pieces, stability).await;
        self.issued(format!("write {} {offset}+{length} {stability:?}", old.name), sealed);
        let content = self.model.content(old.id);
        if stable {
            let after = {
                let mut after = content.clone();
                after.write_stable(offset as usize, &data);
                after
            };
            *content = content.while_writing(offset as usize, &data);
            self.note();
            *self.model.content(old.id) = after;
        } else {
            content.write_unstable(offset as usize, &data);
        }
        self.note();
    }

    async fn resize(&mut self) {
        let Some(old) = self.some_place(|kind| matches!(kind, Kind::File(_))) else { return };
        let size = match self.below(4) {
            0 => 0,
            1 => self.below(2000),
            2 => self.below(3 * self.block_size),
            _ => self.below(20 * self.block_size),
        };
        let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
        self.set(format!("resize {} {size}", old.name), old.id, changes).await;
        self.model.content(old.id).settle();
        self.note();
        self.model.content(old.id).resize(size as usize);
        self.note();
    }

    async fn commit(&mut self) {
        let Some(old) = self.some_place(|kind| matches!(kind, Kind::File(_))) else { return };
        let volume = self.volume;
        let sealed = volume.files.commit(&volume.root, old.id, 0, 0).await;
        self.issued(format!("commit {}", old.name), sealed);
        self.model.content(old.id).settle();
        self.note();
    }
}
