//! A memory over two: each has every write before it is answered, and either is enough.
//!
//! A memory that fails a write or a flush is *called out*: the volume records durably that it has
//! missed something, and only then the write is answered. From then on the other one is the memory,
//! and the one called out is neither read nor written. It comes back as a new copy
//! ([`Twin::fill`]): everything is copied to it while writes go on, what they change meanwhile is
//! copied again, and at last the volume records that it counts.
//!
//! One that hangs is called out, too, when the other one has done the call: nobody waits for it.
//!
//! A read gives the bytes of one copy. Checksums are above: a reader that finds a wrong one asks
//! [`BlockDevice::mend`] for the version of the other copy.
//!
//! Invariants:
//! 1. A change is answered when every copy that counts has it.
//! 2. A copy that has missed a change does not count, durably, before the change is answered.
//! 3. The last copy is never called out: its failure is that of the memory.
//! 4. A copy counts again when it has everything.
//! 5. A label of a copy is made from the latest label that the copy has.
//!
//! Not asserted: 1, 2 and 4, which are about the medium and which `tests/it/twins.rs` breaks.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer as Memory, Durability, Geometry, Io, IoError, IsRight, Verb};
use bytes::Bytes;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{Either, LocalBoxFuture, join_all, select};
use runtime::sync::{Lock, Permit, Signal};
use runtime::{Instant, Runtime};

use crate::format::{LABEL, Label, Layout, SECTOR};
use crate::labels::{label_of, write_labels};
use crate::planted::{Bug, is_planted};
use crate::status::TwinState;

/// Bytes that are copied at once to a memory that comes back.
const CHUNK: u64 = 128 << 10;
/// Chunks that are copied while calls wait.
const LAST_CHUNKS: usize = 4;
/// Time after which a memory that counts is called out for a call that the other one has done, or
/// for a read, and the interval at which that is looked for. It is that of a disk of a set.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_secs(1);

/// Interval at which the end of a fill is looked for.
const STEP: Duration = Duration::from_millis(10);

/// Records durably that a copy is called out, on the other one and with the volume.
pub(crate) type CallsOut = Rc<dyn Fn(usize, Copy) -> LocalBoxFuture<'static, Result<(), IoError>>>;

/// One of the two memories.
pub(crate) type Copy = Rc<dyn BlockDevice>;

/// See the module's page. A clone is the same memory.
#[derive(Clone)]
pub(crate) struct Twin(Rc<Shared>);

struct Shared {
    size: u64,
    /// Bytes of it that are for a log, at its end.
    log_size: u64,
    runtime: Runtime,
    /// Those that count.
    copies: RefCell<[Option<Copy>; 2]>,
    /// Why a copy does not count.
    reasons: RefCell<[Option<IoError>; 2]>,
    /// A copy does not count any more: nobody waits for it.
    left: Signal,
    /// Changes hold it shared; a copy that comes to count holds it alone.
    gate: Lock,
    /// Chunks of the copy that comes back which are to be copied, if one does.
    pending: RefCell<Option<BTreeSet<u64>>>,
    /// Held by the task that calls a copy out.
    calling: Lock,
    /// Held by whoever writes the label of a copy.
    labelling: [Lock; 2],
    /// The last label that this process has written to each copy. The volume's label follows when
    /// every copy has it.
    labels: [Cell<Option<Label>>; 2],
    /// Whether a copy was called out, and the volume does not say so durably yet.
    is_unrecorded: Cell<bool>,
    calls_out: RefCell<Option<CallsOut>>,
    /// A copy could not be called out: nothing is answered any more.
    failure: RefCell<Option<IoError>>,
    /// Whether nothing is filled any more, and whether nothing is waited for.
    is_closed: Cell<bool>,
    is_left: Cell<bool>,
    /// Calls under way, by their order, and whether a task looks after them.
    calls: RefCell<BTreeMap<u64, Call>>,
    next_call: Cell<u64>,
    is_watching: Cell<bool>,
}

/// A call of a copy that is under way.
struct Call {
    number: usize,
    since: Instant,
    /// Whether the copy should have done it: there is the other one, or it is a read.
    is_due: Rc<Cell<bool>>,
}

/// A call of a copy, as long as somebody waits for it.
struct Watched<'a> {
    twin: &'a Twin,
    key: u64,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.twin.0.calls.borrow_mut().remove(&self.key);
    }
}

impl Twin {
    /// A memory of this layout over those that count, with so many bytes for a log behind it.
    pub(crate) fn new(
        layout: &Layout,
        log_size: u64,
        copies: [Option<Copy>; 2],
        runtime: Runtime,
    ) -> Self {
        Self(Rc::new(Shared {
            size: layout.size + log_size,
            log_size,
            runtime,
            copies: RefCell::new(copies),
            reasons: RefCell::default(),
            left: Signal::new(),
            gate: Lock::default(),
            pending: RefCell::default(),
            calling: Lock::default(),
            labelling: Default::default(),
            labels: Default::default(),
            is_unrecorded: Cell::new(false),
            calls_out: RefCell::default(),
            failure: RefCell::default(),
            is_closed: Cell::new(false),
            is_left: Cell::new(false),
            calls: RefCell::default(),
            next_call: Cell::new(0),
            is_watching: Cell::new(false),
        }))
    }

    /// Those that count, each with its number.
    pub(crate) fn copies(&self) -> Vec<(usize, Copy)> {
        let copies = self.0.copies.borrow();
        copies.iter().cloned().enumerate().filter_map(|(at, it)| Some((at, it?))).collect()
    }

    /// Which of them do not count.
    pub(crate) fn out(&self) -> [bool; 2] {
        self.0.copies.borrow().each_ref().map(Option::is_none)
    }

    /// Bytes for a log behind the memory.
    pub(crate) fn log_size(&self) -> u64 {
        self.0.log_size
    }

    /// How a copy stands.
    pub(crate) fn state(&self, number: usize) -> TwinState {
        if !self.out()[number] {
            TwinState::In
        } else if self.0.pending.borrow().is_some() {
            TwinState::Filling
        } else {
            TwinState::Out(self.0.reasons.borrow()[number].clone())
        }
    }

    /// From now on a copy that is called out is recorded so. Until then nothing is answered that
    /// could rest on it.
    pub(crate) fn record_with(&self, calls_out: CallsOut) {
        *self.0.calls_out.borrow_mut() = Some(calls_out);
    }

    /// Writes the label of every copy that counts, each with its number, unless it has a later one:
    /// a copy has been called out meanwhile, and the label of the other one says so.
    pub(crate) async fn write_labels(
        &self,
        layout: &Layout,
        label: &Label,
        latest: &Rc<Cell<Label>>,
    ) -> Result<(), IoError> {
        let (twin, layout, label) = (self.clone(), *layout, *label);
        let (latest, before) = (latest.clone(), latest.get());
        let write = move |number: usize, copy: &Copy| {
            let (twin, latest, copy) = (twin.clone(), latest.clone(), copy.clone());
            let write = async move {
                let _alone = twin.0.labelling[number].exclusive().await;
                if latest.get() != before && !is_planted(Bug::CrossedLabels) {
                    return Ok(());
                }
                write_labels(&*copy, &layout, &label_of(&label, number)).await?;
                twin.0.labels[number].set(Some(label));
                Ok(())
            };
            write.boxed_local()
        };
        self.run(Verb::Write, 0..0, write).await
    }

    /// Holds the label of a copy alone: two that write it at once leave none after a cut.
    pub(crate) async fn hold_label(&self, number: usize) -> Option<Permit> {
        let is_alone = !is_planted(Bug::CrossedLabels);
        if is_alone { Some(self.0.labelling[number].exclusive().await) } else { None }
    }

    /// The latest label of a copy, given that of the volume. The copy may have a later one: the
    /// task that wrote it has not heard of that yet.
    pub(crate) fn latest_label(&self, number: usize, known: Label) -> Label {
        let written = self.0.labels[number].get().filter(|label| label.number > known.number);
        written.filter(|_| !is_planted(Bug::StaleLabels)).unwrap_or(known)
    }

    /// Checks the volume's label before one that was made from the latest of a copy takes its
    /// place. The copy's label is held meanwhile: only the task that wrote its latest one may have
    /// gone on.
    pub(crate) fn check_latest(&self, now: Label, expected: [Label; 2]) {
        let is_wrong = is_planted(Bug::CrossedLabels) || is_planted(Bug::StaleLabels);
        assert!(expected.contains(&now) || is_wrong, "invariant 5: {now:?} is overwritten");
    }

    /// Ends a fill that is under way, soon.
    pub(crate) fn stop(&self) {
        self.0.is_closed.set(true);
    }

    /// Ends all work: nobody waits for a call any more.
    pub(crate) fn leave(&self) {
        self.stop();
        self.0.is_left.set(true);
    }

    /// Waits for the end of a fill, and begins no other.
    pub(crate) async fn stopped(&self) {
        self.stop();
        while self.0.pending.borrow().is_some() {
            self.0.runtime.clock.sleep(STEP).await;
        }
    }

    /// Fills a copy that does not count, and has it count: `finish` records that when it has
    /// everything, and gets it to put its labels there.
    ///
    /// # Errors
    /// Why it still does not count.
    pub(crate) async fn fill<F>(&self, number: usize, copy: Copy, finish: F) -> Result<(), IoError>
    where
        F: AsyncFnOnce(&Copy) -> Result<(), IoError>,
    {
        let is_free = self.0.pending.borrow().is_none() && self.out()[number];
        if !is_free || self.0.is_closed.get() {
            return Err(IoError::new(Verb::Write, 0, 0, ErrorKind::ResourceBusy));
        }
        *self.0.pending.borrow_mut() = Some(chunks_of(&(0..self.0.size)).collect());
        let filled = if is_planted(Bug::UnfilledTwin) {
            finish(&copy).await
        } else {
            self.fill_all(&copy, finish).await
        };
        if filled.is_ok() {
            self.0.copies.borrow_mut()[number] = Some(copy.clone());
            self.0.reasons.borrow_mut()[number] = None;
        } else {
            self.close_behind(copy);
        }
        *self.0.pending.borrow_mut() = None;
        filled
    }

    async fn fill_all<F>(&self, copy: &Copy, finish: F) -> Result<(), IoError>
    where
        F: AsyncFnOnce(&Copy) -> Result<(), IoError>,
    {
        // Under load, what is written meanwhile may never become less: calls wait for the rest.
        let most = 2 * self.pending_chunks();
        for _ in 0..most {
            if self.pending_chunks() <= LAST_CHUNKS {
                break;
            }
            self.copy_chunk(copy).await?;
        }
        let _alone = self.0.gate.exclusive().await;
        while self.pending_chunks() > 0 {
            self.copy_chunk(copy).await?;
        }
        copy.flush().await?;
        finish(copy).await
    }

    fn pending_chunks(&self) -> usize {
        self.0.pending.borrow().as_ref().map_or(0, BTreeSet::len)
    }

    /// Copies the first chunk that is to be copied. It is one no more before it is read: a write
    /// that comes to its end later brings it back.
    async fn copy_chunk(&self, copy: &Copy) -> Result<(), IoError> {
        if self.0.is_closed.get() {
            return Err(IoError::closed(Verb::Write));
        }
        let chunk = self.0.pending.borrow_mut().as_mut().and_then(BTreeSet::pop_first);
        let Some(chunk) = chunk else { return Ok(()) };
        let (whole, memory) = (chunk * CHUNK..(chunk + 1) * CHUNK, self.0.size - self.0.log_size);
        // All but the labels, which each has of its own.
        for part in [LABEL..memory - LABEL, memory..self.0.size] {
            let (start, end) = (whole.start.max(part.start), whole.end.min(part.end));
            if start < end {
                let read = self.read(start, Memory::unfilled((end - start) as usize)).await?;
                copy.write(start, vec![read.freeze()], Durability::Plain).await?;
            }
        }
        Ok(())
    }

    /// Waits for a call of a copy as long as that counts. `None` if it does not any more. Once the
    /// call is due, the copy may not hang.
    async fn while_in<T>(
        &self,
        number: usize,
        mut call: Io<T>,
        is_due: &Rc<Cell<bool>>,
    ) -> Option<Result<T, IoError>> {
        let _watched = self.watch(number, is_due);
        loop {
            let left = self.0.left.wait();
            if self.out()[number] {
                return None;
            }
            match select(call, left).await {
                Either::Left((done, _)) => return Some(done),
                Either::Right(((), rest)) => call = rest,
            }
        }
    }

    /// Takes note of a call of a copy. A task looks after all of them while there are any.
    fn watch(&self, number: usize, is_due: &Rc<Cell<bool>>) -> Watched<'_> {
        let (clock, key) = (&self.0.runtime.clock, self.0.next_call.get());
        self.0.next_call.set(key + 1);
        let call = Call { number, since: clock.now(), is_due: is_due.clone() };
        self.0.calls.borrow_mut().insert(key, call);
        if !self.0.is_watching.replace(true) {
            let twin = self.clone();
            let work = async move {
                while !twin.0.calls.borrow().is_empty() && !twin.0.is_left.get() {
                    twin.0.runtime.clock.sleep(LOOK).await;
                    twin.call_out_silent().await;
                }
                twin.0.is_watching.set(false);
            };
            self.0.runtime.tasks.spawn(work.boxed_local());
        }
        Watched { twin: self, key }
    }

    /// Calls out a copy that has not done a call for long, which is due.
    async fn call_out_silent(&self) {
        let now = self.0.runtime.clock.now();
        let is_silent = |call: &&Call| call.is_due.get() && now.since(call.since) > PATIENCE;
        let silent = self.0.calls.borrow().values().find(is_silent).map(|call| call.number);
        if let Some(number) = silent.filter(|_| !is_planted(Bug::EndlessPatience)) {
            let error = IoError::new(Verb::Write, 0, 0, ErrorKind::TimedOut);
            let _ = self.call_out(number, error).await; // the last one may hang as any disk may
        }
    }

    /// Makes a change on every copy that counts, and calls out those that miss it.
    async fn change(
        &self,
        verb: Verb,
        range: Range<u64>,
        call: impl Fn(usize, &Copy) -> Io<()>,
    ) -> Result<(), IoError> {
        let _open = self.0.gate.shared().await;
        let is_somewhere = Rc::new(Cell::new(false));
        let calls = self.copies().into_iter().map(async |(number, copy)| {
            let done = self.while_in(number, call(number, &copy), &is_somewhere).await;
            is_somewhere.set(is_somewhere.get() || matches!(done, Some(Ok(()))));
            (number, done)
        });
        let done = join_all(calls).await;
        if let Some(pending) = self.0.pending.borrow_mut().as_mut() {
            pending.extend(chunks_of(&range));
        }
        for (number, done) in done {
            let Some(Err(error)) = done else { continue };
            if !is_somewhere.get() {
                return Err(error);
            }
            self.call_out(number, error).await?;
        }
        self.recorded(verb).await?;
        if is_somewhere.get() { Ok(()) } else { Err(IoError::new(verb, 0, 0, ErrorKind::Other)) }
    }

    /// Waits until the volume says durably which copies are called out.
    async fn recorded(&self, verb: Verb) -> Result<(), IoError> {
        if self.0.is_unrecorded.get() && !is_planted(Bug::HastyCallOut) {
            drop(self.0.calling.exclusive().await);
        }
        match self.0.failure.borrow().clone() {
            Some(failure) => Err(IoError { verb, ..failure }),
            None => Ok(()),
        }
    }

    /// Calls a copy out.
    ///
    /// # Errors
    /// It is the last one, and this is its failure; or that cannot be recorded.
    pub(crate) async fn call_out(&self, number: usize, error: IoError) -> Result<(), IoError> {
        let alone = self.0.calling.exclusive().await;
        if self.out()[number] {
            return Ok(());
        }
        if self.copies().len() == 1 {
            return Err(error);
        }
        let gone = self.0.copies.borrow_mut()[number].take();
        assert!(self.out() != [true; 2], "invariant 3: {error}");
        self.0.reasons.borrow_mut()[number] = Some(error);
        self.0.left.notify();
        gone.into_iter().for_each(|copy| self.close_behind(copy));
        let (calls_out, other) = (self.0.calls_out.borrow().clone(), self.copies().pop());
        let Some((calls_out, (_, other))) = calls_out.zip(other) else { return Ok(()) };
        self.0.is_unrecorded.set(true);
        let (twin, record) = (self.clone(), calls_out(number, other));
        let work = async move {
            let _alone = alone;
            if let Err(error) = record.await {
                twin.0.failure.borrow_mut().get_or_insert(error);
            }
            twin.0.is_unrecorded.set(false);
        };
        self.0.runtime.tasks.spawn(work.boxed_local());
        Ok(())
    }

    /// Closes a copy for which nobody waits: it may hang.
    fn close_behind(&self, copy: Copy) {
        let work = async move { drop(copy.close().await) }; // it does not count
        self.0.runtime.tasks.spawn(work.boxed_local());
    }

    /// A change as a task: dropping the future abandons the answer, never the change.
    fn run(
        &self,
        verb: Verb,
        range: Range<u64>,
        call: impl Fn(usize, &Copy) -> Io<()> + 'static,
    ) -> Io<()> {
        let (twin, (answer, answered)) = (self.clone(), oneshot::channel());
        let task = async move {
            let _ = answer.send(twin.change(verb, range, call).await); // the caller may have gone
        };
        self.0.runtime.tasks.spawn(task.boxed_local());
        async move { answered.await.unwrap_or_else(|_| Err(IoError::closed(verb))) }.boxed_local()
    }

    async fn read_any(
        &self,
        offset: u64,
        length: usize,
        call: impl Fn(&Copy, Memory) -> Io<Memory>,
    ) -> Result<Memory, IoError> {
        let mut failed = IoError::new(Verb::Read, offset, length as u64, ErrorKind::Other);
        let is_due = Rc::new(Cell::new(true));
        for (number, copy) in self.copies() {
            let room = Memory::unfilled(length);
            match self.while_in(number, call(&copy, room), &is_due).await {
                Some(Ok(read)) => return Ok(read),
                Some(Err(error)) => failed = error,
                None => {}
            }
        }
        Err(failed)
    }
}

/// The chunks that a range touches.
fn chunks_of(range: &Range<u64>) -> Range<u64> {
    range.start / CHUNK..range.end.div_ceil(CHUNK)
}

impl BlockDevice for Twin {
    fn geometry(&self) -> Geometry {
        let of_copies = self.copies().into_iter().map(|(_, copy)| copy.geometry());
        let sector = |it: &Geometry| it.logical_sector_size;
        let usual = Geometry {
            size: self.0.size,
            logical_sector_size: SECTOR as u32,
            physical_sector_size: SECTOR as u32,
            read_only: false,
            stripe: None,
            platters: None,
        };
        let coarsest = of_copies.max_by_key(sector).unwrap_or(usual);
        Geometry { size: self.0.size, stripe: None, platters: None, ..coarsest }
    }

    fn read(&self, offset: u64, buffer: Memory) -> Io<Memory> {
        let (twin, length) = (self.clone(), buffer.len());
        async move { twin.read_any(offset, length, |copy, room| copy.read(offset, room)).await }
            .boxed_local()
    }

    fn read_medium(&self, offset: u64, buffer: Memory) -> Io<Memory> {
        let (twin, length) = (self.clone(), buffer.len());
        let read = move |copy: &Copy, room| copy.read_medium(offset, room);
        async move { twin.read_any(offset, length, read).await }.boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let range = offset..offset.saturating_add(block::length_of(&data));
        self.run(Verb::Write, range, move |_, copy| copy.write(offset, data.clone(), durability))
    }

    fn flush(&self) -> Io<()> {
        self.run(Verb::Flush, 0..0, |_, copy| copy.flush())
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        let range = offset..offset.saturating_add(length);
        self.run(Verb::Discard, range, move |_, copy| copy.discard(offset, length))
    }

    /// The version of a copy that is right. It is written over those that are not: if that fails,
    /// they are as bad as before.
    fn mend(&self, offset: u64, length: u64, is_right: IsRight) -> Io<Option<Memory>> {
        let twin = self.clone();
        let work = async move {
            let _open = twin.0.gate.shared().await;
            let (mut right, mut wrong) = (None::<Memory>, Vec::new());
            let is_due = Rc::new(Cell::new(true));
            for (number, copy) in twin.copies() {
                let read = copy.read(offset, Memory::unfilled(length as usize));
                match twin.while_in(number, read, &is_due).await {
                    Some(Ok(read)) if is_right(&read) => right = right.or(Some(read)),
                    Some(_) => wrong.push((number, copy)),
                    None => {}
                }
            }
            let Some(right) = right else { return Ok(None) };
            let bytes = Memory::copied(&right).freeze();
            for (number, copy) in wrong {
                let write = copy.write(offset, vec![bytes.clone()], Durability::Plain);
                let _ = twin.while_in(number, write, &is_due).await;
            }
            Ok(Some(right))
        };
        work.boxed_local()
    }

    fn close(&self) -> Io<()> {
        self.stop();
        let twin = self.clone();
        let work = async move {
            let closing = twin.copies().into_iter().map(|(_, copy)| copy.close());
            join_all(closing).await.into_iter().collect()
        };
        work.boxed_local()
    }
}

/// A memory, and behind it the part of its device that is for a log.
pub(crate) struct Joined {
    pub(crate) memory: Copy,
    pub(crate) log: Rc<dyn BlockDevice>,
    /// Bytes of both.
    pub(crate) size: u64,
}

impl Joined {
    /// The part that has a byte, and the byte there.
    fn part(&self, offset: u64) -> (&dyn BlockDevice, u64) {
        match offset.checked_sub(self.memory.geometry().size) {
            Some(behind) => (&*self.log, behind),
            None => (&*self.memory, offset),
        }
    }
}

impl BlockDevice for Joined {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, ..self.memory.geometry() }
    }

    fn read(&self, offset: u64, buffer: Memory) -> Io<Memory> {
        let (part, at) = self.part(offset);
        part.read(at, buffer)
    }

    fn read_medium(&self, offset: u64, buffer: Memory) -> Io<Memory> {
        let (part, at) = self.part(offset);
        part.read_medium(at, buffer)
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let (part, at) = self.part(offset);
        part.write(at, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.memory.flush() // that of both
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        let (part, at) = self.part(offset);
        part.discard(at, length)
    }

    fn close(&self) -> Io<()> {
        let parts = [self.memory.close(), self.log.close()];
        async move { join_all(parts).await.into_iter().collect() }.boxed_local()
    }
}

/// A memory that is larger than its twin: its label at the end is that of its own end.
pub(crate) struct Fitted {
    device: Rc<dyn BlockDevice>,
    size: u64,
}

impl Fitted {
    /// A memory as one of this size. `None` if it is smaller.
    pub(crate) fn fit(device: Rc<dyn BlockDevice>, size: u64) -> Option<Rc<dyn BlockDevice>> {
        let has = device.geometry().size / SECTOR * SECTOR;
        match has.cmp(&size) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal if has == device.geometry().size => Some(device),
            _ => Some(Rc::new(Self { device, size })),
        }
    }

    /// The byte of the device for one of the memory.
    fn at(&self, offset: u64) -> u64 {
        let behind = self.device.geometry().size / SECTOR * SECTOR - self.size;
        if offset >= self.size - LABEL { offset + behind } else { offset }
    }
}

impl BlockDevice for Fitted {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, ..self.device.geometry() }
    }

    fn read(&self, offset: u64, buffer: Memory) -> Io<Memory> {
        self.device.read(self.at(offset), buffer)
    }

    fn read_medium(&self, offset: u64, buffer: Memory) -> Io<Memory> {
        self.device.read_medium(self.at(offset), buffer)
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        self.device.write(self.at(offset), data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.device.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.device.discard(self.at(offset), length)
    }

    fn close(&self) -> Io<()> {
        self.device.close()
    }
}
