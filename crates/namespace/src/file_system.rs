//! The verbs of [`vfs::FileSystem`], each sealed with the changes that it has seen.

use async_trait::async_trait;
use bytes::Bytes;
use vfs::{
    Access, Answer, Attributes, CreateHow, Credentials, Depends, Device, DirectoryEntry, Entries,
    FileKind, FileSystem, Found, FsError, FsInfo, FsStat, LoggedReply, Name, ObjectId, PathConf,
    PostOp, ReadData, Receipt, Requester, Sealed, SetAttributes, Snapshots, SnapshotsShown,
    Stability, Timestamp, Verifier, Wcc, Written,
};

use crate::call::{Call, FIRST};
use crate::create::Making;
use crate::{Namespace, Object, Store, access};

#[async_trait(?Send)]
impl<S: Store> FileSystem for Namespace<S> {
    fn root(&self) -> ObjectId {
        self.store.root()
    }

    fn verifier(&self) -> Verifier {
        self.store.verifier()
    }

    async fn getattr(&self, id: ObjectId) -> Sealed<Result<Attributes, FsError>> {
        if id.is_listing() {
            return Box::pin(self.listing_getattr(id)).await;
        }
        let mut call = Call::new();
        let result = self.open(&mut call, id).await.map(|node| node.attributes());
        self.seal_bare(call, result)
    }

    async fn setattr(
        &self,
        who: &Requester,
        id: ObjectId,
        changes: SetAttributes,
        guard: Option<Timestamp>,
    ) -> Sealed<Answer<(), Wcc>> {
        let mut call = Call::of(who);
        let result = self.do_setattr(&mut call, who, id, changes, guard).await;
        self.seal_wcc(call, result)
    }

    async fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<Found>> {
        if directory.is_listing() {
            return Box::pin(self.listing_lookup(directory, name)).await;
        }
        let mut call = Call::new();
        let result = self.do_lookup(&mut call, who, directory, name).await;
        self.seal(call, result)
    }

    async fn access(
        &self,
        who: &Credentials,
        id: ObjectId,
        asked: Access,
    ) -> Sealed<Answer<Access>> {
        if id.is_listing() {
            return Box::pin(self.listing_access(id, asked)).await;
        }
        let mut call = Call::new();
        let result = self.open(&mut call, id).await.map(|node| {
            call.about(FIRST, &node);
            let may_change = self.check_writable(&[&node]).is_ok();
            let is_fixed = !may_change || node.protection().immutable;
            let rights = access::rights(who, &node.attributes(), is_fixed);
            Access(rights.0 & asked.0)
        });
        self.seal(call, result)
    }

    async fn readlink(&self, _who: &Credentials, id: ObjectId) -> Sealed<Answer<Bytes>> {
        let mut call = Call::new();
        let result = self.do_readlink(&mut call, id).await;
        self.seal(call, result)
    }

    async fn read(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Sealed<Answer<ReadData>> {
        let mut call = Call::new();
        let result = self.do_read(&mut call, who, id, offset, count).await;
        self.seal(call, result)
    }

    async fn write(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        data: Vec<Bytes>,
        stability: Stability,
    ) -> Sealed<Answer<Written, Wcc>> {
        let mut call = Call::new();
        let result = self.do_write(&mut call, who, id, (offset, data), stability).await;
        self.seal_wcc(call, result)
    }

    async fn create(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        how: CreateHow,
    ) -> Sealed<Answer<Found, Wcc>> {
        let mut call = Call::of(who);
        let result = self.do_create(&mut call, who, directory, name, how).await;
        self.seal_wcc(call, result)
    }

    async fn mkdir(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>> {
        let mut call = Call::of(who);
        let making = Making::Directory;
        let result = self.do_make(&mut call, who, directory, name, making, attributes).await;
        self.seal_wcc(call, result)
    }

    async fn symlink(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        target: &[u8],
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>> {
        let mut call = Call::of(who);
        let making = Making::Symlink(target);
        let result = self.do_make(&mut call, who, directory, name, making, attributes).await;
        self.seal_wcc(call, result)
    }

    async fn mknod(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        kind: FileKind,
        device: Device,
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>> {
        let mut call = Call::of(who);
        let result = match kind {
            FileKind::Directory | FileKind::Symlink | FileKind::Regular => Err(FsError::BadType),
            _ => {
                let making = Making::Special(kind, device);
                self.do_make(&mut call, who, directory, name, making, attributes).await
            }
        };
        self.seal_wcc(call, result)
    }

    async fn remove(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), Wcc>> {
        let mut call = Call::of(who);
        let result = self.do_remove(&mut call, who, directory, name).await;
        self.seal_wcc(call, result)
    }

    async fn rmdir(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), Wcc>> {
        let mut call = Call::of(who);
        let result = self.do_rmdir(&mut call, who, directory, name).await;
        self.seal_wcc(call, result)
    }

    async fn rename(
        &self,
        who: &Requester,
        from: ObjectId,
        from_name: &Name,
        to: ObjectId,
        to_name: &Name,
    ) -> Sealed<Answer<(), (Wcc, Wcc)>> {
        let mut call = Call::of(who);
        let result = self.do_rename(&mut call, who, (from, from_name), (to, to_name)).await;
        self.seal_both(call, result)
    }

    async fn link(
        &self,
        who: &Requester,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), (PostOp, Wcc)>> {
        let mut call = Call::of(who);
        let result = self.do_link(&mut call, who, id, directory, name).await;
        self.seal_both(call, result).map(|Answer { result, about: (file, directory) }| Answer {
            result,
            about: (file.after, directory),
        })
    }

    async fn readdir(
        &self,
        who: &Credentials,
        directory: ObjectId,
        cookie: u64,
        attributes: bool,
        accept: &mut dyn for<'e> FnMut(&'e DirectoryEntry) -> bool,
    ) -> Sealed<Answer<Entries>> {
        if directory.is_listing() {
            return Box::pin(self.listing_readdir(directory, cookie, accept)).await;
        }
        let mut call = Call::new();
        let style = (attributes, accept);
        let result = self.do_readdir(&mut call, who, directory, cookie, style).await;
        self.seal(call, result)
    }

    async fn fsstat(&self, who: &Credentials, id: ObjectId) -> Sealed<Answer<FsStat>> {
        let mut call = Call::new();
        let result = self.told(&mut call, id, || self.store.fsstat(who)).await;
        self.seal(call, result)
    }

    async fn fsinfo(&self, id: ObjectId) -> Sealed<Answer<FsInfo>> {
        let mut call = Call::new();
        let result = self.told(&mut call, id, || self.store.fsinfo()).await;
        self.seal(call, result)
    }

    async fn pathconf(&self, id: ObjectId) -> Sealed<Answer<PathConf>> {
        let mut call = Call::new();
        let result = self.told(&mut call, id, || self.store.pathconf()).await;
        self.seal(call, result)
    }

    async fn commit(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Sealed<Answer<Verifier, Wcc>> {
        let mut call = Call::new();
        let result = self.do_commit(&mut call, who, id, offset, count).await;
        self.seal_wcc(call, result)
    }

    async fn ensure_named(&self, id: ObjectId) -> Result<(), FsError> {
        self.store.ensure_named(id).await
    }

    fn changes_so_far(&self) -> Receipt {
        self.store.receipt(Depends::through(self.store.newest()))
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        self.store.snapshots()
    }

    fn show_snapshots(&self, shown: SnapshotsShown) {
        self.set_shown(shown);
    }

    fn take_remembered(&self) -> Sealed<Vec<LoggedReply>> {
        self.store.take_remembered()
    }

    fn count_repetition(&self, over_a_start: bool) {
        self.store.count_repetition(over_a_start);
    }

    fn ask_to_end(&self) {
        self.store.ask_to_end();
    }

    async fn shutdown(&self) -> Result<(), FsError> {
        self.store.shutdown().await
    }
}

impl<S: Store> Namespace<S> {
    /// Returns facts about the volume, requested through one of its files.
    async fn told<T>(
        &self,
        call: &mut Call<S::Node>,
        id: ObjectId,
        tell: impl FnOnce() -> T,
    ) -> Result<T, FsError> {
        if id.is_listing() {
            Box::pin(self.open_listing(call, id)).await?;
            return Ok(tell());
        }
        let node = self.open(call, id).await?;
        call.about(FIRST, &node);
        Ok(tell())
    }
}
