//! The engine: FFS, in the words of [`vnode::Engine`].
//!
//! [`Engine::apply`] changes the buffers and gives an Update its sequence; [`Engine::stage`] hands
//! it to the policy. Between them nothing waits and nothing fails: whatever could, has been done
//! while the Update was prepared.
//!
//! Invariants:
//! 1. Group buffers, promises and pointers need no lock, since they are changed between two awaits.
//! 2. What an Update frees goes back to the allocator when the Update is durable, in order.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::take;
use std::ops::Range;
use std::rc::Rc;

use cache::{Budget, DataPath};
use futures::future::LocalBoxFuture;
use namespace::{AttributeChange, NewFile};
use runtime::Runtime;
use runtime::sync::{Semaphore, Signal};
use ufs2::layout::{Dinode, Geometry, MAX_LINKS, ROOT_INODE};
use vfs::{
    Answered, Attributes, Credentials, FsError, FsInfo, FsStat, Lost, MAX_NAME, ObjectId, PathConf,
    Sequence, Timestamp,
};
use vnode::horizon::Horizon;
use vnode::{Content, Engine, EntryChange, Limits, Place, Space};
use zerocopy::little_endian::I16;

use crate::alloc::{Allocator, EndRoom, Freed};
use crate::chunks::DirectoryChunk;
use crate::content::Payload;
use crate::home::Home;
use crate::inode::{Inode, Node, OnDisk, change_attributes};
use crate::item::Intent;
use crate::map::Map;
use crate::open_superblock::OpenSuperblock;
use crate::planted::{Bug, is_planted};
use crate::policy::log::LogStatistics;
use crate::policy::{Policy, Staged, StagedUpdate};
use crate::recent_blocks::RecentBlocks;
use crate::update::{Ready, Update};

/// The longest target of a symbolic link that Linux follows. It fits into the smallest block.
/// FreeBSD keeps longer ones than it follows, whose targets have 1,023 bytes at most.
const MAX_TARGET: usize = 4095;

/// An engine over a disk in the UFS2 format; [`crate::Files`] serve it.
pub struct Ffs {
    pub(crate) home: Rc<Home>,
    pub(crate) allocator: Rc<Allocator>,
    pub(crate) policy: Rc<dyn Policy>,
    pub(crate) runtime: Runtime,
    /// What the superblock says, and what it is to say after a clean stop.
    pub(crate) superblock: RefCell<OpenSuperblock>,
    pub(crate) recent_blocks: RecentBlocks,
    /// One initialisation of inodes at a time.
    pub(crate) inode_growth: Rc<Semaphore>,
    limits: Limits,
}

/// What an engine is made of; see [`crate::mount`].
pub(crate) struct Parts {
    pub home: Rc<Home>,
    pub allocator: Rc<Allocator>,
    pub policy: Rc<dyn Policy>,
    pub runtime: Runtime,
    pub read_only: bool,
    pub superblock: OpenSuperblock,
    pub root: ObjectId,
}

/// An Update that the buffers have, and the policy has not.
pub struct Applied {
    sequence: Sequence,
    staged: StagedUpdate,
    freed: Vec<Freed>,
    end_room: Option<EndRoom>,
}

/// Fragments and inodes that an Update freed.
pub struct GivenUp {
    freed: Vec<Freed>,
    /// What it took is there again when what it gave back is.
    _end_room: Option<EndRoom>,
}

impl Ffs {
    pub(crate) fn new(parts: Parts) -> Rc<Self> {
        let geometry = parts.home.geometry();
        let limits = Limits {
            root: parts.root,
            block_size: geometry.block_size,
            capacity: geometry.data_size * geometry.fragment_size,
            max_target: MAX_TARGET,
            fsinfo: FsInfo {
                max_file_size: geometry.max_file_size.min(i64::MAX as u64),
                block_size: geometry.block_size as u32,
                time_delta: Timestamp { seconds: 0, nanoseconds: 1 },
                read_only: parts.read_only,
            },
            pathconf: PathConf { link_max: MAX_LINKS, name_max: MAX_NAME as u32 },
        };
        Rc::new(Self {
            home: parts.home,
            allocator: parts.allocator,
            policy: parts.policy,
            runtime: parts.runtime,
            superblock: RefCell::new(parts.superblock),
            recent_blocks: RecentBlocks::default(),
            inode_growth: Semaphore::new(1),
            limits,
        })
    }

    /// Where is what.
    pub fn geometry(&self) -> &Geometry {
        self.home.geometry()
    }

    /// What its log is doing, if it has one.
    pub fn log_statistics(&self) -> Option<LogStatistics> {
        self.policy.log_statistics()
    }

    pub(crate) fn map(&self) -> Map<'_> {
        Map { home: &self.home, allocator: &self.allocator }
    }

    /// Seals an inode for the disk.
    fn seal(&self) -> impl Fn(&mut Dinode) + use<> {
        let geometry = self.home.geometry().clone();
        move |dinode| geometry.seal_inode(dinode)
    }

    /// Reserves, applies and stages an Update of its own, with which no file changes that is in
    /// memory, and which frees nothing.
    ///
    /// # Errors
    /// As [`Engine::reserve`].
    pub(crate) async fn commit(&self, update: Update) -> Result<Sequence, FsError> {
        let (sequence, applied) = self.apply(self.reserve(update).await?, |_, _| ());
        let freed = self.stage(applied, None);
        assert!(freed.is_none(), "who frees something has to give it back");
        Ok(sequence)
    }

    /// Takes in what an Update has made, and holds what it frees.
    fn take_buffers(&self, update: &Update) {
        for freed in &update.freed {
            self.allocator.hold_freed(freed);
        }
        for buffer in &update.fresh {
            self.home.install(buffer);
        }
        for (buffer, size) in &update.grown {
            self.home.grow(buffer, *size);
        }
    }
}

impl Engine for Ffs {
    type Inode = Inode;
    type Update = Update;
    type Ready = Ready;
    type Applied = Applied;
    type Freed = GivenUp;
    type Chunk = DirectoryChunk;
    type Payload = Payload;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn budget(&self) -> &Budget {
        self.home.budget()
    }

    fn evict(&self) {
        self.home.evict();
    }

    fn data(&self) -> Option<&DataPath> {
        Some(self.home.data())
    }

    fn space(&self, who: &Credentials, (orphans, used): (u64, u64)) -> FsStat {
        let geometry = self.geometry();
        let bytes = |fragments: i64| fragments.max(0) as u64 * geometry.fragment_size;
        // What an answered removal gave back counts as free, though it may take a moment until it
        // can be used: whoever asks just after it expects that.
        let (fragments, inodes) = self.allocator.leaving();
        let orphaned = (used / geometry.fragment_size) as i64;
        let free = self.allocator.free_space() + fragments + orphaned;
        let free_files = self.allocator.free_inodes() + inodes + orphans as i64;
        let free_files = free_files.max(0) as u64;
        let kept = if who.is_root() { self.allocator.kept() } else { self.allocator.reserve() };
        FsStat {
            total_bytes: geometry.data_size * geometry.fragment_size,
            free_bytes: bytes(free),
            available_bytes: bytes(free - kept),
            total_files: geometry.inode_count() - ROOT_INODE,
            free_files,
            available_files: free_files,
        }
    }

    async fn load(&self, ino: u64) -> Result<Rc<Node>, FsError> {
        self.load_inode(ino).await
    }

    async fn peek(&self, ino: u64) -> Result<Attributes, FsError> {
        self.look_at_inode(ino).await
    }

    async fn create(
        &self,
        update: &mut Update,
        parent: &Rc<Node>,
        new: &NewFile<'_>,
    ) -> Result<Rc<Node>, FsError> {
        self.make(update, parent, new).await
    }

    fn add_link(&self, update: &mut Update, node: &Rc<Node>) -> Result<(), FsError> {
        let links = update.dinode(node).links.get();
        if links as u32 >= MAX_LINKS {
            return Err(FsError::TooManyLinks);
        }
        update.change_inode(node, Intent::LinkAdded, |dinode| dinode.links.set(links + 1));
        Ok(())
    }

    fn drop_link(&self, update: &mut Update, node: &Rc<Node>) {
        update.change_inode(node, Intent::LinkDropped, |dinode| {
            dinode.links = I16::new((dinode.links.get() - 1).max(0));
        });
    }

    fn set_attributes(&self, update: &mut Update, node: &Rc<Node>, change: &AttributeChange) {
        update.touch_inode(node, |dinode| change_attributes(change, node.kind, dinode));
    }

    fn touch_access_time(&self, node: &Node, time: Timestamp) {
        node.touch_inode(|inode| inode.touch_access_time(time, self.seal()));
    }

    async fn free(&self, update: &mut Update, node: &Rc<Node>) -> Result<bool, FsError> {
        self.free_small(update, node).await
    }

    async fn free_step(&self, update: &mut Update, node: &Rc<Node>) -> Result<bool, FsError> {
        self.free_part(update, node).await
    }

    async fn shrink_step(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        size: u64,
    ) -> Result<u64, FsError> {
        self.cut_part(update, node, size).await
    }

    async fn shortened(&self, node: &Rc<Node>, size: u64, sequence: Sequence) {
        // The file is as it is to be, whatever comes of this.
        let _ = self.clear_tail(node, size, sequence).await;
    }

    async fn chunk(
        &self,
        update: Option<&Update>,
        directory: &Node,
        start: u64,
    ) -> Result<DirectoryChunk, FsError> {
        self.chunk_at(update, directory, start).await
    }

    async fn add_chunk(
        &self,
        update: &mut Update,
        directory: &Rc<Node>,
    ) -> Result<DirectoryChunk, FsError> {
        self.grow_directory(update, directory).await
    }

    fn set_entry(
        &self,
        update: &mut Update,
        directory: &Rc<Node>,
        chunk: &DirectoryChunk,
        entry: EntryChange,
    ) {
        self.change_entry(update, directory, chunk, entry);
    }

    fn may_reuse(&self, chunk: &DirectoryChunk, bytes: Range<usize>) -> bool {
        !self.is_pending(chunk, bytes)
    }

    async fn place(&self, node: &Node, block: u64) -> Result<Place, FsError> {
        let address = self.map().find(node, None, block).await?;
        Ok(match address {
            0 => Place::Hole,
            address => Place::Disk(self.geometry().byte_address(address)),
        })
    }

    async fn page_cost(
        &self,
        node: &Node,
        block: u64,
        has_neighbour: bool,
    ) -> Result<u64, FsError> {
        self.blocks_of_page(node, block, has_neighbour).await
    }

    fn claim(&self, blocks: u64, space: Space) -> Result<(), FsError> {
        self.allocator.reserve_blocks(blocks, space != Space::User)
    }

    fn release(&self, blocks: u64) {
        self.allocator.unreserve_blocks(blocks);
    }

    fn needed(
        &self,
        block: u64,
        place: &Place,
        new: Range<usize>,
        sizes: (u64, u64),
    ) -> Range<usize> {
        self.needed_part(block, place, new, sizes)
    }

    async fn plan_blocks(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        set: &mut BTreeMap<u64, Content>,
        size: u64,
    ) -> Result<(Payload, Vec<u64>), FsError> {
        self.find_places(update, node, set, size).await
    }

    async fn write_blocks(&self, update: &mut Update, payload: Payload) -> Result<bool, FsError> {
        self.write_payload(update, payload.runs()).await?;
        Ok(!update.carried.is_delayed)
    }

    fn end_blocks(
        &self,
        update: &mut Update,
        node: &Rc<Node>,
        size: u64,
        change: &AttributeChange,
    ) {
        self.point_at_blocks(update, node, size, change);
    }

    fn begin(&self, space: Space) -> Update {
        Update::new(space)
    }

    async fn reserve(&self, update: Update) -> Result<Ready, FsError> {
        let room = self.policy.reserve(&update).await?;
        Ok(Ready { update, room })
    }

    fn apply(&self, ready: Ready, mut see: impl FnMut(&Rc<Node>, Sequence)) -> (Sequence, Applied) {
        let Ready { mut update, room } = ready;
        let nodes = update.finish(self.seal());
        let sequence = self.policy.next_sequence();
        let ranks = self.policy.rank(&update.items);
        if is_planted(Bug::EarlyReuse) {
            update.freed.retain(|freed| self.allocator.holds_metadata(freed));
        }
        self.take_buffers(&update);
        let mut staged = Vec::with_capacity(update.items.len());
        for (item, rank) in update.items.drain(..).zip(ranks) {
            let intent = item.intent;
            let change = item.change.map(|(buffer, edit)| {
                let extent = edit.extent();
                buffer.apply(sequence, rank, edit);
                (buffer, extent)
            });
            staged.push(Staged { intent, change, rank });
        }
        let staged = StagedUpdate {
            items: staged,
            payload: take(&mut update.payload),
            carried: update.carried,
            freed: update.freed.iter().filter_map(|freed| self.allocator.run_of(freed)).collect(),
            chain: update.manner.chain,
            answered: None,
            may_wait_for_batch: update.manner.may_wait_for_batch,
            room,
        };
        update.promises.drain(..).for_each(crate::alloc::Promise::keep);
        for (node, dinode) in nodes {
            node.set_dinode(dinode);
            see(&node, sequence);
        }
        for (ino, change) in update.directories.drain(..) {
            self.allocator.count_directory(ino, change);
        }
        let (freed, end_room) = (take(&mut update.freed), update.end_room.take());
        (sequence, Applied { sequence, staged, freed, end_room })
    }

    fn stage(&self, applied: Applied, answered: Option<Answered>) -> Option<GivenUp> {
        let Applied { sequence, mut staged, freed, end_room } = applied;
        staged.answered = answered;
        self.policy.stage(sequence, staged);
        let has_freed = !freed.is_empty();
        has_freed.then(|| GivenUp { freed, _end_room: end_room })
    }

    async fn give_back(&self, given: GivenUp) {
        let GivenUp { freed, _end_room } = given;
        for freed in freed {
            if let Some((address, count)) = self.allocator.run_of(&freed) {
                self.policy.drain_block(address, count).await;
            }
            self.allocator.free(freed);
        }
    }

    fn released(&self) -> &Signal {
        &self.allocator.released
    }

    fn horizon(&self) -> &Horizon {
        self.policy.horizon()
    }

    fn no_room_comes(&self) -> LocalBoxFuture<'static, ()> {
        self.policy.no_room_comes()
    }

    async fn settle(&self) -> Result<(), Lost> {
        self.policy.settle().await
    }

    async fn write_times(&self) {
        if !self.home.dirty_buffers().is_empty() {
            let _ = self.policy.settle().await; // a failure has stopped the volume
        }
    }

    fn count_repetition(&self, over_a_start: bool) {
        self.policy.count_repetition(over_a_start);
    }

    async fn come_to_rest(&self) -> Result<(), FsError> {
        self.bring_all_home().await
    }

    async fn close(&self) -> Result<(), FsError> {
        self.say_clean().await
    }
}
