//! Policies that write changes in place, in rounds that each end with a flush, without a log. An
//! [`Order`] decides what may land in a round.
//!
//! Updates in flight share rounds: changes staged during a round go out with the next one. Running
//! one round at a time ensures that two writes of one block are never in flight together.
//!
//! **Commit point**: that of the order, which decides after each flush what is durable
//! ([`Order::landed`]).
//!
//! Invariants:
//! 1. After the first failed write or flush nothing is ever reported durable again. A write that
//!    finds the device below full has failed no caller: nothing has landed, and the round is tried
//!    again. Until it succeeds there are no changes, and a caller that waits for one learns that it
//!    is lost.
//! 2. A settling caller waits for changes made before it asked, and for no later ones: each read
//!    dirties an access time, so while a client reads there is always more.
//! 3. Undo records take a share of the memory. Where callers do not wait until their change is
//!    durable, they wait before the next one. UNSTABLE data, which goes to the disk to free memory,
//!    does not wait. Blocks pinned by changes take a share, too, for which all wait.
//! 4. Updates are staged in the order in which they were applied.
//! 5. No block is reused while a write of it is in flight. The writes of a run begin at its first
//!    fragment.
//!
//! Not asserted: 2, which is about what is not waited for; 3, which the last Update before the wait
//! may exceed; 5, which is about when the caller goes on.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};

use futures::FutureExt;
use futures::future::{Either, LocalBoxFuture, join, select};
use runtime::Runtime;
use runtime::sync::{Signal, yield_now};
use vfs::{FsError, Lost, Sequence};
use vnode::horizon::Horizon;

use super::{Beside, Policy, SoftUpdatesCounts, StagedUpdate};
use crate::buffer::{Buffer, Delta};
use crate::home::{Home, REFUSED_PAUSE};
use crate::intents::Intents;
use crate::item::Item;
use crate::planted::{Bug, is_planted};
use crate::update::Update;

/// Divisor of the memory budget that gives the share of undo records.
const DELTAS_SHARE: usize = 4;

/// Buffers with deltas, by address.
pub(super) type Pending = BTreeMap<u64, Rc<Buffer>>;

/// The order in which changes land.
pub trait Order: Sized + 'static {
    /// The policy's horizon.
    fn horizon(&self) -> &Horizon;
    /// As [`Policy::parts_inodes`].
    fn parts_inodes(&self) -> bool {
        false
    }
    /// As [`Policy::tags`].
    fn tags(&self, items: &[Item], lands_whole: bool) -> Vec<u32>;
    /// Notes a staged Update; as [`Policy::stage`]. `pending` has the buffers of earlier ones.
    fn stage(&self, sequence: Sequence, update: &StagedUpdate, pending: &Pending) -> bool;
    /// Whether anything is in flight.
    fn is_busy(&self) -> bool;
    /// Whether payload waits for a flush.
    fn awaits_flush(&self) -> bool;
    /// Whether nothing up to `through` is in flight. Callers may be told earlier that it is
    /// durable, if the rest is not visible anywhere.
    fn is_home(&self, through: Sequence) -> bool {
        self.horizon().through() >= through
    }
    /// Completes when there is work, even if no further Update is staged.
    fn due<'a>(&'a self, _pending: &'a RefCell<Pending>) -> LocalBoxFuture<'a, ()> {
        std::future::ready(()).boxed_local()
    }
    /// Makes everything in flight wanted now.
    fn hurry(&self) {}
    /// Makes everything in flight wanted to free memory, not for a waiting caller.
    fn push(&self) {}
    /// Maximum bytes of undo records, if the memory budget is `budget`.
    fn most_memory(&self, budget: usize) -> usize {
        budget / DELTAS_SHARE
    }
    /// A copy of this buffer is about to be written; `is_awaited` if a caller waits for each.
    fn writes(&self, _buffer: &Buffer, _is_awaited: bool) {}
    /// The disk was flushed.
    fn flushed(&self) {}
    /// Counters, if the order keeps them; `pending_bytes` is the current size of undo records.
    fn counts(&self, _pending_bytes: usize) -> Option<SoftUpdatesCounts> {
        None
    }
    /// The buffers with deltas from which the next round writes changes in place.
    fn choose(&self, pending: &Pending) -> Pending;
    /// Which deltas may land in the next round.
    fn conditions(&self) -> impl Fn(&Delta) -> bool + use<Self>;
    /// The commit point: these deltas, each with its tag, are durable, and so is the payload of
    /// Updates before `covered`. `next` is the number of the next Update.
    fn landed(&self, landed: Vec<(Sequence, u32)>, covered: u64, next: u64);
}

/// A batch of intents that is being written.
type Noting = LocalBoxFuture<'static, Result<(), block::IoError>>;

/// See the module's prose.
pub struct InPlace<O> {
    pub(super) order: O,
    pub(super) home: Rc<Home>,
    next: Cell<u64>,
    pending: RefCell<Pending>,
    pub(super) running: Cell<bool>,
    /// Addresses of blocks that were changed without a delta and that a caller wants written.
    asked: RefCell<BTreeSet<u64>>,
    /// Blocks that the current round writes.
    writing: RefCell<BTreeSet<u64>>,
    /// Rounds begun, the last that succeeded, and the last that a caller waits for.
    begun: Cell<u64>,
    ended: Cell<u64>,
    wanted: Cell<u64>,
    /// Number of callers that wait until everything is written in place.
    settling: Cell<usize>,
    /// A round has ended, well or not.
    pub(super) tried: Signal,
    /// There may be new work.
    kicked: Signal,
    /// The ring of intents, which recognises calls that are repeated after a crash.
    intents: Option<Rc<Intents>>,
    runtime: Runtime,
    this: Weak<Self>,
}

impl<O: Order> InPlace<O> {
    /// A policy that writes to `home` in this order.
    pub(super) fn with(
        order: O,
        home: Rc<Home>,
        runtime: Runtime,
        intents: Option<Rc<Intents>>,
    ) -> Rc<Self> {
        Rc::new_cyclic(|this| Self {
            order,
            home,
            next: Cell::new(1),
            pending: RefCell::default(),
            running: Cell::new(false),
            asked: RefCell::default(),
            writing: RefCell::default(),
            begun: Cell::new(0),
            ended: Cell::new(0),
            wanted: Cell::new(0),
            settling: Cell::new(0),
            tried: Signal::new(),
            kicked: Signal::new(),
            intents,
            runtime,
            this: this.clone(),
        })
    }

    fn this(&self) -> Rc<Self> {
        self.this.upgrade().expect("a policy lives in an Rc")
    }

    /// Starts the committer unless it runs.
    fn kick(&self) {
        self.kicked.notify();
        if !self.running.replace(true) {
            let this = self.this();
            self.runtime.tasks.spawn(async move { this.run().await }.boxed_local());
        }
    }

    /// Runs rounds until nothing is in flight.
    async fn run(self: Rc<Self>) {
        let horizon = self.order.horizon();
        while self.has_work() && !horizon.has_failed() {
            self.wait_until_due().await;
            yield_now().await; // answered callers may join the round
            let round = self.round().await;
            self.writing.take();
            let is_refused = matches!(&round, Err(error) if error.is_full())
                && !is_planted(Bug::StoppedByRefusals);
            self.home.data().refusals().set_waiting(is_refused);
            horizon.stand(is_refused && !is_planted(Bug::PatientAnswers));
            self.tried.notify(); // after each, so that no waiter stays registered for ever
            if is_refused {
                self.runtime.clock.sleep(REFUSED_PAUSE).await;
            } else if round.is_err() {
                horizon.fail(); // invariant 1
            }
        }
        self.running.set(false);
    }

    /// Waits until the order has something to do, or a caller wants a round.
    async fn wait_until_due(&self) {
        while self.wanted.get() <= self.ended.get() {
            let kicked = self.kicked.wait();
            match select(self.order.due(&self.pending), kicked).await {
                Either::Left(_) => return,
                Either::Right(_) => {}
            }
        }
    }

    /// Whether undo records exceed their share of the memory (invariant 3).
    fn holds_much(&self) -> bool {
        let budget = self.home.budget();
        let is_much = budget.deltas().bytes() > self.order.most_memory(budget.bytes());
        is_much && !is_planted(Bug::EndlessDeltas)
    }

    /// Whether an Update has to wait before it is admitted (invariant 3).
    fn is_to_wait(&self, is_unasked: bool) -> bool {
        self.home.pins_too_much() || (self.holds_much() && !is_unasked)
    }

    /// Whether an Update is admitted, with 0 bytes of room. It is refused if the device below is
    /// full, unless it continues an operation, or if the volume has stopped.
    fn has_room(&self, goes_on: bool) -> Result<u64, FsError> {
        if self.order.horizon().has_stopped() {
            Err(FsError::Io)
        } else if self.home.data().refusals().is_waiting() && !goes_on {
            Err(FsError::NoSpace)
        } else {
            Ok(0)
        }
    }

    fn has_work(&self) -> bool {
        self.wanted.get() > self.ended.get() || self.order.is_busy()
    }

    /// Writes everything that may land, with intents in parallel, flushes, and counts it as
    /// durable.
    pub(super) async fn round(&self) -> Result<(), block::IoError> {
        assert!(!self.order.horizon().has_failed(), "invariant 1: no round follows a failure");
        let number = self.begun.get() + 1;
        self.begun.set(number);
        let mut buffers = self.order.choose(&self.pending.borrow());
        let condition = self.order.conditions();
        let holds = |delta: &Delta| condition(delta) && self.may_be_seen(delta);
        let noting = self.intents.as_ref().and_then(|it| it.batch(self.order.horizon()));
        let asked = self.asked_buffers();
        buffers.extend(asked.iter().cloned());
        let mut written = Vec::new();
        let mut images = Vec::new();
        for buffer in buffers.into_values() {
            if let Some(image) = self.home.image(&buffer, holds) {
                self.order.writes(&buffer, self.settling.get() > 0);
                images.push(image);
                written.push(buffer);
            }
        }
        self.writing.replace(written.iter().map(|buffer| buffer.address()).collect());
        // If only intents are to be written, the volume needs no flush.
        let is_idle = images.is_empty() && noting.is_some() && !self.order.awaits_flush();
        let landing = async {
            let brought = self.home.write_images(images).await;
            if brought.is_err() {
                // The next round, if there is one, writes all of them again.
                written.iter().for_each(|buffer| buffer.write_again());
                self.asked.borrow_mut().extend(asked.into_iter().map(|(address, _)| address));
            }
            brought?;
            if is_idle { Ok(0) } else { self.flush(&written).await }
        };
        let (landed, noted) = join(landing, self.note(noting)).await;
        noted?;
        self.advance(&written, landed?);
        let is_wanted = self.wanted.get() >= number;
        self.ended.set(number);
        if is_wanted && is_planted(Bug::EndlessSettling) && !self.home.dirty_buffers().is_empty() {
            self.ask();
        }
        self.order.horizon().wake();
        Ok(())
    }

    /// Flushes the `written` buffers; returns the first Update whose payload is not covered.
    async fn flush(&self, written: &[Rc<Buffer>]) -> Result<u64, block::IoError> {
        if is_planted(Bug::EarlyReceipts) {
            self.advance(written, self.next.get());
        }
        let covered = self.next.get(); // payload of everything staged so far has been written
        if !is_planted(Bug::DroppedFlush) {
            match self.home.flush().await {
                Err(_) if is_planted(Bug::IgnoredFlushErrors) => {}
                flushed => flushed?,
            }
            self.order.flushed();
        }
        Ok(covered)
    }

    /// Waits until a batch of intents is durable. Fails if there is no room for it.
    async fn note(&self, noting: Option<Noting>) -> Result<(), block::IoError> {
        let (Some(noting), Some(intents)) = (noting, &self.intents) else { return Ok(()) };
        // A later batch cannot follow a missing one, so there is no second try.
        noting.await.map_err(block::IoError::for_good)?;
        intents.batch_written(self.order.horizon());
        Ok(())
    }

    /// Whether intents allow a delta to reach the disk.
    fn may_be_seen(&self, delta: &Delta) -> bool {
        self.intents.as_ref().is_none_or(|it| it.allows(delta.sequence.0, delta.tag))
    }

    /// The `written` buffers, and the payload of Updates before `covered`, are durable.
    fn advance(&self, written: &[Rc<Buffer>], covered: u64) {
        let landed = written.iter().flat_map(|buffer| buffer.landed()).collect();
        self.order.landed(landed, covered, self.next.get());
        self.pending.borrow_mut().retain(|_, buffer| buffer.is_pending());
    }

    /// Whether the current round writes any of these fragments.
    fn is_writing(&self, address: u64, count: u64) -> bool {
        let range = address..address + count;
        self.writing.borrow().range(range).next().is_some() && !is_planted(Bug::HastyReuse)
    }

    /// Makes the next round write everything that is dirty now, and returns its number.
    fn ask(&self) -> u64 {
        let dirty = self.home.dirty_buffers();
        self.asked.borrow_mut().extend(dirty.iter().map(|buffer| buffer.address()));
        let next = self.begun.get() + 1;
        self.wanted.set(next);
        next
    }

    /// The buffers that callers have asked for and that no round has written since. A block that
    /// begins with an Update does not land before that Update: its requested changes land with it.
    fn asked_buffers(&self) -> Vec<(u64, Rc<Buffer>)> {
        let asked = self.asked.take();
        if asked.is_empty() {
            return Vec::new();
        }
        let dirty = self.home.dirty_buffers().into_iter();
        let dirty = dirty.map(|buffer| (buffer.address(), buffer));
        dirty.filter(|(address, _)| asked.contains(address)).collect()
    }

    /// Waits until the next round, or the one after it, has ended; it writes everything dirty now.
    async fn bring_dirty_home(&self) {
        let round = self.ask(); // invariant 2
        self.kick();
        let horizon = self.order.horizon();
        let awaited = || if is_planted(Bug::EndlessSettling) { self.wanted.get() } else { round };
        while self.ended.get() < awaited() && !horizon.has_failed() {
            horizon.moved().await;
        }
    }
}

impl<O: Order> Policy for InPlace<O> {
    fn horizon(&self) -> &Horizon {
        self.order.horizon()
    }

    fn next_sequence(&self) -> Sequence {
        Sequence(self.next.get())
    }

    fn beside(&self) -> Option<&dyn Beside> {
        self.intents.is_some().then_some(self)
    }

    fn keeps_intents(&self) -> bool {
        self.intents.is_some()
    }

    fn is_evidence(&self, ino: u64) -> bool {
        self.intents.as_ref().is_some_and(|intents| intents.judges_by(ino))
    }

    fn parts_inodes(&self) -> bool {
        self.order.parts_inodes()
    }

    fn tags(&self, items: &[Item], lands_whole: bool) -> Vec<u32> {
        self.order.tags(items, lands_whole)
    }

    fn plan<'a>(&'a self, update: &'a mut Update) -> LocalBoxFuture<'a, Result<u64, FsError>> {
        // There is nothing beside the volume that could be full.
        let (goes_on, is_unasked) = (update.manner.goes_on, update.manner.is_unasked);
        if !self.is_to_wait(is_unasked) {
            return std::future::ready(self.has_room(goes_on)).boxed_local();
        }
        async move {
            while self.is_to_wait(is_unasked) && self.has_room(goes_on).is_ok() {
                let tried = self.tried.wait(); // invariant 3: the rounds under way make room
                if is_unasked {
                    self.order.push();
                } else {
                    self.order.hurry();
                }
                self.kick();
                tried.await;
            }
            self.has_room(goes_on)
        }
        .boxed_local()
    }

    fn no_room_comes(&self) -> LocalBoxFuture<'static, ()> {
        let this = self.this();
        let refused = async move {
            while !this.home.data().refusals().is_waiting() {
                this.tried.wait().await;
            }
        };
        refused.boxed_local()
    }

    fn stage(&self, sequence: Sequence, update: StagedUpdate) -> bool {
        assert_eq!(sequence, self.next_sequence(), "invariant 4: Updates are staged in order");
        self.next.set(sequence.0 + 1);
        let is_still =
            update.freed.iter().all(|&(address, count)| !self.is_writing(address, count));
        if let Some(intents) = &self.intents {
            let now = self.runtime.clock.wall();
            let answered = update.answered.as_ref().map(|answered| (answered, now));
            let noted = (&update.evidence, answered, update.manner.chain);
            intents.note(sequence, noted, self.order.horizon());
        }
        let is_void = self.order.stage(sequence, &update, &self.pending.borrow());
        let mut pending = self.pending.borrow_mut();
        for (buffer, _) in update.items.into_iter().filter_map(|item| item.change) {
            pending.insert(buffer.address(), buffer);
        }
        drop(pending);
        if self.home.pins_much() {
            self.order.push();
        }
        self.kick();
        is_void && is_still
    }

    /// A block that was changed without a delta may be in flight when it is freed.
    fn drain_block(&self, address: u64, count: u64) -> LocalBoxFuture<'static, ()> {
        if !self.is_writing(address, count) {
            return std::future::ready(()).boxed_local();
        }
        let this = self.this();
        async move {
            while this.is_writing(address, count) {
                this.tried.wait().await;
            }
        }
        .boxed_local()
    }

    fn soft_updates(&self) -> Option<SoftUpdatesCounts> {
        self.order.counts(self.home.budget().deltas().bytes())
    }

    fn write_times(&self) -> LocalBoxFuture<'static, ()> {
        let this = self.this();
        async move { this.bring_dirty_home().await }.boxed_local()
    }

    fn settle(&self) -> LocalBoxFuture<'static, Result<(), Lost>> {
        let this = self.this();
        async move {
            let last = Sequence(this.next.get() - 1);
            this.order.hurry();
            this.settling.set(this.settling.get() + 1);
            this.bring_dirty_home().await;
            let mut reached = this.order.horizon().reach(last).await;
            while reached.is_ok() && !this.order.is_home(last) {
                this.order.horizon().moved().await;
                reached = if this.order.horizon().has_failed() { Err(Lost) } else { Ok(()) };
            }
            this.settling.set(this.settling.get() - 1);
            reached
        }
        .boxed_local()
    }
}

/// The ring of intents.
impl<O: Order> Beside for InPlace<O> {
    fn close(&self) -> LocalBoxFuture<'static, Result<(), Lost>> {
        let this = self.this();
        async move {
            match &this.intents {
                Some(intents) => intents.close(this.order.horizon()).await.map_err(|_| Lost),
                None => Ok(()),
            }
        }
        .boxed_local()
    }
}
