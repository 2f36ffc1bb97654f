//! What all parts of an open NVRAM share: both devices, the directory, and who waits for whom.

use std::cell::{Cell, OnceCell, RefCell};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::ops::Range;
use std::rc::Rc;

use block::{BlockDevice, Buffer as Memory, Durability, IoError, Verb};
use bytes::Bytes;
use futures::future::{join, join_all};
use runtime::sync::{Lock, Signal};
use runtime::{Instant, Runtime};

use crate::directory::{Buffer, Directory, Entry};
use crate::flushes::Flushes;
use crate::format::{BLOCK, Header, Id, Label, Layout, SECTOR, sum};
use crate::health::Health;
use crate::labels::{label_of, write_labels};
use crate::pairing::Partner;
use crate::planted::{Bug, is_planted};
use crate::status::Counts;
use crate::twin::Twin;

/// Blocks that are written to the NVRAM at once.
pub(crate) const AT_ONCE: u64 = 16;

/// Rounds without room below after which a volume whose memory has failed stops.
const MOST_REFUSALS: u32 = 30;

pub(crate) struct Cache {
    /// The device in front of which it stands.
    pub(crate) below: Rc<dyn BlockDevice>,
    pub(crate) memory: Rc<dyn BlockDevice>,
    /// The same, if it is two.
    pub(crate) twin: Option<Twin>,
    /// The part of both for the log of the device below.
    pub(crate) log: Option<Rc<dyn BlockDevice>>,
    pub(crate) runtime: Runtime,
    pub(crate) layout: Layout,
    pub(crate) id: Id,
    pub(crate) label: Rc<Cell<Label>>,
    pub(crate) directory: RefCell<Directory>,
    /// Blocks that a write or a discard is about.
    busy: RefCell<BTreeSet<u64>>,
    /// A block is not busy any more.
    left: Signal,
    /// Buffers are free, blocks are below, or nothing of that can be.
    pub(crate) moved: Signal,
    /// The keeper has something to do.
    pub(crate) wake: Rc<Signal>,
    /// Whether it is at work itself, and how many rounds are under way.
    pub(crate) is_keeping: Cell<bool>,
    pub(crate) rounds: Cell<usize>,
    /// Steps that may have made something possible: entries written, below, void, or read.
    pub(crate) steps: Cell<u64>,
    /// Everything is to go below, and a task waits for that.
    pub(crate) is_draining: Cell<bool>,
    /// Everything is to go below soon. Apart, since one may end while the other goes on.
    pub(crate) is_hurried: Cell<bool>,
    /// The time of the last attempt that left no block for which there may be room below.
    pub(crate) refused_at: Cell<Option<Instant>>,
    /// Sectors of the void map whose second copy was whole, each with the time of that look.
    pub(crate) whole_marks: RefCell<BTreeMap<u64, Instant>>,
    /// Every buffer keeps what is lost.
    pub(crate) is_stuck: Cell<bool>,
    /// The latest reading of the battery, if there are readings.
    pub(crate) health: RefCell<Option<Health>>,
    /// The battery was bad: everything is below, the volume's record says so, and writes pass.
    pub(crate) is_settled: Cell<bool>,
    /// Blocks that calls wait for to be below, each with the number of calls.
    pub(crate) wanted: RefCell<BTreeMap<u64, u32>>,
    /// Calls hold it shared; who changes the state holds it alone.
    pub(crate) gate: Lock,
    /// The flushes of the device below.
    flushes_below: Flushes,
    /// Large writes that have passed by, and how many of them a flush has covered.
    passed: Cell<[u64; 2]>,
    pub(crate) failure: RefCell<Option<IoError>>,
    /// The memory cannot be written: the volume is to go on without it.
    memory_failure: RefCell<Option<IoError>>,
    /// It does: everything is below, and the volume's record says so.
    is_retired: Cell<bool>,
    pub(crate) is_closed: Cell<bool>,
    pub(crate) counts: RefCell<Counts>,
    /// The volume that records whether the NVRAM is needed, if it does.
    pub(crate) partner: OnceCell<Partner>,
}

/// Blocks that are held for one task.
pub(crate) struct Held<'a> {
    cache: &'a Cache,
    places: Range<u64>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut busy = self.cache.busy.borrow_mut();
        for place in self.places.clone() {
            busy.remove(&place);
        }
        drop(busy);
        self.cache.left.notify();
    }
}

impl Cache {
    pub(crate) fn new(
        below: Rc<dyn BlockDevice>,
        memory: Rc<dyn BlockDevice>,
        runtime: Runtime,
        label: Label,
        directory: Directory,
    ) -> Self {
        let layout = Layout { size: memory.geometry().size, buffers: label.buffers };
        Self {
            flushes_below: Flushes::new(below.clone()),
            below,
            memory,
            twin: None,
            log: None,
            runtime,
            layout,
            id: label.id,
            label: Rc::new(Cell::new(label)),
            directory: RefCell::new(directory),
            busy: RefCell::default(),
            left: Signal::new(),
            moved: Signal::new(),
            wake: Rc::new(Signal::new()),
            is_keeping: Cell::new(false),
            rounds: Cell::new(0),
            steps: Cell::new(0),
            is_draining: Cell::new(false),
            is_hurried: Cell::new(false),
            refused_at: Cell::new(None),
            whole_marks: RefCell::default(),
            is_stuck: Cell::new(false),
            health: RefCell::new(None),
            is_settled: Cell::new(false),
            wanted: RefCell::default(),
            gate: Lock::default(),
            // Nobody knows what passed by before the start.
            passed: Cell::new([1, 0]),
            failure: RefCell::new(None),
            memory_failure: RefCell::new(None),
            is_retired: Cell::new(false),
            is_closed: Cell::new(false),
            counts: RefCell::default(),
            partner: OnceCell::new(),
        }
    }

    /// Waits until no other task is about these blocks.
    pub(crate) async fn hold(&self, places: Range<u64>) -> Held<'_> {
        loop {
            let left = self.left.wait();
            if self.busy.borrow().range(places.clone()).next().is_none() {
                self.busy.borrow_mut().extend(places.clone());
                return Held { cache: self, places };
            }
            left.await;
        }
    }

    /// Wakes the keeper for a task that waits, once for each step: the keeper tells whenever it has
    /// looked, and two that wake each other would never sleep.
    pub(crate) fn wake_keeper(&self, woken_at: &mut Option<u64>) {
        if woken_at.replace(self.steps.get()) != Some(self.steps.get()) {
            self.wake.notify();
        }
    }

    /// Something may have become possible.
    pub(crate) fn step(&self) {
        self.steps.set(self.steps.get() + 1);
        self.moved.notify();
    }

    /// Nothing is promised any more: the NVRAM or the device below has failed.
    pub(crate) fn fail(&self, error: &IoError) {
        self.failure.borrow_mut().get_or_insert_with(|| error.clone());
        self.moved.notify();
        self.wake.notify();
    }

    /// The memory cannot be written. Only a volume that keeps a record of it can go on.
    pub(crate) fn fail_memory(&self, error: &IoError) {
        if self.partner.get().is_none() {
            return self.fail(error);
        }
        self.memory_failure.borrow_mut().get_or_insert_with(|| error.clone());
        self.moved.notify();
        self.wake.notify();
    }

    /// Whether the volume is to go on without the memory, and does not yet.
    pub(crate) fn is_failing(&self) -> bool {
        self.memory_failure.borrow().is_some()
            && !self.is_retired.get()
            && self.failure.borrow().is_none()
    }

    /// Why the volume goes on without the memory, if it does.
    pub(crate) fn retired(&self) -> Option<IoError> {
        self.memory_failure.borrow().clone().filter(|_| self.is_retired.get())
    }

    /// Whether writes go to the device below.
    pub(crate) fn passes(&self) -> bool {
        self.is_down() || self.is_settled.get()
    }

    /// The same, for another reason than a bad battery.
    pub(crate) fn is_down(&self) -> bool {
        self.is_retired.get() || self.label.get().is_down
    }

    pub(crate) fn check(&self, verb: Verb) -> Result<(), IoError> {
        if self.is_closed.get() {
            return Err(IoError::closed(verb));
        }
        let failing = self.memory_failure.borrow().clone().filter(|_| !self.is_retired.get());
        match self.failure.borrow().as_ref().or(failing.as_ref()) {
            Some(failure) => Err(IoError { verb, ..failure.clone() }),
            None => Ok(()),
        }
    }

    /// Takes buffers for a write: waits until so many are free.
    pub(crate) async fn take(&self, count: usize, at: u64) -> Result<Vec<Buffer>, IoError> {
        let mut woken_at = None;
        loop {
            let moved = self.moved.wait();
            self.check(Verb::Write)?;
            let taken = self.directory.borrow_mut().take(count);
            if let Some(taken) = taken {
                if self.is_low() {
                    self.wake.notify();
                }
                self.counts.borrow_mut().allocations += count as u64;
                return Ok(taken);
            }
            if self.is_refused() || self.is_stuck.get() {
                return Err(IoError::new(Verb::Write, at, BLOCK, ErrorKind::StorageFull));
            }
            self.wake_keeper(&mut woken_at);
            moved.await;
        }
    }

    /// Whether few buffers are free.
    pub(crate) fn is_low(&self) -> bool {
        let directory = self.directory.borrow();
        directory.free() < (directory.buffers() / 8).max(2 * AT_ONCE)
    }

    /// Whether many blocks are dirty.
    pub(crate) fn is_high(&self) -> bool {
        self.directory.borrow().is_high()
    }

    /// Writes entries to buffers, neighbours together.
    pub(crate) async fn write_entries(
        &self,
        entries: &[(Buffer, Entry, Bytes)],
        durability: Durability,
    ) -> Result<(), IoError> {
        let durable = self.directory.borrow().durable();
        let mut runs: Vec<(Buffer, Vec<Bytes>)> = Vec::new();
        let mut next = None;
        for (buffer, entry, data) in entries {
            let Entry { place, sequence, mask, lost, data_sum } = *entry;
            let header = Header { id: self.id, sequence, durable, place, mask, lost, data_sum };
            let header = Bytes::copy_from_slice(&header.encode());
            if next != Some(*buffer) {
                runs.push((*buffer, Vec::new()));
            }
            let (_, pieces) = runs.last_mut().expect("it was pushed");
            pieces.extend([header.clone(), data.clone(), header]);
            next = Some(buffer + 1);
        }
        let write = |(buffer, pieces): (Buffer, Vec<Bytes>)| {
            let pieces = vec![Memory::joined(&pieces).freeze()];
            self.memory.write(self.layout.slot(buffer), pieces, durability)
        };
        join_all(runs.into_iter().map(write)).await.into_iter().collect()
    }

    /// The data of a buffer. None if it does not fit its checksum.
    pub(crate) async fn read_entry(
        &self,
        buffer: Buffer,
        entry: &Entry,
    ) -> Result<Option<Memory>, IoError> {
        let (at, data_sum) = (self.layout.slot(buffer) + SECTOR, entry.data_sum);
        let data = self.memory.read(at, Memory::unfilled(BLOCK as usize)).await?;
        if sum(&data) == data_sum {
            return Ok(Some(data));
        }
        // Another memory may have it.
        self.memory.mend(at, BLOCK, Rc::new(move |data| sum(data) == data_sum)).await
    }

    /// A large write has passed by; a later flush has to cover it.
    pub(crate) fn has_passed(&self) {
        let [count, covered] = self.passed.get();
        self.passed.set([count + 1, covered]);
    }

    /// Makes durable what was written before, here and below.
    pub(crate) async fn flush(&self) -> Result<(), IoError> {
        self.check(Verb::Flush)?;
        self.flush_all().await
    }

    /// The same for a cache that is being closed.
    pub(crate) async fn flush_all(&self) -> Result<(), IoError> {
        let covered = self.directory.borrow_mut().begin_flush();
        let [count, flushed] = self.passed.get();
        let below = async {
            if count == flushed || is_planted(Bug::HalfFlush) {
                return Ok(());
            }
            self.flush_below().await
        };
        let (here, below) = join(self.memory.flush(), below).await;
        let has_covered = !covered.is_empty();
        self.directory.borrow_mut().end_flush(covered, here.is_ok());
        if has_covered {
            self.step();
        }
        if let Err(error) = &here {
            self.fail_memory(error);
        }
        match &below {
            Ok(()) => {
                let [now, flushed] = self.passed.get();
                self.passed.set([now, flushed.max(count)]);
            }
            Err(error) => self.fail(error),
        }
        below.and(here)
    }

    /// Makes durable what is below.
    ///
    /// # Errors
    /// A failure, after which nothing is promised any more.
    pub(crate) async fn flush_below(&self) -> Result<(), IoError> {
        self.flushes_below.flush().await.inspect_err(|error| self.fail(error))?;
        match self.failure.borrow().clone() {
            Some(failure) => Err(IoError { verb: Verb::Flush, ..failure }),
            None => Ok(()),
        }
    }

    /// Brings everything below, and makes all entries void. With `is_down`, writes pass by from
    /// then on. Sectors that are lost make it fail, unless the loss is accepted: the device below
    /// has older ones, which must not stand in for them.
    pub(crate) async fn settle(&self, is_down: bool, accepts_loss: bool) -> Result<(), IoError> {
        let _alone = self.gate.exclusive().await;
        self.check(Verb::Flush)?;
        if self.is_retired.get() {
            return Ok(()); // all of that is done
        }
        self.empty(is_down, accepts_loss).await?;
        if self.label.get().is_down { self.say(false).await } else { Ok(()) }
    }

    /// Brings everything below, and makes all entries void. The caller holds the gate alone.
    pub(crate) async fn empty(&self, is_down: bool, accepts_loss: bool) -> Result<(), IoError> {
        if !is_planted(Bug::HastyDown) {
            self.drain().await?;
            // What has passed by, too.
            self.below.flush().await.inspect_err(|error| self.fail(error))?;
        }
        let is_lost = !self.directory.borrow().lost().is_empty();
        if is_lost && !accepts_loss && !is_planted(Bug::SettledLoss) {
            return Err(lost());
        }
        let first_sequence = self.directory.borrow().next_sequence();
        let durable = first_sequence - 1;
        let is_down = is_down || self.label.get().is_down; // only `up` holds writes again
        let label = Label { first_sequence, durable, is_down, ..self.label.get() };
        self.write_label(label).await.inspect_err(|error| self.fail_memory(error))?;
        if !is_planted(Bug::HastyDown) {
            // A reading of the battery may have woken the keeper.
            self.rest().await;
            self.directory.borrow_mut().clear();
        }
        Ok(())
    }

    /// Has the volume record whether the NVRAM may hold something. One caller at a time.
    pub(crate) async fn say(&self, is_dirty: bool) -> Result<(), IoError> {
        match self.partner.get() {
            Some(partner) => partner.say(is_dirty).await,
            None => Ok(()),
        }
    }

    /// Whether nobody knows what the volume says of the NVRAM.
    pub(crate) fn is_unsure(&self) -> bool {
        self.partner.get().is_some_and(Partner::is_unsure)
    }

    /// Goes on without the memory, which cannot be written: brings below what it can still read,
    /// and then has the volume record that the memory is void. Calls wait meanwhile.
    ///
    /// # Errors
    /// Something is not below, or the volume has failed. Then nothing is answered any more, and the
    /// next start finds what the memory still has.
    pub(crate) async fn retire(&self) -> Result<(), IoError> {
        let _alone = self.gate.exclusive().await;
        if self.is_retired.get() {
            return Ok(());
        }
        self.rest().await;
        let (mut from, mut refusals) = (0, 0);
        while self.failure.borrow().is_none() && self.directory.borrow().dirty() > 0 {
            let going = self.begin_round(&mut from, true);
            self.destage(going, true).await;
            refusals = if self.directory.borrow().are_refused(true) { refusals + 1 } else { 0 };
            if refusals > MOST_REFUSALS {
                self.fail(&IoError::new(Verb::Write, 0, SECTOR, ErrorKind::StorageFull));
            }
        }
        if !self.directory.borrow().lost().is_empty() {
            self.fail(&lost());
        }
        if let Some(failure) = self.failure.borrow().clone() {
            return Err(failure);
        }
        // What has passed by, too.
        self.below.flush().await.inspect_err(|error| self.fail(error))?;
        if !is_planted(Bug::UnsaidRetirement) {
            let partner = self.partner.get().expect("only then a failure of the memory is noted");
            partner.give_up().await.inspect_err(|error| self.fail(error))?;
        }
        self.directory.borrow_mut().clear();
        self.is_retired.set(true);
        Ok(())
    }

    /// Writes both labels, one after the other. If one of two memories is called out meanwhile,
    /// that has begun another generation, and they are written again.
    pub(crate) async fn write_label(&self, label: Label) -> Result<(), IoError> {
        loop {
            let before = self.label.get();
            let is_begun = match before.generation.cmp(&label.generation) {
                Ordering::Less => label.is_begun,
                Ordering::Equal => label.is_begun || before.is_begun,
                Ordering::Greater => before.is_begun,
            };
            let generation = label.generation.max(before.generation);
            let label = Label { number: before.number + 1, generation, is_begun, ..label };
            match &self.twin {
                None => write_labels(&*self.memory, &self.layout, &label).await?,
                Some(twin) => twin.write_labels(&self.layout, &label, &self.label).await?,
            }
            if self.label.get() == before {
                self.label.set(label);
                return Ok(());
            }
        }
    }

    /// Calls out one of two memories: begins a generation that it does not have, on the other one
    /// and then with the volume. It may be called while a label is being written.
    pub(crate) async fn call_out(
        &self,
        number: usize,
        other: &dyn BlockDevice,
    ) -> Result<(), IoError> {
        let Some((partner, twin)) = self.partner.get().zip(self.twin.as_ref()) else {
            return Ok(());
        };
        let _alone = twin.hold_label(1 - number).await;
        let known = self.label.get();
        let before = twin.latest_label(1 - number, known);
        let generation = before.generation + 1;
        let begins = |ahead, is_begun| {
            let label = Label { generation, is_begun, number: before.number + ahead, ..before };
            label_of(&label, 1 - number)
        };
        // The label that is being written may have the next number.
        write_labels(other, &self.layout, &begins(2, false)).await?;
        twin.check_latest(self.label.get(), [known, before]);
        self.label.set(begins(2, false));
        partner.call(number, true, generation).await?;
        write_labels(other, &self.layout, &begins(3, true)).await?;
        self.label.set(begins(3, true));
        Ok(())
    }
}

/// The error where sectors are lost that nothing else has.
fn lost() -> IoError {
    IoError::new(Verb::Write, 0, SECTOR, ErrorKind::InvalidData)
}
