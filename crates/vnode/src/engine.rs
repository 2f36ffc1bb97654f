//! What tells one engine from another.
//!
//! [`Files`](crate::Files) keeps files in memory: their pages, their names, which caller waits for
//! what. It asks an engine for what differs: where an inode and a block are, how a change of them
//! is noted, and when that is durable. Verbs that take an Update only plan. They may wait and may
//! fail, and an Update that is dropped leaves no trace. [`Engine::reserve`] is the last of them;
//! from [`Engine::apply`] to [`Engine::stage`] nothing waits and nothing fails.
//!
//! The verb of 4.4BSD's `ufs/ufs` stands beside ours.
//!
//! What an engine promises:
//! 1. What an Update changes becomes durable as a whole or not at all, as far as its policy goes,
//!    and the [`Horizon`] passes its sequence when it is, and not before.
//! 2. What an Update freed is used by no other Update before [`Engine::give_back`].
//! 3. Readers see what was applied at once, from memory, whatever the disk has.
//! 4. A claim for blocks holds: writing back that many never meets a full disk.
//! 5. Updates that change the same field of an inode, the same block of a file or what stands at
//!    the same place of a directory become durable in their order. Others may overtake each other,
//!    if the horizon says so, but for what they rest on ([`Manner::rests_on`]) and what a
//!    remembered answer shows ([`Engine::stage`]). An engine whose horizon passes in order is not
//!    told what a move of a directory rests on: there '..' of two directories land in order, too.
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

/// A file of an engine, in memory.
pub type File<E> = Rc<Vnode<<E as Engine>::Inode>>;

/// Which space an Update may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// What is above the reserve.
    User,
    /// All of it.
    Superuser,
    /// What was set aside for it before: checked then.
    Reserved,
}

impl Space {
    /// What `who` may take.
    pub fn of(who: &Credentials) -> Self {
        if who.is_root() { Self::Superuser } else { Self::User }
    }
}

/// How an Update is to be carried out, whatever it changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// It only brings UNSTABLE data home: see [`Vnode`], invariant 4.
    pub is_unasked: bool,
    /// It may wait for others: its receipt is asked for when it is wanted.
    pub may_wait_for_batch: bool,
    /// It goes on with something that has begun, and so waits for room however long that takes.
    pub goes_on: bool,
    /// It sets attributes, and nothing of these may be seen before all of it may: where an inode
    /// lands by parts, it lands as a whole.
    pub lands_whole: bool,
    /// The chain of Updates that begins or ends with it.
    pub chain: Option<ChainLink>,
    /// What must be durable before it is, besides what promise 5 says. Nothing where Updates become
    /// durable in their order.
    pub rests_on: Depends,
}

/// What an operation changes, while it is being planned.
pub trait Plan {
    /// Whether it would change nothing.
    fn is_empty(&self) -> bool;
    /// How it is to be carried out.
    fn manner(&mut self) -> &mut Manner;
}

/// A chunk of a directory, which stays in memory as long as this is held.
pub trait Chunk {
    /// Looks at its bytes, of which there are [`directory::entry::CHUNK_SIZE`].
    fn read<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T;
}

/// What happens to a name.
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
    /// What it means.
    pub change: NameChange,
    /// The byte of the chunk at which the entry begins.
    pub offset: usize,
    /// The file that it names from now on, and what that is; none for a name that goes.
    pub target: Option<(u64, FileKind)>,
    /// Bytes of the chunk to set besides, each from an offset on: record lengths and a name, which
    /// mean nothing without a target. They need not be undone.
    pub layout: Vec<(usize, Box<[u8]>)>,
}

/// What an Update does to the snapshots of a volume. It does nothing else.
#[derive(Clone, Debug)]
pub enum SnapshotChange {
    /// This one is made: it holds what every reader sees when the Update is applied. No truncation
    /// is in its middle then. A file without a name may be: no reader finds it in the snapshot.
    Pinned(Snapshot),
    /// This one is to be deleted since then, and is found no more.
    Deleted(SnapshotNumber, Timestamp),
    /// The live tree is what this one holds, from the next opening on. Answers that are remembered
    /// are forgotten, and so are chains, whose files are others then. The files that the snapshot
    /// holds without a name get chains of their own, which free them from the next opening on.
    /// Numbers that were given away stay so.
    RolledBack(SnapshotNumber),
}

/// What does not change while a volume is open.
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
    /// What FSINFO says.
    pub fsinfo: FsInfo,
    /// What PATHCONF says.
    pub pathconf: PathConf,
}

/// See the module's prose.
pub trait Engine: Sized + 'static {
    /// What is known of a file besides what a [`Vnode`] keeps.
    type Inode: Facts;
    /// What is planned.
    type Update: Plan;
    /// An Update that nothing can stop any more.
    type Ready;
    /// It is in memory, and not handed over yet.
    type Applied;
    /// What it freed. Dropped, it is used by no Update as long as the volume is open.
    type Freed: 'static;
    /// A chunk of a directory.
    type Chunk: Chunk;
    /// Data that has found its place and is not written.
    type Payload;

    /// What does not change.
    fn limits(&self) -> &Limits;
    /// What all that is kept in memory may take.
    fn budget(&self) -> &Budget;
    /// Drops blocks that no task needs until enough memory is free, or none is left.
    fn evict(&self);
    /// The way to [`Place::Disk`]; without it there is no such place.
    fn data(&self) -> Option<&DataPath>;
    /// How full the volume is, for `who`: VFS_STATFS. Files without a name, so many of so many
    /// bytes together, count as free.
    fn space(&self, who: &Credentials, orphans: (u64, u64)) -> FsStat;

    /// The file that has this number: VFS_VGET.
    ///
    /// # Errors
    /// [`FsError::Stale`] when there is none, [`FsError::Io`], [`FsError::Corrupt`].
    async fn load(&self, ino: u64) -> Result<File<Self>, FsError>;

    /// What is to be told of a file that no [`Vnode`] is for, perhaps without keeping anything of
    /// it. Nothing is awaited between looking at it and returning.
    ///
    /// # Errors
    /// As [`Engine::load`].
    async fn peek(&self, ino: u64) -> Result<Attributes, FsError> {
        Ok(self.load(ino).await?.attributes())
    }

    /// A file that begins with this Update, with its links; a directory with one chunk that is
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

    /// One link more.
    ///
    /// # Errors
    /// [`FsError::TooManyLinks`].
    fn add_link(&self, update: &mut Self::Update, file: &File<Self>) -> Result<(), FsError>;

    /// One link less, of a file that keeps at least one.
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

    /// Gives back a bounded part of a file without links; says whether that was the last.
    ///
    /// # Errors
    /// As [`Engine::free`].
    async fn free_step(
        &self,
        update: &mut Self::Update,
        file: &File<Self>,
    ) -> Result<bool, FsError>;

    /// Makes a file shorter, on its way to `size` bytes, by a bounded part: TRUNCATE. Gives the
    /// size that it has then.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] when its new end needs some; [`FsError::Io`], [`FsError::Corrupt`].
    async fn shrink_step(
        &self,
        update: &mut Self::Update,
        file: &File<Self>,
        size: u64,
    ) -> Result<u64, FsError>;

    /// A file is `size` bytes long with the Update of this sequence, and what stood behind that may
    /// be cleared. No caller waits for it.
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

    /// An empty chunk more at the end of a directory: BALLOC.
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

    /// Whether these bytes of a chunk, which no entry has, may be given to another: not while an
    /// older state of them may have to be restored.
    fn may_reuse(&self, _chunk: &Self::Chunk, _bytes: Range<usize>) -> bool {
        true
    }

    /// Where a block of a file is: BMAP.
    ///
    /// # Errors
    /// [`FsError::Io`], [`FsError::Corrupt`], [`FsError::FileTooLarge`].
    async fn place(&self, file: &Vnode<Self::Inode>, block: u64) -> Result<Place, FsError>;

    /// Blocks to set aside for one that is written UNSTABLE, in the worst case; whether one beside
    /// it was paid for already.
    ///
    /// # Errors
    /// As [`Engine::place`].
    async fn page_cost(
        &self,
        file: &Vnode<Self::Inode>,
        block: u64,
        has_neighbour: bool,
    ) -> Result<u64, FsError>;

    /// Sets blocks aside.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] when they are not there.
    fn claim(&self, blocks: u64, space: Space) -> Result<(), FsError>;

    /// Gives blocks back that were set aside, used or not.
    fn release(&self, blocks: u64);

    /// Whether a block that is written again has another place then, so that UNSTABLE data needs
    /// room once more when it is written anew while it is on its way.
    fn moves_blocks(&self) -> bool {
        false
    }

    /// Whether a volume at rest may have chains that are not finished: the next start goes on with
    /// them. A stop leaves files without a name as they are then, and waits for no large file to be
    /// freed.
    fn keeps_chains(&self) -> bool {
        false
    }

    /// Whether it takes blocks that have their memory together with others: [`Content::is_part`].
    fn takes_parts(&self) -> bool {
        false
    }

    /// Which bytes of a block that is at `place` are needed to write it, when a file that grows
    /// from the first of these sizes to the second has `new` bytes of it written.
    fn needed(
        &self,
        block: u64,
        place: &Place,
        new: Range<usize>,
        sizes: (u64, u64),
    ) -> Range<usize>;

    /// Finds a place for these blocks of a file that is to be `size` bytes long, and never shorter
    /// than it is: BALLOC. More blocks may join them. Gives those, too, that readers see where they
    /// are written.
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

    /// Writes them, though not to stable storage; or sees to it that they are when the Update is
    /// durable, and seen when it is staged. Says whether they were written.
    ///
    /// # Errors
    /// [`FsError::NoSpace`], [`FsError::Io`].
    async fn write_blocks(
        &self,
        update: &mut Self::Update,
        payload: Self::Payload,
    ) -> Result<bool, FsError>;

    /// Makes the file `size` bytes long with them, and changes attributes along with it.
    fn end_blocks(
        &self,
        update: &mut Self::Update,
        file: &File<Self>,
        size: u64,
        change: &AttributeChange,
    );

    /// An empty Update that may take this space.
    fn begin(&self, space: Space) -> Self::Update;

    /// Waits until there is room for an Update that is not empty where the engine notes it.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if none comes, unless it goes on with something; [`FsError::Io`] when
    /// the volume has stopped.
    async fn reserve(&self, update: Self::Update) -> Result<Self::Ready, FsError>;

    /// Applies it, and gives it its sequence. `see` is told each file whose inode is another now.
    fn apply(
        &self,
        ready: Self::Ready,
        see: impl FnMut(&File<Self>, Sequence),
    ) -> (Sequence, Self::Applied);

    /// Hands it over to be made durable, with the answer that is to be remembered with it, and not
    /// without the changes which that shows. The order was fixed by [`Engine::apply`]. Gives what
    /// it freed, if that is not free by now.
    fn stage(
        &self,
        applied: Self::Applied,
        answered: Option<(CallReply, Depends)>,
    ) -> Option<Self::Freed>;

    /// What was freed by an Update that is durable may be used again.
    async fn give_back(&self, freed: Self::Freed);

    /// Whether space may show that no Update gives back: the engine has not counted all of it.
    fn finds_space(&self) -> bool {
        false
    }

    /// Whether a directory may have two names that a cut has left, of which the one counts to which
    /// its ".." leads.
    fn may_have_second_names(&self) -> bool {
        false
    }

    /// Waits until no directory has a second name any more.
    ///
    /// # Errors
    /// [`FsError::Jukebox`] when that takes long; [`FsError::Io`] when none is looked for any more.
    async fn looked_through(&self) -> Result<(), FsError> {
        Ok(())
    }

    /// Whether a name is known to lead to a file, where a cut may have taken it.
    fn is_found(&self, _ino: u64) -> bool {
        true
    }

    /// A caller came by a name to a file.
    fn note_found(&self, _ino: u64) {}

    /// Keeps a file, and waits until it has a name, if it has none; or is gone.
    ///
    /// # Errors
    /// [`FsError::Jukebox`] when that takes long; [`FsError::Io`] when nobody looks any more.
    async fn find(&self, _ino: u64) -> Result<(), FsError> {
        Ok(())
    }

    /// Tells what the engine does by itself to end, so that no call waits for it: a stop is near.
    fn ask_to_end(&self) {}

    /// Ends what the engine does by itself while it is served. A stop begins with it.
    async fn end_background(&self) {}

    /// The snapshots that it had when it was opened; none where it cannot have any. The verbs below
    /// that speak of snapshots are then not asked for.
    fn found_snapshots(&self) -> Option<FoundSnapshots> {
        None
    }

    /// Changes which snapshots there are.
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
    /// deleted meanwhile. What is asked of the file afterwards is what readers ask: its chunks, the
    /// places of its blocks.
    ///
    /// # Errors
    /// [`FsError::Stale`] when there is none; [`FsError::Io`], [`FsError::Corrupt`].
    async fn load_held(&self, _tree: SnapshotNumber, _ino: u64) -> Result<File<Self>, FsError> {
        Err(FsError::Stale)
    }

    /// Gives back a bounded part of what a deleted snapshot alone holds; says whether that was the
    /// last. No reader has a file of it any more.
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

    /// What each of these snapshots takes.
    fn snapshot_usage(&self, trees: &[SnapshotNumber]) -> Vec<SnapshotUsage> {
        vec![SnapshotUsage::default(); trees.len()]
    }

    /// Told whenever space becomes free.
    fn released(&self) -> &Signal;
    /// How far the volume is durable. The engine advances it at its commit point.
    fn horizon(&self) -> &Horizon;

    /// Completes when no room comes for Updates before there is more room below the disk.
    fn no_room_comes(&self) -> LocalBoxFuture<'static, ()> {
        std::future::pending().boxed_local()
    }

    /// Waits until all that is staged now is home: FSYNC of all.
    ///
    /// # Errors
    /// [`Lost`] after a failure.
    async fn settle(&self) -> Result<(), Lost>;

    /// Brings home what was changed without an Update. A failure stops the volume.
    async fn write_times(&self) {}

    /// A call was answered from memory; `over_a_start` if it was carried out before the last start.
    fn count_repetition(&self, _over_a_start: bool) {}

    /// Nothing is asked for any more, and everything is home: notes that, but for what says so.
    ///
    /// # Errors
    /// [`FsError::Io`]; [`FsError::NoSpace`] when there was no room below: it can be tried again.
    async fn come_to_rest(&self) -> Result<(), FsError>;

    /// Leaves the disk clean. Comes last.
    ///
    /// # Errors
    /// As [`Engine::come_to_rest`].
    async fn close(&self) -> Result<(), FsError>;
}

/// Bytes of a file that is in memory, in a block whose [`Place`] is [`Place::Memory`].
pub(crate) fn of_memory(data: &Bytes, range: Range<usize>) -> Bytes {
    let end = range.end.min(data.len());
    data.slice(range.start.min(end)..end)
}
