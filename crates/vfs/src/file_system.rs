//! The verbs of a file service.

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    Attributes, Credentials, Device, FileKind, FsError, LoggedReply, Name, ObjectId, PostOp,
    Receipt, Requester, Sealed, SetAttributes, Snapshots, SnapshotsShown, Timestamp, Wcc,
};

/// A reply with the attributes that go along with it, in success and in refusal.
#[derive(Clone, Debug)]
pub struct Answer<T, W = PostOp> {
    /// The result proper.
    pub result: Result<T, FsError>,
    /// Attributes of the objects that the call named.
    pub about: W,
}

/// A file that was found or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its identity.
    pub id: ObjectId,
    /// Its attributes.
    pub attributes: Attributes,
}

/// 64 bits that change when UNSTABLE data may have been lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Verifier(pub [u8; 8]);

/// How durable a write must be before it is answered (RFC 1813, section 3.3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stability {
    /// May be lost, but only with a change of the verifier.
    Unstable,
    /// The data, and the metadata to find it.
    DataSync,
    /// Everything.
    FileSync,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes written.
    pub count: u32,
    /// How durable they are; at least as much as requested.
    pub committed: Stability,
    /// For comparison with the verifier of a later COMMIT.
    pub verifier: Verifier,
}

/// The data of a read: pieces by reference, in order.
#[derive(Clone, Debug, Default)]
pub struct ReadData {
    /// The bytes.
    pub data: Vec<Bytes>,
    /// Whether it ends at the end of the file.
    pub eof: bool,
}

/// How to create a file (RFC 1813, section 3.3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateHow {
    /// An existing file is fine; its size may be set.
    Unchecked(SetAttributes),
    /// An existing file is an error.
    Guarded(SetAttributes),
    /// An existing file is fine if it was made with the same 64 bits.
    Exclusive([u8; 8]),
}

/// Rights to ask about (RFC 1813, section 3.3.4), as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(pub u32);

impl Access {
    /// Read data or a directory.
    pub const READ: u32 = 0x01;
    /// Look up a name.
    pub const LOOKUP: u32 = 0x02;
    /// Rewrite data or change a directory's entries.
    pub const MODIFY: u32 = 0x04;
    /// Add data or entries.
    pub const EXTEND: u32 = 0x08;
    /// Remove an entry.
    pub const DELETE: u32 = 0x10;
    /// Run a file.
    pub const EXECUTE: u32 = 0x20;
}

/// One entry of a directory.
#[derive(Clone, Debug)]
pub struct DirectoryEntry {
    /// The file; without attributes, only its number is known and the generation is 0.
    pub id: ObjectId,
    /// Its name.
    pub name: Bytes,
    /// The cookie to resume after this entry.
    pub cookie: u64,
    /// Its attributes, when they were asked for.
    pub attributes: PostOp,
}

/// A run of directory entries.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// The entries, in order.
    pub entries: Vec<DirectoryEntry>,
    /// Whether the last one is the directory's last.
    pub eof: bool,
}

/// How full the volume is, for the caller (RFC 1813, section 3.3.18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsStat {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes free.
    pub free_bytes: u64,
    /// Bytes that the caller may take.
    pub available_bytes: u64,
    /// Inodes in all.
    pub total_files: u64,
    /// Inodes free.
    pub free_files: u64,
    /// Inodes that the caller may take.
    pub available_files: u64,
}

/// Limits that do not change (RFC 1813, section 3.3.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsInfo {
    /// The largest file, in bytes.
    pub max_file_size: u64,
    /// The multiple that transfers should have, in bytes.
    pub block_size: u32,
    /// The resolution of timestamps.
    pub time_delta: Timestamp,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// Limits of names and links (RFC 1813, section 3.3.20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathConf {
    /// Most names a file may have.
    pub link_max: u32,
    /// Longest name, in bytes.
    pub name_max: u32,
}

/// A volume as a protocol sees it.
///
/// Every verb is atomic towards other verbs. Permission checks are those of UFS for `who`; the
/// owner may always read and write the file's data, since a stateless server cannot know that it
/// was open before a chmod. A verb runs to its end once it is called: a future that is dropped
/// between *apply* and the receipt leaves the operation done and unanswered.
///
/// Objects of a snapshot are accessed by the same verbs, under an [`ObjectId`] with its number. A
/// verb that would change any of them is refused with [`FsError::ReadOnly`]; so is a name that
/// would lead into a snapshot from outside, or out of it.
///
/// Verbs that must not be executed twice take a [`Requester`]: if it names the call, the reply is
/// remembered with the changes of the call (see [`crate::CallKey`]).
#[async_trait(?Send)]
pub trait FileSystem {
    /// The root directory.
    fn root(&self) -> ObjectId;

    /// The write verifier, which changes with every boot of the volume and every lost write.
    fn verifier(&self) -> Verifier;

    /// Attributes.
    async fn getattr(&self, id: ObjectId) -> Sealed<Result<Attributes, FsError>>;

    /// Sets attributes; with `guard`, only if the change time is still that.
    async fn setattr(
        &self,
        who: &Requester,
        id: ObjectId,
        changes: SetAttributes,
        guard: Option<Timestamp>,
    ) -> Sealed<Answer<(), Wcc>>;

    /// Finds a name in a directory. "." and ".." are names.
    async fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<Found>>;

    /// The subset of the `asked` rights that the caller has.
    async fn access(
        &self,
        who: &Credentials,
        id: ObjectId,
        asked: Access,
    ) -> Sealed<Answer<Access>>;

    /// The target of a symbolic link.
    async fn readlink(&self, who: &Credentials, id: ObjectId) -> Sealed<Answer<Bytes>>;

    /// Reads at most `count` bytes.
    async fn read(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Sealed<Answer<ReadData>>;

    /// Writes the pieces of `data` one after the other.
    async fn write(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        data: Vec<Bytes>,
        stability: Stability,
    ) -> Sealed<Answer<Written, Wcc>>;

    /// Makes a regular file.
    async fn create(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        how: CreateHow,
    ) -> Sealed<Answer<Found, Wcc>>;

    /// Makes a directory.
    async fn mkdir(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>>;

    /// Makes a symbolic link.
    async fn symlink(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        target: &[u8],
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>>;

    /// Makes a device, fifo or socket. [`FsError::BadType`] for any other kind.
    async fn mknod(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
        kind: FileKind,
        device: Device,
        attributes: SetAttributes,
    ) -> Sealed<Answer<Found, Wcc>>;

    /// Removes a name of an object that is not a directory.
    async fn remove(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), Wcc>>;

    /// Removes an empty directory.
    async fn rmdir(
        &self,
        who: &Requester,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), Wcc>>;

    /// Moves a name, replacing the object that the new name named. `about`: both directories, in
    /// order.
    async fn rename(
        &self,
        who: &Requester,
        from: ObjectId,
        from_name: &Name,
        to: ObjectId,
        to_name: &Name,
    ) -> Sealed<Answer<(), (Wcc, Wcc)>>;

    /// Adds a name to a file. `about`: the file, then the directory.
    async fn link(
        &self,
        who: &Requester,
        id: ObjectId,
        directory: ObjectId,
        name: &Name,
    ) -> Sealed<Answer<(), (PostOp, Wcc)>>;

    /// Lists entries after `cookie` (0: from the start) until `accept` refuses one or the end is
    /// reached. With `attributes`, each entry carries its own, where they are available. An entry
    /// that `accept` refuses is not part of the reply.
    async fn readdir(
        &self,
        who: &Credentials,
        directory: ObjectId,
        cookie: u64,
        attributes: bool,
        accept: &mut dyn for<'e> FnMut(&'e DirectoryEntry) -> bool,
    ) -> Sealed<Answer<Entries>>;

    /// How full the volume is.
    async fn fsstat(&self, who: &Credentials, id: ObjectId) -> Sealed<Answer<FsStat>>;

    /// The volume's fixed limits.
    async fn fsinfo(&self, id: ObjectId) -> Sealed<Answer<FsInfo>>;

    /// The volume's limits of names and links.
    async fn pathconf(&self, id: ObjectId) -> Sealed<Answer<PathConf>>;

    /// Makes UNSTABLE data of the range durable; `count` 0 means to the end of the file.
    async fn commit(
        &self,
        who: &Credentials,
        id: ObjectId,
        offset: u64,
        count: u32,
    ) -> Sealed<Answer<Verifier, Wcc>>;

    /// Waits until a file is known to have a name, where a crash may have taken its name with
    /// changes that were reported before they were durable. Called before a client is promised that
    /// such a file stays.
    ///
    /// # Errors
    /// [`FsError::Jukebox`] when that takes long; [`FsError::Stale`] when the file is gone,
    /// [`FsError::Io`], [`FsError::Corrupt`].
    async fn ensure_named(&self, _id: ObjectId) -> Result<(), FsError> {
        Ok(())
    }

    /// A receipt for every change made so far by any caller. UNSTABLE data is not a change yet.
    fn changes_so_far(&self) -> Receipt;

    /// The replies that survived the last crash or stop, oldest first, for the caller that
    /// recognises repetitions. Only the first caller gets them: from then on they are kept for as
    /// long as it holds their keys. None where replies have no place on stable storage.
    fn take_remembered(&self) -> Sealed<Vec<LoggedReply>>;

    /// Counts a repeated call of this volume that was answered from memory; `over_a_start` if it
    /// was carried out before the last start. Kept for the administrator, where replies are kept.
    fn count_repetition(&self, over_a_start: bool);

    /// The volume's snapshots, if it supports them.
    fn snapshots(&self) -> Option<&dyn Snapshots> {
        None
    }

    /// Sets where clients find its snapshots from now on.
    fn show_snapshots(&self, _shown: SnapshotsShown) {}

    /// [`FileSystem::shutdown`] is near: no call may wait any more for slow background work.
    fn ask_to_end(&self) {}

    /// Writes everything in place and leaves the disk clean. No verb may follow.
    ///
    /// # Errors
    /// [`FsError::Io`] when a write failed, now or before: the disk is left marked unclean.
    async fn shutdown(&self) -> Result<(), FsError>;
}
