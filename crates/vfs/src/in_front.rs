//! A file system that stands in front of another one, and forwards its verbs.

#![expect(async_fn_in_trait, reason = "file systems live on one thread; no future here is sent")]

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    Access, Answer, Attributes, CreateHow, Credentials, Device, DirectoryEntry, Entries, FileKind,
    FileSystem, Found, FsError, FsInfo, FsStat, LoggedReply, Name, ObjectId, PathConf, PostOp,
    ReadData, Receipt, Requester, Sealed, SetAttributes, Snapshots, SnapshotsShown, Stability,
    Timestamp, Verifier, Wcc, Written,
};

/// A file system in front of another one, whose replies it returns.
///
/// It sees each verb that returns a sealed reply, and may do something before or after it: wait,
/// take a lock, count.
pub trait InFront {
    /// The file system behind it.
    fn behind(&self) -> &dyn FileSystem;

    /// Forwards a verb that may change these objects; none if the verb only reads.
    async fn hand_on<T>(
        &self,
        changes: &[ObjectId],
        verb: impl Future<Output = Sealed<T>>,
    ) -> Sealed<T>;
}

#[async_trait(?Send)]
impl<F: InFront> FileSystem for F {
    fn root(&self) -> ObjectId {
        self.behind().root()
    }

    fn verifier(&self) -> Verifier {
        self.behind().verifier()
    }

    async fn getattr(&self, id: ObjectId) -> Sealed<Result<Attributes, FsError>> {
        self.hand_on(&[], self.behind().getattr(id)).await
    }

    async fn setattr(
        &self,
        who: &Requester,
        id: ObjectId,
        changes: SetAttributes,
        guard: Option<Timestamp>,
    ) -> Sealed<Answer<(), Wcc>> {
        self.hand_on(&[id], self.behind().setattr(who, id, changes, guard)).await
    }

    async fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<Found>> {
        self.hand_on(&[], self.behind().lookup(who, directory, name)).await
    }

    async fn access(
        &self,
        who: &Credentials,
        id: ObjectId,
        asked: Access,
    ) -> Sealed<Answer<Access>> {
        self.hand_on(&[], self.behind().access(who, id, asked)).await
    }

    async fn readlink(&self, who: &Credentials, id: ObjectId) -> Sealed<Answer<Bytes>> {
        self.hand_on(&[], self.behind().readlink(who, id)).await
    }

    async fn read(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Sealed<Answer<ReadData>> {
        self.hand_on(&[], self.behind().read(who, id, offset, count)).await
    }

    async fn write(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        data: Vec<Bytes>,
        stability: Stability,
    ) -> Sealed<Answer<Written, Wcc>> {
        self.hand_on(&[id], self.behind().write(who, id, offset, data, stability)).await
    }

    async fn create(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        how: CreateHow,
    ) -> Sealed<Answer<Found, Wcc>> {
        self.hand_on(&[directory], self.behind().create(who, directory, name, how)).await
    }

    async fn mkdir(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>> {
        self.hand_on(&[directory], self.behind().mkdir(who, directory, name, attributes)).await
    }

    async fn symlink(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        target: &[u8],
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>> {
        self.hand_on(&[directory], self.behind().symlink(who, directory, name, target, attributes))
            .await
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
        self.hand_on(
            &[directory],
            self.behind().mknod(who, directory, name, kind, device, attributes),
        )
        .await
    }

    async fn remove(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), Wcc>> {
        self.hand_on(&[directory], self.behind().remove(who, directory, name)).await
    }

    async fn rmdir(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), Wcc>> {
        self.hand_on(&[directory], self.behind().rmdir(who, directory, name)).await
    }

    async fn rename(
        &self,
        who: &Requester,
        from: ObjectId,
        from_name: &Name,
        to: ObjectId,
        to_name: &Name,
    ) -> Sealed<Answer<(), (Wcc, Wcc)>> {
        self.hand_on(&[from, to], self.behind().rename(who, from, from_name, to, to_name)).await
    }

    async fn link(
        &self,
        who: &Requester,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), (PostOp, Wcc)>> {
        self.hand_on(&[id, directory], self.behind().link(who, id, directory, name)).await
    }

    async fn readdir(
        &self,
        who: &Credentials,
        directory: ObjectId,
        cookie: u64,
        attributes: bool,
        accept: &mut dyn for<'e> FnMut(&'e DirectoryEntry) -> bool,
    ) -> Sealed<Answer<Entries>> {
        self.hand_on(&[], self.behind().readdir(who, directory, cookie, attributes, accept)).await
    }

    async fn fsstat(&self, who: &Credentials, id: ObjectId) -> Sealed<Answer<FsStat>> {
        self.hand_on(&[], self.behind().fsstat(who, id)).await
    }

    async fn fsinfo(&self, id: ObjectId) -> Sealed<Answer<FsInfo>> {
        self.hand_on(&[], self.behind().fsinfo(id)).await
    }

    async fn pathconf(&self, id: ObjectId) -> Sealed<Answer<PathConf>> {
        self.hand_on(&[], self.behind().pathconf(id)).await
    }

    async fn commit(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Sealed<Answer<Verifier, Wcc>> {
        self.hand_on(&[id], self.behind().commit(who, id, offset, count)).await
    }

    async fn ensure_named(&self, id: ObjectId) -> Result<(), FsError> {
        self.behind().ensure_named(id).await
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        self.behind().snapshots()
    }

    fn show_snapshots(&self, shown: SnapshotsShown) {
        self.behind().show_snapshots(shown);
    }

    fn ask_to_end(&self) {
        self.behind().ask_to_end();
    }

    fn changes_so_far(&self) -> Receipt {
        self.behind().changes_so_far()
    }

    fn take_remembered(&self) -> Sealed<Vec<LoggedReply>> {
        self.behind().take_remembered()
    }

    fn count_repetition(&self, over_a_start: bool) {
        self.behind().count_repetition(over_a_start);
    }

    async fn shutdown(&self) -> Result<(), FsError> {
        self.behind().shutdown().await
    }
}
