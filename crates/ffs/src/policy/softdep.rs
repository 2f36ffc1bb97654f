//! Policy `softdep`: soft updates. Writes are delayed, and each change lands after its
//! dependencies.
//!
//! The meaning of an item gives it a rank, as under [`super::sync`], and it lands after the lower
//! ranks of its own Update. It waits only for those other Updates that it needs, which [`facts`]
//! finds; Updates become durable one by one, in any order that respects this. A round writes in
//! place what is *due*: Updates that callers wait for with all their dependencies, old ones, and
//! everything when memory is short or the volume comes to rest. Other changes in the written blocks
//! land too if they may; the rest is undone in the copy.
//!
//! | waits | for |
//! |---|---|
//! | a name of an inode that is not on the disk yet | the inode, and the count of its parent |
//! | a replacement or removal by an Update that also adds a name | the new name to hang |
//! | a name that goes while the file keeps others | recently added names of the file to hang |
//! | the name of a directory that goes | entries moved out of it to hang |
//! | a link that goes with a name in a directory that grows | the directory to show that |
//! | blocks and pointers that go with the last name | every name to be gone |
//! | freed bits of a metadata block | all changes of the block |
//! | a directory run that moves | all changes of the run |
//! | an Update that rests on others | all of these |
//!
//! A name that comes and goes before any write includes it is *cancelled*, and so is one that goes
//! and comes back: neither change is made. Updates that waited for such a name wait for its
//! replacement: the Update that removed it hangs instead. A name is not cancelled if that could
//! close a circle (`Flights::may_stand_for`), or if a caller waits for it. A small file leaves no
//! trace if all its names were cancelled, no write has included any part of it, and not too much
//! was changed since it began: its inode and its blocks are free when its last name goes.
//!
//! A name *hangs* when it is durable, its directory covers it, and the directory's own name hangs.
//!
//! **Commit point**: an Update has happened when the flush that covers its last item completes,
//! bits that it gives back aside, and the names that it added hang ([`Dependencies::landed`]).
//! Before that, a crash may show any part of it that its ranks and waits allow, and later Updates
//! that do not depend on it may be durable.
//!
//! Invariants:
//! 1. A delta lands only when all items of its Update with lower ranks are durable, and everything
//!    that its rank waits for. Attributes land at any time.
//! 2. A wait is for an earlier Update, or, for one whose name was cancelled, for its replacement,
//!    which does not wait for the waiting one. So no Update waits for itself, and every round
//!    writes something due in place.
//!
//!    This includes the waits of a ring of intents, which are for earlier Updates and are known
//!    before a name is cancelled. An inode that is evidence lands as a whole, so its change stands
//!    on each pending one before it, whatever the rank of that. Such an Update *follows* the
//!    earlier ones ([`Flight::stand_on`]) and counts as one that waits to prepare, so the search
//!    before a cancellation finds each way by which the replacement may wait. The name of an
//!    Update with an intent, or of one that waits because of evidence, is never cancelled.
//! 3. Deltas on one field land in order; links commute (the buffer sees to it).
//! 4. A due Update makes all its dependencies due.
//! 5. An Update is in flight no longer than [`Ages::most`] and the rounds that it takes.
//!
//! Not asserted: 3, which the buffer keeps; 4, since a round that writes nothing in place is
//! noticed by 2; 5, which is about time.

mod cancel;
mod counts;
mod facts;
mod options;
mod work;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use cache::Meter;
use futures::FutureExt;
use futures::future::{LocalBoxFuture, select};
use runtime::{Clock, Instant, Runtime};
use vfs::Sequence;
use vnode::horizon::Horizon;

use super::in_place::{InPlace, Order, Pending};
use super::sync::rank_of;
use super::{SoftUpdatesCounts, Staged, StagedUpdate};
use crate::buffer::{Buffer, Delta, Role};
use crate::home::Home;
use crate::intents::{FIRST_SEEN, Hold, Intents};
use crate::item::{Intent, Item};
use crate::planted::{Bug, is_planted};
use counts::Counters;
use facts::{Facts, Names};

pub use options::SoftUpdatesOptions;

/// The ranks of policy `sync`, and [`WHENEVER`].
const RANKS: usize = 11;
/// The rank of items that wait for no item and that no item waits for.
const WHENEVER: usize = 10;
/// The first rank that makes something visible.
const REVEALING: usize = 2;
/// The first rank that removes something.
const DESTRUCTIVE: usize = 6;
/// The first rank behind names that go.
const BEHIND_NAMES: usize = 7;
/// The rank of freed bits.
const GIVING_BACK: usize = 9;
/// The first rank that replaces something.
const REPLACING: usize = 4;
/// Maximum number of Updates searched to see whether a name may be cancelled.
const MOST_LOOKED_AT: usize = 32;
/// Interval of the search for old changes.
const TICK: Duration = Duration::from_secs(1);

/// The state that another Update has to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// Inodes initialised, links counted.
    Prepared,
    /// The names that it adds hang.
    Hung,
    /// Removed names are gone.
    Dropped,
    /// Durable.
    Done,
    /// Durable, and so is every earlier Update.
    DoneThrough,
}

/// A wait of one Update for another, from a rank on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    from: usize,
    on: u64,
    until: Until,
}

/// An Update that is not fully durable.
struct Flight {
    sequence: u64,
    /// Number of remaining items of each rank.
    remaining: [u32; RANKS],
    /// Whether payload still waits for a flush issued after it.
    payload: bool,
    since: Instant,
    waits: Vec<Wait>,
    /// Updates that have to hang for its names to hang.
    hangs_on: BTreeSet<u64>,
    /// Earlier Updates that changed the same entries, and with a ring of intents those without
    /// which one of its inodes cannot land.
    follows: BTreeSet<u64>,
    /// Whether some of these are about inodes.
    stands_on_others: bool,
    /// Updates that depend on it by a wait, for hanging, or for an entry.
    needed_by: Vec<u64>,
    /// Updates whose state may change when the state of this one does; some may be durable by now.
    watched_by: Vec<u64>,
    /// Whether the Update changes '..' of a directory.
    has_moved_directory: bool,
    is_hung: bool,
    /// The names that it removes are gone, and their directories show that.
    is_dropped: bool,
    /// Callers have been told that it is durable.
    is_told: bool,
    /// Approximate bytes of memory of its waits.
    bytes: usize,
    /// Blocks in which its items land, each with its rank.
    homes: Vec<(usize, u64)>,
    names: Names,
}

/// The first rank that is not visible anywhere.
fn first_unseen() -> usize {
    if is_planted(Bug::HastyTelling) { BEHIND_NAMES } else { GIVING_BACK }
}

impl Flight {
    /// A flight without items or waits.
    fn new(sequence: u64, since: Instant) -> Self {
        Self {
            sequence,
            remaining: [0; RANKS],
            payload: false,
            since,
            waits: Vec::new(),
            hangs_on: BTreeSet::new(),
            follows: BTreeSet::new(),
            stands_on_others: false,
            needed_by: Vec::new(),
            watched_by: Vec::new(),
            has_moved_directory: false,
            is_hung: false,
            is_dropped: false,
            is_told: false,
            bytes: 0,
            homes: Vec::new(),
            names: Names::default(),
        }
    }

    /// The lowest rank that is not durable.
    fn current(&self) -> usize {
        self.remaining[..WHENEVER].iter().position(|&count| count > 0).unwrap_or(WHENEVER)
    }

    fn is_landed(&self) -> bool {
        self.remaining.iter().all(|&count| count == 0)
    }

    /// Whether only freed bits are left of it.
    fn only_gives_back(&self) -> bool {
        let first = first_unseen();
        let mut others = self.remaining.iter().enumerate();
        others.all(|(rank, &count)| count == 0 || (first..=GIVING_BACK).contains(&rank))
    }

    /// Whether its inodes and links wait for another Update.
    fn waits_to_prepare(&self) -> bool {
        self.stands_on_others || self.waits.iter().any(|wait| wait.from < REVEALING)
    }

    /// Approximate bytes of memory that it takes, including entries in other flights.
    fn memory(&self) -> usize {
        const IN_SET: usize = 3 * size_of::<u64>();
        let noted = self.hangs_on.len() + self.follows.len();
        let waits = self.waits.len() * (size_of::<Wait>() + 2 * size_of::<u64>());
        size_of::<Self>() + waits + noted * (IN_SET + 2 * size_of::<u64>())
    }

    /// The Updates that it cannot be durable without.
    fn needs(&self) -> impl Iterator<Item = u64> {
        let waits = self.waits.iter().map(|wait| wait.on);
        waits.chain(self.hangs_on.iter().copied()).chain(self.follows.iter().copied())
    }
}

/// Updates in flight by sequence, those whose state may have changed, and the intents that delay
/// some.
#[derive(Default)]
struct Flights(BTreeMap<u64, Flight>, work::Work, Option<Rc<Intents>>);

impl Flights {
    fn is_met(&self, wait: &Wait) -> bool {
        if wait.until == Until::DoneThrough {
            return self.0.first_key_value().is_none_or(|(&first, _)| first > wait.on);
        }
        let Some(flight) = self.0.get(&wait.on) else { return true };
        match wait.until {
            Until::Prepared => flight.current() >= REVEALING,
            Until::Hung => flight.is_hung,
            Until::Dropped => flight.is_dropped,
            Until::Done => flight.is_told, // its freed bits are not visible anywhere
            Until::DoneThrough => false,
        }
    }

    /// Whether the name of Update `before` may hang when that of a later Update does, which depends
    /// on `needs`. It may not if one of these depends on `before` (invariant 2). The search is
    /// short, and does not pass Updates up to `pinned`, which others depend on all together.
    fn may_stand_for(&self, before: u64, pinned: u64, needs: &BTreeSet<u64>) -> bool {
        let mut seen = BTreeSet::from([before]);
        let mut open = vec![before];
        while let Some(sequence) = open.pop() {
            if needs.contains(&sequence) || sequence <= pinned || seen.len() > MOST_LOOKED_AT {
                return false;
            }
            let Some(flight) = self.0.get(&sequence) else { continue };
            open.extend(flight.needed_by.iter().copied().filter(|&by| seen.insert(by)));
        }
        true
    }

    /// The Updates that an Update needs for ranks below this one, except those that cannot have
    /// begun to wait for it: one that is prepared without waiting for any other closes no circle.
    fn needs_below(&self, flight: &Flight, rank: usize) -> BTreeSet<u64> {
        let is_bound = |wait: &&Wait| match wait.until {
            Until::Prepared => self.0.get(&wait.on).is_some_and(Flight::waits_to_prepare),
            _ => true,
        };
        let waits = flight.waits.iter().filter(|wait| wait.from < rank).filter(is_bound);
        let waits = waits.map(|wait| wait.on);
        waits.chain(flight.hangs_on.iter().copied()).chain(flight.follows.iter().copied()).collect()
    }

    /// Whether an Update in flight waits for this one.
    fn is_needed(&self, sequence: u64) -> bool {
        let flight = self.0.get(&sequence);
        flight.is_some_and(|flight| flight.needed_by.iter().any(|by| self.0.contains_key(by)))
    }

    /// Whether an item of this rank may land.
    fn may_land(&self, flight: &Flight, rank: usize) -> bool {
        let mut waits = flight.waits.iter().filter(|wait| wait.from <= rank);
        rank == WHENEVER
            || rank <= flight.current()
                && waits.all(|wait| self.is_met(wait))
                && self.2.as_ref().is_none_or(|it| it.allows(flight.sequence, rank as u32))
    }
}

/// Maximum age of a change before it is written in place, by the block that it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ages {
    /// In an inode or a map.
    pub inode: Duration,
    /// In a directory.
    pub directory: Duration,
    /// In any other block, and for a whole Update.
    pub file: Duration,
}

impl Default for Ages {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { inode: seconds(10), directory: seconds(15), file: seconds(30) }
    }
}

impl Ages {
    fn of(&self, role: Role) -> Duration {
        match role {
            Role::Group(_) | Role::Inodes => self.inode,
            Role::Directory => self.directory,
            Role::Indirect => self.file,
        }
    }

    /// The shortest age.
    fn least(&self) -> Duration {
        self.inode.min(self.directory).min(self.file)
    }

    /// The longest age.
    fn most(&self) -> Duration {
        self.file
    }
}

/// See the module's prose.
pub type SoftUpdates = InPlace<Dependencies>;

/// The order of the policy.
pub struct Dependencies {
    horizon: Horizon,
    flights: Rc<RefCell<Flights>>,
    intents: Option<Rc<Intents>>,
    facts: RefCell<Facts>,
    /// Updates in flight that are wanted now.
    due: RefCell<BTreeSet<u64>>,
    clock: Rc<dyn Clock>,
    options: SoftUpdatesOptions,
    counters: Counters,
    /// Updates that later ones will rest on: they go with the next round, or make one soon.
    ahead: RefCell<Vec<u64>>,
    /// An Update rests on all Updates up to this one.
    pinned: Cell<u64>,
    /// All Updates up to this one must be written in place to the last bit.
    hurried: Cell<u64>,
    /// Whether something was due when the round began.
    pushes: Cell<bool>,
    /// Time of the next search for old changes.
    tick: Cell<Instant>,
    /// Counts the memory of Updates in flight together with the deltas: both have one limit.
    memory: Meter,
}

impl SoftUpdates {
    /// A policy that writes in place to `home`, and intents to a ring if there is one.
    pub(crate) fn new(
        home: Rc<Home>,
        runtime: Runtime,
        options: SoftUpdatesOptions,
        intents: Option<Rc<Intents>>,
    ) -> Rc<Self> {
        let clock = runtime.clock.clone();
        let order = Dependencies {
            horizon: Horizon::out_of_order(),
            flights: Rc::new(RefCell::new(Flights(
                BTreeMap::new(),
                work::Work::default(),
                intents.clone(),
            ))),
            intents: intents.clone(),
            facts: RefCell::default(),
            due: RefCell::default(),
            ahead: RefCell::default(),
            pinned: Cell::new(0),
            hurried: Cell::new(0),
            pushes: Cell::new(false),
            tick: Cell::new(clock.now()),
            clock,
            memory: home.budget().deltas().clone(),
            options,
            counters: Counters::default(),
        };
        Self::with(order, home, runtime, intents)
    }
}

impl Dependencies {
    /// Makes Updates that callers asked for due, with all their dependencies.
    fn note_asked(&self) {
        let (through, each) = self.horizon.take_asked();
        let flights = self.flights.borrow();
        let asked = flights.0.range(..=through.0).map(|(&sequence, _)| sequence);
        let asked: Vec<u64> = asked.chain(each.into_iter().map(|sequence| sequence.0)).collect();
        drop(flights);
        self.want(asked, true);
    }

    /// Makes Updates due, with all their dependencies (invariant 4); `is_awaited` if a caller
    /// waits.
    fn want(&self, sequences: impl IntoIterator<Item = u64>, is_awaited: bool) {
        let (flights, mut due) = (self.flights.borrow(), self.due.borrow_mut());
        let mut open: Vec<u64> = sequences.into_iter().collect();
        while let Some(sequence) = open.pop() {
            let Some(flight) = flights.0.get(&sequence) else { continue };
            let is_new =
                due.insert(sequence) | (is_awaited && self.counters.note_awaited(sequence));
            if !is_new || is_planted(Bug::LonelyPushes) {
                continue;
            }
            let is_told = |on: &u64| flights.0.get(on).is_some_and(|flight| flight.is_told);
            open.extend(flight.needs().filter(|on| !is_told(on)));
            let through = flight.waits.iter().filter(|wait| wait.until == Until::DoneThrough);
            for wait in through {
                open.extend(flights.0.range(..=wait.on).map(|(&before, _)| before));
            }
        }
    }

    /// Buffers with a change that has reached its maximum age and may land, and Updates whose
    /// changes are all that old. Attributes alone wait for the latter, since other changes that
    /// land carry them along.
    fn aged(&self, pending: &Pending) -> (Pending, Vec<u64>) {
        let flights = self.flights.borrow();
        let now = self.clock.now();
        let age = |sequence: u64| flights.0.get(&sequence).map(|flight| now.since(flight.since));
        let may_land = self.conditions();
        let holds = |delta: &Delta| delta.tag as usize != WHENEVER && may_land(delta);
        // Only changes of the oldest Updates can be old: they were staged in order.
        let least = self.options.ages.least();
        let oldest = flights.0.values().take_while(|flight| now.since(flight.since) >= least);
        let homes = oldest.flat_map(|flight| flight.homes.iter().map(|&(_, address)| address));
        let homes: BTreeSet<u64> = homes.collect();
        let is_old = |buffer: &Buffer| {
            let most = self.options.ages.of(buffer.role());
            buffer.has_landing(holds, |sequence| age(sequence.0).is_some_and(|age| age >= most))
        };
        let buffers = homes.iter().filter_map(|address| pending.get_key_value(address));
        let buffers = buffers.filter(|(_, buffer)| is_old(buffer));
        let buffers = buffers.map(|(&address, buffer)| (address, buffer.clone())).collect();
        let old = flights.0.iter().take_while(|(_, flight)| {
            now.since(flight.since) >= self.options.ages.most() // they were staged in order
        });
        (buffers, old.map(|(&sequence, _)| sequence).collect())
    }

    /// The buffers in which part of a due Update may land now.
    fn due_buffers(&self, pending: &Pending) -> Pending {
        let (flights, due) = (self.flights.borrow(), self.due.borrow());
        let mut chosen = Pending::new();
        for flight in due.iter().filter_map(|sequence| flights.0.get(sequence)) {
            for &(rank, address) in &flight.homes {
                if flight.remaining[rank] > 0
                    && flights.may_land(flight, rank)
                    && let Some(buffer) = pending.get(&address)
                {
                    chosen.insert(address, buffer.clone());
                }
            }
        }
        chosen
    }

    /// Updates that are not due and block due ones in these buffers.
    fn in_the_way(&self, chosen: &Pending) -> Vec<u64> {
        let holds = self.conditions();
        let due = self.due.borrow();
        let wants = |sequence: Sequence| due.contains(&sequence.0);
        let blockers = chosen.values().flat_map(|buffer| buffer.blockers(&holds, wants));
        blockers.map(|sequence| sequence.0).filter(|sequence| !due.contains(sequence)).collect()
    }
}

impl Order for Dependencies {
    fn horizon(&self) -> &Horizon {
        &self.horizon
    }

    fn parts_inodes(&self) -> bool {
        true
    }

    fn tags(&self, items: &[Item], lands_whole: bool) -> Vec<u32> {
        let free = if lands_whole { FIRST_SEEN } else { WHENEVER as u32 };
        items.iter().map(|item| rank_of(item.intent).unwrap_or(free)).collect()
    }

    fn stage(&self, sequence: Sequence, update: &StagedUpdate, pending: &Pending) -> bool {
        let moves_up = |item: &Staged| item.intent == Intent::ParentRetargeted;
        let has_moved_directory = update.items.iter().any(moves_up);
        let mut flight =
            Flight { has_moved_directory, ..Flight::new(sequence.0, self.clock.now()) };
        for item in &update.items {
            flight.remaining[item.tag as usize] += 1;
            match &item.change {
                Some((buffer, _)) => flight.homes.push((item.tag as usize, buffer.address())),
                None => flight.payload = true,
            }
        }
        self.counters.count_payload(update.payload.len(), !update.manner.is_unasked);
        self.facts.borrow_mut().note(sequence.0, update, &mut flight);
        flight.rest_on(&update.manner.rests_on);
        self.pinned.set(self.pinned.get().max(update.manner.rests_on.all_through().0));
        flight.come_after(sequence, update);
        flight.outlive(sequence, update, pending);
        if let Some(intents) = &self.intents {
            let waits = intents.waits_of(sequence.0).into_iter();
            flight.waits.extend(waits.map(|Hold { on, from }| Wait {
                from: from as usize,
                on,
                until: Until::Done,
            }));
            flight.stand_on(sequence, update);
        }
        self.cancel(sequence, update, &mut flight);
        let is_void = self.forget_file(sequence, update, &mut flight, pending);
        let earlier = flight.needs().all(|before| before < sequence.0);
        assert!(earlier, "invariant 2: an Update waits for earlier ones");
        let mut flights = self.flights.borrow_mut();
        for before in flights.needs_below(&flight, RANKS) {
            if let Some(before) = flights.0.get_mut(&before) {
                before.needed_by.push(sequence.0);
            }
        }
        if update.items.iter().any(|item| item.intent == Intent::InitialisedRaised) {
            self.ahead.borrow_mut().push(sequence.0);
        }
        flight.bytes = flight.memory();
        self.memory.add(flight.bytes);
        flights.insert(flight);
        is_void
    }

    fn is_busy(&self) -> bool {
        !self.flights.borrow().0.is_empty()
    }

    fn awaits_flush(&self) -> bool {
        self.flights.borrow().0.values().any(|flight| flight.payload)
    }

    fn is_home(&self, through: Sequence) -> bool {
        self.flights.borrow().0.first_key_value().is_none_or(|(&first, _)| first > through.0)
    }

    fn due<'a>(&'a self, pending: &'a RefCell<Pending>) -> LocalBoxFuture<'a, ()> {
        async move {
            loop {
                if !self.due.borrow().is_empty() || self.horizon.has_asked() {
                    return;
                }
                let now = self.clock.now();
                if now >= self.tick.get() {
                    self.tick.set(now.after(TICK));
                    let (buffers, old) = self.aged(&pending.borrow());
                    if !buffers.is_empty() || !old.is_empty() || !self.ahead.borrow().is_empty() {
                        return;
                    }
                }
                let asked = pin!(self.horizon.was_asked());
                select(self.clock.sleep(self.tick.get().since(now)), asked).await;
            }
        }
        .boxed_local()
    }

    fn hurry(&self) {
        let all: Vec<u64> = self.flights.borrow().0.keys().copied().collect();
        for &sequence in &all {
            self.counters.note_awaited(sequence);
        }
        self.hurried.set(all.last().copied().unwrap_or(0).max(self.hurried.get()));
        self.due.borrow_mut().extend(all);
    }

    fn push(&self) {
        let mut due = self.due.borrow_mut();
        if due.is_empty() {
            due.extend(self.flights.borrow().0.keys()); // later ones are for the next push
        }
    }

    fn most_memory(&self, budget: usize) -> usize {
        self.options.most_memory(budget)
    }

    fn writes(&self, buffer: &Buffer, is_awaited: bool) {
        let is_one = |sequence: Sequence| self.counters.is_awaited(sequence.0);
        let (brings, undone) = buffer.landing(is_one);
        self.counters.count_write(undone > 0, is_awaited || brings);
    }

    fn flushed(&self) {
        self.counters.count_flush();
    }

    fn counts(&self, pending_bytes: usize) -> Option<SoftUpdatesCounts> {
        let flights = self.flights.borrow();
        let oldest = flights.0.values().next().map(|flight| self.clock.now().since(flight.since));
        Some(SoftUpdatesCounts {
            pending: flights.0.len() as u64,
            pending_bytes: pending_bytes as u64,
            oldest_ms: oldest.map_or(0, |age| age.as_millis() as u64),
            waits: self.horizon.waits(),
            ..self.counters.read()
        })
    }

    fn choose(&self, pending: &Pending) -> Pending {
        self.note_asked();
        let mut flights = self.flights.borrow_mut(); // staged since the last round
        flights.settle(!is_planted(Bug::StaleHangs));
        drop(flights);
        let (aged, old) = self.aged(pending);
        self.want(old, false);
        self.want(self.ahead.take(), false);
        self.pushes.set(!self.due.borrow().is_empty());
        loop {
            let chosen = self.due_buffers(pending);
            let in_the_way = self.in_the_way(&chosen);
            if in_the_way.is_empty() {
                return chosen.into_iter().chain(aged).collect();
            }
            self.want(in_the_way, self.counters.has_awaited());
        }
    }

    fn conditions(&self) -> impl Fn(&Delta) -> bool + use<> {
        let flights = self.flights.clone();
        move |delta| {
            let flights = flights.borrow();
            let flight = flights.0.get(&delta.sequence.0);
            flight.is_some_and(|flight| flights.may_land(flight, delta.tag as usize))
        }
    }

    fn landed(&self, landed: Vec<(Sequence, u32)>, covered: u64, _next: u64) {
        let mut flights = self.flights.borrow_mut();
        let mut has_moved = !landed.is_empty() || !self.pushes.get();
        for (sequence, rank) in landed {
            let flight = &flights.0[&sequence.0];
            debug_assert!(
                flights.may_land(flight, rank as usize) || is_planted(Bug::LooseUpdates),
                "invariant 1: what it waits for is durable"
            );
            flights.lands(sequence.0, rank as usize);
        }
        has_moved |= flights.payload_lands(covered);
        let done = flights.take_done();
        drop(flights);
        has_moved |= !done.is_empty();
        has_moved |= is_planted(Bug::EarlyReceipts); // callers were told of all of it before
        has_moved |= self.intents.as_ref().is_some_and(|intents| intents.has_moved());
        debug_assert!(has_moved, "invariant 2: a round brings something home");
        for (sequence, flight) in done {
            self.due.borrow_mut().remove(&sequence);
            self.memory.subtract(flight.bytes);
            self.counters.forget(sequence);
            self.facts.borrow_mut().forget(sequence, &flight.names);
            if !flight.is_told {
                self.horizon.pass(sequence);
            }
        }
        let told = self.flights.borrow_mut().find_told();
        for sequence in told {
            let is_needed = self.flights.borrow().is_needed(sequence);
            if sequence > self.hurried.get().max(self.pinned.get()) && !is_needed {
                self.due.borrow_mut().remove(&sequence); // the rest is not urgent
            }
            self.horizon.pass(sequence);
        }
    }
}
