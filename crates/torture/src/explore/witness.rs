//! A file system that counts what has been done, for whoever sees its answers only when they are
//! durable.
//!
//! A verb has been *done* when its answer is sealed: from then on everybody sees its effect. The
//! client at the other end of the protocol hears of it much later, and a test of what may happen in
//! between has to know both moments.

use std::cell::Cell;
use std::rc::Rc;

use async_trait::async_trait;
use bytes::Bytes;
use runtime::sync::Signal;
use vfs::{
    Access, Answer, Attributes, Author, CreateHow, Credentials, Device, DirectoryEntry, Entries,
    FileKind, FileSystem, Found, FsError, FsInfo, FsStat, Name, ObjectId, PathConf, PostOp,
    ReadData, Remembered, Sealed, SetAttributes, Stability, Timestamp, Verifier, Wcc, Written,
};

/// See the module's prose.
pub struct Witness {
    files: Rc<dyn FileSystem>,
    done: Cell<u64>,
    more: Signal,
}

impl Witness {
    /// Before `files`.
    pub fn new(files: Rc<dyn FileSystem>) -> Rc<Self> {
        Rc::new(Self { files, done: Cell::new(0), more: Signal::new() })
    }

    /// How many verbs have been done.
    pub fn done(&self) -> u64 {
        self.done.get()
    }

    /// Waits until more than `count` have been done.
    pub async fn more_than(&self, count: u64) {
        while self.done.get() <= count {
            self.more.wait().await;
        }
    }

    async fn note<T>(&self, verb: impl Future<Output = Sealed<T>>) -> Sealed<T> {
        let sealed = verb.await;
        self.done.set(self.done.get() + 1);
        self.more.notify();
        sealed
    }
}

#[async_trait(?Send)]
impl FileSystem for Witness {
    fn root(&self) -> ObjectId {
        self.files.root()
    }

    fn verifier(&self) -> Verifier {
        self.files.verifier()
    }

    async fn getattr(&self, id: ObjectId) -> Sealed<Result<Attributes, FsError>> {
        self.note(self.files.getattr(id)).await
    }

    async fn setattr(
        &self,
        who: &Author,
        id: ObjectId,
        changes: SetAttributes,
        guard: Option<Timestamp>,
    ) -> Sealed<Answer<(), Wcc>> {
        self.note(self.files.setattr(who, id, changes, guard)).await
    }

    async fn lookup(&self, who: &Credentials, id: ObjectId, name: &Name) -> Sealed<Answer<Found>> {
        self.note(self.files.lookup(who, id, name)).await
    }

    async fn access(
        &self,
        who: &Credentials,
        id: ObjectId,
        asked: Access,
    ) -> Sealed<Answer<Access>> {
        self.note(self.files.access(who, id, asked)).await
    }

    async fn readlink(&self, who: &Credentials, id: ObjectId) -> Sealed<Answer<Bytes>> {
        self.note(self.files.readlink(who, id)).await
    }

    async fn read(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Sealed<Answer<ReadData>> {
        self.note(self.files.read(who, id, offset, count)).await
    }

    async fn write(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        data: Vec<Bytes>,
        stability: Stability,
    ) -> Sealed<Answer<Written, Wcc>> {
        self.note(self.files.write(who, id, offset, data, stability)).await
    }

    async fn create(
        &self,
        who: &Author,
        directory: ObjectId,
        name: &Name,
        how: CreateHow,
    ) -> Sealed<Answer<Found, Wcc>> {
        self.note(self.files.create(who, directory, name, how)).await
    }

    async fn mkdir(
        &self,
        who: &Author,
        directory: ObjectId,
        name: &Name,
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>> {
        self.note(self.files.mkdir(who, directory, name, attributes)).await
    }

    async fn symlink(
        &self,
        who: &Author,
        directory: ObjectId,
        name: &Name,
        target: &[u8],
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>> {
        self.note(self.files.symlink(who, directory, name, target, attributes)).await
    }

    async fn mknod(
        &self,
        who: &Author,
        directory: ObjectId,
        name: &Name,
        kind: FileKind,
        device: Device,
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>> {
        self.note(self.files.mknod(who, directory, name, kind, device, attributes)).await
    }

    async fn remove(
        &self,
        who: &Author,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), Wcc>> {
        self.note(self.files.remove(who, directory, name)).await
    }

    async fn rmdir(
        &self,
        who: &Author,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), Wcc>> {
        self.note(self.files.rmdir(who, directory, name)).await
    }

    async fn rename(
        &self,
        who: &Author,
        from: ObjectId,
        from_name: &Name,
        to: ObjectId,
        to_name: &Name,
    ) -> Sealed<Answer<(), (Wcc, Wcc)>> {
        self.note(self.files.rename(who, from, from_name, to, to_name)).await
    }

    async fn link(
        &self,
        who: &Author,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), (PostOp, Wcc)>> {
        self.note(self.files.link(who, id, directory, name)).await
    }

    async fn readdir(
        &self,
        who: &Credentials,
        directory: ObjectId,
        cookie: u64,
        attributes: bool,
        accept: &mut dyn for<'e> FnMut(&'e DirectoryEntry) -> bool,
    ) -> Sealed<Answer<Entries>> {
        self.note(self.files.readdir(who, directory, cookie, attributes, accept)).await
    }

    async fn fsstat(&self, who: &Credentials, id: ObjectId) -> Sealed<Answer<FsStat>> {
        self.note(self.files.fsstat(who, id)).await
    }

    async fn fsinfo(&self, id: ObjectId) -> Sealed<Answer<FsInfo>> {
        self.note(self.files.fsinfo(id)).await
    }

    async fn pathconf(&self, id: ObjectId) -> Sealed<Answer<PathConf>> {
        self.note(self.files.pathconf(id)).await
    }

    async fn commit(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Sealed<Answer<Verifier, Wcc>> {
        self.note(self.files.commit(who, id, offset, count)).await
    }

    fn take_remembered(&self) -> Sealed<Vec<Remembered>> {
        self.files.take_remembered()
    }

    fn count_repetition(&self, over_a_start: bool) {
        self.files.count_repetition(over_a_start);
    }

    async fn shutdown(&self) -> Result<(), FsError> {
        self.files.shutdown().await
    }
}
