//! The files of a volume in memory, and the one place where a change is applied.
//!
//! [`Files::apply`] is *apply and stage*: from its first line to its last nothing waits and nothing
//! fails. Every step that could was done while the change was prepared. Its order: the witness sees
//! the files as they are; the engine applies; inodes, names, pages, births and deaths follow; the
//! witness sees the files as they are now; the engine stages.
//!
//! Invariants:
//! 1. Object locks are taken in the order of inode numbers; what an engine has of its own needs no
//!    lock, since it is changed between two awaits.
//! 2. Space that an Update frees goes back to the engine when the Update is durable, in order.
//! 3. A freed inode leaves its sequence behind until that is durable, so that the reply that says
//!    *stale* waits for the removal that made it so.
//! 4. A file whose change in steps is cut short by a disk failure is used no more before the volume
//!    is opened anew, or an attempt to go on succeeds. The volume does not become clean, unless its
//!    engine keeps chains at rest: the next attempt must find it as it was. Where a block turns out
//!    to be another, the chain ends there: no attempt would get further.
//!
//! Not asserted: 1, since a file does not know which other locks its caller has: `namespace`
//! asserts their order.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::pin::pin;
use std::rc::{Rc, Weak};

use directory::index::NameHash;
use futures::FutureExt;
use futures::future::{Either, select};
use namespace::{Stat, Witness};
use runtime::Runtime;
use runtime::sync::{Permit, Semaphore, Walks};
use vfs::{
    Depends, FileKind, FsError, Ino, Ledger, LoggedReply, ObjectId, Receipt, Sequence, Timestamp,
    Verifier,
};

use crate::chain::ChainLink;
use crate::change::{Change, Ready};
use crate::doubts::Doubts;
use crate::engine::{Engine, File, Plan, Space};
use crate::held::Book;
use crate::planted::{Bug, is_planted};
use crate::scans::Scans;
use crate::table::Table;
use crate::vnode::Vnode;

/// Chains of Updates that may be under way at once: one log entry lists all of them.
pub(crate) const MOST_CHAINS: u64 = 64;

/// A volume that is being served: an engine, with the files that are in use.
pub struct Files<E: Engine> {
    pub(crate) engine: Rc<E>,
    pub(crate) ledger: Rc<dyn Ledger>,
    pub(crate) runtime: Runtime,
    pub(crate) stop: Cell<Stop>,
    /// Limit on the bytes of dirty pages in memory, and their current number.
    pub(crate) dirty_limit: u64,
    pub(crate) dirty_bytes: Cell<u64>,
    pub(crate) dirty_files: RefCell<BTreeMap<u64, File<E>>>,
    /// Tasks that write pages back in the background.
    pub(crate) writes_behind: Cell<u64>,
    /// Calls that are writing data back now.
    pub(crate) write_backs: Cell<u64>,
    /// Data whose write failed.
    pub(crate) doubts: RefCell<Doubts<E::Inode>>,
    verifier: Cell<Verifier>,
    /// Times that UNSTABLE data could not be written back, and was lost.
    pub(crate) losses: Cell<u64>,
    /// The last change that was applied.
    newest: Cell<Sequence>,
    /// Files in memory; see [`crate::table`].
    pub(crate) table: Table<E::Inode>,
    /// Snapshots, and their files in memory; none where there cannot be any.
    pub(crate) snapshots: Option<Book<E::Inode>>,
    pub(crate) scans: Scans,
    /// Calls that go through many chunks or directories.
    pub(crate) walks: Walks,
    pub(crate) name_hash: NameHash,
    /// Space to give back, and inodes whose sequence to forget, when an Update is durable.
    leaving: RefCell<VecDeque<Leaving<E>>>,
    /// Sequences of freed inodes (invariant 3).
    gone: RefCell<BTreeMap<u64, Sequence>>,
    /// Changes that gave names to directories that a crash had left without one.
    pub(crate) reconnected: Cell<Depends>,
    /// Replies that survived, until they are taken.
    pub(crate) remembered: Cell<Vec<LoggedReply>>,
    /// Large files without a name that are being freed.
    pub(crate) orphans: RefCell<BTreeMap<u64, File<E>>>,
    /// Orphans that a stop leaves to the next start.
    pub(crate) paused: RefCell<BTreeMap<u64, File<E>>>,
    /// Files with an unfinished chain.
    unfinished: RefCell<BTreeSet<u64>>,
    /// Files whose chain cannot go on (invariant 4).
    stuck: RefCell<BTreeSet<u64>>,
    /// Limits the chains that are under way.
    pub(crate) chains: Rc<Semaphore>,
    /// Limits the truncations among them: to as many, but a snapshot waits for these.
    pub(crate) truncations: Rc<Semaphore>,
    this: Weak<Self>,
}

/// How far a clean stop has come.
#[derive(Clone, Copy)]
pub(crate) struct Stop {
    /// It has begun, and will not be tried again.
    pub(crate) has_begun: bool,
    /// Everything is written in place, and only the clean mark is left to be written.
    pub(crate) is_at_rest: bool,
    /// Result of the last stop.
    pub(crate) result: Result<(), FsError>,
}

struct Leaving<E: Engine> {
    sequence: Sequence,
    freed: Option<E::Freed>,
    inodes: Vec<u64>,
}

/// A number from which no client can compute its secret.
fn one_way(secret: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(secret);
    hasher.finish()
}

/// Options for serving a volume.
pub struct FilesOptions {
    /// Bytes of UNSTABLE data that may wait in memory.
    pub dirty_limit: u64,
    /// Replies that survived the last crash or stop.
    pub remembered: Vec<LoggedReply>,
}

impl<E: Engine> Files<E> {
    /// The files of an engine that has recovered.
    pub fn new(engine: Rc<E>, runtime: Runtime, options: FilesOptions) -> Rc<Self> {
        // Values that clients see must not reveal the name hash, and one random number is enough.
        let secret = runtime.random.next_u64();
        let verifier = if is_planted(Bug::ConstantVerifier) {
            Verifier([7; 8])
        } else {
            Verifier(one_way(secret).to_be_bytes())
        };
        let is_blind = is_planted(Bug::OneHash) || is_planted(Bug::UncomparedNames);
        let name_hash = if is_blind { NameHash::blind() } else { NameHash::new(secret) };
        let beside = engine.budget().beside();
        let table = Table::new(beside.clone());
        let found = engine.found_snapshots();
        let book = |found| Book::new(found, engine.horizon().clone(), beside.clone());
        let snapshots = found.map(book);
        Rc::new_cyclic(|this| Self {
            ledger: Rc::new(engine.horizon().clone()),
            engine,
            runtime,
            stop: Cell::new(Stop { has_begun: false, is_at_rest: false, result: Ok(()) }),
            dirty_limit: options.dirty_limit,
            dirty_bytes: Cell::new(0),
            dirty_files: RefCell::default(),
            writes_behind: Cell::new(0),
            write_backs: Cell::new(0),
            doubts: RefCell::default(),
            verifier: Cell::new(verifier),
            losses: Cell::new(0),
            newest: Cell::new(Sequence(0)),
            table,
            snapshots,
            scans: Scans::default(),
            walks: Walks::default(),
            name_hash,
            leaving: RefCell::default(),
            gone: RefCell::default(),
            reconnected: Cell::new(Depends::NOTHING),
            remembered: Cell::new(options.remembered),
            orphans: RefCell::default(),
            paused: RefCell::default(),
            unfinished: RefCell::default(),
            stuck: RefCell::default(),
            chains: Semaphore::new(MOST_CHAINS),
            truncations: Semaphore::new(MOST_CHAINS),
            this: this.clone(),
        })
    }

    /// Adds replies that have survived.
    pub fn remember(&self, remembered: Vec<LoggedReply>) {
        self.remembered.set(remembered);
    }

    /// A reference that outlives the call, for tasks.
    pub(crate) fn handle(&self) -> Rc<Self> {
        self.this.upgrade().expect("files live in an Rc")
    }

    /// The engine below.
    pub fn engine(&self) -> &Rc<E> {
        &self.engine
    }

    /// Bytes of memory in use: blocks of metadata, files, names of directories, dirty data, and
    /// data that may be read again.
    pub fn cached_bytes(&self) -> usize {
        let budget = self.engine.budget();
        budget.in_use() + budget.data().bytes()
    }

    /// Whether the volume is read-only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.engine.limits().fsinfo.read_only
    }

    /// Size of a block of a file, in bytes.
    pub(crate) fn block_size(&self) -> u64 {
        self.engine.limits().block_size
    }

    /// A new change that may take this space.
    pub(crate) fn plan(&self, space: Space) -> Change<E> {
        Change::new(self.engine.begin(space))
    }

    /// Whether the volume has stopped after a failed write: nothing becomes durable any more.
    pub(crate) fn has_stopped(&self) -> bool {
        self.engine.horizon().has_stopped()
    }

    /// Writes that were refused because the storage below the disk is full.
    pub fn refusals(&self) -> u64 {
        self.engine.data().map_or(0, |path| path.refusals().count())
    }

    /// Whether a write to the disk waits for room below.
    pub(crate) fn is_waiting_for_room(&self) -> bool {
        self.engine.data().is_some_and(|path| path.refusals().is_waiting())
    }

    /// Bytes of UNSTABLE data that wait in memory.
    pub fn unstable_bytes(&self) -> u64 {
        self.dirty_bytes.get()
    }

    /// The write verifier, which changes with every boot and every lost write.
    pub(crate) fn verifier(&self) -> Verifier {
        self.verifier.get()
    }

    /// UNSTABLE data is lost that no reply promised: a client that compares verifiers must learn of
    /// it.
    pub(crate) fn rotate_verifier(&self) {
        if is_planted(Bug::KeptVerifier) {
            return;
        }
        self.verifier.set(Verifier(self.runtime.random.next_u64().to_be_bytes()));
    }

    /// The current time, for timestamps.
    pub(crate) fn now(&self) -> Timestamp {
        self.runtime.clock.wall()
    }

    /// The newest change that was applied.
    pub(crate) fn newest(&self) -> Sequence {
        self.newest.get()
    }

    /// A receipt for these changes.
    pub fn receipt(&self, on: Depends) -> Receipt {
        Receipt::new(self.ledger.clone(), on)
    }

    /// Waits until `sequence` is durable, or finds no room below.
    pub(crate) async fn durable(&self, sequence: Sequence) -> Result<(), FsError> {
        Ok(self.receipt(Depends::through(sequence)).wait().await?)
    }

    /// Waits until `sequence` is durable, however long that takes: an operation in steps is not
    /// left in its middle.
    pub(crate) async fn reached(&self, sequence: Sequence) -> Result<(), FsError> {
        Ok(self.engine.horizon().reach(sequence).await?)
    }

    /// Waits until no large file is being freed any more.
    pub(crate) async fn wait_for_orphans(&self) {
        while self.frees_orphans() && !self.has_stopped() {
            self.engine.released().wait().await;
        }
    }

    /// Whether a large file is being freed, and can be.
    fn frees_orphans(&self) -> bool {
        let paused = self.paused.borrow();
        let goes_on = |ino: &u64| !self.is_stuck(*ino) && !paused.contains_key(ino);
        self.orphans.borrow().keys().any(goes_on)
    }

    /// Whether the freeing of large files pauses, because the volume stops and the next start
    /// continues it.
    pub(crate) fn leaves_orphans(&self) -> bool {
        let is_stopping = self.stop.get().has_begun && !is_planted(Bug::PatientStops);
        is_stopping && self.engine.keeps_chains()
    }

    /// A change of a file in steps cannot go on: its disk failed, or is damaged (invariant 4).
    pub(crate) fn stick(&self, ino: u64) {
        if !is_planted(Bug::LooseChains) {
            self.stuck.borrow_mut().insert(ino);
        }
    }

    /// Lets a stuck chain be tried once more.
    pub(crate) fn unstick(&self, ino: u64) {
        self.stuck.borrow_mut().remove(&ino);
    }

    fn is_stuck(&self, ino: u64) -> bool {
        self.stuck.borrow().contains(&ino)
    }

    /// [`FsError::Io`] for a file whose change in steps could not go on.
    pub(crate) fn check_not_stuck(&self, ino: u64) -> Result<(), FsError> {
        if self.is_stuck(ino) { Err(FsError::Io) } else { Ok(()) }
    }

    /// [`FsError::Io`] if so many files are stuck that no more chains begin: an engine keeps all of
    /// them, and writes them down in one piece.
    pub(crate) fn check_few_stuck(&self) -> Result<(), FsError> {
        let are_few = (self.stuck.borrow().len() as u64) < MOST_CHAINS;
        if are_few || is_planted(Bug::ManyStuck) { Ok(()) } else { Err(FsError::Io) }
    }

    /// [`FsError::Io`] if any file is stuck.
    pub(crate) fn check_nothing_stuck(&self) -> Result<(), FsError> {
        if self.stuck.borrow().is_empty() { Ok(()) } else { Err(FsError::Io) }
    }

    /// Waits until no change of a large file is in its middle, including those that continue after
    /// a crash. None goes on, or begins, as long as the permit exists.
    pub(crate) async fn all_places_among_chains(&self) -> Permit {
        let all = if is_planted(Bug::UnwaitedChains) { 0 } else { MOST_CHAINS };
        self.chains.acquire(all).await
    }

    /// Waits for one of the places among the chains, unless the tasks that have them wait for room
    /// below.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] then.
    pub(crate) async fn place_among_chains(&self) -> Result<Permit, FsError> {
        match select(pin!(self.chains.acquire(1)), self.engine.no_room_comes()).await {
            Either::Left((permit, _)) => Ok(permit),
            Either::Right(_) => Err(FsError::NoSpace),
        }
    }

    /// Waits for the places of a truncation: until no snapshot is being made, and for a place among
    /// the chains.
    ///
    /// # Errors
    /// As [`Files::place_among_chains`].
    pub(crate) async fn places_for_truncation(&self) -> Result<[Permit; 2], FsError> {
        let no_room_comes = self.engine.no_room_comes();
        let turn = match select(pin!(self.truncations.acquire(1)), no_room_comes).await {
            Either::Left((turn, _)) => turn,
            Either::Right(_) => return Err(FsError::NoSpace),
        };
        Ok([turn, self.place_among_chains().await?])
    }

    /// Refuses work on a volume that has stopped.
    pub(crate) fn check_running(&self) -> Result<(), FsError> {
        if self.has_stopped() { Err(FsError::Io) } else { Ok(()) }
    }

    /// The removal of this inode, or of the snapshot that held it, if it is not durable yet.
    pub(crate) fn removal(&self, id: ObjectId) -> Depends {
        if is_planted(Bug::UnwaitedRemovals) {
            return Depends::NOTHING;
        }
        if !id.is_live() {
            return self.snapshot_changes();
        }
        let gone = self.gone.borrow().get(&id.ino.0).copied();
        gone.map_or(Depends::NOTHING, |sequence| self.engine.horizon().up_to(sequence))
    }

    /// The file that `id` names.
    ///
    /// # Errors
    /// [`FsError::Stale`] when there is no such file any more, [`FsError::Io`],
    /// [`FsError::Corrupt`].
    pub async fn node(&self, id: ObjectId) -> Result<File<E>, FsError> {
        if !id.is_live() {
            // As below.
            return Box::pin(self.held(id)).await;
        }
        let node = self.node_of(id.ino.0).await?;
        let same = node.generation == id.generation || is_planted(Bug::AnyGeneration);
        if same { Ok(node) } else { Err(FsError::Stale) }
    }

    /// The file that has this inode number now.
    ///
    /// # Errors
    /// As [`Files::node`].
    pub async fn node_of(&self, ino: u64) -> Result<File<E>, FsError> {
        if !self.orphans.borrow().contains_key(&ino) {
            self.check_not_stuck(ino)?;
        }
        match self.table.find(ino) {
            Some(node) => Ok(node),
            // Rare, and its future would make that of each call large.
            None => Box::pin(self.load(ino)).await,
        }
    }

    /// Loads the file that has this inode number now.
    async fn load(&self, ino: u64) -> Result<File<E>, FsError> {
        let node = self.engine.load(ino).await;
        if let Some(node) = self.table.find(ino) {
            return Ok(node); // another call was faster
        }
        self.check_not_orphan(ino)?;
        let node = node?;
        self.adopt(&node);
        Ok(node)
    }

    /// Attributes of the file that has this number now, without caching it, for LOOKUP and
    /// READDIRPLUS. A listing names a thousand files, and most of them are never used.
    ///
    /// A file's vnode answers if there is one: it alone knows of UNSTABLE writes, and of the
    /// changes that a reply must wait for. The table is searched last, after everything that waits.
    /// Without a vnode, the inode is the file as every reader sees it, and durable: a vnode is only
    /// forgotten then.
    ///
    /// # Errors
    /// As [`Files::node_of`].
    pub(crate) async fn peek(&self, ino: u64) -> Result<Stat, FsError> {
        if let Some(peek) = self.ask_vnode(ino) {
            return Ok(peek);
        }
        let attributes = self.engine.peek(ino).await;
        if let Some(peek) = self.ask_vnode(ino) {
            return Ok(peek);
        }
        self.check_not_orphan(ino)?;
        let attributes = attributes?;
        let id = ObjectId::live(attributes.ino, attributes.generation);
        Ok(Stat { id, attributes, depends: Depends::NOTHING })
    }

    fn ask_vnode(&self, ino: u64) -> Option<Stat> {
        let node = self.table.find(ino).filter(|_| !is_planted(Bug::UnaskedNodes));
        node.map(|node| Stat::from(&node))
    }

    /// [`FsError::Stale`] for a file that has lost its last name and is being freed.
    fn check_not_orphan(&self, ino: u64) -> Result<(), FsError> {
        if self.orphans.borrow().contains_key(&ino) { Err(FsError::Stale) } else { Ok(()) }
    }

    /// The last step of *prepare*: waits until there is room to record the change. The caller
    /// applies it at once.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] when there is no room, and none comes; [`FsError::Io`] when the volume
    /// has stopped.
    pub(crate) async fn reserve(&self, change: Change<E>) -> Result<Ready<E>, FsError> {
        let Change { mut update, follows } = change;
        let manner = *update.manner();
        let ready = if update.is_empty() { None } else { Some(self.engine.reserve(update).await?) };
        Ok(Ready { ready, follows, is_unasked: manner.is_unasked, chain: manner.chain })
    }

    /// *Apply and stage*. All that readers see changes here, at once.
    pub(crate) fn apply(&self, ready: Ready<E>, witness: &mut dyn Witness) -> Sequence {
        let Ready { ready, mut follows, is_unasked, chain } = ready;
        witness.before();
        let Some(ready) = ready else {
            witness.after(Depends::NOTHING); // an empty change needs no remembered reply
            return Sequence(0);
        };
        assert!(!self.is_read_only(), "nothing is changed on a read-only volume");
        let horizon = self.engine.horizon();
        let (sequence, applied) = self.engine.apply(ready, |node, sequence| {
            if is_unasked {
                node.written_back_by(&horizon.up_to(sequence))
            } else {
                self.note_change(node, sequence)
            }
        });
        self.newest.set(sequence);
        for (directory, change) in follows.index_changes.drain(..) {
            self.note_change(&directory, sequence);
            if let Some(index) = directory.directory.borrow_mut().as_mut() {
                index.apply(change, sequence, horizon.through());
            }
        }
        if !is_planted(Bug::LandsAfterRemoval) {
            follows.discards.drain(..).for_each(|node| self.discard_pages(&node));
        }
        self.note_chain(chain);
        let mut ended = self.change_lives(&mut follows.lives, sequence);
        for (node, permit) in follows.orphans.drain(..) {
            self.retire(&node, sequence);
            ended.push(node.ino);
            self.free_orphan(node, permit);
        }
        let answered = witness.after(horizon.up_to(sequence));
        let freed = self.engine.stage(applied, answered);
        if freed.is_some() || !ended.is_empty() {
            self.leave(Leaving { sequence, freed, inodes: ended });
        }
        sequence
    }

    /// Makes replies that show the file wait for this change from now on.
    pub(crate) fn note_change(&self, node: &Vnode<E::Inode>, sequence: Sequence) {
        let horizon = self.engine.horizon();
        if !horizon.is_in_order() {
            let newest_alone = node.kind == FileKind::Directory && is_planted(Bug::NewestAlone);
            node.keep_changes(|change| !newest_alone && !horizon.has_passed(change));
        }
        node.changed_by(&horizon.up_to(sequence));
    }

    /// Adds a vnode to the table.
    pub(crate) fn adopt(&self, node: &File<E>) {
        let is_told_apart = self.snapshots.is_none() || node.ino <= Ino::LAST_BESIDE_SNAPSHOTS.0;
        debug_assert!(is_told_apart, "promise 6 of an engine: inode numbers are small");
        self.table.insert(node);
        self.relieve_memory();
    }

    /// Forgets idle vnodes, if there are many or memory is short.
    pub(crate) fn relieve_memory(&self) {
        let budget = self.engine.budget();
        let short = budget.is_short();
        if short || self.table.are_many() {
            self.table.forget(self.engine.horizon().through(), budget.bytes() / 4 * 3);
        }
        if short {
            let durable = self.engine.horizon().through();
            self.snapshots.iter().for_each(|book| book.forget(durable));
            self.engine.evict();
        }
    }

    /// Whether a chain of this file has begun and not ended.
    pub(crate) fn is_unfinished(&self, ino: u64) -> bool {
        self.unfinished.borrow().contains(&ino)
    }

    pub(crate) fn note_chain(&self, link: Option<ChainLink>) {
        match link {
            Some(ChainLink::Begins(chain)) => self.unfinished.borrow_mut().insert(chain.ino),
            Some(ChainLink::Ends(ino)) => {
                assert!(!self.is_stuck(ino), "invariant 4: what cannot go on does not end");
                self.unfinished.borrow_mut().remove(&ino)
            }
            None => return,
        };
    }

    /// Files begin and end; returns the numbers of those that ended.
    fn change_lives(&self, lives: &mut Vec<(File<E>, bool)>, sequence: Sequence) -> Vec<u64> {
        let mut ended = Vec::new();
        for (node, begins) in lives.drain(..) {
            if begins {
                self.adopt(&node);
            } else {
                self.retire(&node, sequence);
                ended.push(node.ino);
            }
        }
        ended
    }

    /// A file has lost its last name: handles of it are stale from now on, even if freeing its
    /// space takes a while.
    pub(crate) fn retire(&self, node: &Vnode<E::Inode>, sequence: Sequence) {
        node.die();
        self.table.remove(node.ino);
        self.doubts.borrow_mut().forget(node.ino);
        let before = self.gone.borrow_mut().insert(node.ino, sequence);
        let is_newest = before.is_none_or(|before| before <= sequence);
        assert!(is_newest, "invariant 3: the last removal of a number is what it leaves");
    }

    /// Queues what becomes free with `leaving.sequence`.
    fn leave(&self, mut leaving: Leaving<E>) {
        if self.has_stopped() {
            leaving.freed = None;
        }
        let last = self.leaving.borrow().back().map(|last| last.sequence);
        let follows = last.is_none_or(|last| last <= leaving.sequence);
        assert!(follows, "invariant 2: what is freed goes back in order");
        let idle = last.is_none();
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
            if self.engine.horizon().reach_at_leisure(sequence).await.is_err() {
                self.leaving.borrow_mut().iter_mut().for_each(|left| left.freed = None);
                return;
            }
            // It stays in the queue until its space is given back: a task that waits for space
            // looks there.
            let freed = self.leaving.borrow_mut().front_mut().and_then(|first| first.freed.take());
            if let Some(freed) = freed {
                self.engine.give_back(freed).await;
            }
            let Some(first) = self.leaving.borrow_mut().pop_front() else { return };
            let is_durable = self.engine.horizon().has_passed(first.sequence);
            assert!(is_durable, "invariant 2: what goes back was freed durably");
            for ino in first.inodes {
                let mut gone = self.gone.borrow_mut();
                if gone.get(&ino).is_some_and(|&left| left <= sequence) {
                    gone.remove(&ino);
                }
            }
            self.engine.released().notify();
        }
    }

    /// Waits until more space may be free than now; false when none is on its way.
    pub(crate) async fn more_space(&self) -> bool {
        if self.has_stopped() {
            return false;
        }
        let released = self.engine.released().wait();
        let last = self.leaving.borrow().back().map(|last| last.sequence);
        match last {
            None if !self.frees_orphans()
                && self.write_backs.get() == 0
                && !self.engine.finds_space() =>
            {
                return false;
            }
            None => released.await,
            // Freed space is given back when its sequence is durable, or just after.
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
