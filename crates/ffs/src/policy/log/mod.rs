//! Policy `log`: a metadata log beside the volume, as in Calaveras.
//!
//! ```text
//!  stage         writer                   log device         sync              volume
//!  -----         ------                   ----------         ----              ------
//!  entry --> waiting -- one write for --> durable      buffers -- in place --> written
//!                       all that wait        |                                    | flush
//!                                         receipts                   holds drop, head moves
//! ```
//!
//! When an Update is staged, its redo entry is made at once from the current buffers; so no lock is
//! held while the entry is written. The writer is never idle while an entry waits, and never makes
//! one wait while it is idle: entries that arrive during a write go out with the next one. Only an
//! Update that writes UNSTABLE data back is *patient*: it waits for one that is not, for a task
//! that wants it durable, or for [`MAX_BATCH_DELAY`], so that one flush serves many. In the
//! background the *sync* writes changes that are durable in the log in place. Each delta *holds*
//! its entry until a flush of the volume covers it; the oldest held entry is the head.
//!
//! * `record` and `redo`: the format of an entry, and making one from an Update.
//! * `shared` and `writer`: the state shared by volumes that write to one log; batches, payload
//!   before entries, receipts.
//! * `logged`: an index of the data in the log, for tasks that write past it.
//! * `checkpoint`: the sync, the holds, the summary rows.
//! * `memory`: remembered answers of calls, for callers that ask again.
//! * `room`: bytes of log, reserved before an Update is applied.
//! * [`crate::replay`]: recovery after a crash.
//!
//! **Commit point**: an Update has happened when the write of the batch that holds its entry
//! completes (`RedoLog::write_batch`). Before that, a crash leaves nothing of it, but for bytes of
//! a file that were overwritten in place.
//!
//! Invariants:
//! 1. A delta lands only when its entry is durable.
//! 2. An entry is submitted only when the payload that it reveals is durable or in the entry.
//! 3. A hold drops with a flush of the volume that was issued after the in-place write completed.
//!    The hold of a freed block drops when the entry that freed it is durable: a replay then skips
//!    the block's changes in older entries.
//! 4. The curhead of an entry is never newer than the oldest held entry, than a chain that has not
//!    ended, or than an answer that must be remembered. A chain or answer that is rewritten is held
//!    at its old place until the new one is durable: see invariant 7 of [`journal`].
//! 5. Room is reserved before an Update is applied, and nothing else is awaited after it; the sync
//!    needs none. So no task that holds room waits for one that wants some.
//! 6. A freed block is reused only when no write to it is in flight.
//! 7. Replayable data never lies over newer data that is not in the log: a task that writes past
//!    the log revokes the log's data at that place, in the entry that waits for the write.
//! 8. A group and its row in the summary area are written in place together, before one flush.
//! 9. After the first failed write or flush nothing is ever reported durable again. Held entries
//!    stay held: the next opening replays them.
//! 10. A few batches of a volume wait for the writer at most, or else the next change waits first.
//!
//! Not asserted: 2, which is how a batch is chosen; 3 and 8, which are the order of a round; 4,
//! which is how the head is found; 7, which takes knowing all entries; 9, which the horizon
//! asserts; 10, which the last Update before the wait may exceed.

mod checkpoint;
mod flights;
mod logged;
mod memory;
pub mod record;
mod redo;
mod room;
mod shared;
mod survived;
mod writer;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use journal::format::{LARGEST_BODY, SEGMENT};
use runtime::sync::Signal;
use ufs2::layout::Summary;
use vfs::{CallReply, Depends, FsError, Ledger, Lost, Sequence};

use super::{Beside, Policy, StagedUpdate};
use crate::buffer::Buffer;
use crate::home::Home;
use crate::item::{Carried, Item};
use crate::planted::{Bug, is_planted};
use crate::update::Update;
use flights::{Flight, Flights};
use logged::Logged;
use memory::Memory;
use record::{LARGEST_ANSWER, Record};
use redo::Redo;
use shared::Waiting;
use vnode::answer;
use vnode::chain::{Chain, ChainLink};
use vnode::horizon::Horizon;

pub use memory::Counters as AnswerCounters;
pub use shared::{Save, SharedLog};
pub use survived::Survived;

/// Maximum time that an entry waits for others while no task wants it durable.
const MAX_BATCH_DELAY: Duration = Duration::from_millis(30);
/// Maximum payload in an entry: the rest of a segment is for the Update's other changes.
const MOST_PAYLOAD: usize = SEGMENT as usize / 4;

/// Limits that keep the log small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Approximate maximum time until an entry is written in place.
    pub sync_interval: Duration,
    /// Bytes of live log from which on the sync does not pause.
    pub sync_bytes: u64,
    /// Approximate maximum bytes of one write. Never less than an entry; so 1 is a log without
    /// batches.
    pub batch_bytes: usize,
    /// Maximum payload in an entry, in bytes: beyond it, writing the payload twice costs more than
    /// the flush that it saves. Zeros do not count, and more than a quarter of a segment is never
    /// logged. With 0 the log has only metadata and zeros.
    pub payload_bytes: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            sync_interval: Duration::from_secs(5),
            sync_bytes: 16 << 20,
            batch_bytes: 2 * SEGMENT as usize,
            payload_bytes: 16 << 10,
        }
    }
}

/// A chain that has not ended.
struct ActiveChain {
    chain: Chain,
    /// The Update with which it begins, and the one with which it ends, if staged.
    begins: u64,
    ends: Option<u64>,
    /// The newest entry that records it.
    recno: Option<u64>,
    /// For a chain that was begun before: the entry that recorded that, until its first Update is
    /// durable.
    before: Option<u64>,
}

impl ActiveChain {
    /// The oldest entry that is needed for the chain.
    fn holds(&self) -> Option<u64> {
        self.recno.into_iter().chain(self.before).min()
    }
}

/// See the module's prose.
pub struct RedoLog {
    home: Rc<Home>,
    shared: Rc<SharedLog>,
    /// Number of the volume in the log.
    number: u16,
    options: LogOptions,
    next: Cell<u64>,
    horizon: Horizon,
    /// Entries up to this one do not wait for others.
    due: Cell<u64>,
    /// A task will soon make the waiting entries due.
    waits: Cell<bool>,
    flights: RefCell<Flights>,
    /// Bytes reserved for entries that the writer has not taken (invariant 10).
    queued: Cell<u64>,
    /// Payload of Updates before this one is on stable storage.
    flushed: Cell<u64>,
    /// Payload in entries that may be replayed.
    logged: RefCell<Logged>,
    chains: RefCell<BTreeMap<u64, ActiveChain>>,
    memory: RefCell<Memory>,
    /// Buffers with deltas, by address.
    pending: RefCell<BTreeMap<u64, Rc<Buffer>>>,
    /// Blocks with a write in flight.
    landing: RefCell<BTreeSet<u64>>,
    /// The summary rows as they are on the volume.
    rows: RefCell<Vec<Summary>>,
    /// The next entry must record all chains again.
    repeat: Cell<bool>,
    /// The volume needs nothing in the log.
    parted: Cell<bool>,
    syncing: Cell<bool>,
    /// Rounds of the sync begun and ended, and the number up to which it does not pause.
    begun: Cell<u64>,
    ended: Cell<u64>,
    wanted: Cell<u64>,
    /// A round of the sync has ended, a block has landed, or the volume has stopped.
    landed: Signal,
    /// The sync must begin.
    urge: Signal,
    this: Weak<RedoLog>,
}

/// Statistics of the log, for display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStatistics {
    /// Writes to the log.
    pub writes: journal::Counters,
    /// Bytes between head and tail.
    pub live_bytes: u64,
    /// Answers that came and went.
    pub answers: memory::Counters,
    /// Answers that are kept now.
    pub answers_held: u64,
    /// Size of the log in bytes.
    pub capacity: u64,
    /// Rounds of the sync.
    pub syncs: u64,
    /// Number of times that a task has waited for room for 10 s.
    pub long_waits: u64,
}

impl RedoLog {
    /// A volume that writes to this log. `rows` are its summary rows.
    pub fn new(
        home: Rc<Home>,
        shared: Rc<SharedLog>,
        rows: Vec<Summary>,
        options: LogOptions,
    ) -> Rc<Self> {
        let memory = RefCell::new(Memory::new(shared.journal.capacity(), shared.shares()));
        Rc::new_cyclic(|this: &Weak<Self>| Self {
            home,
            number: shared.join(this.clone()),
            shared,
            memory,
            options,
            next: Cell::new(1),
            horizon: Horizon::default(),
            due: Cell::new(0),
            waits: Cell::new(false),
            flights: RefCell::default(),
            queued: Cell::new(0),
            flushed: Cell::new(1),
            logged: RefCell::default(),
            chains: RefCell::default(),
            pending: RefCell::default(),
            landing: RefCell::default(),
            rows: RefCell::new(rows),
            repeat: Cell::new(false),
            parted: Cell::new(false),
            syncing: Cell::new(false),
            begun: Cell::new(0),
            ended: Cell::new(0),
            wanted: Cell::new(0),
            landed: Signal::new(),
            urge: Signal::new(),
            this: this.clone(),
        })
    }

    /// Takes over unfinished chains, and answers, from an earlier epoch, and records them durably.
    /// This comes before the volume bears the number of this epoch, because that discards the old
    /// log.
    ///
    /// # Errors
    /// [`Lost`] if the log cannot be written.
    pub async fn adopt(&self, chains: &[Chain], survived: &Survived) -> Result<(), Lost> {
        let journal = &self.shared.journal;
        let (tail, room) = (journal.tail(), journal.room() / u64::from(self.shared.shares()));
        self.memory.borrow_mut().take_over(survived, tail, room);
        for &chain in chains {
            let recno = Some(tail);
            let active = ActiveChain { chain, begins: 0, ends: None, recno, before: None };
            self.chains.borrow_mut().insert(chain.ino, active);
        }
        self.repeat.set(!chains.is_empty() || self.memory.borrow().has_news());
        self.repeated().await
    }

    /// Waits until all inherited records are written again.
    async fn repeated(&self) -> Result<(), Lost> {
        while self.has_to_tell() || self.shared.writing.get() {
            self.shared.kick_writer();
            self.horizon.moved().await;
            self.horizon.is_durable(&Depends::NOTHING)?;
        }
        Ok(())
    }

    /// Whether an entry has to rewrite records of older entries.
    fn has_to_tell(&self) -> bool {
        self.repeat.get() || self.memory.borrow().is_inheriting()
    }

    /// The volume bears the epoch of the log that it shares, durably.
    pub fn borne(&self) {
        self.shared.journal.borne(self.number);
    }

    /// The volume cannot be opened after all. Its entries stay in the log.
    pub fn abandon(self: Rc<Self>) {
        self.stop();
        self.shared.clone().keep(self);
    }

    /// Notes that the volume has stopped and that its part of the log was saved elsewhere.
    fn part(&self) {
        self.parted.set(true);
    }

    /// The log that it writes to.
    pub fn shared(&self) -> &SharedLog {
        &self.shared
    }

    /// Statistics of the log.
    pub fn statistics(&self) -> LogStatistics {
        LogStatistics {
            writes: self.shared.journal.counters(),
            live_bytes: self.shared.bytes_since(self.shared.head()),
            answers: self.memory.borrow().counters(),
            answers_held: self.memory.borrow().len() as u64,
            capacity: self.shared.journal.capacity(),
            syncs: self.ended.get(),
            long_waits: self.shared.long_waits.get(),
        }
    }

    fn this(&self) -> Rc<RedoLog> {
        self.this.upgrade().expect("a policy lives in an Rc")
    }

    /// Stops the volume (invariant 9).
    fn stop(&self) {
        self.horizon.fail();
        self.landed.notify();
        self.urge.notify();
        self.shared.leave(self.number);
        self.queued.set(0);
    }

    /// The recno of the oldest entry that is needed, if any is (invariant 4).
    fn head(&self) -> Option<u64> {
        if self.parted.get() {
            return None;
        }
        let answers = self.memory.borrow_mut().head().filter(|_| !is_planted(Bug::PassedAnswers));
        self.head_of_changes().into_iter().chain(answers).min()
    }

    /// The oldest entry with a change that is not written in place, or with an unfinished chain.
    fn head_of_changes(&self) -> Option<u64> {
        let flights = self.flights.borrow();
        let held = flights.oldest().and_then(|oldest| oldest.recno);
        let chains = self.chains.borrow();
        let told = chains.values().filter_map(ActiveChain::holds);
        held.into_iter().chain(told.filter(|_| !is_planted(Bug::PassedChains))).min()
    }

    fn note_chain(&self, sequence: u64, link: Option<ChainLink>) {
        let mut chains = self.chains.borrow_mut();
        match link {
            Some(ChainLink::Begins(chain)) => {
                let old = chains.get(&chain.ino).and_then(ActiveChain::holds);
                let before = old.filter(|_| !is_planted(Bug::ReplacedChains));
                let active =
                    ActiveChain { chain, begins: sequence, ends: None, recno: None, before };
                chains.insert(chain.ino, active);
            }
            Some(ChainLink::Ends(ino)) => {
                if let Some(active) = chains.get_mut(&ino) {
                    active.ends = Some(sequence);
                }
            }
            None => {}
        }
    }

    /// The record of an answer, which is remembered from now on.
    fn keep_answer(&self, sequence: Sequence, answered: &CallReply) -> Record {
        let data = answer::write(self.shared.runtime.clock.wall(), answered);
        self.memory.borrow_mut().keep(sequence.0, &answered.key, data.clone());
        Record::Answer(data)
    }

    /// Notes that the entry of an Update holds this payload.
    fn note_payload(&self, sequence: u64, payload: &[(u64, Vec<Bytes>)]) {
        let fragment = self.home.geometry().fragment_size;
        let mut logged = self.logged.borrow_mut();
        for (address, pieces) in payload {
            logged.note(*address, block::length_of(pieces).div_ceil(fragment), sequence);
        }
    }
}

impl Policy for RedoLog {
    fn horizon(&self) -> &Horizon {
        &self.horizon
    }

    fn next_sequence(&self) -> Sequence {
        Sequence(self.next.get())
    }

    fn beside(&self) -> Option<&dyn Beside> {
        Some(self)
    }

    fn plan<'a>(&'a self, update: &'a mut Update) -> LocalBoxFuture<'a, Result<u64, FsError>> {
        let body = redo::bound(update);
        assert!(body <= LARGEST_BODY, "an entry of {body} bytes does not fit into a segment");
        let manner = update.manner;
        let room = self.shared.journal.room_for(body);
        let is_crowded = self.is_crowded() && !manner.goes_on && !manner.is_unasked;
        if !is_crowded && !self.home.pins_too_much() {
            return self.set_aside(room, manner.goes_on).boxed_local();
        }
        async move {
            self.await_landing(manner.goes_on).await;
            if is_crowded {
                self.await_writer().await;
            }
            self.set_aside(room, manner.goes_on).await
        }
        .boxed_local()
    }

    fn no_room_comes(&self) -> LocalBoxFuture<'static, ()> {
        let this = self.this();
        async move { this.no_room_comes().await }.boxed_local()
    }

    fn tags(&self, items: &[Item], _lands_whole: bool) -> Vec<u32> {
        vec![0; items.len()] // the whole Update lands after its entry
    }

    fn stage(&self, sequence: Sequence, update: StagedUpdate) -> bool {
        assert_eq!(sequence, self.next_sequence(), "Updates are staged in order");
        self.next.set(sequence.0 + 1);
        let rides = update.carried.rides.is_some();
        let is_logged = |first, count| self.logged.borrow().holds(first, count);
        let answered = update.answered.as_ref();
        let answered =
            answered.filter(|_| update.freed.is_empty() || !is_planted(Bug::UnkeptAnswers));
        let answer = answered.map(|answered| self.keep_answer(sequence, answered));
        let geometry = self.home.geometry();
        let told = answer.as_ref().map_or(0, Record::size);
        let mut draft = Redo::draft(geometry, sequence.0, &update, is_logged, answer);
        draft.volume = self.number;
        // Room for an answer is used for nothing else.
        let most = draft.body.len() - told + LARGEST_ANSWER;
        assert!(
            told <= LARGEST_ANSWER && self.shared.journal.room_for(most) <= update.room,
            "invariant 5: room was set aside for {most} bytes"
        );
        let has_payload = !update.payload.is_empty();
        if rides && has_payload {
            self.note_payload(sequence.0, &update.payload);
        }
        if update.carried.is_delayed {
            assert!(rides, "what the log carries is in it");
            update.payload.iter().for_each(|(address, pieces)| self.home.delay(*address, pieces));
        }
        let changes = update.items.iter().filter_map(|item| item.change.as_ref());
        let mut flight = Flight { payload: rides && has_payload, ..Flight::default() };
        for (buffer, _) in changes {
            flight.holds += 1;
            self.pending.borrow_mut().insert(buffer.address(), buffer.clone());
        }
        self.flights.borrow_mut().push(sequence.0, flight);
        self.note_chain(sequence.0, update.manner.chain);
        let after_flush = has_payload && !rides;
        let waiting = Waiting { draft, room: update.room, after_flush };
        self.queued.set(self.queued.get() + waiting.room);
        self.shared.waiting.borrow_mut().push_back(waiting);
        if update.manner.may_wait_for_batch {
            self.batch_later(sequence);
        } else {
            self.commit_soon();
        }
        false
    }

    fn drain_block(&self, address: u64, count: u64) -> LocalBoxFuture<'static, ()> {
        let this = self.this();
        async move {
            this.release_block(address).await;
            this.home.forget_delayed(address, count).await;
        }
        .boxed_local()
    }

    fn settle(&self) -> LocalBoxFuture<'static, Result<(), Lost>> {
        let this = self.this();
        async move { this.settle_all().await }.boxed_local()
    }
}

impl Beside for RedoLog {
    fn carries(&self, payload: &[(u64, Vec<Bytes>)]) -> Carried {
        let bytes: u64 = payload.iter().map(|(_, pieces)| block::length_of(pieces)).sum();
        // As much again may come while the data that started the sync is being written.
        let most = (2 * self.sync_bytes()).min(self.home.budget().bytes() as u64 / 8);
        let rides = redo::rides(payload, self.options.payload_bytes.min(MOST_PAYLOAD));
        let has_room = self.home.data().delayed_bytes() as u64 + bytes <= most;
        Carried { rides, is_delayed: has_room && rides.is_some() }
    }

    fn close(&self) -> LocalBoxFuture<'static, Result<(), Lost>> {
        let this = self.this();
        async move {
            if this.head_of_changes().is_some() {
                return Err(Lost); // a chain could not be finished: the next opening tries again
            }
            this.repeat.set(this.memory.borrow().has_news());
            this.repeated().await?;
            this.shared.rest(this.number).await.map_err(|_| Lost)
        }
        .boxed_local()
    }

    fn count_repetition(&self, over_a_start: bool) {
        self.memory.borrow_mut().count_repetition(over_a_start);
    }

    fn log_statistics(&self) -> Option<LogStatistics> {
        Some(self.statistics())
    }
}
