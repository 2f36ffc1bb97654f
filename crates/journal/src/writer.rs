//! Writing entries: batches, and the slots that name the epoch.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::{BlockDevice, Durability, IoError};
use futures::future::{LocalBoxFuture, try_join};
use futures::{FutureExt, TryFutureExt};

use crate::error::JournalError;
use crate::format::{
    AREA, Circle, Fields, HEADER_SIZE, Header, LARGEST_BATCH, LARGEST_BODY, Line, SEGMENT,
    SEGMENT_UNITS, SLOTS, Slot, State, UNIT, write_entry,
};
use crate::planted::{Bug, is_planted};
use crate::reader::Live;
use crate::save::{save, saved_size};
use crate::slots::{capacity_of, sector, slot_image, slots};

/// An entry without a position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// Number of the entry's volume.
    pub volume: u16,
    /// Number of records in its body.
    pub records: u16,
    /// Table of contents and data.
    pub body: Vec<u8>,
    /// The Update that it makes durable; 0 for none.
    pub sequence: u64,
}

impl Draft {
    fn units(&self) -> u64 {
        units_of(self.body.len())
    }
}

/// Units of an entry with `body` bytes behind its header.
fn units_of(body: usize) -> u64 {
    ((HEADER_SIZE + body) as u64).div_ceil(UNIT)
}

/// The space of the circle that a batch would take, for the writer that collects it (invariant 8).
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    /// Position of the next entry.
    at: u64,
    /// Position at which the batch must end.
    end: u64,
    batch_units: u64,
}

impl Filling {
    /// Whether an entry with `body` bytes behind its header fits into the same batch; if so, it
    /// counts from now on.
    pub fn takes(&mut self, body: usize) -> bool {
        let units = units_of(body);
        let left = SEGMENT_UNITS - self.at % SEGMENT_UNITS;
        let start = if units > left { self.at + left } else { self.at };
        let fits = (start + units).next_multiple_of(self.batch_units) <= self.end;
        if fits || is_planted(Bug::LongBatches) {
            self.at = start + units;
            return true;
        }
        false
    }
}

/// Statistics of the log since it was begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Entries, except those that only fill a segment.
    pub entries: u64,
    /// Writes of entries: a batch that wraps around is one.
    pub batches: u64,
    /// Bytes of those writes.
    pub bytes: u64,
    /// Writes of a slot.
    pub slots: u64,
    /// Maximum bytes between head and tail.
    pub peak_bytes: u64,
}

/// The end of the log, where entries are added.
pub struct Journal {
    device: Rc<dyn BlockDevice>,
    epoch: u64,
    /// Recno of the first entry.
    start: u64,
    /// Size of the circle in units.
    capacity: u64,
    /// Alignment of batches in units.
    batch_units: u64,
    tail: Cell<u64>,
    durable_head: Rc<Cell<u64>>,
    /// The first entry of the last durable batch; before there is one, the beginning of the epoch.
    durable_batch: Rc<Cell<u64>>,
    /// The newest head that a slot may name until the batch in flight is durable (invariant 7). A
    /// batch whose write has failed never is.
    flight: Rc<Cell<Option<u64>>>,
    /// The head of the epoch that the volume bears, as long as that is not this one.
    kept: Cell<Option<u64>>,
    /// Checksum of the last entry.
    previous: Cell<u32>,
    next_slot: Cell<usize>,
    slot_number: Cell<u64>,
    /// Whether a batch is being written.
    writing: Rc<Cell<bool>>,
    /// The volumes that share the log, or the one that has it alone.
    lines: RefCell<Vec<Line>>,
    counters: RefCell<Counters>,
}

/// Records that no change of an epoch is needed any more: for a caller that has written all of them
/// in place without beginning another epoch.
///
/// # Errors
/// [`JournalError`].
pub async fn close(device: &dyn BlockDevice, live: &Live) -> Result<(), JournalError> {
    let mut lines = live.slot.kept_lines();
    lines.iter_mut().for_each(Line::rest);
    put_after(device, live.slot, live.head, State::AtRest, &lines).await
}

/// Records the same for one of the volumes that share the log, or gives up its entries. The volume
/// bears this epoch, or 0 for none: the next epoch that is begun without it recognises it by that.
///
/// # Errors
/// [`JournalError`].
pub async fn close_one(
    device: &dyn BlockDevice,
    slot: Slot,
    number: u16,
    bears: u64,
) -> Result<(), JournalError> {
    let mut lines = slot.lines().to_vec();
    lines[usize::from(number)].rest();
    if bears != 0 {
        lines[usize::from(number)].was.set(bears);
    }
    let state = if lines.iter().any(Line::is_open) { slot.state() } else { State::AtRest };
    put_after(device, slot, slot.curhead.get(), state, &lines).await
}

/// Gives up all entries of the log.
///
/// # Errors
/// [`JournalError`].
pub async fn forget(device: &dyn BlockDevice) -> Result<(), JournalError> {
    capacity_of(device.geometry().size)?;
    let found = slots(device).await?;
    let newest = found.into_iter().flatten().max_by_key(|slot| slot.number.get());
    match newest {
        Some(slot) => {
            let owner = slot.owner().map(Line::owner);
            put_after(device, slot, slot.curhead.get(), State::GivenUp, owner.as_slice()).await
        }
        None => Ok(()),
    }
}

/// Writes another slot of the epoch of `slot`: first in the place of the other one, and then over
/// it (invariant 9).
async fn put_after(
    device: &dyn BlockDevice,
    slot: Slot,
    head: u64,
    state: State,
    lines: &[Line],
) -> Result<(), JournalError> {
    let old = slots(device).await?;
    let numbers = old.iter().flatten().map(|slot| slot.number.get());
    let number = numbers.max().unwrap_or(0) + 1;
    let is_first = old[0].is_some_and(|first| first == slot);
    let circle = Circle { capacity: slot.capacity.get(), start: slot.start.get() };
    let closed = Slot::new(slot.epoch.get(), number, circle, head, state, lines);
    let image = slot_image(device, &closed);
    for place in [usize::from(is_first), usize::from(!is_first)] {
        device.write(SLOTS[place], vec![image.clone()], Durability::Through).await?;
        device.flush().await?;
        if is_planted(Bug::SingleRest) {
            break;
        }
    }
    Ok(())
}

/// An entry with its position.
struct Place {
    draft: Draft,
    recno: u64,
    units: u64,
}

/// The circle for an epoch on a device of `size` bytes that keeps the live part of another one, and
/// the head of that. The new epoch has room for at least a segment, for records that it takes over.
fn circle_behind(size: u64, kept: Option<&Live>) -> Result<(Circle, Option<u64>), JournalError> {
    let largest = capacity_of(size)?;
    let Some(live) = kept else { return Ok((Circle { capacity: largest, start: 0 }, None)) };
    let (capacity, head) = (live.slot.capacity.get(), Some(live.head));
    if AREA + capacity > size {
        return Err(JournalError::Short { size, needed: AREA + capacity });
    }
    // Entries at rest are no reason to keep a circle smaller than it could be. The larger one
    // begins behind all of the old one, and has only the added space until the old entries are not
    // kept any more.
    let needed = 2 * live.bytes() + 2 * LARGEST_BATCH;
    if live.slot.state() != State::Open && largest - capacity >= needed {
        let start = if is_planted(Bug::GrownOver) { 0 } else { capacity / UNIT };
        return Ok((Circle { capacity: largest, start }, Some(0)));
    }
    if is_planted(Bug::BeginningAtZero) {
        return Ok((Circle { capacity, start: 0 }, head));
    }
    let start = live.tail.next_multiple_of(SEGMENT_UNITS);
    match live.slot.state() {
        _ if start + SEGMENT_UNITS - live.head <= capacity / UNIT => {
            Ok((Circle { capacity, start }, head))
        }
        State::Open => Err(JournalError::Full),
        // It may be overwritten.
        _ => Ok((Circle { capacity, start }, Some(live.tail))),
    }
}

impl Journal {
    /// Begins an epoch of `volume`, with an empty log. The live part of the epoch that the volume
    /// still bears, `kept`, stays, and so does its slot, until [`Journal::bear`]: the first entry
    /// goes behind its tail.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn begin(
        device: Rc<dyn BlockDevice>,
        epoch: u64,
        volume: u64,
        kept: Option<&Live>,
    ) -> Result<Self, JournalError> {
        let journal = Self::prepare(device, epoch, kept, vec![Line::owner(volume)]).await?;
        journal.write_slot(journal.start, State::Open).await?;
        Ok(journal)
    }

    /// Begins an epoch of a log that these volumes share. For a reader it does not exist until
    /// [`Journal::found`]; until then everything in `kept` stays.
    ///
    /// # Errors
    /// [`JournalError`].
    pub async fn begin_shared(
        device: Rc<dyn BlockDevice>,
        epoch: u64,
        kept: Option<&Live>,
        lines: Vec<Line>,
    ) -> Result<Self, JournalError> {
        let journal = Self::prepare(device, epoch, kept, lines).await?;
        let head = journal.kept.get().unwrap_or(journal.start);
        journal.kept.set(Some(head));
        Ok(journal)
    }

    /// From now on the epoch exists, with everything written in it from `head` on, if anything is
    /// needed: the commit point of its beginning.
    ///
    /// # Errors
    /// I/O errors of the device.
    pub async fn found(&self, head: impl Into<Option<u64>>) -> Result<(), IoError> {
        let head = self.nameable(head);
        self.write_slot(head, State::Open).await?;
        self.durable_head.set(self.durable_head.get().max(head));
        self.bear();
        Ok(())
    }

    /// A volume that shares the log bears this epoch, durably.
    pub fn borne(&self, number: u16) {
        self.lines.borrow_mut()[usize::from(number)].was.set(self.epoch);
    }

    /// Saves on another device the entries of one of the volumes that share the log, from the entry
    /// at `head` on, before which the volume needs nothing; then it needs nothing here.
    ///
    /// # Errors
    /// [`JournalError`]; then the entries are still needed here.
    pub async fn part(
        &self,
        number: u16,
        head: u64,
        to: &dyn BlockDevice,
    ) -> Result<(), JournalError> {
        save(&*self.device, &self.live_from(self.nameable(head)), number, to).await?;
        self.lines.borrow_mut()[usize::from(number)].part();
        Ok(self.note_head(self.durable_head()).await?)
    }

    /// Bytes that [`Journal::part`] writes.
    pub fn part_size(&self, head: u64) -> u64 {
        saved_size(&self.live_from(self.nameable(head)))
    }

    fn live_from(&self, head: u64) -> Live {
        let slot = self.slot(self.slot_number.get(), head, State::Open);
        Live { slot, head, tail: self.tail.get(), search_reads: 0 }
    }

    fn slot(&self, number: u64, head: u64, state: State) -> Slot {
        let circle = Circle { capacity: self.capacity * UNIT, start: self.start };
        Slot::new(self.epoch, number, circle, head, state, &self.lines.borrow())
    }

    /// No change of a volume is needed any more; returns whether that is true of all now.
    pub fn rest(&self, number: u16) -> bool {
        let mut lines = self.lines.borrow_mut();
        let line = lines.get_mut(usize::from(number));
        line.into_iter().for_each(Line::rest);
        !lines.iter().any(Line::is_open)
    }

    async fn prepare(
        device: Rc<dyn BlockDevice>,
        epoch: u64,
        kept: Option<&Live>,
        lines: Vec<Line>,
    ) -> Result<Self, JournalError> {
        let (Circle { capacity, start }, kept_head) = circle_behind(device.geometry().size, kept)?;
        let physical = u64::from(device.geometry().physical_sector_size);
        let logical = sector(&*device);
        if physical > SEGMENT || logical > SLOTS[1] - SLOTS[0] {
            return Err(JournalError::Sector { size: physical.max(logical) });
        }
        let old = slots(&*device).await?;
        let number = |slot: &Option<Slot>| slot.map_or(0, |slot| slot.number.get());
        let holds = |slot: &Option<Slot>| {
            slot.is_some_and(|slot| kept.is_some_and(|live| live.slot.epoch == slot.epoch))
        };
        let next = match (holds(&old[0]), holds(&old[1])) {
            _ if is_planted(Bug::OneSlot) => 0,
            (true, false) => 1,
            (false, true) => 0,
            _ => usize::from(number(&old[0]) > number(&old[1])),
        };
        let epoch = match old.iter().flatten().next() {
            Some(slot) if is_planted(Bug::SameEpoch) => slot.epoch.get(),
            _ => epoch,
        };
        let keeps = kept.is_none_or(|live| old[next] != Some(live.slot));
        assert!(keeps || is_planted(Bug::OneSlot), "invariant 5: the slot that is kept stays");
        Ok(Self {
            device,
            epoch,
            start,
            capacity: capacity / UNIT,
            batch_units: physical.max(4096) / UNIT,
            tail: Cell::new(start),
            durable_head: Rc::new(Cell::new(start)),
            durable_batch: Rc::new(Cell::new(start)),
            flight: Rc::default(),
            kept: Cell::new(kept_head.filter(|_| !is_planted(Bug::UnkeptHead))),
            previous: Cell::new(epoch as u32),
            next_slot: Cell::new(next),
            slot_number: Cell::new(number(&old[0]).max(number(&old[1]))),
            writing: Rc::default(),
            lines: RefCell::new(lines),
            counters: RefCell::default(),
        })
    }

    /// The volume bears this epoch, durably: the previous one is not needed any more.
    pub fn bear(&self) {
        if self.kept.take().is_some() {
            self.next_slot.set(1 - self.next_slot.get());
        }
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Bytes of the circle.
    pub fn capacity(&self) -> u64 {
        self.capacity * UNIT
    }

    /// Position of the next entry.
    pub fn tail(&self) -> u64 {
        self.tail.get()
    }

    /// Entries before it may be overwritten: the newest recno that is durably named as the head,
    /// or, while the volume bears the previous epoch, the head of that.
    pub fn durable_head(&self) -> u64 {
        self.kept.get().unwrap_or(self.durable_head.get())
    }

    /// Bytes that may be written before a later head has to become durable.
    pub fn room(&self) -> u64 {
        (self.capacity - (self.tail.get() - self.durable_head())) * UNIT
    }

    /// Maximum bytes of the circle that an entry with `body` bytes behind its header can take: with
    /// the rest of a segment that it does not fit into, and the padding of its batch.
    pub fn room_for(&self, body: usize) -> u64 {
        let units = ((HEADER_SIZE + body) as u64).div_ceil(UNIT);
        (units.next_multiple_of(self.batch_units) + units) * UNIT
    }

    /// The filling of the next batch, without entries.
    pub fn filling(&self) -> Filling {
        let at = self.tail.get();
        Filling { at, end: at + LARGEST_BATCH / UNIT, batch_units: self.batch_units }
    }

    /// The recno that a slot may name as the head now, if the oldest needed entry is at `head`, or
    /// there is none (invariant 7). Entries before `head` may be replayed once more, together with
    /// all that came after them.
    pub fn nameable(&self, head: impl Into<Option<u64>>) -> u64 {
        let head = head.into().filter(|&head| head < self.tail.get());
        let head = match head {
            None if is_planted(Bug::BareHead) => return self.tail.get(),
            head => head.unwrap_or(self.durable_batch.get()),
        };
        let most = self.flight.get().filter(|_| !is_planted(Bug::HastyHead));
        most.map_or(head, |most| head.min(most))
    }

    /// Invariant 7.
    fn may_name(&self, head: u64) -> bool {
        let is_planted = is_planted(Bug::BareHead) || is_planted(Bug::HastyHead);
        head == self.start
            || head < self.tail.get() && self.flight.get().is_none_or(|most| head <= most)
            || is_planted
    }

    /// Statistics so far.
    pub fn counters(&self) -> Counters {
        *self.counters.borrow()
    }

    /// Assigns positions to a batch of entries, at once and in order, and begins to write them. The
    /// oldest needed entry is at `head`, or, if there is none, the first of these. Returns the
    /// recnos, and a future that completes when all of the batch is durable.
    ///
    /// One batch at a time: each says that everything before it is durable.
    ///
    /// # Panics
    /// If there is no room: see [`Journal::room_for`]. If a body is too large, or all of them
    /// together: see [`Journal::filling`]. If the previous batch has not been answered.
    pub fn place(
        &self,
        drafts: Vec<Draft>,
        head: Option<u64>,
    ) -> (Vec<u64>, LocalBoxFuture<'static, Result<(), IoError>>) {
        if drafts.is_empty() {
            return (Vec::new(), std::future::ready(Ok(())).boxed_local());
        }
        assert!(!self.writing.replace(true), "a batch follows one that is durable");
        let start = self.tail.get();
        let places = self.lay_out(drafts);
        let recnos = places.iter().filter(|place| place.is_real()).map(|place| place.recno);
        let recnos: Vec<u64> = recnos.collect();
        let end = places.last().map_or(start, |last| last.recno + last.units);
        let largest = LARGEST_BATCH / UNIT;
        assert!(end - start <= largest || is_planted(Bug::LongBatches), "invariant 8");
        let is_whole = [start, end].iter().all(|at| at.is_multiple_of(self.batch_units));
        let is_planted_one = is_planted(Bug::SharedSectors);
        assert!(is_whole || is_planted_one, "invariant 1: a batch shares no sector with another");
        let limit = self.durable_head();
        assert!(end - limit <= self.capacity, "invariant 6: there is room");
        self.flight.set(Some(self.nameable(head)));
        let head = head.unwrap_or(start);
        self.tail.set(end);
        let image = self.encode(&places, start, end, head);
        let mut counters = self.counters.borrow_mut();
        counters.entries += recnos.len() as u64;
        counters.batches += 1;
        counters.bytes += image.len() as u64;
        counters.peak_bytes = counters.peak_bytes.max((end - head) * UNIT);
        let (durable_head, writing) = (self.durable_head.clone(), self.writing.clone());
        let (durable_batch, flight) = (self.durable_batch.clone(), self.flight.clone());
        let write = self.write(start, image);
        let write = if is_planted(Bug::EarlyAnswers) {
            std::future::ready(Ok(())).boxed_local()
        } else {
            write
        };
        let written = write.map(move |result| {
            writing.set(false);
            result.map(|()| {
                flight.set(None);
                durable_batch.set(start);
                durable_head.set(durable_head.get().max(head));
            })
        });
        (recnos, written.boxed_local())
    }

    /// Invariants 1 and 2: the position of each entry, and its length with padding.
    fn lay_out(&self, drafts: Vec<Draft>) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::with_capacity(drafts.len() + 1);
        let mut at = self.tail.get();
        for draft in drafts {
            assert!(draft.body.len() <= LARGEST_BODY, "an entry fits into a segment");
            let units = draft.units();
            let left = SEGMENT_UNITS - at % SEGMENT_UNITS;
            if units > left && !is_planted(Bug::CrossedSegments) {
                match places.last_mut() {
                    Some(last) => last.units += left,
                    None => places.push(Place { draft: Draft::default(), recno: at, units: left }),
                }
                at += left;
            }
            places.push(Place { draft, recno: at, units });
            at += units;
        }
        if let Some(last) = places.last_mut()
            && !is_planted(Bug::SharedSectors)
        {
            last.units += at.next_multiple_of(self.batch_units) - at;
        }
        let fits = |place: &Place| place.recno % SEGMENT_UNITS + place.units <= SEGMENT_UNITS;
        let fit = places.iter().all(fits) || is_planted(Bug::CrossedSegments);
        assert!(fit, "invariant 2: no entry crosses the end of a segment");
        places
    }

    fn encode(&self, places: &[Place], start: u64, end: u64, head: u64) -> block::Buffer {
        let mut image = block::Buffer::unfilled(((end - start) * UNIT) as usize);
        for place in places {
            let at = ((place.recno - start) * UNIT) as usize;
            let behind = at + HEADER_SIZE + place.draft.body.len();
            image[behind..at + (place.units * UNIT) as usize].fill(0);
            let fields = Fields {
                previous: self.previous.get(),
                records: place.draft.records,
                volume: place.draft.volume,
                epoch: self.epoch,
                recno: place.recno,
                curhead: head,
                size: (place.units * UNIT) as u32,
                sequence: place.draft.sequence,
                batch: if is_planted(Bug::LoneEntries) { place.recno } else { start },
            };
            self.previous.set(write_entry(&mut image[at..], fields, &place.draft.body));
            debug_assert!(
                Header::read(&image[at..]).is_some_and(|header| {
                    (header.epoch.get(), header.recno.get()) == (self.epoch, place.recno)
                        && header.previous.get() == fields.previous
                        && header.checksum() == self.previous.get()
                }) || is_planted(Bug::CrossedSegments),
                "invariant 3: a reader follows what is written"
            );
        }
        image
    }

    fn write(
        &self,
        start: u64,
        image: block::Buffer,
    ) -> LocalBoxFuture<'static, Result<(), IoError>> {
        let durability =
            if is_planted(Bug::PlainWrites) { Durability::Plain } else { Durability::Through };
        let position = start % self.capacity * UNIT;
        let image = image.freeze();
        let until_end = (self.capacity * UNIT - position).min(image.len() as u64) as usize;
        let first = image.slice(..until_end);
        let rest = image.slice(until_end..);
        let first = self.device.write(AREA + position, vec![first], durability);
        if rest.is_empty() {
            return first;
        }
        let rest = self.device.write(AREA, vec![rest], durability);
        try_join(first, rest).map_ok(|_| ()).boxed_local()
    }

    /// Names a later head without an entry: for a caller that needs room and has nothing to log.
    ///
    /// # Errors
    /// I/O errors of the device.
    pub async fn note_head(&self, head: impl Into<Option<u64>>) -> Result<(), IoError> {
        let head = self.nameable(head);
        if is_planted(Bug::EarlyOverwrite) {
            self.durable_head.set(head);
        }
        self.write_slot(head, State::Open).await?;
        self.durable_head.set(self.durable_head.get().max(head));
        Ok(())
    }

    /// Records that no change in the log is needed any more. Other records stay there, from the
    /// entry at `head` on: see [`crate::at_rest`].
    ///
    /// # Errors
    /// I/O errors of the device.
    pub async fn close(&self, head: impl Into<Option<u64>>) -> Result<(), IoError> {
        let slot = self.write_slot(self.nameable(head), State::AtRest).await?;
        // Invariant 9, as long as invariant 5 allows it.
        if self.kept.get().is_none() && !is_planted(Bug::SingleRest) {
            self.put_slot(&slot).await?;
        }
        self.device.flush().await?;
        self.device.close().await
    }

    async fn write_slot(&self, head: u64, state: State) -> Result<Slot, IoError> {
        assert!(self.may_name(head), "invariant 7: {head} is durable, and stays so");
        let number = self.slot_number.get() + 1;
        self.slot_number.set(number);
        let slot = self.slot(number, head, state);
        self.put_slot(&slot).await?;
        Ok(slot)
    }

    /// Writes a slot into the place that is next.
    async fn put_slot(&self, slot: &Slot) -> Result<(), IoError> {
        let next = self.next_slot.get();
        if self.kept.get().is_none() && !is_planted(Bug::OneSlot) {
            self.next_slot.set(1 - next); // invariant 5
        }
        self.counters.borrow_mut().slots += 1;
        let image = slot_image(&*self.device, slot);
        self.device.write(SLOTS[next], vec![image], Durability::Through).await
    }
}

impl Place {
    /// Whether the entry is more than the filling of a segment.
    fn is_real(&self) -> bool {
        self.draft != Draft::default()
    }
}
