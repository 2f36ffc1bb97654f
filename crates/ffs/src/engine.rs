//! The engine: inodes in memory, and the one place where an Update is applied.
//!
//! [`Ffs::apply`] is *apply and stage*: from its first line to its last nothing waits and nothing
//! fails. Whatever could, has been done while the Update was prepared.
//!
//! Invariants:
//! 1. Object locks are taken in the order of inode numbers; group buffers, promises and index
//!    changes need no lock, since they are changed between two awaits.
//! 2. What an Update frees goes back to the allocator when the Update is durable, in order.
//! 3. A freed inode leaves its sequence behind until that is durable, so that the reply that says
//!    *stale* waits for the removal that made it so.
//! 4. A file that is being changed in steps, and whose disk fails in between, is used no more
//!    before the volume is opened anew, and the volume does not become clean: what goes on then
//!    must find it as it was.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::mem::take;
use std::pin::pin;
use std::rc::{Rc, Weak};

use directory::index::NameHash;
use futures::FutureExt;
use futures::future::{Either, select};
use namespace::Witness;
use runtime::Runtime;
use runtime::sync::{Permit, Semaphore};
use ufs2::layout::{Dinode, Geometry, GroupHeader};
use vfs::{
    FileKind, FsError, Ledger, ObjectId, Receipt, Remembered, Sequence, Timestamp, Verifier,
};

use crate::alloc::{Allocator, EndRoom, Freed};
use crate::buffer::{Buffer, Role};
use crate::chain::ChainLink;
use crate::doubts::Doubts;
use crate::home::Home;
use crate::inode::Node;
use crate::map::Map;
use crate::nodes::Nodes;
use crate::open_superblock::{OpenSuperblock, Stop};
use crate::planted::{Bug, is_planted};
use crate::policy::log::LogStatistics;
use crate::policy::{Policy, Staged, StagedUpdate};
use crate::recent_blocks::RecentBlocks;
use crate::scans::Scans;
use crate::update::{Ready, Update};

/// Chains of Updates that may be under way at once: a log tells of all of them in one entry.
const MOST_CHAINS: u64 = 64;

/// A UFS2 volume that is being served.
pub struct Ffs {
    pub(crate) home: Rc<Home>,
    pub(crate) allocator: Rc<Allocator>,
    pub(crate) policy: Rc<dyn Policy>,
    pub(crate) ledger: Rc<dyn Ledger>,
    pub(crate) runtime: Runtime,
    pub(crate) read_only: bool,
    /// What the superblock says, and what it is to say after a clean stop.
    pub(crate) superblock: RefCell<Option<OpenSuperblock>>,
    pub(crate) stop: Cell<Stop>,
    root: ObjectId,
    /// Bytes of dirty pages that may wait in memory, and those that do.
    pub(crate) dirty_limit: u64,
    pub(crate) dirty_bytes: Cell<u64>,
    pub(crate) dirty_nodes: RefCell<BTreeMap<u64, Rc<Node>>>,
    /// Tasks that land pages in the background.
    pub(crate) writes_behind: Cell<u64>,
    /// Calls that are landing data now.
    pub(crate) write_backs: Cell<u64>,
    /// Data whose write failed.
    pub(crate) doubts: RefCell<Doubts>,
    verifier: Cell<Verifier>,
    /// Files in memory; see [`crate::nodes`].
    pub(crate) nodes: Nodes,
    pub(crate) scans: Scans,
    pub(crate) name_hash: NameHash,
    pub(crate) recent_blocks: RecentBlocks,
    /// What to give back, and whose sequence to forget, when an Update is durable.
    leaving: RefCell<VecDeque<Leaving>>,
    /// Sequences of freed inodes (invariant 3).
    gone: RefCell<BTreeMap<u64, Sequence>>,
    /// Answers that survived, until somebody takes them.
    pub(crate) remembered: Cell<Vec<Remembered>>,
    /// Large files without a name that are being freed.
    pub(crate) orphans: RefCell<BTreeMap<u64, Rc<Node>>>,
    /// Files with a chain that has not ended.
    unfinished: RefCell<BTreeSet<u64>>,
    /// Those of them that cannot go on (invariant 4).
    stuck: RefCell<BTreeSet<u64>>,
    /// So many chains may be under way.
    pub(crate) chains: Rc<Semaphore>,
    /// One initialisation of inodes at a time.
    pub(crate) inode_growth: Rc<Semaphore>,
    this: Weak<Ffs>,
}

struct Leaving {
    sequence: Sequence,
    freed: Vec<Freed>,
    inodes: Vec<u64>,
    /// What it took is there again when what it gave back is.
    end_room: Option<EndRoom>,
}

/// A number from which nobody finds the one that it was made of.
fn one_way(secret: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(secret);
    hasher.finish()
}

/// What an engine is made of; see [`crate::mount`].
pub(crate) struct Parts {
    pub home: Rc<Home>,
    pub allocator: Rc<Allocator>,
    pub policy: Rc<dyn Policy>,
    pub runtime: Runtime,
    pub read_only: bool,
    pub dirty_limit: u64,
    pub superblock: OpenSuperblock,
    pub root: ObjectId,
    pub remembered: Vec<Remembered>,
}

impl Ffs {
    pub(crate) fn new(parts: Parts) -> Rc<Self> {
        // What clients see must not tell how names are hashed, and one number by chance is enough.
        let secret = parts.runtime.random.next_u64();
        let verifier = match is_planted(Bug::ConstantVerifier) {
            true => Verifier([7; 8]),
            false => Verifier(one_way(secret).to_be_bytes()),
        };
        let is_blind = is_planted(Bug::OneHash) || is_planted(Bug::UncomparedNames);
        let name_hash = if is_blind { NameHash::blind() } else { NameHash::new(secret) };
        let nodes = Nodes::new(parts.home.budget().beside().clone());
        Rc::new_cyclic(|this| Self {
            home: parts.home,
            allocator: parts.allocator,
            ledger: Rc::new(parts.policy.horizon().clone()),
            policy: parts.policy,
            runtime: parts.runtime,
            read_only: parts.read_only,
            superblock: RefCell::new(Some(parts.superblock)),
            stop: Cell::new(Stop::NONE),
            root: parts.root,
            dirty_limit: parts.dirty_limit,
            dirty_bytes: Cell::new(0),
            dirty_nodes: RefCell::default(),
            writes_behind: Cell::new(0),
            write_backs: Cell::new(0),
            doubts: RefCell::default(),
            verifier: Cell::new(verifier),
            nodes,
            scans: Scans::default(),
            name_hash,
            recent_blocks: RecentBlocks::default(),
            leaving: RefCell::default(),
            gone: RefCell::default(),
            remembered: Cell::new(parts.remembered),
            orphans: RefCell::default(),
            unfinished: RefCell::default(),
            stuck: RefCell::default(),
            chains: Semaphore::new(MOST_CHAINS),
            inode_growth: Semaphore::new(1),
            this: this.clone(),
        })
    }

    /// A handle that outlives the call, for tasks.
    pub(crate) fn handle(&self) -> Rc<Ffs> {
        self.this.upgrade().expect("an engine lives in an Rc")
    }

    /// The root directory.
    pub(crate) fn root_id(&self) -> ObjectId {
        self.root
    }

    /// Where is what.
    pub fn geometry(&self) -> &Geometry {
        self.home.geometry()
    }

    /// What its log is doing, if it has one.
    pub fn log_statistics(&self) -> Option<LogStatistics> {
        self.policy.log_statistics()
    }

    /// Writes that were refused since it was opened because what holds the disk is full.
    pub fn refusals(&self) -> u64 {
        self.home.data().refusals().count()
    }

    /// Bytes of memory in use, of [`crate::OpenOptions::cache_bytes`]: blocks of metadata, files,
    /// names of directories, dirty data, and data that may be read again.
    pub fn cached_bytes(&self) -> usize {
        self.home.budget().in_use() + self.home.budget().data().bytes()
    }

    /// Bytes of UNSTABLE data that wait in memory.
    pub fn unstable_bytes(&self) -> u64 {
        self.dirty_bytes.get()
    }

    pub(crate) fn map(&self) -> Map<'_> {
        Map { home: &self.home, allocator: &self.allocator }
    }

    /// Changes with every boot and every lost write.
    pub(crate) fn current_verifier(&self) -> Verifier {
        self.verifier.get()
    }

    /// Data that was promised to no reply is lost: whoever compares verifiers must know.
    pub(crate) fn rotate_verifier(&self) {
        if is_planted(Bug::KeptVerifier) {
            return;
        }
        self.verifier.set(Verifier(self.runtime.random.next_u64().to_be_bytes()));
    }

    /// The time for stamps.
    pub(crate) fn now(&self) -> Timestamp {
        self.runtime.clock.wall()
    }

    /// A receipt for everything up to `sequence`.
    pub fn receipt(&self, sequence: Sequence) -> Receipt {
        Receipt::new(self.ledger.clone(), sequence)
    }

    /// Waits until `sequence` is durable, or finds no room below.
    pub(crate) async fn durable(&self, sequence: Sequence) -> Result<(), FsError> {
        Ok(self.receipt(sequence).wait().await?)
    }

    /// Waits until `sequence` is durable, however long that takes: what goes on in steps is not
    /// left in its middle.
    pub(crate) async fn reached(&self, sequence: Sequence) -> Result<(), FsError> {
        Ok(self.policy.horizon().reach(sequence).await?)
    }

    /// Whether the volume was stopped, or began to be.
    pub(crate) fn is_closed(&self) -> bool {
        self.superblock.borrow().is_none()
    }

    /// Waits until no large file is being freed any more.
    pub(crate) async fn wait_for_orphans(&self) {
        while self.frees_orphans() && !self.policy.has_stopped() {
            self.allocator.released.wait().await;
        }
    }

    /// Whether a large file is being freed, and can be.
    fn frees_orphans(&self) -> bool {
        self.orphans.borrow().keys().any(|&ino| !self.is_stuck(ino))
    }

    /// A change of a file in steps cannot go on: its disk failed, or is damaged (invariant 4).
    pub(crate) fn stick(&self, ino: u64) {
        if !is_planted(Bug::LooseChains) {
            self.stuck.borrow_mut().insert(ino);
        }
    }

    fn is_stuck(&self, ino: u64) -> bool {
        self.stuck.borrow().contains(&ino)
    }

    /// [`FsError::Io`] for a file whose change in steps could not go on.
    pub(crate) fn check_not_stuck(&self, ino: u64) -> Result<(), FsError> {
        if self.is_stuck(ino) { Err(FsError::Io) } else { Ok(()) }
    }

    /// [`FsError::Io`] if there is any such file.
    pub(crate) fn check_nothing_stuck(&self) -> Result<(), FsError> {
        if self.stuck.borrow().is_empty() { Ok(()) } else { Err(FsError::Io) }
    }

    /// Waits until no change of a large file is in its middle: also one that goes on by itself
    /// since the return after a cut.
    pub(crate) async fn wait_for_chains(&self) {
        if !is_planted(Bug::UnwaitedChains) {
            drop(self.chains.acquire(MOST_CHAINS).await);
        }
    }

    /// Waits for one of the places for changes in steps, unless those who have them wait for room
    /// below.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] then.
    pub(crate) async fn place_among_chains(&self) -> Result<Permit, FsError> {
        match select(pin!(self.chains.acquire(1)), self.policy.no_room_comes()).await {
            Either::Left((permit, _)) => Ok(permit),
            Either::Right(_) => Err(FsError::NoSpace),
        }
    }

    /// Refuses work on a volume that has stopped.
    pub(crate) fn check_running(&self) -> Result<(), FsError> {
        if self.policy.has_stopped() { Err(FsError::Io) } else { Ok(()) }
    }

    /// The sequence that a removal of this inode left behind, if it is not durable yet.
    pub(crate) fn gone_sequence(&self, ino: u64) -> Sequence {
        if is_planted(Bug::UnwaitedRemovals) {
            return Sequence(0);
        }
        self.gone.borrow().get(&ino).copied().unwrap_or_default()
    }

    /// The file that `id` names.
    ///
    /// # Errors
    /// [`FsError::Stale`] when there is no such file any more, [`FsError::Io`],
    /// [`FsError::Corrupt`].
    pub async fn node(&self, id: ObjectId) -> Result<Rc<Node>, FsError> {
        let node = self.node_of(id.ino.0).await?;
        let same = node.generation == id.generation || is_planted(Bug::AnyGeneration);
        if same { Ok(node) } else { Err(FsError::Stale) }
    }

    /// The file that has this number now.
    ///
    /// # Errors
    /// As [`Ffs::node`].
    pub async fn node_of(&self, ino: u64) -> Result<Rc<Node>, FsError> {
        if !self.orphans.borrow().contains_key(&ino) {
            self.check_not_stuck(ino)?;
        }
        if let Some(node) = self.nodes.find(ino) {
            return Ok(node);
        }
        let (buffer, offset) = self.inode_place(ino).await?;
        if let Some(node) = self.nodes.find(ino) {
            return Ok(node); // somebody else was faster
        }
        let dinode = buffer.read(|image| *Dinode::at(image, offset));
        let kind = self.kind_of(ino, &dinode)?;
        let node = Node::with_dinode(ino, buffer, offset, dinode, kind);
        self.adopt(&node);
        Ok(node)
    }

    /// Where an inode is: the buffer of its block, and the offset there.
    ///
    /// # Errors
    /// [`FsError::Stale`] when there is no such inode, [`FsError::Io`], [`FsError::Corrupt`].
    pub(crate) async fn inode_place(&self, ino: u64) -> Result<(Rc<Buffer>, usize), FsError> {
        self.check_initialised(ino).await?;
        let geometry = self.geometry();
        let position = geometry.inode_position(ino);
        let size = geometry.block_size as usize;
        let buffer = self.home.load(position.fragment, size, Role::Inodes).await?;
        Ok((buffer, position.offset))
    }

    /// [`FsError::Stale`] unless there is such an inode: behind the initialised ones the table
    /// holds anything, and those bytes are not looked at.
    pub(crate) async fn check_initialised(&self, ino: u64) -> Result<(), FsError> {
        let geometry = self.geometry();
        if !geometry.is_inode(ino) {
            return Err(FsError::Stale);
        }
        let group = self.allocator.group_buffer(geometry.group_of_inode(ino)).await?;
        let initialised = group.read(|image| GroupHeader::of(image).initialized_inodes.get());
        let is_there = ino % geometry.inodes_per_group < u64::from(initialised);
        if is_there { Ok(()) } else { Err(FsError::Stale) }
    }

    /// What the file of an inode is that nobody has in memory.
    ///
    /// # Errors
    /// [`FsError::Stale`] when there is none, [`FsError::Corrupt`] when the inode makes no sense.
    pub(crate) fn kind_of(&self, ino: u64, dinode: &Dinode) -> Result<FileKind, FsError> {
        if self.orphans.borrow().contains_key(&ino) || dinode.is_free() {
            return Err(FsError::Stale);
        }
        if self.geometry().verify_inode(dinode).is_err() {
            return Err(FsError::Corrupt);
        }
        dinode.kind().ok_or(FsError::Corrupt)
    }

    /// Seals an inode for the disk.
    pub(crate) fn seal(&self) -> impl Fn(&mut Dinode) + use<> {
        let geometry = self.home.geometry().clone();
        move |dinode| geometry.seal_inode(dinode)
    }

    /// The last step of *prepare*: waits until there is room for the Update in the log. To be
    /// committed at once.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] when the log is full and what holds the disk is, too;
    /// [`FsError::Io`] when the volume has stopped.
    pub(crate) async fn reserve(&self, update: Update) -> Result<Ready, FsError> {
        let room = match update.is_empty() {
            true => 0,
            false => self.policy.reserve(&update).await?,
        };
        Ok(Ready { update, room })
    }

    /// [`Ffs::apply_seen`], and nobody looks.
    pub(crate) fn apply(&self, ready: Ready) -> Sequence {
        self.apply_seen(ready, &mut ())
    }

    /// *Apply and stage*. Everything that readers see changes here, at once.
    pub(crate) fn apply_seen(&self, ready: Ready, witness: &mut dyn Witness) -> Sequence {
        let Ready { mut update, room } = ready;
        witness.before();
        if update.is_empty() {
            witness.after(Sequence(0)); // what changes nothing needs no memory
            return Sequence(0);
        }
        assert!(!self.read_only, "nothing is changed on a read-only volume");
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
        let mut staged = StagedUpdate {
            items: staged,
            payload: take(&mut update.payload),
            carried: update.carried,
            freed: update.freed.iter().filter_map(|freed| self.allocator.run_of(freed)).collect(),
            chain: update.chain,
            answered: None,
            may_wait_for_batch: update.may_wait_for_batch,
            room,
        };
        update.promises.drain(..).for_each(crate::alloc::Promise::keep);
        for (node, dinode) in nodes {
            node.set_dinode(dinode);
            match update.is_unasked {
                true => node.written_back_by(sequence),
                false => node.changed_by(sequence),
            }
        }
        for (directory, change) in update.index_changes.drain(..) {
            directory.changed_by(sequence);
            if let Some(index) = directory.directory.borrow_mut().as_mut() {
                index.apply(change, sequence, self.policy.durable_through());
            }
        }
        if !is_planted(Bug::LandsAfterRemoval) {
            update.discards.drain(..).for_each(|node| self.discard_pages(&node));
        }
        self.note_chain(update.chain);
        let mut ended = self.change_lives(&mut update, sequence);
        for (node, permit) in update.orphans.drain(..) {
            self.retire(&node, sequence);
            ended.push(node.ino);
            self.free_orphan(node, permit);
        }
        staged.answered = witness.after(sequence);
        self.policy.stage(sequence, staged);
        if !update.freed.is_empty() || !ended.is_empty() {
            let freed = take(&mut update.freed);
            let end_room = update.end_room.take();
            self.leave(Leaving { sequence, freed, inodes: ended, end_room });
        }
        sequence
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

    /// Takes a node into the table.
    pub(crate) fn adopt(&self, node: &Rc<Node>) {
        self.nodes.insert(node);
        self.relieve_memory();
    }

    /// Forgets nodes that nobody needs, if there are many or memory is short.
    pub(crate) fn relieve_memory(&self) {
        let short = self.home.budget().is_short();
        if short || self.nodes.are_many() {
            let durable = self.policy.durable_through();
            self.nodes.forget(durable, self.home.budget().bytes() / 4 * 3);
        }
        if short {
            self.home.evict();
        }
    }

    /// Whether a chain of this file has begun and not ended.
    pub(crate) fn is_unfinished(&self, ino: u64) -> bool {
        self.unfinished.borrow().contains(&ino)
    }

    pub(crate) fn note_chain(&self, link: Option<ChainLink>) {
        match link {
            Some(ChainLink::Begins(chain)) => self.unfinished.borrow_mut().insert(chain.ino),
            Some(ChainLink::Ends(ino)) => self.unfinished.borrow_mut().remove(&ino),
            None => return,
        };
    }

    /// Files begin and end; returns the numbers of those that ended.
    fn change_lives(&self, update: &mut Update, sequence: Sequence) -> Vec<u64> {
        let mut ended = Vec::new();
        for (node, begins) in update.lives.drain(..) {
            if node.kind == FileKind::Directory {
                self.allocator.count_directory(node.ino, if begins { 1 } else { -1 });
            }
            if begins {
                self.adopt(&node);
            } else {
                self.retire(&node, sequence);
                ended.push(node.ino);
            }
        }
        ended
    }

    /// A file has lost its last name: whoever has a handle of it is told so, even if it takes a
    /// while until everything of it is free.
    pub(crate) fn retire(&self, node: &Node, sequence: Sequence) {
        node.die();
        self.nodes.remove(node.ino);
        self.doubts.borrow_mut().forget(node.ino);
        self.gone.borrow_mut().insert(node.ino, sequence);
    }

    /// Queues what becomes free with `leaving.sequence`.
    fn leave(&self, mut leaving: Leaving) {
        if self.policy.has_stopped() {
            leaving.end_room = None;
        }
        let idle = self.leaving.borrow().is_empty();
        self.leaving.borrow_mut().push_back(leaving);
        if idle {
            let this = self.handle();
            self.runtime.tasks.spawn(async move { this.reap().await }.boxed_local());
        }
    }

    /// Gives back what durable Updates freed, in order, until none is left (invariant 2).
    async fn reap(self: Rc<Self>) {
        loop {
            let Some(sequence) = self.leaving.borrow().front().map(|first| first.sequence) else {
                return;
            };
            if self.reached(sequence).await.is_err() {
                // Stopped: what is held stays held, but who waits for his turn has it.
                self.leaving.borrow_mut().iter_mut().for_each(|left| left.end_room = None);
                return;
            }
            // It stays in the queue until it has gone: whoever waits for space looks there.
            let freed = self.leaving.borrow_mut().front_mut().map(|first| take(&mut first.freed));
            for freed in freed.unwrap_or_default() {
                if let Some((address, count)) = self.allocator.run_of(&freed) {
                    self.policy.drain_block(address, count).await;
                }
                self.allocator.free(freed);
            }
            let Some(first) = self.leaving.borrow_mut().pop_front() else { return };
            for ino in first.inodes {
                let mut gone = self.gone.borrow_mut();
                if gone.get(&ino).is_some_and(|&left| left <= sequence) {
                    gone.remove(&ino);
                }
            }
            self.allocator.released.notify();
        }
    }

    /// Waits until more space may be free than now; false when nothing is on its way.
    pub(crate) async fn wait_for_space(&self) -> bool {
        if self.policy.has_stopped() {
            return false;
        }
        let released = self.allocator.released.wait();
        let last = self.leaving.borrow().back().map(|last| last.sequence);
        match last {
            None if !self.frees_orphans() && self.write_backs.get() == 0 => return false,
            None => released.await,
            // What is given back is given back when its sequence is durable, or just after.
            Some(last) => {
                if self.durable(last).await.is_err() {
                    return false;
                }
                if !self.leaving.borrow().is_empty() {
                    released.await;
                }
            }
        }
        true
    }
}
