//! The logging locks of Calaveras: whoever changes a file or a directory keeps everybody else from
//! changing it until the log has the change (paper, section 3.1).
//!
//! Our own engine lets go of its locks when a change is staged, and lets the order of the log see
//! to the rest ("early release"). This file system stands before ours and takes that away: for
//! models of the paper's server.
//!
//! What a name names is not known here, so a REMOVE locks the directory alone. Whoever only reads
//! takes no lock, as in the paper.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use async_trait::async_trait;
use bytes::Bytes;
use runtime::sync::{Permit, Semaphore};
use vfs::{
    Access, Answer, Attributes, Author, CreateHow, Credentials, Device, DirectoryEntry, Entries,
    FileKind, FileSystem, Found, FsError, FsInfo, FsStat, Name, ObjectId, PathConf, PostOp,
    ReadData, Remembered, Sealed, SetAttributes, Stability, Timestamp, Verifier, Wcc, Written,
};

/// A file system whose changes of one object are durable one after the other.
pub struct LoggingLocks {
    inner: Rc<dyn FileSystem>,
    /// Those that somebody holds or waits for.
    locks: RefCell<HashMap<ObjectId, Rc<Semaphore>>>,
}

impl LoggingLocks {
    /// This file system, with logging locks.
    pub fn new(inner: Rc<dyn FileSystem>) -> Self {
        Self { inner, locks: RefCell::default() }
    }

    /// Carries out a change of these objects, and waits under their locks until it is durable.
    async fn alone<T>(
        &self,
        objects: &[ObjectId],
        change: impl Future<Output = Sealed<T>>,
    ) -> Sealed<T> {
        let held = self.lock(objects).await;
        let sealed = change.await;
        sealed.settled().await;
        drop(held);
        self.locks.borrow_mut().retain(|_, lock| Rc::strong_count(lock) > 1);
        sealed
    }

    async fn lock(&self, objects: &[ObjectId]) -> Vec<Permit> {
        let mut order = objects.to_vec();
        order.sort_by_key(|object| (object.ino.0, object.generation));
        order.dedup();
        let mut held = Vec::new();
        for object in order {
            let new = || Semaphore::new(1);
            let lock = self.locks.borrow_mut().entry(object).or_insert_with(new).clone();
            held.push(lock.acquire(1).await);
        }
        held
    }
}

#[async_trait(?Send)]
impl FileSystem for LoggingLocks {
    fn root(&self) -> ObjectId {
        self.inner.root()
    }

    fn verifier(&self) -> Verifier {
        self.inner.verifier()
    }

    async fn getattr(&self, id: ObjectId) -> Sealed<Result<Attributes, FsError>> {
        self.inner.getattr(id).await
    }

    async fn setattr(
        &self,
        who: &Author,
        id: ObjectId,
        changes: SetAttributes,
        guard: Option<Timestamp>,
    ) -> Sealed<Answer<(), Wcc>> {
        self.alone(&[id], self.inner.setattr(who, id, changes, guard)).await
    }

    async fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<Found>> {
        self.inner.lookup(who, directory, name).await
    }

    async fn access(
        &self,
        who: &Credentials,
        id: ObjectId,
        asked: Access,
    ) -> Sealed<Answer<Access>> {
        self.inner.access(who, id, asked).await
    }

    async fn readlink(&self, who: &Credentials, id: ObjectId) -> Sealed<Answer<Bytes>> {
        self.inner.readlink(who, id).await
    }

    async fn read(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Sealed<Answer<ReadData>> {
        self.inner.read(who, id, offset, count).await
    }

    async fn write(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        data: Vec<Bytes>,
        stability: Stability,
    ) -> Sealed<Answer<Written, Wcc>> {
        self.alone(&[id], self.inner.write(who, id, offset, data, stability)).await
    }

    async fn create(
        &self,
        who: &Author,
        directory: ObjectId,
        name: &Name,
        how: CreateHow,
    ) -> Sealed<Answer<Found, Wcc>> {
        self.alone(&[directory], self.inner.create(who, directory, name, how)).await
    }

    async fn mkdir(
        &self,
        who: &Author,
        directory: ObjectId,
        name: &Name,
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>> {
        self.alone(&[directory], self.inner.mkdir(who, directory, name, attributes)).await
    }

    async fn symlink(
        &self,
        who: &Author,
        directory: ObjectId,
        name: &Name,
        target: &[u8],
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>> {
        let change = self.inner.symlink(who, directory, name, target, attributes);
        self.alone(&[directory], change).await
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
        let change = self.inner.mknod(who, directory, name, kind, device, attributes);
        self.alone(&[directory], change).await
    }

    async fn remove(
        &self,
        who: &Author,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), Wcc>> {
        self.alone(&[directory], self.inner.remove(who, directory, name)).await
    }

    async fn rmdir(
        &self,
        who: &Author,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), Wcc>> {
        self.alone(&[directory], self.inner.rmdir(who, directory, name)).await
    }

    async fn rename(
        &self,
        who: &Author,
        from: ObjectId,
        from_name: &Name,
        to: ObjectId,
        to_name: &Name,
    ) -> Sealed<Answer<(), (Wcc, Wcc)>> {
        self.alone(&[from, to], self.inner.rename(who, from, from_name, to, to_name)).await
    }

    async fn link(
        &self,
        who: &Author,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), (PostOp, Wcc)>> {
        self.alone(&[id, directory], self.inner.link(who, id, directory, name)).await
    }

    async fn readdir(
        &self,
        who: &Credentials,
        directory: ObjectId,
        cookie: u64,
        attributes: bool,
        accept: &mut dyn for<'e> FnMut(&'e DirectoryEntry) -> bool,
    ) -> Sealed<Answer<Entries>> {
        self.inner.readdir(who, directory, cookie, attributes, accept).await
    }

    async fn fsstat(&self, who: &Credentials, id: ObjectId) -> Sealed<Answer<FsStat>> {
        self.inner.fsstat(who, id).await
    }

    async fn fsinfo(&self, id: ObjectId) -> Sealed<Answer<FsInfo>> {
        self.inner.fsinfo(id).await
    }

    async fn pathconf(&self, id: ObjectId) -> Sealed<Answer<PathConf>> {
        self.inner.pathconf(id).await
    }

    async fn commit(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Sealed<Answer<Verifier, Wcc>> {
        self.alone(&[id], self.inner.commit(who, id, offset, count)).await
    }

    fn take_remembered(&self) -> Sealed<Vec<Remembered>> {
        self.inner.take_remembered()
    }

    fn count_repetition(&self, over_a_start: bool) {
        self.inner.count_repetition(over_a_start);
    }

    async fn shutdown(&self) -> Result<(), FsError> {
        self.inner.shutdown().await
    }
}
