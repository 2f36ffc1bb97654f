//! The differences between engines.
//!
//! [`Files`](crate::Files) keeps files in memory: their pages, their names, and the changes that
//! each caller waits for. An engine supplies the rest: the location of an inode and of a block, how
//! a change of them is recorded, and when that is durable. Verbs that take an Update only plan.
//! They may wait and may fail, and an Update that is dropped leaves no trace. [`Engine::reserve`]
//! is the last of them; from [`Engine::apply`] to [`Engine::stage`] nothing waits and nothing
//! fails.
//!
//! Doc comments name the corresponding verb of 4.4BSD's `ufs/ufs` in capitals.
//!
//! Promises of an engine:
//! 1. An Update becomes durable as a whole or not at all, as far as its policy goes, and the
//!    [`Horizon`] passes its sequence when it is, and not before.
//! 2. Space that an Update freed is used by no other Update before [`Engine::give_back`].
//! 3. Readers see applied changes at once, from memory, whatever the disk has.
//! 4. A claim for blocks holds: writing back that many never meets a full disk.
//! 5. Updates that change the same field of an inode, the same block of a file or the same slot of
//!    a directory become durable in their order. Others may overtake each other, if the horizon
//!    says so, except the Updates that they rest on ([`Manner::rests_on`]) and those that a
//!    remembered reply shows ([`Engine::stage`]). An engine whose horizon passes in order does not
//!    learn what a move of a directory rests on: there '..' of two directories land in order, too.
//! 6. Where there are snapshots, an inode number has 40 bits at most ([`vfs::Ino`]). The Update
//!    that makes a snapshot is durable with all that was applied before it, or after that; whatever
//!    is durable of later ones, the snapshot holds nothing of it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use cache::{Budget, DataPath};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use namespace::{AttributeChange, NewFile};
use runtime::sync::Signal;
use vfs::{
    Attributes, CallReply, Credentials, Depends, FileKind, FsError, FsInfo, FsStat, Lost, ObjectId,
    PathConf, Sequence, Snapshot, SnapshotNumber, SnapshotUsage, Timestamp,
};

use crate::chain::ChainLink;
use crate::held::FoundSnapshots;
use crate::horizon::Horizon;
use crate::pages::{Content, Place};
use crate::vnode::{Facts, Vnode};

/// An open file: the engine's inode and its cached pages.
pub type File<E> = Rc<Vnode<<E as Engine>::Inode>>;

/// Which space an Update may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The space above the reserve.
    User,
    /// All of it.
    Superuser,
    /// Blocks that were claimed before; checked at the claim.
    Reserved,
}

impl Space {
    /// The space that `who` may take.
    pub fn of(who: &Credentials) -> Self {
        if who.is_root() { Self::Superuser } else { Self::User }
    }
}

/// How an Update is carried out, whatever it changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Only writes UNSTABLE data back: see [`Vnode`], invariant 4.
    pub is_unasked: bool,
    /// May wait for others: a caller that needs it durable asks for its receipt.
    pub may_wait_for_batch: bool,
    /// Continues an operation that has begun, and so waits for room however long that takes.
    pub goes_on: bool,
    /// Sets attributes, and none of these may be seen before all of them may: where an inode lands
    /// by parts, it lands as a whole.
    pub lands_whole: bool,
    /// The chain of Updates that begins or ends with it.
    pub chain: Option<ChainLink>,
    /// Updates that must be durable before this one, besides those that promise 5 names. Nothing
    /// where Updates become durable in their order.
    pub rests_on: Depends,
}

/// The changes of an operation, while it is being planned.
pub trait Plan {
    /// Whether it would change nothing.
    fn is_empty(&self) -> bool;
    /// The manner in which it is carried out.
    fn manner(&mut self) -> &mut Manner;
}

/// A chunk of a directory, which stays in memory as long as this is held.
pub trait Chunk {
    /// Passes its [`directory::entry::CHUNK_SIZE`] bytes to `look`.
    fn read<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T;
}

/// A change of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameChange {
    /// It appears.
    Added,
    /// It names another file now.
    Retargeted,
    /// It is '..', and the directory has moved.
    ParentRetargeted,
    /// It goes.
    Dropped,
}

/// A change of one entry of a directory.
pub struct EntryChange {
    /// The meaning of the change.
    pub change: NameChange,
    /// The byte of the chunk at which the entry begins.
    pub offset: usize,
    /// The inode that the entry names from now on, and its kind; none for a name that is dropped.
    pub target: Option<(u64, FileKind)>,
    /// Other bytes of the chunk to set, each run with its offset: record lengths and a name, which
    /// mean nothing without a target. They need not be undone.
    pub layout: Vec<(usize, Box<[u8]>)>,
}

/// A change of the snapshots of a volume. Its Update does nothing else.
#[derive(Clone, Debug)]
pub enum SnapshotChange {
    /// A snapshot is made: it holds what every reader sees when the Update is applied. No
    /// truncation is in its middle then. The freeing of a file without a name may be: no reader
    /// finds it in the snapshot.
    Pinned(Snapshot),
    /// A snapshot is to be deleted since then, and is found no more.
    Deleted(SnapshotNumber, Timestamp),
    /// From the next opening on, the live tree is the tree of this snapshot. Remembered replies are
    /// forgotten, and so are chains, whose files are others then. The files that the snapshot holds
    /// without a name get chains of their own, which free them from the next opening on. Numbers
    /// that were given away stay so.
    RolledBack(SnapshotNumber),
}

/// Properties that do not change while a volume is open.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The root directory.
    pub root: ObjectId,
    /// Bytes of a block of a file.
    pub block_size: u64,
    /// Bytes of all data and directories that the volume has room for.
    pub capacity: u64,
    /// The longest target of a symbolic link, in bytes.
    pub max_target: usize,
    /// The reply to FSINFO.
    pub fsinfo: FsInfo,
    /// The reply to PATHCONF.
    pub pathconf: PathConf,
}

/// See the module's prose.
pub trait Engine: Sized + 'static {
    /// The engine's facts about a file, besides those that a [`Vnode`] keeps.
    type Inode: Facts;
    /// An Update that is being planned.
    type Update: Plan;
    /// An Update that nothing can stop any more.
    type Ready;
    /// An Update that is applied in memory, and not staged yet.
    type Applied;
    /// Space that an Update freed. If this is dropped, no Update uses it while the volume is open.
    type Freed: 'static;
    /// A chunk of a directory.
    type Chunk: Chunk;
    /// Data whose blocks are placed and not yet written.
    type Payload;

    /// The limits of the volume.
    fn limits(&self) -> &Limits;
    /// The memory budget of all caches.
    fn budget(&self) -> &Budget;
    /// Drops blocks that no task needs until enough memory is free, or none is left.
    fn evict(&self);
    /// The data path to [`Place::Disk`]; without it there is no such place.
    fn data(&self) -> Option<&DataPath>;
    /// How full the volume is, for `who`: VFS_STATFS. Files without a name, `orphans` by count and
    /// bytes together, count as free.
    fn space(&self, who: &Credentials, orphans: (u64, u64)) -> FsStat;

    /// The file that has this number: VFS_VGET.
    ///
    /// # Errors
    /// [`FsError::Stale`] when there is none, [`FsError::Io`], [`FsError::Corrupt`].
    async fn load(&self, ino: u64) -> Result<File<Self>, FsError>;

    /// The attributes of a file without a [`Vnode`], perhaps without caching anything of it.
    /// Nothing is awaited between reading them and returning.
    ///
    /// # Errors
    /// As [`Engine::load`].
    async fn peek(&self, ino: u64) -> Result<Attributes, FsError> {
        Ok(self.load(ino).await?.attributes())
    }

    /// Creates a file with this Update, with its links; a directory with one chunk that is
    /// [`directory::chunk::first_chunk`], a symbolic link with its target: VALLOC.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Io`], [`FsError::Corrupt`].
    async fn create(
        &self,
        update: &mut Self::Update,
        parent: &File<Self>,
        new: &NewFile<'_>,
    ) -> Result<File<Self>, FsError>;

    /// Adds a link.
    ///
    /// # Errors
    /// [`FsError::TooManyLinks`].
    fn add_link(&self, update: &mut Self::Update, file: &File<Self>) -> Result<(), FsError>;

    /// Drops a link of a file that keeps at least one.
    fn drop_link(&self, update: &mut Self::Update, file: &File<Self>);

    /// Changes attributes: UPDATE.
    fn set_attributes(
        &self,
        update: &mut Self::Update,
        file: &File<Self>,
        change: &AttributeChange,
    );

    /// Sets the access time without an Update: no caller waits for it, and a crash may lose it.
    fn touch_access_time(&self, file: &Vnode<Self::Inode>, time: Timestamp);

    /// A file loses its last link (a directory: both), and all that it has goes back with this
    /// Update if that is little: VFREE. Says whether it was; else [`Engine::free_step`] is for it.
    ///
    /// # Errors
    /// [`FsError::Io`], [`FsError::Corrupt`].
    async fn free(&self, update: &mut Self::Update, file: &File<Self>) -> Result<bool, FsError>;

    /// Frees a bounded part of a file without links; returns whether that was the last.
    ///
    /// # Errors
    /// As [`Engine::free`].
    async fn free_step(
        &self,
        update: &mut Self::Update,
        file: &File<Self>,
    ) -> Result<bool, FsError>;

    /// Makes a file shorter, on its way to `size` bytes, by a bounded part: TRUNCATE. Returns the
    /// size that it has then.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] when its new end needs space; [`FsError::Io`], [`FsError::Corrupt`].
    async fn shrink_step(
        &self,
        update: &mut Self::Update,
        file: &File<Self>,
        size: u64,
    ) -> Result<u64, FsError>;

    /// Called when the Update of this sequence has made a file `size` bytes long, so that the
    /// contents behind its end may be cleared. No caller waits for it.
    async fn shortened(&self, _file: &File<Self>, _size: u64, _sequence: Sequence) {}

    /// The chunk of a directory that begins at byte `start` of it, as `update` leaves it: BLKATOFF.
    ///
    /// # Errors
    /// [`FsError::Io`], [`FsError::Corrupt`].
    async fn chunk(
        &self,
        update: Option<&Self::Update>,
        directory: &Vnode<Self::Inode>,
        start: u64,
    ) -> Result<Self::Chunk, FsError>;

    /// Adds an empty chunk at the end of a directory: BALLOC.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Io`], [`FsError::Corrupt`].
    async fn add_chunk(
        &self,
        update: &mut Self::Update,
        directory: &File<Self>,
    ) -> Result<Self::Chunk, FsError>;

    /// Changes an entry: BWRITE, with a meaning.
    fn set_entry(
        &self,
        update: &mut Self::Update,
        directory: &File<Self>,
        chunk: &Self::Chunk,
        entry: EntryChange,
    );

    /// Whether another entry may use these free bytes of a chunk: not while an older state of them
    /// may have to be restored.
    fn may_reuse(&self, _chunk: &Self::Chunk, _bytes: Range<usize>) -> bool {
        true
    }

    /// The location of a block of a file: BMAP.
    ///
    /// # Errors
    /// [`FsError::Io`], [`FsError::Corrupt`], [`FsError::FileTooLarge`].
    async fn place(&self, file: &Vnode<Self::Inode>, block: u64) -> Result<Place, FsError>;

    /// Blocks to reserve for one UNSTABLE block, in the worst case, given whether a block beside it
    /// was paid for already.
    ///
    /// # Errors
    /// As [`Engine::place`].
    async fn page_cost(
        &self,
        file: &Vnode<Self::Inode>,
        block: u64,
        has_neighbour: bool,
    ) -> Result<u64, FsError>;

    /// Reserves blocks.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] when there are too few.
    fn claim(&self, blocks: u64, space: Space) -> Result<(), FsError>;

    /// Releases reserved blocks, used or not.
    fn release(&self, blocks: u64);

    /// Whether a block that is rewritten moves, so that UNSTABLE data that is rewritten during its
    /// write-back needs space once more.
    fn moves_blocks(&self) -> bool {
        false
    }

    /// Whether a volume at rest may have unfinished chains, which the next start continues. A stop
    /// then leaves files without a name as they are, and waits for no large file to be freed.
    fn keeps_chains(&self) -> bool {
        false
    }

    /// Whether it takes blocks that share memory with others: [`Content::is_part`].
    fn takes_parts(&self) -> bool {
        false
    }

    /// The bytes of a block at `place` that must be known to write it, when a file that grows from
    /// the first of these sizes to the second has `new` bytes of it written.
    fn needed(
        &self,
        block: u64,
        place: &Place,
        new: Range<usize>,
        sizes: (u64, u64),
    ) -> Range<usize>;

    /// Places these blocks of a file that is to be `size` bytes long, and never shorter than it is:
    /// BALLOC. More blocks may join them. Also returns the blocks that readers see where they are
    /// written.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Io`], [`FsError::Corrupt`], [`FsError::FileTooLarge`].
    async fn plan_blocks(
        &self,
        update: &mut Self::Update,
        file: &File<Self>,
        set: &mut BTreeMap<u64, Content>,
        size: u64,
    ) -> Result<(Self::Payload, Vec<u64>), FsError>;

    /// Writes placed blocks, though not to stable storage; or arranges that they are written when
    /// the Update is durable, and visible when it is staged. Returns whether they were written.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Io`].
    async fn write_blocks(
        &self,
        update: &mut Self::Update,
        payload: Self::Payload,
    ) -> Result<bool, FsError>;

    /// Makes the file `size` bytes long with these blocks, and changes attributes along with it.
    fn end_blocks(
        &self,
        update: &mut Self::Update,
        file: &File<Self>,
        size: u64,
        change: &AttributeChange,
    );

    /// An empty Update that may take this space.
    fn begin(&self, space: Space) -> Self::Update;

    /// Waits until there is room to record an Update that is not empty.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if none comes, unless the Update continues an operation;
    /// [`FsError::Io`] when the volume has stopped.
    async fn reserve(&self, update: Self::Update) -> Result<Self::Ready, FsError>;

    /// Applies an Update, and gives it its sequence. `see` is called with each file whose inode has
    /// changed.
    fn apply(
        &self,
        ready: Self::Ready,
        see: impl FnMut(&File<Self>, Sequence),
    ) -> (Sequence, Self::Applied);

    /// Hands an applied Update over to be made durable, with the reply to be remembered with it.
    /// The Update does not become durable without the changes that this reply shows. The order was
    /// fixed by [`Engine::apply`]. Returns the space that it freed, if that is not free by now.
    fn stage(
        &self,
        applied: Self::Applied,
        answered: Option<(CallReply, Depends)>,
    ) -> Option<Self::Freed>;

    /// Lets the space that a durable Update freed be used again.
    async fn give_back(&self, freed: Self::Freed);

    /// Whether free space may appear that no Update gives back: the engine has not counted all of
    /// it.
    fn finds_space(&self) -> bool {
        false
    }

    /// Whether a crash may have left a directory with two names. The name to which its ".." leads
    /// counts.
    fn may_have_second_names(&self) -> bool {
        false
    }

    /// Waits until no directory has a second name any more.
    ///
    /// # Errors
    /// [`FsError::Jukebox`] when that takes long; [`FsError::Io`] when the scan has ended early.
    async fn looked_through(&self) -> Result<(), FsError> {
        Ok(())
    }

    /// Whether a name is known to lead to a file, where a crash may have taken it.
    fn is_found(&self, _ino: u64) -> bool {
        true
    }

    /// Notes that a caller came to a file by a name.
    fn note_found(&self, _ino: u64) {}

    /// Keeps a file, and waits until it has a name or is gone.
    ///
    /// # Errors
    /// [`FsError::Jukebox`] when that takes long; [`FsError::Io`] when the scan has ended early.
    async fn find(&self, _ino: u64) -> Result<(), FsError> {
        Ok(())
    }

    /// Asks the engine's background work to end, because a stop is near: no call should wait for
    /// it.
    fn ask_to_end(&self) {}

    /// Ends the engine's background work. A stop begins with this.
    async fn end_background(&self) {}

    /// The snapshots found at the opening; none where the engine has no snapshots. The verbs below
    /// that deal with snapshots are then never called.
    fn found_snapshots(&self) -> Option<FoundSnapshots> {
        None
    }

    /// Makes, deletes or rolls back to a snapshot.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] when there is not enough room to hold one more.
    fn change_snapshots(
        &self,
        _update: &mut Self::Update,
        _change: SnapshotChange,
    ) -> Result<(), FsError> {
        Err(FsError::NotSupported)
    }

    /// The file that has this number in a snapshot, made by [`Vnode::held`]. The snapshot may be
    /// deleted meanwhile. Afterwards the file is only read: its chunks, and the places of its
    /// blocks.
    ///
    /// # Errors
    /// [`FsError::Stale`] when there is none; [`FsError::Io`], [`FsError::Corrupt`].
    async fn load_held(&self, _tree: SnapshotNumber, _ino: u64) -> Result<File<Self>, FsError> {
        Err(FsError::Stale)
    }

    /// Frees a bounded part of the space that a deleted snapshot alone holds; returns whether that
    /// was the last. No reader has a file of it any more.
    ///
    /// # Errors
    /// [`FsError::Io`], [`FsError::Corrupt`].
    async fn delete_held(
        &self,
        _update: &mut Self::Update,
        _tree: SnapshotNumber,
    ) -> Result<bool, FsError> {
        Err(FsError::NotSupported)
    }

    /// Space that each of these snapshots takes.
    fn snapshot_usage(&self, trees: &[SnapshotNumber]) -> Vec<SnapshotUsage> {
        vec![SnapshotUsage::default(); trees.len()]
    }

    /// Notified whenever space becomes free.
    fn released(&self) -> &Signal;
    /// How far the volume is durable. The engine advances it at its commit point.
    fn horizon(&self) -> &Horizon;

    /// Completes when Updates get no room before there is more room below the disk.
    fn no_room_comes(&self) -> LocalBoxFuture<'static, ()> {
        std::future::pending().boxed_local()
    }

    /// Waits until all Updates staged now are written in place: FSYNC of all.
    ///
    /// # Errors
    /// [`Lost`] after a failure.
    async fn settle(&self) -> Result<(), Lost>;

    /// Writes changes that have no Update in place. A failure stops the volume.
    async fn write_times(&self) {}

    /// Counts a call answered from memory; `over_a_start` if it was carried out before the last
    /// start.
    fn count_repetition(&self, _over_a_start: bool) {}

    /// The volume is idle and everything is written in place: notes that, except for the clean
    /// mark.
    ///
    /// # Errors
    /// [`FsError::Io`]; [`FsError::NoSpace`] when there was no room below: the caller can retry.
    async fn come_to_rest(&self) -> Result<(), FsError>;

    /// Marks the disk clean. Comes last.
    ///
    /// # Errors
    /// As [`Engine::come_to_rest`].
    async fn close(&self) -> Result<(), FsError>;
}

/// Bytes of a block that is in memory: its [`Place`] is [`Place::Memory`].
pub(crate) fn of_memory(data: &Bytes, range: Range<usize>) -> Bytes {
    let end = range.end.min(data.len());
    data.slice(range.start.min(end)..end)
}
