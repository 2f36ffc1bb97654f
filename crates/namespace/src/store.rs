//! The verbs that the namespace needs from an engine.

#![expect(async_fn_in_trait, reason = "engines live on one thread; no future here is sent")]

use std::rc::Rc;

use bytes::Bytes;
use runtime::sync::{Lock, Permit, Steps, Walks};
use vfs::{
    Attributes, CallReply, Credentials, Depends, Device, FileKind, FsError, FsInfo, FsStat,
    LoggedReply, Name, ObjectId, PathConf, Receipt, Sealed, Sequence, SnapshotNumber, Snapshots,
    Stability, Timestamp, Verifier,
};

use crate::Protection;

/// A file, seen by the namespace.
pub trait Object {
    /// Its identity for ever.
    fn id(&self) -> ObjectId;
    /// Its file type.
    fn kind(&self) -> FileKind;
    /// Its attributes now.
    fn attributes(&self) -> Attributes;
    /// The changes that a reply about it depends on.
    fn depends(&self) -> Depends;
    /// Whether it was freed.
    fn is_dead(&self) -> bool;
    /// Guards it: shared to read content, exclusive to change anything. An engine may lend it while
    /// it writes UNSTABLE data back; it is borrowed to add more of that.
    fn lock(&self) -> &Lock;
    /// The 64 bits with which it was created exclusively, if they are known.
    fn has_verifier(&self, verifier: [u8; 8]) -> bool;
    /// Protection by its flags.
    fn protection(&self) -> Protection;
}

impl<T: Object> Object for Rc<T> {
    fn id(&self) -> ObjectId {
        (**self).id()
    }

    fn kind(&self) -> FileKind {
        (**self).kind()
    }

    fn attributes(&self) -> Attributes {
        (**self).attributes()
    }

    fn depends(&self) -> Depends {
        (**self).depends()
    }

    fn is_dead(&self) -> bool {
        (**self).is_dead()
    }

    fn lock(&self) -> &Lock {
        (**self).lock()
    }

    fn has_verifier(&self, verifier: [u8; 8]) -> bool {
        (**self).has_verifier(verifier)
    }

    fn protection(&self) -> Protection {
        (**self).protection()
    }
}

/// A file that is about to be made.
#[derive(Clone, Debug)]
pub struct NewFile<'a> {
    /// Its file type.
    pub kind: FileKind,
    /// The low 12 bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// For device files.
    pub device: Device,
    /// For symbolic links.
    pub target: &'a [u8],
    /// For exclusive creation.
    pub verifier: Option<[u8; 8]>,
}

/// Attributes to set, checked and resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChange {
    /// The low 12 bits.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last read.
    pub atime: Option<Timestamp>,
    /// Last change of content.
    pub mtime: Option<Timestamp>,
    /// Last change of content or attributes.
    pub ctime: Option<Timestamp>,
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its inode number.
    pub ino: u64,
    /// Its name.
    pub name: Bytes,
    /// Cookie to go on after it.
    pub cookie: u64,
}

/// Facts about the snapshots that are found.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadySnapshots {
    /// Number of snapshots.
    pub count: usize,
    /// Time at which one was made or deleted last.
    pub changed: Timestamp,
    /// All changes that this shows and that may not be durable.
    pub depends: Depends,
}

/// Identity and attributes of a file that a call names, without the file itself.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// Its identity for ever.
    pub id: ObjectId,
    /// Its attributes at the moment of the lookup.
    pub attributes: Attributes,
    /// The changes of the file that this depends on.
    pub depends: Depends,
}

impl<N: Object> From<&N> for Stat {
    fn from(node: &N) -> Self {
        Self { id: node.id(), attributes: node.attributes(), depends: node.depends() }
    }
}

/// Observes a change as it is applied.
pub trait Witness {
    /// The change is about to be applied, with nothing in between.
    fn before(&mut self);
    /// The change was applied, and became these changes. Returns the call that has been answered
    /// with it, if that is to be remembered, and all changes that the reply shows.
    fn after(&mut self, depends: Depends) -> Option<(CallReply, Depends)>;
}

/// No witness.
impl Witness for () {
    fn before(&mut self) {}

    fn after(&mut self, _depends: Depends) -> Option<(CallReply, Depends)> {
        None
    }
}

/// An engine.
///
/// The verbs that take an Update only plan: nothing that another task can see changes before
/// [`Store::apply`], and an Update that is dropped leaves no trace. They may wait and may fail, as
/// may [`Store::reserve`], the last of them; `apply` does neither. Callers hold the locks of the
/// objects that they name.
pub trait Store: 'static {
    /// A file. Cheap to clone; a clone is the same file.
    type Node: Object + Clone;
    /// A group of changes that happen together.
    type Update;
    /// An Update that nothing can stop any more.
    type Ready;

    /// The root directory.
    fn root(&self) -> ObjectId;
    /// The write verifier, which changes with every boot and every lost write.
    fn verifier(&self) -> Verifier;
    /// Whether the volume is read-only.
    fn is_read_only(&self) -> bool;
    /// The current time, for timestamps.
    fn now(&self) -> Timestamp;
    /// A receipt for these changes.
    fn receipt(&self, on: Depends) -> Receipt;
    /// The newest change that was applied.
    fn newest(&self) -> Sequence;
    /// [`FsError::Io`] when the volume has stopped.
    fn check_running(&self) -> Result<(), FsError>;

    /// The file that `id` names; [`FsError::Stale`] when it is gone.
    async fn node(&self, id: ObjectId) -> Result<Self::Node, FsError>;
    /// The file that has this number now, to which a name has led.
    async fn node_of(&self, ino: u64) -> Result<Self::Node, FsError>;
    /// Attributes of the file that has this number now, to which a name in `directory` has led: in
    /// the same tree. Nothing is awaited between reading them and returning.
    async fn peek(&self, directory: &Self::Node, ino: u64) -> Result<Stat, FsError>;
    /// [`FsError::Io`] when a change of the file could not be completed, and nothing else may be
    /// done to it before the volume is opened anew.
    fn check_usable(&self, node: &Self::Node) -> Result<(), FsError>;
    /// The removal of this file, or of the snapshot, if it is not durable yet.
    fn removal(&self, id: ObjectId) -> Depends;

    /// The inode that a name leads to; "." and ".." are names.
    async fn find(&self, directory: &Self::Node, name: &Name) -> Result<Option<u64>, FsError>;
    /// Whether a directory may have two names after a crash in the middle of a rename.
    fn may_have_second_names(&self) -> bool;
    /// Waits until a directory has one name, if it may have two: before that name changes, or the
    /// directory ends. Returns at once for any other file.
    async fn settle_names(&self, node: &Self::Node) -> Result<(), FsError>;
    /// Waits until a file has a name, or is gone, if a crash may have taken its name.
    async fn ensure_named(&self, id: ObjectId) -> Result<(), FsError>;
    /// Whether a directory has only "." and "..".
    async fn is_empty(&self, directory: &Self::Node) -> Result<bool, FsError>;
    /// Some entries behind `cookie`; none only at the end. What it passes over are steps.
    async fn list(
        &self,
        directory: &Self::Node,
        cookie: u64,
        steps: &mut Steps<'_>,
    ) -> Result<Vec<Listed>, FsError>;
    /// The calls that go through many directories, or parts of one.
    fn walks(&self) -> &Walks;

    /// An Update on behalf of `who`.
    fn begin(&self, who: &Credentials) -> Self::Update;
    /// Makes an Update rest on these changes: it is not durable without them.
    fn rest_on(&self, update: &mut Self::Update, changes: &Depends);
    /// Waits until there is room to record an Update. Nothing may be awaited between this and
    /// [`Store::apply`].
    async fn reserve(&self, update: Self::Update) -> Result<Self::Ready, FsError>;
    /// Applies an Update at once and stages it, together with the reply that `witness` returns.
    fn apply(&self, update: Self::Ready, witness: &mut dyn Witness);
    /// Waits for space that is about to become free; false when there is none.
    async fn wait_for_space(&self) -> bool;

    /// Creates a file with link count 1 (a directory: 2, and its body) near `parent`.
    async fn create(
        &self,
        update: &mut Self::Update,
        parent: &Self::Node,
        new: NewFile<'_>,
    ) -> Result<Self::Node, FsError>;
    /// Adds a link; [`FsError::TooManyLinks`] at the limit.
    fn add_link(&self, update: &mut Self::Update, node: &Self::Node) -> Result<(), FsError>;
    /// Drops a link of a file that keeps at least one.
    fn drop_link(&self, update: &mut Self::Update, node: &Self::Node);
    /// Drops the last link (of a directory: both), and frees the file, now or soon. False when the
    /// file is large, so that it is freed in steps, and the Update has no place for these: the
    /// caller drops the Update and all locks, and begins again with a place.
    async fn destroy(&self, update: &mut Self::Update, node: &Self::Node) -> Result<bool, FsError>;
    /// Waits for a place for a change in steps, which may last as long as another such change.
    async fn place_for_steps(&self) -> Result<Permit, FsError>;
    /// Gives an Update such a place for the file that it may end.
    fn give_place(&self, update: &mut Self::Update, place: Option<Permit>);
    /// Changes attributes.
    fn set_attributes(
        &self,
        update: &mut Self::Update,
        node: &Self::Node,
        change: &AttributeChange,
    );
    /// Adds a name that is not there.
    async fn add_entry(
        &self,
        update: &mut Self::Update,
        directory: &Self::Node,
        name: &Name,
        target: &Self::Node,
    ) -> Result<(), FsError>;
    /// Drops a name.
    async fn drop_entry(
        &self,
        update: &mut Self::Update,
        directory: &Self::Node,
        name: &Name,
    ) -> Result<(), FsError>;
    /// Makes an existing name name another file.
    async fn retarget_entry(
        &self,
        update: &mut Self::Update,
        directory: &Self::Node,
        name: &Name,
        target: &Self::Node,
    ) -> Result<(), FsError>;
    /// Makes ".." of a directory name another parent.
    async fn retarget_parent(
        &self,
        update: &mut Self::Update,
        directory: &Self::Node,
        parent: &Self::Node,
    ) -> Result<(), FsError>;

    /// Reads at most `count` bytes, and whether they end at the end of the file.
    async fn read(
        &self,
        node: &Self::Node,
        offset: u64,
        count: u64,
    ) -> Result<(Vec<Bytes>, bool), FsError>;
    /// Keeps UNSTABLE data in memory, and lets `witness` see that; false when there is no room for
    /// it, in memory or on the disk. The lock is held as if it were borrowed.
    async fn buffer_write(
        &self,
        who: &Credentials,
        node: &Self::Node,
        offset: u64,
        data: &[Bytes],
        witness: &mut dyn Witness,
    ) -> Result<bool, FsError>;
    /// Writes from an offset on, and changes attributes along with it; returns how durable it will
    /// be when the file's sequence is. `witness` sees each step of a write that may be long.
    async fn write(
        &self,
        who: &Credentials,
        node: &Self::Node,
        data: (u64, &[Bytes]),
        stability: Stability,
        change: &AttributeChange,
        witness: &mut dyn Witness,
    ) -> Result<Stability, FsError>;
    /// Makes a file longer or shorter and changes attributes along with it. `witness` sees the step
    /// with which all of that is certain to happen, and, if it is another one, the last.
    async fn resize(
        &self,
        who: &Credentials,
        node: &Self::Node,
        size: u64,
        change: &AttributeChange,
        witness: &mut dyn Witness,
    ) -> Result<(), FsError>;
    /// Writes UNSTABLE data of a range back; to the end when `count` is 0.
    async fn write_back(&self, node: &Self::Node, offset: u64, count: u64) -> Result<(), FsError>;
    /// The target of a symbolic link.
    async fn link_target(&self, node: &Self::Node) -> Result<Bytes, FsError>;

    /// The longest target of a symbolic link, in bytes.
    fn max_target(&self) -> usize;
    /// How full the volume is, for `who`.
    fn fsstat(&self, who: &Credentials) -> FsStat;
    /// Fixed limits.
    fn fsinfo(&self) -> FsInfo;
    /// Limits of names and links.
    fn pathconf(&self) -> PathConf;
    /// The snapshots, if the volume supports them.
    fn snapshots(&self) -> Option<&dyn Snapshots>;
    /// Facts about the snapshots that are found.
    fn ready_snapshots(&self) -> ReadySnapshots;
    /// The first snapshot that is found with a number larger than `number`, and its name.
    fn snapshot_behind(&self, number: SnapshotNumber) -> Option<(SnapshotNumber, Name)>;
    /// The number of the snapshot that is found by `name`.
    fn snapshot_named(&self, name: &Name) -> Option<SnapshotNumber>;
    /// The replies that survived the last crash or stop: see [`vfs::FileSystem::take_remembered`].
    fn take_remembered(&self) -> Sealed<Vec<LoggedReply>>;
    /// Counts a call answered from memory: see [`vfs::FileSystem::count_repetition`].
    fn count_repetition(&self, over_a_start: bool);
    /// As [`vfs::FileSystem::ask_to_end`].
    fn ask_to_end(&self);
    /// Writes everything in place and leaves the disk clean.
    async fn shutdown(&self) -> Result<(), FsError>;
}
