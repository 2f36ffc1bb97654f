//! Reads the log from the members, record by record.
//!
//! A record is written to some members only, and each of them may have lost it. Any copy counts:
//! the latest record that is whole names the oldest that is needed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use block::Buffer;
use bytes::Bytes;
use futures::future::join_all;

use crate::label::Label;
use crate::layout::Level;
use crate::members::Members;
use crate::planted::{Bug, is_planted};
use crate::prelog::LOG_START;
use crate::record::{BLOCK, Record, choose_record, decode, size_at};

/// Members that have a record of a set with parity. On a mirror, all have it.
const RECORD_COPIES: usize = 2;
/// Bytes of a log that are read in one request.
const AT_ONCE: u64 = 1 << 20;

/// Bytes of the ring of the log on each member.
pub(crate) fn ring_of(label: &Label) -> u64 {
    label.data_start - LOG_START
}

/// A record that was found on a member.
pub(crate) struct Found {
    pub(crate) record: Record,
    /// Byte offset in the ring.
    pub(crate) start: u64,
    pub(crate) bytes: Bytes,
}

/// The logs of all members.
pub(crate) struct Logs {
    /// The records that any member has, by sequence number.
    pub(crate) records: BTreeMap<u64, Found>,
    /// Unreadable blocks: their offset in the ring, and the slots that could not read them.
    unread: BTreeMap<u64, Vec<usize>>,
}

impl Logs {
    /// Whether a record later than all these may be hidden in unreadable blocks, on as many members
    /// as have a record. Earlier records show by their absence.
    pub(crate) fn may_hide_the_last(&self, members: &Members, size: u64) -> bool {
        self.first_hidden(members, size).is_some() && !is_planted(Bug::HastyReads)
    }

    /// The block in which a hidden record may begin.
    fn first_hidden(&self, members: &Members, size: u64) -> Option<u64> {
        let (_, latest) = self.records.last_key_value()?;
        let end = latest.start + latest.bytes.len() as u64;
        // A record that does not fit before the end of the ring is at its start.
        let places = [end, 0].into_iter().take(if size - end < AT_ONCE { 2 } else { 1 });
        let Label { layout, .. } = members.label();
        let copies = if layout.level == Level::Mirrored { layout.members } else { RECORD_COPIES };
        let missing = layout.members - members.slots().iter().count();
        let mut hidden = places.filter(|at| {
            let unread = self.unread.get(at).map_or(0, Vec::len);
            unread > 0 && unread + missing >= copies
        });
        hidden.next()
    }
}

/// Reads the records that any member has. A member whose log cannot be read at all is called out.
/// If the last record may be in blocks that are unreadable at the moment, reading is retried.
pub(crate) async fn read_logs(members: &Members, size: u64) -> Logs {
    let logs = read_all(members, size).await;
    let Some(at) = logs.first_hidden(members, size) else { return logs };
    let look = async || {
        let slots = members.slots();
        let room = || Buffer::unfilled(BLOCK as usize);
        let read = slots.iter().map(|slot| members.read(slot, LOG_START + at, room()));
        join_all(read).await.iter().all(Option::is_some)
    };
    if members.retry(look, |are_read| *are_read).await {
        read_all(members, size).await
    } else {
        logs
    }
}

async fn read_all(members: &Members, size: u64) -> Logs {
    let mut found: BTreeMap<u64, Vec<(Found, usize)>> = BTreeMap::new();
    let mut unread: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for slot in members.slots().iter() {
        let Some((records, bad)) = read_log(members, slot, size).await else {
            members.call_out(slot);
            continue;
        };
        bad.into_iter().for_each(|at| unread.entry(at).or_default().push(slot));
        for one in records {
            let alike = found.entry(one.record.place.sequence).or_default();
            match alike.iter_mut().find(|(it, _)| it.record.checksum == one.record.checksum) {
                Some((_, members)) => *members += 1,
                None => alike.push((one, 1)),
            }
        }
    }
    Logs { records: one_of_each(found), unread }
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

/// The records of a member that may be needed, and the blocks of the ring that it cannot read,
/// which count as empty. `None` if the member can read nothing.
async fn read_log(members: &Members, slot: usize, size: u64) -> Option<(Vec<Found>, Vec<u64>)> {
    let Label { set, layout, .. } = members.label();
    let (mut ring, mut unread) = (Vec::new(), Vec::new());
    let mut can_be_read = false;
    while (ring.len() as u64) < size {
        let at = ring.len() as u64;
        let length = AT_ONCE.min(size - at);
        if let Some(part) =
            members.read(slot, LOG_START + at, Buffer::unfilled(length as usize)).await
        {
            ring.extend_from_slice(&part);
            can_be_read = true;
            continue;
        }
        for block in (at..at + length).step_by(BLOCK as usize) {
            let part =
                members.read(slot, LOG_START + block, Buffer::unfilled(BLOCK as usize)).await;
            can_be_read |= part.is_some();
            unread.extend(part.is_none().then_some(block));
            ring.extend_from_slice(&part.unwrap_or_else(|| Buffer::zeroed(BLOCK as usize)));
        }
    }
    if !can_be_read {
        return None;
    }
    let starts = (0..size / BLOCK).map(|block| block * BLOCK);
    let found = starts.filter_map(|start| {
        let rest = &ring[start as usize..];
        let length = size_at(rest, set).filter(|&length| length <= rest.len() as u64)?;
        let bytes = &rest[..length as usize];
        Some(Found { record: decode(bytes, &layout)?, start, bytes: Bytes::copy_from_slice(bytes) })
    });
    let mut found: Vec<Found> = found.collect();
    let latest = found.iter().map(|one| one.record.place).max_by_key(|place| place.sequence);
    found.retain(|one| latest.is_none_or(|latest| one.record.place.sequence >= latest.tail));
    Some((found, unread))
}
