//! A file system that notes in whose name each of its verbs is called.

use std::cell::RefCell;
use std::rc::Rc;

use async_trait::async_trait;
use bytes::Bytes;
use vfs::{
    Access, Answer, Attributes, Author, CreateHow, Credentials, Device, DirectoryEntry, Entries,
    FileKind, FileSystem, Found, FsError, FsInfo, FsStat, Name, ObjectId, PathConf, PostOp,
    ReadData, Remembered, Sealed, SetAttributes, Stability, Timestamp, Verifier, Wcc, Written,
};

use crate::memory::MemoryFileSystem;

/// See the module.
pub(crate) struct Watched {
    files: Rc<MemoryFileSystem>,
    seen: RefCell<Vec<Credentials>>,
}

impl Watched {
    pub(crate) fn new(files: Rc<MemoryFileSystem>) -> Rc<Self> {
        Rc::new(Self { files, seen: RefCell::default() })
    }

    /// Who has called since this was asked last.
    pub(crate) fn take_seen(&self) -> Vec<Credentials> {
        self.seen.take()
    }

    fn see(&self, who: &Credentials) {
        self.seen.borrow_mut().push(who.clone());
    }
}

/// Verbs that are handed on, each after a look at who calls.
macro_rules! watched {
    ($(async fn $verb:ident($who:ty $(, $argument:ident: $type:ty)*) -> $answer:ty;)+) => {
        #[async_trait(?Send)]
        impl FileSystem for Watched {
            $(async fn $verb(&self, who: $who $(, $argument: $type)*) -> Sealed<$answer> {
                self.see(who);
                self.files.$verb(who $(, $argument)*).await
            })+

            fn root(&self) -> ObjectId {
                self.files.root()
            }

            fn verifier(&self) -> Verifier {
                self.files.verifier()
            }

            async fn getattr(&self, id: ObjectId) -> Sealed<Result<Attributes, FsError>> {
                self.files.getattr(id).await
            }

            async fn fsinfo(&self, id: ObjectId) -> Sealed<Answer<FsInfo>> {
                self.files.fsinfo(id).await
            }

            async fn pathconf(&self, id: ObjectId) -> Sealed<Answer<PathConf>> {
                self.files.pathconf(id).await
            }

            async fn readdir(
                &self,
                who: &Credentials,
                directory: ObjectId,
                cookie: u64,
                attributes: bool,
                accept: &mut dyn for<'e> FnMut(&'e DirectoryEntry) -> bool,
            ) -> Sealed<Answer<Entries>> {
                self.see(who);
                self.files.readdir(who, directory, cookie, attributes, accept).await
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
    };
}

watched! {
    async fn setattr(
        &Author, id: ObjectId, changes: SetAttributes, guard: Option<Timestamp>
    ) -> Answer<(), Wcc>;
    async fn lookup(&Credentials, directory: ObjectId, name: &Name) -> Answer<Found>;
    async fn access(&Credentials, id: ObjectId, asked: Access) -> Answer<Access>;
    async fn readlink(&Credentials, id: ObjectId) -> Answer<Bytes>;
    async fn read(&Credentials, id: ObjectId, offset: u64, count: u32) -> Answer<ReadData>;
    async fn write(
        &Credentials, id: ObjectId, offset: u64, data: Vec<Bytes>, stability: Stability
    ) -> Answer<Written, Wcc>;
    async fn create(
        &Author, directory: ObjectId, name: &Name, how: CreateHow
    ) -> Answer<Found, Wcc>;
    async fn mkdir(
        &Author, directory: ObjectId, name: &Name, attributes: SetAttributes
    ) -> Answer<Found, Wcc>;
    async fn symlink(
        &Author, directory: ObjectId, name: &Name, target: &[u8], attributes: SetAttributes
    ) -> Answer<Found, Wcc>;
    async fn mknod(
        &Author, directory: ObjectId, name: &Name, kind: FileKind, device: Device,
        attributes: SetAttributes
    ) -> Answer<Found, Wcc>;
    async fn remove(&Author, directory: ObjectId, name: &Name) -> Answer<(), Wcc>;
    async fn rmdir(&Author, directory: ObjectId, name: &Name) -> Answer<(), Wcc>;
    async fn rename(
        &Author, from: ObjectId, from_name: &Name, to: ObjectId, to_name: &Name
    ) -> Answer<(), (Wcc, Wcc)>;
    async fn link(
        &Author, id: ObjectId, directory: ObjectId, name: &Name
    ) -> Answer<(), (PostOp, Wcc)>;
    async fn fsstat(&Credentials, id: ObjectId) -> Answer<FsStat>;
    async fn commit(&Credentials, id: ObjectId, offset: u64, count: u32) -> Answer<Verifier, Wcc>;
}
