//! Commits: from memory to an update on the disk.
//!
//! ```text
//!  open --seal--> sealed --write--> written --flush--> durable
//!   ^  \ changes that are staged meanwhile go with the next update
//!   '--'
//! ```
//!
//! All changes that were staged since the last seal are one update. Its blocks of metadata,
//! including small payload, and its superblock go out side by side. One flush makes them durable,
//! together with payload that was written ahead. The superblock lists, with checksums, the runs
//! that may not be durable: so an opening knows whether all of the update is there.
//!
//! Invariants:
//! 1. One update at a time is on its way.
//! 2. A superblock never goes to the slot of the last durable one.
//! 3. A unit that an update frees is free when the update is durable, and not before.
//! 4. A superblock lists each run to which it leads and which no flush covers.
//! 5. A sealed update does not change, and sealing waits for nothing.
//! 6. A superblock goes to a zone that a durable anchor names.
//!
//! Not asserted: 2, which `slots` asserts; 3 and 4, which are tested by openings after cuts; 5,
//! which is about copies.
//!
//! Commit point: [`Commits::durable`], where the horizon advances.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use block::{Durability, IoError};
use bytes::Bytes;
use cache::DataPath;
use cache::refusals::all_written;
use cow::format::head::seal;
use cow::format::snapshot::{self, Line, Snapshots};
use cow::live::Live;
use cow::{Balance, Node, Pins, Place, Pointer, Run, Span, UNIT, VERSION, coalesced, sum};
use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all, select};
use runtime::Runtime;
use vfs::{FsError, Sequence, Snapshot};
use vnode::chain::Chain;

use crate::anchors;
use crate::format::ANCHORS;
use crate::format::anchor::{Anchor, Shape};
use crate::format::kind;
use crate::format::record::{self, Change};
use crate::format::superblock::{LISTED, Listed, Superblock, Volume};
use crate::planted::{Bug, is_planted};
use crate::renewed::Renewed;
use crate::runs::{Unfolded, most_records, runs_of};
use crate::space::Space;
use crate::space_log::{Attempts, Log};
use crate::units::Nodes;

/// The volume stops when the unfolded records reach this multiple of one fold and the blocks that
/// a fold changes are unreadable.
const PATIENCE: usize = 4;
/// Runs and units of payload that a superblock lists at most; more payload is flushed before.
const PAYLOAD_RUNS: usize = LISTED / 2;
const PAYLOAD_UNITS: u64 = 1024;
/// Units that a superblock lists at most.
const LISTED_UNITS: u64 = 2048;
/// Time that a write-back of UNSTABLE data waits for others, if no task wants it durable.
const PATIENCE_FOR_OTHERS: Duration = Duration::from_millis(30);
/// Time that an update waits so that it changes while it is written, for a planted bug.
const THAW: Duration = Duration::from_micros(500);
/// Time between two attempts to write an update when there is no room below.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// Changes that were staged since the last seal.
#[derive(Default)]
pub(crate) struct Open {
    /// The update is to go out as soon as it can.
    pub(crate) is_due: bool,
    /// The last change.
    through: u64,
    pub(crate) answers: Vec<Rc<[u8]>>,
    pub(crate) taken: Vec<Run>,
    pub(crate) freed: Vec<Run>,
    /// Free runs that need no record: they are free in the map already.
    unheld: Vec<Run>,
    pub(crate) died: Vec<(Run, Span)>,
    /// Number of dead runs of each span.
    pub(crate) spans: BTreeMap<Span, u64>,
    /// Data that goes with the update.
    riding: BTreeMap<u64, Bytes>,
}

/// A snapshot to be made with an update: its line goes to a slot of this block.
pub struct Pin {
    pub(crate) snapshot: Snapshot,
    pub(crate) leaf: Rc<Node>,
    pub(crate) slot: u64,
}

/// Keeps updates from being sealed as long as it exists.
pub struct Hold(Rc<Commits>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.is_held.set(false);
        if self.0.is_due() {
            self.0.kick();
        }
    }
}

/// A sealed update, which does not change any more.
struct Sealed {
    superblock: Superblock,
    /// The unit for its superblock.
    at: u64,
    writes: Vec<(u64, Bytes, u64)>,
    through: u64,
    freed: Vec<Run>,
    /// Blocks of payload that no flush covers, with their checksums.
    payload: BTreeMap<u64, u64>,
    /// Data among the writes.
    riding: BTreeMap<u64, Bytes>,
    /// Its blocks stay in memory until the device has them: no reader asks the device before.
    nodes: Vec<Rc<Node>>,
}

/// The parts of an Update other than blocks of metadata.
#[derive(Default)]
pub(crate) struct Staged {
    pub(crate) sequence: u64,
    pub(crate) answer: Option<Rc<[u8]>>,
    pub(crate) taken: Vec<Run>,
    pub(crate) freed: Vec<Run>,
    /// Free runs that need no record.
    pub(crate) unheld: Vec<Run>,
    /// Runs that only snapshots hold from now on.
    pub(crate) died: Vec<(Run, Span)>,
    /// Blocks of data written, with their checksums.
    pub(crate) written: Vec<(u64, u64)>,
    /// A snapshot to be made of all that was staged, including this Update.
    pub(crate) pin: Option<Pin>,
    /// Has kept updates from being sealed meanwhile.
    pub(crate) hold: Option<Hold>,
    /// Data that goes with the update, and is visible to readers already.
    pub(crate) riding: Vec<(u64, Bytes)>,
}

/// Totals since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Updates that became durable.
    pub updates: u64,
    /// Flushes, and write-through writes.
    pub barriers: u64,
    /// Updates whose blocks had to be flushed before their superblock was written.
    pub split_updates: u64,
    /// Bytes of metadata, including superblocks and anchors.
    pub metadata_bytes: u64,
    /// Bytes of data of files.
    pub data_bytes: u64,
    /// Staged changes, each for a call or a step of one.
    pub changes: u64,
}

/// See the module's prose.
pub struct Commits {
    pub(crate) runtime: Runtime,
    pub(crate) shape: Shape,
    pub(crate) nodes: Rc<Nodes>,
    pub(crate) space: Rc<Space>,
    pub(crate) pins: Rc<Pins>,
    pub(crate) path: Rc<DataPath>,
    /// The state that it shares with files.
    pub(crate) live: Rc<Live>,
    pub(crate) anchor: RefCell<Anchor>,
    /// The superblock that was sealed last.
    pub(crate) superblock: RefCell<Superblock>,
    /// The units of the last durable superblock, and of the one before it.
    pub(crate) durable: Cell<[u64; 2]>,
    pub(crate) open: RefCell<Open>,
    /// Blocks of payload of staged changes that no flush covers, with their checksums.
    unflushed: RefCell<BTreeMap<u64, u64>>,
    pub(crate) unfolded: RefCell<Unfolded>,
    pub(crate) log: RefCell<Log>,
    is_running: Cell<bool>,
    /// A task makes sure that changes that wait for others become due.
    waits: Cell<bool>,
    pub(crate) is_held: Cell<bool>,
    /// A sealed update that waits to be written.
    pending: RefCell<Option<Sealed>>,
    /// A change finds no room, and a fold may make some.
    pub(crate) is_fold_wanted: Cell<bool>,
    pub(crate) folds_for_room: Attempts,
    /// Number of folds that failed because a block could not be read.
    pub(crate) unfoldable: Cell<u64>,
    counts: Cell<Counts>,
    /// Blocks of the map that are lost, or may be: the next fold rewrites them.
    pub(crate) lost_leaves: RefCell<BTreeSet<u64>>,
    /// Blocks of the engine's own books that were lost, and rewritten.
    pub(crate) renewed: Cell<Renewed>,
}

/// The result of an opening.
pub(crate) struct Found {
    pub(crate) anchor: Anchor,
    pub(crate) superblock: Superblock,
    /// Its unit.
    pub(crate) at: u64,
    pub(crate) unfolded: Unfolded,
    pub(crate) log: Log,
    pub(crate) pins: Pins,
}

impl Commits {
    pub(crate) fn new(
        runtime: Runtime,
        nodes: Rc<Nodes>,
        space: Rc<Space>,
        path: Rc<DataPath>,
        found: Found,
    ) -> Rc<Self> {
        let Found { anchor, mut superblock, at, unfolded, log, pins } = found;
        superblock.durable = superblock.number; // its listed runs were rewritten
        let Superblock { next_ino, files, directories, units, .. } = superblock;
        let live = Live::found(&superblock.chains, next_ino, [files, directories, units]);
        Rc::new(Self {
            runtime,
            shape: anchor.shape,
            nodes,
            space,
            pins: Rc::new(pins),
            path,
            live: Rc::new(live),
            anchor: RefCell::new(anchor),
            superblock: RefCell::new(superblock),
            durable: Cell::new([at, at]),
            open: RefCell::default(),
            unflushed: RefCell::default(),
            unfolded: RefCell::new(unfolded),
            log: RefCell::new(log),
            is_running: Cell::new(false),
            waits: Cell::new(false),
            is_held: Cell::new(false),
            pending: RefCell::default(),
            is_fold_wanted: Cell::new(false),
            folds_for_room: Attempts::default(),
            unfoldable: Cell::default(),
            counts: Cell::default(),
            lost_leaves: RefCell::default(),
            renewed: Cell::default(),
        })
    }

    /// Totals since the volume was opened.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.get()
    }

    /// The number of the open update.
    pub(crate) fn number(&self) -> u64 {
        self.superblock.borrow().number + 1
    }

    /// Continues behind the last number that an opening has seen.
    pub(crate) fn pass_number(&self, highest: u64) {
        // One more superblock may have been torn so that it was not seen.
        let torn = u64::from(!is_planted(Bug::UncountedTears));
        if !is_planted(Bug::UnpassedNumbers) {
            self.superblock.borrow_mut().number = highest + torn;
        }
    }

    /// Stages a change that is in memory, to become durable soon or later.
    pub(crate) fn stage(&self, staged: Staged) {
        self.count(|counts| counts.changes += 1);
        let mut open = self.open.borrow_mut();
        open.through = staged.sequence;
        open.answers.extend(staged.answer);
        open.taken.extend(staged.taken);
        if is_planted(Bug::EarlyFrees) {
            staged.freed.iter().for_each(|&run| self.space.free(run));
        }
        if is_planted(Bug::EarlyDiscards) {
            self.discard_early(&staged.freed);
        }
        let mut unflushed = self.unflushed.borrow_mut();
        unflushed.extend(staged.written);
        open.riding.extend(staged.riding);
        // A run freed before it was durable may be overwritten once that free is durable.
        for run in staged.freed.iter().filter(|_| !is_planted(Bug::ListedFrees)) {
            for unit in run.start..run.end() {
                unflushed.remove(&unit);
                if let Some(data) = open.riding.remove(&unit) {
                    let start = unit * UNIT as u64;
                    self.path.drop_held(start..start + data.len() as u64);
                }
            }
        }
        open.freed.extend(staged.freed);
        open.unheld.extend(staged.unheld);
        staged.died.iter().for_each(|&(_, span)| *open.spans.entry(span).or_default() += 1);
        open.died.extend(staged.died);
        drop((open, unflushed));
        if let Some(pin) = staged.pin {
            assert!(self.is_held.get() && !self.is_running.get(), "invariant 1");
            let sealed = self.seal(Some(pin));
            self.pending.replace(Some(sealed));
        }
        drop(staged.hold);
    }

    /// Waits until no update is on its way, and keeps others from being sealed.
    ///
    /// # Errors
    /// As [`Commits::next_release`].
    pub(crate) async fn hold(self: &Rc<Self>) -> Result<Hold, FsError> {
        assert!(!self.is_held.replace(true), "one change of snapshots at a time");
        let hold = Hold(self.clone());
        while self.is_running.get() {
            self.next_release().await?;
        }
        if self.live.horizon.has_stopped() { Err(FsError::Io) } else { Ok(hold) }
    }

    /// Waits until all staged changes are durable, and no update is on its way.
    ///
    /// # Errors
    /// As [`Commits::next_release`].
    pub(crate) async fn all_durable(self: &Rc<Self>) -> Result<(), FsError> {
        if self.has_staged() {
            self.commit_soon();
        }
        self.idle().await
    }

    /// Waits until no update is on its way, and none is due.
    ///
    /// # Errors
    /// As [`Commits::next_release`].
    pub(crate) async fn idle(self: &Rc<Self>) -> Result<(), FsError> {
        while self.is_busy() || self.is_due() {
            self.next_release().await?;
        }
        if self.live.horizon.has_stopped() { Err(FsError::Io) } else { Ok(()) }
    }

    /// Whether changes are staged that are not sealed.
    pub(crate) fn has_staged(&self) -> bool {
        self.open.borrow().through > 0
    }

    /// Whether an update is due.
    pub(crate) fn is_due(&self) -> bool {
        self.pending.borrow().is_some() || self.open.borrow().is_due
    }

    /// Lets staged changes go out as soon as they can.
    pub(crate) fn commit_soon(self: &Rc<Self>) {
        let is_sealed = self.pending.borrow().is_some() && self.open.borrow().through == 0;
        self.open.borrow_mut().is_due |= !is_sealed;
        self.kick();
    }

    /// The same when a task waits for this change, or one after it, and before long in any case.
    pub(crate) fn commit_later(self: &Rc<Self>, sequence: u64) {
        if self.waits.replace(true) {
            return;
        }
        let this = self.clone();
        let wait = async move {
            let asked = pin!(this.live.horizon.asked(Sequence(sequence)));
            select(asked, this.runtime.clock.sleep(PATIENCE_FOR_OTHERS)).await;
            this.waits.set(false);
            // Perhaps all has gone out with others.
            if this.open.borrow().through > 0 {
                this.commit_soon();
            }
        };
        self.runtime.tasks.spawn(wait.boxed_local());
    }

    /// Makes the live tree that of a snapshot. All replies are forgotten, and all multi-step
    /// operations, except the freeing of the files without a name that it holds.
    pub(crate) fn roll_back(&self, told: &snapshot::Told, orphans: Vec<Chain>) {
        self.pins.roll_back(told);
        self.live.chains.replace(orphans, told.orphans_since);
        self.live.files.set(told.files);
        self.live.directories.set(told.directories);
        self.live.units.set(told.units);
        let mut superblock = self.superblock.borrow_mut();
        superblock.answers_from = superblock.answers_begun;
    }

    /// Whether an update is on its way, or about to be.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_running.get()
    }

    /// Starts to write the update that is due.
    pub(crate) fn kick(self: &Rc<Self>) {
        if !self.is_held.get() && !self.is_running.replace(true) {
            let this = self.clone();
            self.runtime.tasks.spawn(async move { this.run().await }.boxed_local());
        }
    }

    async fn run(self: Rc<Self>) {
        while self.is_due() && !self.is_held.get() && !self.live.horizon.has_failed() {
            if let Some(placement) = self.space.placement() {
                placement.quiet().await;
            }
            let sealed = self.pending.take();
            let done = match sealed {
                Some(sealed) => self.write_out(sealed, true).await,
                None => self.commit(true).await,
            };
            if done.is_err() {
                self.live.horizon.fail();
            }
        }
        self.is_running.set(false);
        self.live.released.notify();
    }

    /// Makes staged changes durable. If `is_patient`, a write that finds no room below is retried
    /// until there is some.
    ///
    /// # Errors
    /// Those of the device; then nothing becomes durable any more. [`FsError::NoSpace`] if there is
    /// no room below.
    pub(crate) async fn commit(&self, is_patient: bool) -> Result<(), FsError> {
        let records = self.unfolded.borrow().units.len();
        let is_due = self.is_fold_wanted.take() || self.is_fold_due();
        if is_due && let Err(error) = self.fold(false).await {
            if records >= PATIENCE * most_records(&self.shape) {
                return Err(error);
            }
            self.unfoldable.set(self.unfoldable.get() + 1);
        }
        if self.is_much(&self.unflushed.borrow()) {
            let covered = self.unflushed.borrow().clone();
            self.flush().await.map_err(|_| FsError::Io)?;
            self.forget_flushed(&covered);
        }
        let sealed = self.seal(None);
        if self.is_fold_wanted.get() {
            self.open.borrow_mut().is_due = true; // a scrub has found more meanwhile
        }
        self.write_out(sealed, is_patient).await
    }

    /// Writes a sealed update.
    async fn write_out(&self, sealed: Sealed, is_patient: bool) -> Result<(), FsError> {
        loop {
            let written = self.write(&sealed).await;
            let is_refused = written.as_ref().is_err_and(IoError::is_full);
            let stands = is_refused && is_patient && !is_planted(Bug::FailedByRefusals);
            self.path.refusals().set_waiting(stands);
            self.live.horizon.stand(stands);
            self.live.released.notify();
            if !stands {
                let told = |_| if is_refused { FsError::NoSpace } else { FsError::Io };
                return written.map_err(told);
            }
            self.runtime.clock.sleep(REFUSED_PAUSE).await; // invariant 5: it is the same then
        }
    }

    /// Whether an update waits for room below.
    pub(crate) fn is_refused(&self) -> bool {
        self.path.refusals().is_waiting()
    }

    /// Whether this is more payload than a superblock lists.
    fn is_much(&self, payload: &BTreeMap<u64, u64>) -> bool {
        let units = payload.len() as u64 * self.shape.block;
        units > PAYLOAD_UNITS || runs_of(payload, self.shape.block).len() > PAYLOAD_RUNS
    }

    /// Forgets blocks that a flush has covered.
    fn forget_flushed(&self, covered: &BTreeMap<u64, u64>) {
        let is_covered = |at: &u64| covered.contains_key(at) || is_planted(Bug::EarlyCover);
        self.unflushed.borrow_mut().retain(|address, _| !is_covered(address));
    }

    fn flush(&self) -> LocalBoxFuture<'static, Result<(), IoError>> {
        self.count(|counts| counts.barriers += 1);
        if is_planted(Bug::NoBarrier) {
            return std::future::ready(Ok(())).boxed_local();
        }
        self.path.flush()
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        count(&mut counts);
        self.counts.set(counts);
    }

    /// Takes units for blocks of the open update.
    fn units_for(&self, blocks: u64) -> Vec<u64> {
        self.space.set_held(self.pins.holders() > 0);
        let units = self.space.take_units(blocks, &|run| self.slots_for(run));
        units.expect("what an update needs was set aside")
    }

    /// Ends the open update: every block gets its place, from the leaves up.
    ///
    /// A snapshot holds all files as they are then: their blocks have their places before its line
    /// is written.
    fn seal(&self, mut pin: Option<Pin>) -> Sealed {
        let number = self.number();
        let Open { through, answers, taken, freed, unheld, died, riding, .. } = self.open.take();
        self.space.end_plan(&taken);
        let mut balance = Balance { taken, freed, died };
        let mut writes: Vec<(u64, Bytes, u64)> = Vec::new();
        for (&address, data) in &riding {
            let units = (0..data.len()).step_by(UNIT).map(|at| data.slice(at..at + UNIT));
            writes.extend((address..).zip(units).map(|(at, unit)| (at, unit.clone(), sum(&unit))));
        }
        pin.iter().for_each(|pin| self.nodes.mark(&pin.leaf));
        let nodes = self.nodes.take_dirty();
        let units = self.units_for(nodes.len() as u64 + 1);
        let twins = self.twins_for(&nodes, &units);
        for ((node, &address), &twin) in nodes.iter().zip(&units).zip(&twins) {
            if !node.is_pinnable()
                && let Some(pin) = pin.take()
            {
                self.write_pin(pin, number);
            }
            let (block, sum, old) = self.nodes.seal(node, (address, twin), number);
            let block = block.freeze();
            let places = [address, twin].into_iter().zip(old).filter(|(place, _)| *place > 0);
            for (place, old) in places {
                balance.taken.push(Run::of(place));
                if place == twin && is_planted(Bug::ForgottenTwins) && !old.is_null() {
                    self.pins.uncount_node(old.birth.get(), true);
                    balance.freed.push(Run::of(old.address.get()));
                } else {
                    self.leave(node, old, &mut balance);
                }
                let is_left_out = place == twin && is_planted(Bug::UnwrittenTwins);
                writes.extend((!is_left_out).then(|| (place, block.clone(), sum)));
            }
        }
        let (changes, mut freed) = self.changes_of(balance);
        self.space.note_taken(&changes, number);
        let first = units[nodes.len()];
        let previous = self.seal_record((number, first), changes, answers, &mut writes);
        freed.extend(unheld);
        let unfolded = self.unfolded.borrow();
        let mut superblock = self.superblock.borrow_mut();
        let [inodes, map, answers, lines, lists, died, log] = self.nodes.trees();
        let at = self.placed_slot(previous.address.get());
        *superblock = Superblock {
            number,
            durable_at: self.durable.get()[0],
            inodes,
            map,
            log,
            log_blocks: self.log.borrow().range(),
            answers,
            snapshots: Snapshots { lines, lists, died, ..self.pins.said() },
            record: previous,
            records: unfolded.units.len() as u32,
            next_ino: self.live.next_ino.get(),
            files: self.live.files.get(),
            directories: self.live.directories.get(),
            seconds: self.runtime.clock.wall().seconds,
            units: self.live.units.get(),
            volume: self.volume(),
            chains: self.live.chains.all(),
            listed: Vec::new(),
            version: VERSION,
            ..*superblock
        };
        let (superblock, payload) = (superblock.clone(), self.unflushed.borrow().clone());
        let nodes = if is_planted(Bug::UnheldNodes) { Vec::new() } else { nodes };
        Sealed { superblock, at, writes, through, freed, payload, riding, nodes }
    }

    /// The contents of anchors, for an opening that finds none.
    fn volume(&self) -> Volume {
        let Anchor { number, shape, label, .. } = &*self.anchor.borrow();
        Volume { shape: *shape, label: label.clone(), anchor: *number }
    }

    /// Accounts for the old place of a block of metadata that moves.
    fn leave(&self, node: &Node, old: Pointer, balance: &mut Balance) {
        match (node.is_pinnable(), old.is_null()) {
            (true, true) => self.pins.count_node(),
            (true, false) => {
                self.pins.uncount_node(old.birth.get(), true);
                balance.lose(old, 1, &self.pins);
            }
            (false, true) => {}
            (false, false) => balance.freed.push(Run::of(old.address.get())),
        }
    }

    /// Writes the line of a snapshot.
    fn write_pin(&self, pin: Pin, number: u64) {
        let Pin { snapshot, leaf, slot } = pin;
        let of_it = (snapshot.number.0, snapshot.name, snapshot.created);
        let told = snapshot::Told {
            orphans_since: self.live.chains.orphans_since(),
            ..self.live.told(&self.nodes, &self.pins, of_it, number)
        };
        leaf.change(|bytes| Line::write(bytes, slot, Some(&told)));
        self.nodes.held_trees.add(told.inodes);
        self.pins.pin(told, slot);
    }

    /// Seals the record of an update, which includes its own blocks, from the first on; returns a
    /// pointer to its last block.
    fn seal_record(
        &self,
        (number, first): (u64, u64),
        told: Vec<Change>,
        answers: Vec<Rc<[u8]>>,
        writes: &mut Vec<(u64, Bytes, u64)>,
    ) -> Pointer {
        let mut units = vec![first];
        let (blocks, changes) = loop {
            let own = units.iter().copied().map(Run::of);
            let own = coalesced(own.collect()).into_iter().map(Change::Taken);
            let changes: Vec<Change> = own.chain(told.iter().copied()).collect();
            let mut blocks = record::write(&changes, &answers);
            if blocks.len() <= units.len() {
                // One more unit may have joined two runs, so its block is not needed.
                while blocks.len() < units.len() {
                    blocks.extend(record::write(&[], &[]));
                }
                break (blocks, changes);
            }
            units.extend(self.units_for(1));
        };
        let mut previous = self.superblock.borrow().record;
        for (index, (mut block, &address)) in (0..).zip(blocks.into_iter().zip(&units)) {
            record::set_previous(&mut *block, previous);
            let place = Place { kind: kind::RECORD, owner: 0, level: 0, index };
            seal(&mut *block, place, number, self.nodes.secret());
            let sum = sum(&*block);
            previous = Pointer::new(address, number, sum);
            writes.push((address, block::Buffer::copied(&*block).freeze(), sum));
        }
        let mut unfolded = self.unfolded.borrow_mut();
        unfolded.extend(changes, answers);
        unfolded.units.extend(units);
        previous
    }

    async fn write(&self, sealed: &Sealed) -> Result<(), IoError> {
        let sums = sealed.writes.iter().map(|(address, _, sum)| (*address, *sum)).collect();
        let runs = runs_of(&sums, 1);
        let mut listed = runs_of(&sealed.payload, self.shape.block);
        listed.extend(&runs);
        let units: u64 = listed.iter().map(|listed| listed.run.length).sum();
        let is_split = listed.len() > LISTED || units > LISTED_UNITS;
        self.name_zone(sealed.at).await?;
        let is_named = self.names_zone(sealed.at) || is_planted(Bug::LateAnchors);
        assert!(is_named, "invariant 6: an opening finds the zone");
        let blocks = sealed.writes.len() as u64 - sealed.riding.len() as u64 * self.shape.block;
        let of_data: usize = sealed.riding.values().map(Bytes::len).sum();
        self.count(|counts| {
            counts.metadata_bytes += (blocks + 1) * UNIT as u64;
            counts.data_bytes += of_data as u64;
        });
        let mut blocks: BTreeMap<u64, Bytes> =
            sealed.writes.iter().map(|(address, block, _)| (*address, block.clone())).collect();
        if is_planted(Bug::ThawedUpdates) {
            self.runtime.clock.sleep(THAW).await;
            blocks.extend(sealed.nodes.iter().map(|node| self.nodes.thawed(node)));
        }
        let mut runs = runs;
        if let Some(placement) = self.space.placement() {
            runs.sort_by_key(|listed| placement.planned(&listed.run));
        }
        let write = |listed: Listed| {
            let Run { start, .. } = listed.run;
            let pieces = blocks.range(start..listed.run.end()).map(|(_, block)| block.clone());
            self.path.write(start * UNIT as u64, pieces.collect())
        };
        let mut writes: Vec<_> = runs.into_iter().map(write).collect();
        if is_split {
            self.count(|counts| counts.split_updates += 1);
            all_written(join_all(std::mem::take(&mut writes)).await)?;
            self.flush().await?;
            listed.clear();
        }
        if is_planted(Bug::UnlistedBlocks) {
            listed.clear();
        }
        let superblock = Superblock { listed, ..sealed.superblock.clone() };
        let block = superblock.write(sealed.at, self.nodes.secret());
        let block = block::Buffer::copied(&*block).freeze();
        writes.push(self.path.write(sealed.at * UNIT as u64, vec![block]));
        all_written(join_all(writes).await)?;
        self.flush().await?;
        self.durable(sealed);
        Ok(())
    }

    /// The commit point: an update is durable.
    fn durable(&self, sealed: &Sealed) {
        let is_last = self.superblock.borrow().number == sealed.superblock.number;
        assert!(is_last, "invariant 1: none was sealed meanwhile");
        let [last, _] = self.durable.get();
        self.durable.set([sealed.at, last]);
        self.superblock.borrow_mut().durable = sealed.superblock.number;
        self.forget_flushed(&sealed.payload);
        for (address, data) in &sealed.riding {
            self.path.let_go(address * UNIT as u64, data);
        }
        if !is_planted(Bug::EarlyFrees) {
            // Invariant 3.
            if !sealed.freed.iter().all(|&run| self.space.try_free(run)) {
                self.live.horizon.fail();
                return;
            }
            // Cached data of the freed places is dropped: its memory is for new data.
            let bytes = |run: &Run| run.start * UNIT as u64..run.end() * UNIT as u64;
            sealed.freed.iter().for_each(|run| self.path.cache().spoil(&bytes(run)));
        }
        self.count(|counts| counts.updates += 1);
        if sealed.through > self.live.horizon.through().0 {
            self.live.horizon.advance(sealed.through);
        }
        self.live.released.notify();
    }

    /// Writes the same anchor once more; if one turn has none, one of each turn. The same for a
    /// volume of an earlier version, before there is a superblock that its programs do not know:
    /// they go by any anchor of their own version.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) async fn renew_anchor(&self) -> Result<(), IoError> {
        let is_other = {
            let anchor = self.anchor.borrow();
            anchor.is_rebuilt() || anchor.version < VERSION
        };
        for _ in 0..if is_other { ANCHORS } else { 1 } {
            let anchor = self.anchor.borrow().clone();
            self.write_anchor(anchor).await?;
        }
        Ok(())
    }

    /// Writes the next anchor, at both ends of the disk.
    pub(crate) async fn write_anchor(&self, mut anchor: Anchor) -> Result<(), IoError> {
        (anchor.number, anchor.version) = (anchor.number + 1, VERSION);
        anchor.rest = anchor.rest.max(1); // for an anchor that was made from superblocks
        let written = anchors::write(&**self.path.device(), &anchor).await;
        written.inspect_err(|error| self.path.refusals().note(error))?;
        self.count(|counts| {
            counts.metadata_bytes += 2 * UNIT as u64;
            counts.barriers += 2;
        });
        self.anchor.replace(anchor);
        Ok(())
    }

    /// Writes a copy of the last superblock when all is durable and nothing follows, and puts its
    /// number into the anchors: so an opening does not go back behind it if one of them rots.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) async fn rest(&self) -> Result<(), IoError> {
        let superblock = Superblock { listed: Vec::new(), ..self.superblock.borrow().clone() };
        assert_eq!(superblock.durable, superblock.number, "invariant 1: nothing is on its way");
        let [last, _] = self.durable.get();
        let at = self.slot_for(last);
        let block = superblock.write(at, self.nodes.secret());
        let block = vec![block::Buffer::copied(&*block).freeze()];
        self.path.device().write(at * UNIT as u64, block, Durability::Through).await?;
        let (rest, free) = (superblock.number, self.space.free_units());
        let anchor = Anchor { rest, free, ..self.anchor.borrow().clone() };
        self.write_anchor(anchor).await
    }
}
