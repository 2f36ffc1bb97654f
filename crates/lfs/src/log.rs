//! The log: from changes in memory to summaries on the disk.
//!
//! ```text
//!  staged --seal--> batch --write, flush--> durable
//!    ^  \ changes that are staged meanwhile go with the next batch
//!    '--'
//! ```
//!
//! All changes that wait are one batch: a summary, and the small data that goes with it, side by
//! side in the open segment. If nothing else rests on a flush, and the batch is one range of the
//! disk, it is one write through; otherwise plain writes and one flush. Large data has been written
//! before. The place of the next summary is taken with each: so the chain is followed without a
//! search.
//!
//! Invariants:
//! 1. One batch at a time is on its way.
//! 2. A sealed batch does not change, and sealing waits for nothing.
//! 3. A change becomes durable with the batch that has it, and batches in their order.
//! 4. A batch frees blocks of files in memory when it is staged; their places are used again after
//!    a checkpoint alone.
//!
//! Not asserted: 1, which is one task; 2, which is about copies; 4, which `rows` asserts.
//!
//! Commit point: [`Log::durable`], where the horizon advances.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, IoError};
use bytes::Bytes;
use cache::DataPath;
use cache::coalesce::{Run as Range, runs};
use cache::refusals::all_written;
use cow::edits::Edits;
use cow::live::Live;
use cow::{Pins, Run, Secret, Span, UNIT, sum};
use futures::FutureExt;
use futures::future::{join_all, select};
use runtime::Runtime;
use vfs::{FsError, Sequence};

use crate::deaths::Deaths;
use crate::format::region::{Counts, Link};
use crate::format::shape::Shape;
use crate::format::summary::{Contents, MOST_RANGES, Summary, inline};
use crate::format::table::Owner;
use crate::logical::Nodes;
use crate::planted::{Bug, is_planted};
use crate::rows::{Rows, Which};
use crate::work::{Pin, Worked};

/// Time between two attempts to write when there is no room below.
pub(crate) const REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// Time that a write-back of UNSTABLE data waits for others, if no task wants it durable.
const PATIENCE_FOR_OTHERS: Duration = Duration::from_millis(30);
/// Bytes of one write.
const LONGEST: u64 = 1 << 20;

/// An Update that is in memory, to become durable.
#[derive(Default)]
pub(crate) struct Staged {
    pub(crate) sequence: u64,
    pub(crate) answer: Option<Rc<[u8]>>,
    pub(crate) taken: Vec<Run>,
    pub(crate) freed: Vec<Run>,
    /// Runs that snapshots alone hold from now on.
    pub(crate) died: Vec<(Run, Span)>,
    /// Blocks of data that were written, with their checksums.
    pub(crate) written: Vec<(u64, u64)>,
    /// Data that goes with the batch.
    pub(crate) riding: Vec<(u64, Bytes)>,
    pub(crate) edits: Edits,
    /// Work on snapshots that is left to do.
    pub(crate) worked: Worked,
}

/// Changes that were staged since the last seal.
#[derive(Default)]
struct Open {
    /// The batch is to go out as soon as it can.
    is_due: bool,
    /// The last change; 0 if there is none.
    through: u64,
    answers: Vec<Rc<[u8]>>,
    freed: Vec<Run>,
    written: BTreeMap<u64, u64>,
    riding: BTreeMap<u64, Bytes>,
    edits: Edits,
}

/// A sealed batch.
pub(crate) struct Batch {
    /// The last change that it makes durable.
    pub(crate) through: u64,
    sequence: u64,
    ranges: Vec<Range>,
    riding: Vec<(u64, Bytes)>,
    needs_flush: bool,
    /// It records no change.
    is_bare: bool,
}

/// Totals since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Batches that became durable.
    pub commits: u64,
    /// Changes in them.
    pub changes: u64,
    /// Checkpoints that became durable.
    pub checkpoints: u64,
    /// Flushes, and writes through.
    pub barriers: u64,
    /// Bytes of data of files that were written for clients.
    pub new_bytes: u64,
    /// Bytes written in all.
    pub written_bytes: u64,
    /// Segments that the cleaner has emptied.
    pub cleaned_segments: u64,
    /// Bytes that it has moved.
    pub moved_bytes: u64,
    /// Pointers that led to places not in use.
    pub wrong_pointers: u64,
}

/// See the module's prose.
pub struct Log {
    me: Weak<Log>,
    pub(crate) runtime: Runtime,
    pub(crate) shape: Shape,
    pub(crate) secret: Secret,
    pub(crate) epoch: u64,
    pub(crate) nodes: Rc<Nodes>,
    pub(crate) pins: Rc<Pins>,
    pub(crate) rows: Rc<Rows>,
    pub(crate) path: Rc<DataPath>,
    /// The disk, by places.
    pub(crate) device: Rc<dyn BlockDevice>,
    pub(crate) live: Rc<Live>,
    open: RefCell<Open>,
    /// The next summary.
    pub(crate) chain: Cell<Link>,
    /// The last summary that is on stable storage.
    flushed: Cell<u64>,
    /// Replies that no checkpoint has.
    pub(crate) answers: RefCell<Vec<Rc<[u8]>>>,
    pub(crate) answers_begun: Cell<u64>,
    /// Those before were forgotten.
    pub(crate) answers_from: Cell<u64>,
    is_running: Cell<bool>,
    /// Rot in the last batch would be taken for a cut.
    needs_successor: Cell<bool>,
    /// A task makes sure that changes that wait for others become due.
    waits: Cell<bool>,
    /// Blocks that UNSTABLE data has claimed.
    pub(crate) claimed: Cell<u64>,
    /// Units that plans wait for.
    pub(crate) placing: Cell<u64>,
    /// Units written to the log since the last checkpoint.
    pub(crate) logged: Cell<u64>,
    pub(crate) wants_checkpoint: Cell<bool>,
    /// The last change that a checkpoint alone makes durable, while none has: no batch is sealed
    /// but that before the checkpoint. 0 if there is none.
    pub(crate) barrier: Cell<u64>,
    /// A snapshot that the next checkpoint makes.
    pub(crate) pin: RefCell<Option<Pin>>,
    /// No plan gets places.
    pub(crate) is_held: Rc<Cell<bool>>,
    pub(crate) deaths: Deaths,
    /// A checkpoint is being written.
    pub(crate) is_writing: Cell<bool>,
    /// The last durable checkpoint.
    pub(crate) durable: Cell<u64>,
    /// The region that the next one goes to.
    pub(crate) turn: Cell<u64>,
    /// The next checkpoint is the last one.
    pub(crate) comes_to_rest: Cell<bool>,
    pub(crate) is_tending: Cell<bool>,
    /// Cleaning gains nothing until something is freed.
    pub(crate) is_packed: Cell<bool>,
    pub(crate) totals: Cell<Totals>,
}

/// The findings of an opening.
pub(crate) struct Found {
    pub(crate) secret: Secret,
    pub(crate) epoch: u64,
    pub(crate) answers: Vec<Rc<[u8]>>,
    pub(crate) answers_begun: u64,
    pub(crate) answers_from: u64,
    /// The last durable checkpoint, and the region that the next one goes to.
    pub(crate) durable: u64,
    pub(crate) turn: u64,
}

impl Log {
    pub(crate) fn new(
        runtime: Runtime,
        device: Rc<dyn BlockDevice>,
        (nodes, rows, path): (Rc<Nodes>, Rc<Rows>, Rc<DataPath>),
        (pins, live): (Rc<Pins>, Rc<Live>),
        found: Found,
    ) -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            runtime,
            shape: rows.shape,
            secret: found.secret,
            epoch: found.epoch,
            nodes,
            pins,
            rows,
            path,
            device,
            live,
            open: RefCell::default(),
            chain: Cell::default(),
            flushed: Cell::default(),
            answers: RefCell::new(found.answers),
            answers_begun: Cell::new(found.answers_begun),
            answers_from: Cell::new(found.answers_from),
            is_running: Cell::default(),
            needs_successor: Cell::default(),
            waits: Cell::default(),
            claimed: Cell::default(),
            placing: Cell::default(),
            logged: Cell::default(),
            wants_checkpoint: Cell::default(),
            barrier: Cell::default(),
            pin: RefCell::default(),
            is_held: Rc::default(),
            deaths: Deaths::default(),
            is_writing: Cell::default(),
            durable: Cell::new(found.durable),
            turn: Cell::new(found.turn),
            comes_to_rest: Cell::default(),
            is_tending: Cell::default(),
            is_packed: Cell::default(),
            totals: Cell::default(),
        })
    }

    /// The same, for a task.
    pub(crate) fn me(&self) -> Rc<Self> {
        self.me.upgrade().expect("a verb of it runs")
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Totals)) {
        let mut totals = self.totals.get();
        count(&mut totals);
        self.totals.set(totals);
    }

    /// Begins the chain: takes the place of its first summary.
    pub(crate) fn begin_chain(&self) -> Result<(), FsError> {
        let place = self.rows.take_units(Which::Log, 1, 0).ok_or(FsError::NoSpace)?;
        let ahead = self.rows.look_ahead(0);
        self.chain.set(Link { place, sequence: 1, previous: 0, ahead });
        Ok(())
    }

    /// Bytes of staged changes, about.
    pub(crate) fn staged_bytes(&self) -> u64 {
        self.open.borrow().edits.size() as u64
    }

    /// Stages a change that is in memory.
    pub(crate) fn stage(&self, staged: Staged) {
        let mut open = self.open.borrow_mut();
        open.through = staged.sequence;
        open.answers.extend(staged.answer.clone());
        self.answers.borrow_mut().extend(staged.answer);
        staged.taken.iter().for_each(|&run| self.rows.take(run));
        open.written.extend(staged.written);
        open.riding.extend(staged.riding);
        open.edits.extend(&staged.edits);
        let freed = staged.freed.into_iter().map(|run| (run, None));
        let died = staged.died.into_iter().map(|(run, span)| (run, Some(span)));
        for (run, span) in freed.chain(died) {
            let line = self.rows.line(run.start);
            self.note_lost(run, span);
            // A block that came with this batch goes with it. The log does not tell of places of
            // metadata, which it does not know.
            let is_new = open.written.remove(&run.start).is_some();
            let rode = open.riding.remove(&run.start);
            if let Some(data) = &rode {
                let start = run.start * UNIT as u64;
                self.path.drop_held(start..start + data.len() as u64);
            }
            let is_of_files = line.is_some_and(|line| line.owner == Owner::Files);
            if !is_new && rode.is_none() && is_of_files {
                open.freed.push(run);
            }
        }
        drop(open);
        let Worked { pin, needs_checkpoint, freed } = staged.worked;
        freed.into_iter().for_each(|run| self.free_run(run));
        pin.into_iter().for_each(|pin| _ = self.pin.replace(Some(pin)));
        if needs_checkpoint {
            self.barrier.set(staged.sequence);
            self.wants_checkpoint.set(true);
        }
        self.count(|totals| totals.changes += 1);
    }

    /// Whether changes are staged that are not sealed.
    pub(crate) fn has_staged(&self) -> bool {
        self.open.borrow().through > 0
    }

    /// Whether a summary has nothing to record of what is staged.
    fn is_bare(&self) -> bool {
        let open = self.open.borrow();
        let are_none = open.freed.is_empty() && open.written.is_empty() && open.riding.is_empty();
        are_none && open.answers.is_empty() && open.edits.size() == 0
    }

    /// Ends the open batch for the next checkpoint, unless it has nothing to record: a summary has
    /// the counts of the live tree, which a roll-back has changed already. Returns the last change.
    ///
    /// # Errors
    /// [`FsError::NoSpace`].
    pub(crate) fn seal_before(&self) -> Result<(Option<Batch>, u64), FsError> {
        let through = self.open.borrow().through;
        if through == 0 {
            return Ok((None, 0));
        }
        if self.is_bare() {
            self.open.take();
            return Ok((None, through));
        }
        let batch = self.seal(self.for_checkpoint()).ok_or(FsError::NoSpace)?;
        Ok((Some(batch), through))
    }

    /// Whether a batch is on its way, or due.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_running.get() || self.open.borrow().is_due || self.barrier.get() > 0
    }

    /// Lets staged changes go out as soon as they can.
    pub(crate) fn commit_soon(&self) {
        self.open.borrow_mut().is_due = true;
        self.kick();
    }

    /// The same when a task waits for this change, or one after it, and before long in any case.
    pub(crate) fn commit_later(&self, sequence: u64) {
        if self.waits.replace(true) {
            return;
        }
        let this = self.me();
        let wait = async move {
            let asked = std::pin::pin!(this.live.horizon.asked(Sequence(sequence)));
            select(asked, this.runtime.clock.sleep(PATIENCE_FOR_OTHERS)).await;
            this.waits.set(false);
            if this.has_staged() {
                this.commit_soon();
            }
        };
        self.runtime.tasks.spawn(wait.boxed_local());
    }

    /// Gives the last batch a successor that changes nothing, if nothing else follows: then rot in
    /// it is not taken for a cut.
    pub(crate) fn follow(&self) {
        let is_last = self.chain.get().sequence == self.flushed.get() + 1;
        if is_last && self.needs_successor.get() && !self.is_busy() {
            self.open.borrow_mut().is_due = true;
            self.kick();
        }
    }

    /// Waits until all staged changes are durable.
    ///
    /// # Errors
    /// [`FsError::Io`] if the volume has stopped.
    pub(crate) async fn all_durable(&self) -> Result<(), FsError> {
        if self.has_staged() {
            self.commit_soon();
        }
        while self.is_busy() {
            self.next_release().await?;
        }
        if self.live.horizon.has_stopped() { Err(FsError::Io) } else { Ok(()) }
    }

    /// Waits until something has ended.
    ///
    /// # Errors
    /// [`FsError::Io`] if the volume has stopped.
    pub(crate) async fn next_release(&self) -> Result<(), FsError> {
        if self.live.horizon.has_stopped() {
            return Err(FsError::Io);
        }
        self.live.released.wait().await;
        Ok(())
    }

    /// Starts to write what is due.
    pub(crate) fn kick(&self) {
        if self.has_work() && !self.is_running.replace(true) {
            let this = self.me();
            self.runtime.tasks.spawn(async move { this.run().await }.boxed_local());
        }
    }

    fn has_work(&self) -> bool {
        self.is_checkpoint_next() || self.is_batch_next()
    }

    fn is_checkpoint_next(&self) -> bool {
        self.wants_checkpoint.get() && !self.is_writing.get()
    }

    fn is_batch_next(&self) -> bool {
        self.open.borrow().is_due && self.barrier.get() == 0
    }

    async fn run(self: Rc<Self>) {
        while !self.live.horizon.has_failed() {
            let done = if self.is_checkpoint_next() {
                self.begin_checkpoint().await
            } else if self.is_batch_next() {
                self.commit().await
            } else {
                break;
            };
            if done.is_err() {
                self.live.horizon.fail();
            }
        }
        self.is_running.set(false);
        self.live.released.notify();
    }

    /// Makes staged changes durable.
    async fn commit(&self) -> Result<(), FsError> {
        // A checkpoint cleans dead segments: only if there are none, a commit takes more.
        let is_packed = self.is_packed.get() && self.rows.dead() == 0;
        let least = self.for_checkpoint() + self.shape.for_commit();
        let leaving = if is_packed { least.min(self.for_others()) } else { self.for_others() };
        match self.seal(leaving) {
            Some(batch) => self.write_out(batch).await,
            None => {
                self.is_packed.set(false);
                self.tend();
                self.wants_checkpoint.set(true);
                if self.is_writing.get() {
                    self.live.released.wait().await;
                }
                Ok(())
            }
        }
    }

    /// Counts of the live tree.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            next_ino: self.live.next_ino.get(),
            files: self.live.files.get(),
            directories: self.live.directories.get(),
            units: self.live.units.get(),
            seconds: self.runtime.clock.wall().seconds,
        }
    }

    /// Ends the open batch (invariant 2). None if it needs more clean segments than those beyond
    /// `leaving`.
    pub(crate) fn seal(&self, leaving: u64) -> Option<Batch> {
        let has_left = self.rows.left(Which::Log) >= self.staged_most();
        if !has_left && self.rows.clean() < leaving + self.for_batch() {
            return None;
        }
        let is_bare = self.is_bare();
        let open = std::mem::take(&mut *self.open.borrow_mut());
        let Open { through, answers, freed, written, riding, edits, .. } = open;
        let needs_flush = !written.is_empty();
        let mut blocks: BTreeMap<u64, u64> = written;
        blocks.extend(riding.iter().map(|(&address, data)| (address, sum(data))));
        let contents = Contents {
            counts: self.counts(),
            chains: self.live.chains.all(),
            rows: self.rows.take_touched(),
            blocks: blocks.into_iter().collect(),
            freed,
            answers: answers.iter().map(|answer| answer.to_vec()).collect(),
            edits,
        };
        let link = self.chain.get();
        let mut writes = self.seal_summary(&contents.write());
        for (&address, data) in &riding {
            let units = (data.len() / UNIT) as u64;
            let pieces = self.rows.pieces(address, units).expect("they were taken");
            let mut at = 0;
            for piece in pieces {
                let length = piece.units as usize * UNIT;
                writes.insert(piece.place * UNIT as u64, data.slice(at..at + length));
                at += length;
            }
        }
        let of_data: usize = riding.values().map(Bytes::len).sum();
        self.count(|totals| {
            totals.new_bytes += of_data as u64;
            totals.written_bytes += writes.values().map(|data| data.len() as u64).sum::<u64>();
        });
        let (riding, ranges) = (riding.into_iter().collect(), runs(writes, LONGEST));
        let sequence = link.sequence;
        Some(Batch { through, sequence, ranges, riding, needs_flush, is_bare })
    }

    /// Clean segments that the next summary takes, at most.
    pub(crate) fn for_batch(&self) -> u64 {
        self.staged_most().div_ceil(self.shape.segment) + 1
    }

    /// Units that the next summary takes, at most, with the place of the one after it.
    fn staged_most(&self) -> u64 {
        let open = self.open.borrow();
        let answers: usize = open.answers.iter().map(|answer| answer.len() + 2).sum();
        let blocks = (open.written.len() + open.riding.len() + open.freed.len()) * 16;
        let rows = (open.written.len() + open.riding.len() + 8) * 44;
        let chains = 64 * 20 + 64;
        let bytes = open.edits.size() + answers + blocks + rows + chains;
        bytes.div_ceil(UNIT) as u64 + 4
    }

    /// Encodes a summary with these contents, and takes the place of the next one.
    fn seal_summary(&self, bytes: &[u8]) -> BTreeMap<u64, Bytes> {
        let mut ranges: Vec<(u64, u32)> = Vec::new();
        let mut have = 0;
        loop {
            let need = bytes.len().saturating_sub(inline(ranges.len())).div_ceil(UNIT) as u64;
            if have >= need {
                break;
            }
            let left = self.rows.left(Which::Log);
            let here = if left == 0 { self.shape.segment } else { left };
            let units = (need - have).min(here);
            let place = self.rows.take_units(Which::Log, units, 0).expect("it was looked for");
            assert!(ranges.len() < MOST_RANGES, "staged changes have a bound");
            ranges.push((place, units as u32));
            have += units;
        }
        let next = self.rows.take_units(Which::Log, 1, 0).expect("it was looked for");
        let ahead = self.rows.look_ahead(self.for_others().min(2));
        let link = self.chain.get();
        let (first, rest) = bytes.split_at(inline(ranges.len()).min(bytes.len()));
        let mut rest = rest.to_vec();
        rest.resize(have as usize * UNIT, 0);
        let summary = Summary {
            sequence: link.sequence,
            next: Link { place: next, sequence: link.sequence + 1, previous: 0, ahead },
            previous: link.previous,
            flushed: self.flushed.get(),
            ranges,
            length: bytes.len().try_into().expect("staged changes have a bound"),
            sum: sum(&rest),
            first: first.to_vec(),
        };
        let block = summary.write(link.place, self.epoch, &self.secret);
        self.chain.set(Link {
            place: next,
            sequence: link.sequence + 1,
            previous: sum(&block),
            ahead,
        });
        self.logged.set(self.logged.get() + have + 1);
        let mut writes = BTreeMap::new();
        writes.insert(link.place * UNIT as u64, Buffer::copied(&block).freeze());
        let rest = Buffer::copied(&rest).freeze();
        let mut at = 0;
        for &(place, units) in &summary.ranges {
            let length = units as usize * UNIT;
            writes.insert(place * UNIT as u64, rest.slice(at..at + length));
            at += length;
        }
        writes
    }

    /// Writes a sealed batch. A write that finds no room below is retried until there is some.
    pub(crate) async fn write_out(&self, batch: Batch) -> Result<(), FsError> {
        self.until_room(|| self.write(&batch)).await?;
        self.durable(batch);
        Ok(())
    }

    /// Does work until the device has room for it.
    pub(crate) async fn until_room<F>(&self, work: impl Fn() -> F) -> Result<(), FsError>
    where
        F: Future<Output = Result<(), IoError>>,
    {
        loop {
            let written = work().await;
            let stands = written.as_ref().is_err_and(IoError::is_full);
            self.path.refusals().set_waiting(stands);
            self.live.horizon.stand(stands);
            self.live.released.notify();
            if !stands {
                return written.map_err(|_| FsError::Io);
            }
            self.runtime.clock.sleep(REFUSED_PAUSE).await; // invariant 2: it is the same then
        }
    }

    async fn write(&self, batch: &Batch) -> Result<(), IoError> {
        self.count(|totals| totals.barriers += 1);
        if let [only] = &batch.ranges[..]
            && !batch.needs_flush
        {
            let how =
                if is_planted(Bug::NoBarrier) { Durability::Plain } else { Durability::Through };
            return self.device.write(only.start, only.pieces.clone(), how).await;
        }
        self.write_ranges(&batch.ranges).await?;
        self.flush().await
    }

    /// Writes ranges of the disk.
    pub(crate) async fn write_ranges(&self, ranges: &[Range]) -> Result<(), IoError> {
        let write =
            |range: &Range| self.device.write(range.start, range.pieces.clone(), Durability::Plain);
        all_written(join_all(ranges.iter().map(write)).await)
            .inspect_err(|error| self.path.refusals().note(error))
    }

    pub(crate) async fn flush(&self) -> Result<(), IoError> {
        if is_planted(Bug::NoBarrier) { Ok(()) } else { self.device.flush().await }
    }

    /// The commit point: a batch is durable.
    fn durable(&self, batch: Batch) {
        assert_eq!(batch.sequence, self.flushed.get() + 1, "invariant 3: in their order");
        self.flushed.set(batch.sequence);
        self.needs_successor.set(!batch.is_bare);
        for (address, data) in &batch.riding {
            // A block that was freed meanwhile stays away from the cache.
            let start = address * UNIT as u64;
            if self.rows.is_used(*address) {
                self.path.let_go(start, data);
            } else {
                self.path.drop_held(start..start + data.len() as u64);
            }
        }
        self.count(|totals| totals.commits += 1);
        if batch.through > self.live.horizon.through().0 {
            self.live.horizon.advance(batch.through);
        }
        self.live.released.notify();
        self.look_after();
    }
}
