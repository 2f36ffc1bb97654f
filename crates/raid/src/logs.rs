//! Reads the log from the members and from the log device, record by record.
//!
//! A record is written to some members only, or to the log device alone, and each of them may have
//! lost it. Any copy counts: the latest record that is whole names the oldest that is needed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;

use block::{BlockDevice, Buffer};
use bytes::Bytes;

use crate::apart;
use crate::label::Label;
use crate::layout::Level;
use crate::members::Members;
use crate::planted::{Bug, is_planted};
use crate::prelog::{LOG_START, RECORD_COPIES, keepers};
use crate::record::{BLOCK, Record, choose_record, decode, sequence_at, size_at};
use crate::ring::most_of_record;

/// Bytes of a log that are read in one request.
const AT_ONCE: u64 = 1 << 20;

/// Bytes of the ring of the log on each member.
pub(crate) fn ring_of(label: &Label) -> u64 {
    label.data_start - LOG_START
}

/// A record that was found.
pub(crate) struct Found {
    pub(crate) record: Record,
    /// Whether only the log device has it.
    pub(crate) is_apart: bool,
    /// Byte offset in the ring.
    pub(crate) start: u64,
    pub(crate) bytes: Bytes,
}

impl Found {
    /// Byte offset in the ring behind it.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// The latest of these records that a member has, or the latest that the log device alone has.
pub(crate) fn latest_of(records: &BTreeMap<u64, Found>, is_apart: bool) -> Option<&Found> {
    records.values().rev().find(|found| found.is_apart == is_apart)
}

/// The logs of all members, and that of the log device.
pub(crate) struct Logs {
    /// The records that any of them has, by sequence number.
    pub(crate) records: BTreeMap<u64, Found>,
    /// Whether the log device may hide a later one in blocks that it cannot read.
    pub(crate) may_hide_apart: bool,
    /// Places of the ring of which it is unknown whether a later record begins there: their offset,
    /// and the slots that could not read the block there, or all of the record that begins there.
    unread: BTreeMap<u64, Vec<usize>>,
    /// Number of a record later than all these that members have damaged: a cut has torn it, or it
    /// has rotted.
    pub(crate) damaged: Option<u64>,
}

/// What a member's log gives.
#[derive(Default)]
struct OfMember {
    /// The records that may be needed.
    found: Vec<Found>,
    /// Offsets of blocks that cannot be read, which count as empty.
    unread: Vec<u64>,
    /// Records that begin in a readable block and have an unreadable one: their offset and number.
    unread_in_part: Vec<(u64, u64)>,
    /// Numbers of records that can be read and do not fit their checksums.
    damaged: Vec<u64>,
}

impl Logs {
    /// Whether a record later than all these may be hidden in unreadable blocks, on as many members
    /// as have a record. Earlier records show by their absence.
    pub(crate) fn may_hide_the_last(&self, members: &Members, size: u64) -> bool {
        self.is_one_hidden(members, size) && !is_planted(Bug::HastyReads)
    }

    /// Whether reading them again may give more.
    fn are_incomplete(&self, members: &Members, size: u64) -> bool {
        let has_hole = !self.unread.is_empty() && hole_in(&self.records).is_some();
        self.is_one_hidden(members, size) || self.may_hide_apart || has_hole
    }

    fn is_one_hidden(&self, members: &Members, size: u64) -> bool {
        let Label { layout, .. } = members.label();
        let copies = if layout.level == Level::Mirrored { layout.members } else { RECORD_COPIES };
        let missing = layout.members - members.slots().iter().count();
        self.places_of_next(size).any(|at| {
            let unread = self.unread.get(&at).map_or(0, Vec::len);
            unread > 0 && unread + missing >= copies
        })
    }

    /// The places where a record later than all these may begin on the members.
    fn places_of_next(&self, size: u64) -> impl Iterator<Item = u64> + use<> {
        places_behind(latest_of(&self.records, false), size)
    }

    /// Whether only missing members, or unreadable blocks, may have the record after all these.
    pub(crate) fn may_lack_the_last(&self, members: &Members, size: u64) -> bool {
        let next = self.records.last_key_value().map_or(1, |(last, _)| last + 1);
        let gone = members.gone.get();
        let keepers = keepers(members.label().layout.level, members.slots().with(gone), next);
        let nobody = Vec::new();
        let has_none = |at: &u64, slot: &usize| {
            gone.has(*slot) || self.unread.get(at).unwrap_or(&nobody).contains(slot)
        };
        self.may_hide_the_last(members, size)
            || self.places_of_next(size).any(|at| keepers.iter().all(|slot| has_none(&at, &slot)))
    }
}

/// The places in a ring of this size where a record behind the latest one may begin.
fn places_behind(latest: Option<&Found>, size: u64) -> impl Iterator<Item = u64> + use<> {
    let end = latest.map_or(0, Found::end);
    // A record that does not fit before the end of the ring is at its start.
    [end, 0].into_iter().take(if size - end < most_of_record(size) { 2 } else { 1 })
}

/// The first of the needed records that is not there, or that the next one does not name as its
/// predecessor.
pub(crate) fn hole_in(found: &BTreeMap<u64, Found>) -> Option<u64> {
    let mut before = None;
    needed_of(found)?.find(|sequence| {
        let record = found.get(sequence).map(|found| &found.record);
        let previous = std::mem::replace(&mut before, record.map(|record| record.checksum));
        record.is_none_or(|record| previous.is_some_and(|it| it != record.place.previous))
    })
}

/// Reads the records that any member has, or the log device, if there is one to ask. A member whose
/// log cannot be read stays in: it may give its data, and its log later. If the last record may be
/// in blocks that are unreadable at the moment, reading is retried.
pub(crate) async fn read_logs(members: &Members, size: u64, apart: &[Rc<dyn BlockDevice>]) -> Logs {
    let read = async || {
        let mut logs = read_all(members, size, apart).await;
        if hole_in(&logs.records).is_some() && !is_planted(Bug::UnaskedHoles) {
            fill_holes(members, size, &mut logs.records).await;
        }
        logs
    };
    members.retry(read, |logs| !logs.are_incomplete(members, size)).await
}

async fn read_all(members: &Members, size: u64, apart: &[Rc<dyn BlockDevice>]) -> Logs {
    let mut found: BTreeMap<u64, Vec<(Found, usize)>> = BTreeMap::new();
    let mut unread: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let (mut unread_in_part, mut damaged) = (Vec::new(), Vec::new());
    for slot in members.slots().iter() {
        let log = read_log(members, slot, size).await;
        log.unread.into_iter().for_each(|at| unread.entry(at).or_default().push(slot));
        unread_in_part.extend(log.unread_in_part.into_iter().map(|it| (slot, it)));
        damaged.extend(log.damaged);
        log.found.into_iter().for_each(|one| count(&mut found, one));
    }
    let mut logs_apart = Vec::new();
    for device in apart {
        let mut log = read_apart(members, device).await;
        let found_apart = std::mem::take(&mut log.found).into_iter();
        let found_apart = found_apart.map(|one| Found { is_apart: true, ..one });
        found_apart.for_each(|one| count(&mut found, one));
        logs_apart.push(log);
    }
    let mut records = one_of_each(found);
    if is_planted(Bug::MembersFirst)
        && let Some(last) = latest_of(&records, false).map(|it| it.record.place.sequence)
    {
        records.retain(|sequence, _| *sequence <= last);
    }
    // An earlier one is no longer needed, or shows by its absence.
    let last = records.last_key_value().map(|(&last, _)| last);
    let later = unread_in_part.into_iter().filter(|(_, (_, number))| Some(*number) > last);
    if !is_planted(Bug::TornBodies) {
        later.for_each(|(slot, (at, _))| unread.entry(at).or_default().push(slot));
    }
    let size_apart = apart.first().map_or(0, |device| apart::ring_of(&**device));
    let mut next = places_behind(latest_of(&records, true), size_apart);
    // A record of changes goes to the members alone only after the device was left.
    let was_left = latest_of(&records, false).is_some_and(|latest| {
        Some(latest.record.place.sequence) == last && !latest.record.changes.is_empty()
    });
    // A device that can be read shows that the record was not answered.
    let in_part = |log: &OfMember| {
        let all = log.unread_in_part.iter().filter(|(_, number)| Some(*number) > last);
        all.map(|(at, _)| *at).collect::<Vec<u64>>()
    };
    let is_unread = |at: u64| {
        logs_apart.iter().all(|log| log.unread.contains(&at) || in_part(log).contains(&at))
    };
    let may_hide_apart = logs_apart.iter().flat_map(in_part).any(is_unread)
        || (!was_left || is_planted(Bug::SoughtInVain)) && !apart.is_empty() && next.any(is_unread);
    let damaged = damaged.into_iter().filter(|number| Some(*number) > last).max();
    Logs { records, unread, may_hide_apart, damaged }
}

/// Adds a record to those that were found, or one more copy of it.
fn count(found: &mut BTreeMap<u64, Vec<(Found, usize)>>, one: Found) {
    let alike = found.entry(one.record.place.sequence).or_default();
    match alike.iter_mut().find(|(it, _)| it.record.checksum == one.record.checksum) {
        Some((_, copies)) => *copies += 1,
        None => alike.push((one, 1)),
    }
}

/// Adds records that are missing and that a present disk has that is out: one that the next record
/// names as its predecessor is the right one.
async fn fill_holes(members: &Members, size: u64, records: &mut BTreeMap<u64, Found>) {
    let strangers: Vec<Rc<dyn BlockDevice>> =
        members.strangers.borrow().iter().map(|(_, device)| device.clone()).collect();
    let mut others: BTreeMap<(u64, u32), Found> = BTreeMap::new();
    for device in strangers {
        let read =
            async |at, room| members.ask(&device, LOG_START + at, room).await.and_then(Result::ok);
        let (ring, unread) = read_ring(read, size).await;
        let found = records_of(&ring, unread, &members.label()).found;
        let key = |one: &Found| (one.record.place.sequence, one.record.checksum);
        others.extend(found.into_iter().map(|one| (key(&one), one)));
    }
    let Some(needed) = needed_of(records) else { return };
    for sequence in needed.rev().skip(1) {
        let Some(previous) = records.get(&(sequence + 1)).map(|it| it.record.place.previous) else {
            return;
        };
        if records.get(&sequence).is_none_or(|found| found.record.checksum != previous)
            && let Some(found) = others.remove(&(sequence, previous))
        {
            records.insert(sequence, found);
        }
    }
}

/// Chooses one record for each sequence number, the later number first: see [`choose_record`].
fn one_of_each(found: BTreeMap<u64, Vec<(Found, usize)>>) -> BTreeMap<u64, Found> {
    let mut chosen: BTreeMap<u64, Found> = BTreeMap::new();
    for (sequence, alike) in found.into_iter().rev() {
        let next = chosen.get(&(sequence + 1)).map(|next| &next.record);
        let records = alike.iter().map(|(one, members)| (&one.record, *members));
        let checksum = choose_record(records, next).map(|record| record.checksum);
        let mut alike = alike.into_iter().map(|(one, _)| one);
        let one = alike.find(|one| Some(one.record.checksum) == checksum);
        chosen.extend(one.map(|one| (sequence, one)));
    }
    chosen
}

/// The range of records that the latest one declares needed.
pub(crate) fn needed_of(found: &BTreeMap<u64, Found>) -> Option<RangeInclusive<u64>> {
    let (&last, latest) = found.last_key_value()?;
    Some(latest.record.place.tail.min(last)..=last)
}

/// The log of a member.
async fn read_log(members: &Members, slot: usize, size: u64) -> OfMember {
    let read = |at, room| members.read(slot, LOG_START + at, room);
    let (ring, unread) = read_ring(read, size).await;
    records_of(&ring, unread, &members.label())
}

/// The log of the log device. It is flushed first: a killed process may have left writes there, and
/// nothing rests on one that is not durable.
async fn read_apart(members: &Members, device: &Rc<dyn BlockDevice>) -> OfMember {
    let size = apart::ring_of(&**device);
    if device.flush().await.is_err() {
        return OfMember { unread: (0..size).step_by(BLOCK as usize).collect(), ..<_>::default() };
    }
    let read = async |at, room| device.read(at, room).await.ok();
    let (ring, unread) = read_ring(read, size).await;
    records_of(&ring, unread, &members.label())
}

/// A ring, and the offsets of its blocks that cannot be read.
async fn read_ring(
    read: impl AsyncFn(u64, Buffer) -> Option<Buffer>,
    size: u64,
) -> (Vec<u8>, Vec<u64>) {
    let (mut ring, mut unread) = (Vec::new(), Vec::new());
    while (ring.len() as u64) < size {
        let at = ring.len() as u64;
        let length = AT_ONCE.min(size - at);
        if let Some(part) = read(at, Buffer::unfilled(length as usize)).await {
            ring.extend_from_slice(&part);
            continue;
        }
        for block in (at..at + length).step_by(BLOCK as usize) {
            let part = read(block, Buffer::unfilled(BLOCK as usize)).await;
            unread.extend(part.is_none().then_some(block));
            ring.extend_from_slice(&part.unwrap_or_else(|| Buffer::zeroed(BLOCK as usize)));
        }
    }
    (ring, unread)
}

/// The records in a ring, some blocks of which were unreadable.
fn records_of(ring: &[u8], unread: Vec<u64>, label: &Label) -> OfMember {
    let Label { set, layout, .. } = label;
    let mut log = OfMember::default();
    for start in (0..ring.len()).step_by(BLOCK as usize) {
        let rest = &ring[start..];
        let length = size_at(rest, *set).filter(|&length| length <= rest.len() as u64);
        let Some(bytes) = length.map(|length| &rest[..length as usize]) else { continue };
        let start = start as u64;
        if let Some(record) = decode(bytes, layout) {
            let bytes = Bytes::copy_from_slice(bytes);
            log.found.push(Found { record, is_apart: false, start, bytes });
        } else if unread.iter().any(|at| (start..start + bytes.len() as u64).contains(at)) {
            log.unread_in_part.extend(sequence_at(bytes).map(|number| (start, number)));
        } else {
            log.damaged.extend(sequence_at(bytes));
        }
    }
    let places = log.found.iter().map(|one| one.record.place);
    let latest = places.max_by_key(|place| place.sequence);
    log.found.retain(|one| latest.is_none_or(|latest| one.record.place.sequence >= latest.tail));
    OfMember { unread, ..log }
}
