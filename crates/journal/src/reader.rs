//! Reading the log after a crash: finding its end and its beginning, and the entries in between.
//!
//! # Finding the tail
//! The first entry of every segment is at a known position. Over the segments, starting with the
//! one in which the epoch began, their recnos rise by a segment each as far as the newest round has
//! come; so the last segment of that round is found by bisection, as in section 6 of the paper: for
//! 512 segments one read for the first recno, 8 that leave two segments, and the later of these is
//! read whole, and the other one if the later is not of the round. The result is a *hint*: its
//! curhead, or that of an entry which follows it, is where reading begins. From there the chain
//! decides, entry by entry, each checked against its checksum and the previous one.
//!
//! If the first segments have nothing of the epoch, because a later one that the volume never came
//! to bear was written over them, bisection is impossible: then the first sectors of all segments
//! are read, and the highest recno is the hint.
//!
//! # What is empty
//! A log is empty if its slot has just begun the epoch, and no entry says that another one was
//! durable. Any other head that a slot names is an entry that was durable when the slot was written
//! (invariant 7 of the crate): if there is no entry, the log was damaged.
//!
//! # What tears
//! A batch in flight at a power failure may be there in parts: a later entry without an earlier
//! one. The chain ends before the first entry that is not intact; nothing behind it was
//! acknowledged. An entry also names the first entry of its batch, before which everything was
//! durable when it was written. So if there is an intact entry behind the end of the chain whose
//! batch begins behind it too, the log was damaged in the middle, and this is reported: the lost
//! entries had been acknowledged.

use block::BlockDevice;
use bytes::Bytes;
use futures::future::join_all;

use crate::error::JournalError;
use crate::format::{
    AREA, HEADER_SIZE, Header, LARGEST_BATCH, SEGMENT, SEGMENT_UNITS, Slot, State, UNIT,
};
use crate::planted::{Bug, is_planted};
use crate::slots::{capacity_of, epochs, read, sector, slots};

/// Number of segments behind the end of the chain that are searched for entries that should follow,
/// and before the hint for an intact one: a batch reaches no further.
const NEIGHBOURS: u64 = LARGEST_BATCH / SEGMENT;
/// Number of segments whose first sectors are read at a time, if all are read.
const READS_AT_ONCE: usize = 64;
/// Alignment in units at which entries are looked for there: that of batches.
const BATCH_UNITS: u64 = 8;

/// The live part of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// The slot of its epoch.
    pub slot: Slot,
    /// Recno of the first needed entry.
    pub head: u64,
    /// Recno behind the last entry.
    pub tail: u64,
    /// Reads needed to find the last segment, before that itself was read.
    pub search_reads: u64,
}

impl Live {
    /// Bytes from the head to the tail.
    pub fn bytes(&self) -> u64 {
        (self.tail - self.head) * UNIT
    }
}

/// An entry read from the log.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Header of the entry.
    pub header: Header,
    /// Table of contents and data.
    pub body: Bytes,
}

impl Entry {
    /// Position of the entry.
    pub fn recno(&self) -> u64 {
        self.header.recno.get()
    }
}

/// The newest slot to which the volume with the id `volume` that bears `epoch` belongs, and its
/// number there. Slots older than one with lines are obsolete.
///
/// # Errors
/// [`JournalError`].
pub async fn belongs(
    device: &dyn BlockDevice,
    volume: u64,
    epoch: u64,
) -> Result<Option<(Slot, u16)>, JournalError> {
    for slot in epochs(device).await? {
        if slot.state() == State::GivenUp {
            return Ok(None);
        }
        if let Some(number) = slot.number_of(volume, epoch) {
            return Ok(Some((slot, number)));
        }
        if slot.is_shared() {
            break;
        }
    }
    Ok(None)
}

/// The live log of an epoch; `None` if the log has no such epoch.
///
/// # Errors
/// [`JournalError`].
pub async fn find(device: &dyn BlockDevice, epoch: u64) -> Result<Option<Live>, JournalError> {
    find_with(device, epoch, |_| ()).await
}

/// As [`find`]; calls `visit` with every live entry, in order, and perhaps some before those.
///
/// # Errors
/// [`JournalError`].
pub async fn find_with(
    device: &dyn BlockDevice,
    epoch: u64,
    mut visit: impl FnMut(&Entry),
) -> Result<Option<Live>, JournalError> {
    let found = slots(device).await?;
    let of_epoch = found.into_iter().flatten().filter(|slot| slot.epoch.get() == epoch);
    let of_epoch = of_epoch.max_by_key(|slot| {
        if is_planted(Bug::OlderSlot) { u64::MAX - slot.number.get() } else { slot.number.get() }
    });
    let Some(slot) = of_epoch else { return Ok(None) };
    let (curhead, needed) = (slot.curhead.get(), slot.capacity.get() + AREA);
    if needed > device.geometry().size {
        return Err(JournalError::Short { size: device.geometry().size, needed });
    }
    if slot.state() != State::Open {
        let live = Live { slot, head: curhead, tail: curhead, search_reads: 0 };
        return Ok(Some(live));
    }
    let mut search = Search { device, slot, reads: 0 };
    let hint = search.hint().await?;
    let search_reads = search.reads;
    let last = search.last_behind(hint).await?;
    let start = last.map_or(curhead, |last| curhead.max(last.curhead.get()));
    let mut walker = Walker::new(device, slot, start);
    let mut head = start;
    while let Some(entry) = walker.next().await? {
        head = head.max(entry.header.curhead.get());
        visit(&entry);
    }
    let mut tail = walker.at;
    // A batch that was torn at its first entry may name that.
    let is_torn = last.is_some_and(|last| last.batch.get() == start);
    let begins = start == slot.start.get() && last.is_none();
    if tail == start && !begins && !is_torn && !is_planted(Bug::AssumedEmptiness) {
        return Err(match last.filter(|last| last.batch.get() > start) {
            Some(last) => JournalError::Damaged { end: start, beyond: last.recno.get() },
            None => JournalError::Headless { head: start },
        });
    }
    if let Some(hint) = hint.filter(|_| is_planted(Bug::TrustedHint)) {
        tail = tail.max(hint.recno.get());
    }
    let mut behind = search.behind(tail).await?;
    behind.extend(last);
    behind.retain(|header| header.batch.get() > tail && !is_planted(Bug::SilentDamage));
    if let Some(beyond) = behind.first() {
        return Err(JournalError::Damaged { end: tail, beyond: beyond.recno.get() });
    }
    Ok(Some(Live { slot, head: head.min(tail), tail, search_reads }))
}

/// The live part of the last closed epoch: its records other than changes, which are all in place.
/// `None` if no epoch was closed, or the last was given up. Calls `visit` with every entry of it,
/// in order.
///
/// # Errors
/// [`JournalError`].
pub async fn at_rest(
    device: &dyn BlockDevice,
    mut visit: impl FnMut(&Entry),
) -> Result<Option<Live>, JournalError> {
    capacity_of(device.geometry().size)?;
    let found = slots(device).await?;
    let closed = found.into_iter().flatten().filter(|slot| slot.state() != State::Open);
    let newest = closed.max_by_key(|slot| slot.number.get());
    let Some(slot) = newest.filter(|slot| slot.state() == State::AtRest) else { return Ok(None) };
    let needed = slot.capacity.get() + AREA;
    if needed > device.geometry().size {
        return Err(JournalError::Short { size: device.geometry().size, needed });
    }
    let head = slot.curhead.get();
    let mut walker = Walker::new(device, slot, head);
    while let Some(entry) = walker.next().await? {
        visit(&entry);
    }
    Ok(Some(Live { slot, head, tail: walker.at, search_reads: 0 }))
}

struct Search<'a> {
    device: &'a dyn BlockDevice,
    slot: Slot,
    reads: u64,
}

impl Search<'_> {
    fn segments(&self) -> u64 {
        self.slot.capacity.get() / SEGMENT
    }

    /// Index of segment `number`, counted from the one in which the epoch began.
    fn segment(&self, number: u64) -> u64 {
        (self.slot.start.get() / SEGMENT_UNITS + number) % self.segments()
    }

    /// The intact entry at the start of the last segment of the newest round that has one.
    async fn hint(&mut self) -> Result<Option<Header>, JournalError> {
        match self.near_hint().await? {
            None if !is_planted(Bug::NearAnchor) => self.any_hint().await,
            hint => Ok(hint),
        }
    }

    /// The hint found by reading the start of every segment.
    async fn any_hint(&mut self) -> Result<Option<Header>, JournalError> {
        let mut found = Vec::new();
        let numbers: Vec<u64> = (0..self.segments()).collect();
        for some in numbers.chunks(READS_AT_ONCE) {
            self.reads += some.len() as u64;
            for (number, header) in some.iter().zip(self.firsts_of(some).await?) {
                found.extend(header.map(|header| (header.recno.get(), *number)));
            }
        }
        found.sort_unstable();
        for (_, number) in found.into_iter().rev() {
            if let Some(header) = self.whole(number).await? {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    async fn firsts_of(&self, numbers: &[u64]) -> Result<Vec<Option<Header>>, JournalError> {
        let reads = numbers.iter().map(async |number| {
            let segment = self.segment(*number);
            let bytes = read(self.device, AREA + segment * SEGMENT, sector(self.device)).await?;
            Ok(self.of_epoch(segment, &bytes))
        });
        join_all(reads).await.into_iter().collect()
    }

    /// The last entry of the chain that continues from a hint: it names the newest head. The head
    /// that an older one names may have been overwritten by a torn batch.
    async fn last_behind(&self, hint: Option<Header>) -> Result<Option<Header>, JournalError> {
        let Some(mut last) = hint else { return Ok(None) };
        let mut walker = Walker::new(self.device, self.slot, last.recno.get());
        while let Some(entry) = walker.next().await? {
            last = entry.header;
        }
        Ok(Some(last))
    }

    /// The hint, if the epoch has entries near its beginning.
    async fn near_hint(&mut self) -> Result<Option<Header>, JournalError> {
        let Some((base, first)) = self.anchor().await? else { return Ok(None) };
        let expected =
            |number: u64| (first + number * SEGMENT_UNITS).checked_sub(base * SEGMENT_UNITS);
        let (mut last, mut end) = (base, self.segments());
        while end - last > 2 {
            let middle = last + (end - last) / 2;
            let found = self.first_of(middle).await?;
            if found.map(|found| found.recno.get()) == expected(middle) {
                last = middle
            } else {
                end = middle
            }
        }
        // At most two segments are left, and one of them is read whole anyway.
        if let Some(header) = self.whole(end - 1).await?
            && expected(end - 1) == Some(header.recno.get())
        {
            return Ok(Some(header));
        }
        // The last one may have been in flight; then it has no hint, and one before it does.
        for back in 0..=NEIGHBOURS.min(self.segments() - 1) {
            if let Some(header) = self.whole(last + self.segments() - back).await? {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    /// The first entry of a segment, counted as [`Search::segment`] does, if it is intact.
    async fn whole(&self, number: u64) -> Result<Option<Header>, JournalError> {
        let segment = self.segment(number);
        let bytes = read(self.device, AREA + segment * SEGMENT, SEGMENT).await?;
        Ok(self.of_epoch(segment, &bytes).filter(|header| header.fits(&bytes)))
    }

    /// The segment from which the recnos rise, and its first recno: the segment in which the epoch
    /// began, unless its first sector is damaged, or belongs to an epoch that was begun behind this
    /// one and that the volume never came to bear.
    async fn anchor(&mut self) -> Result<Option<(u64, u64)>, JournalError> {
        for number in 0..=NEIGHBOURS.min(self.segments() - 1) {
            if let Some(header) = self.first_of(number).await? {
                return Ok(Some((number, header.recno.get())));
            }
        }
        Ok(None)
    }

    /// Intact entries of this epoch that begin batches not far behind the end of the chain.
    async fn behind(&self, tail: u64) -> Result<Vec<Header>, JournalError> {
        let mut found = Vec::new();
        let first = tail / SEGMENT_UNITS;
        for number in first..=first + NEIGHBOURS.min(self.segments() - 1) {
            let position = number % self.segments() * SEGMENT;
            let bytes = read(self.device, AREA + position, SEGMENT).await?;
            let start = number * SEGMENT_UNITS;
            let from = tail.max(start).next_multiple_of(BATCH_UNITS);
            for recno in (from..start + SEGMENT_UNITS).step_by(BATCH_UNITS as usize) {
                let bytes = &bytes[((recno - start) * UNIT) as usize..];
                found.extend(Header::read(bytes).filter(|header| {
                    header.epoch == self.slot.epoch
                        && header.recno.get() == recno
                        && header.fits(bytes)
                }));
            }
        }
        Ok(found)
    }

    /// The header at the start of a segment, counted from the one in which the epoch began, if it
    /// is of this epoch.
    async fn first_of(&mut self, number: u64) -> Result<Option<Header>, JournalError> {
        self.reads += 1;
        Ok(self.firsts_of(&[number]).await?.pop().flatten())
    }

    fn of_epoch(&self, segment: u64, bytes: &[u8]) -> Option<Header> {
        let header = Header::read(bytes)?;
        let round = self.segments() * SEGMENT_UNITS;
        let here = header.recno.get() % round == segment * SEGMENT_UNITS;
        let epoch = header.epoch == self.slot.epoch || is_planted(Bug::AnyEpoch);
        (here && epoch && header.recno >= self.slot.start).then_some(header)
    }
}

/// Iterates over the chain of entries.
pub struct Walker<'a> {
    device: &'a dyn BlockDevice,
    slot: Slot,
    /// The recno of the next entry.
    at: u64,
    /// Checksum of the last entry.
    previous: Option<u32>,
    /// The current segment, and the recno at which it begins.
    segment: Option<(u64, Bytes)>,
}

impl<'a> Walker<'a> {
    /// Starts with the entry at a recno.
    pub fn new(device: &'a dyn BlockDevice, slot: Slot, at: u64) -> Self {
        Self { device, slot, at, previous: None, segment: None }
    }

    /// The next entry, unless the chain ends here.
    ///
    /// # Errors
    /// I/O errors of the device.
    pub async fn next(&mut self) -> Result<Option<Entry>, JournalError> {
        let first = self.at - self.at % SEGMENT_UNITS;
        let segment = match &self.segment {
            Some((held, segment)) if *held == first => segment.clone(),
            _ => {
                let position = first * UNIT % self.slot.capacity.get();
                let segment = read(self.device, AREA + position, SEGMENT).await?;
                self.segment = Some((first, segment.clone()));
                segment
            }
        };
        let bytes = segment.slice(((self.at - first) * UNIT) as usize..);
        let Some(header) = Header::read(&bytes).filter(|header| self.follows(header, &bytes))
        else {
            return Ok(None);
        };
        let body = bytes.slice(HEADER_SIZE..header.length.get() as usize);
        self.previous = Some(header.checksum());
        self.at += u64::from(header.size.get()) / UNIT;
        Ok(Some(Entry { header, body }))
    }

    /// Invariant 3.
    fn follows(&self, header: &Header, bytes: &[u8]) -> bool {
        let chained = self.previous.is_none_or(|previous| previous == header.previous.get());
        (header.epoch == self.slot.epoch || is_planted(Bug::AnyEpoch))
            && header.recno.get() == self.at
            && (chained || is_planted(Bug::BrokenChain))
            && (header.fits(bytes) || is_planted(Bug::UncheckedEntries))
    }
}
