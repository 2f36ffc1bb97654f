//! The log as the members have it, record by record.
//!
//! A record stands on some members only, and each of them may have lost it. What counts is what any
//! of them has: the latest record that is whole names the oldest that is needed.

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

/// Members that have a record of a set with parity. Of a mirror, all have it.
const RECORD_COPIES: usize = 2;
/// Bytes of a log that are read at once.
const AT_ONCE: u64 = 1 << 20;

/// Bytes of the ring of the log on each member.
pub(crate) fn ring_of(label: &Label) -> u64 {
    label.data_start - LOG_START
}

/// A record that was found.
pub(crate) struct Found {
    pub(crate) record: Record,
    /// Where in the ring.
    pub(crate) start: u64,
    pub(crate) bytes: Bytes,
}

/// The logs of all members.
pub(crate) struct Logs {
    /// The records that any member has, by their sequences.
    pub(crate) records: BTreeMap<u64, Found>,
    /// Blocks that could not be read: where in the ring, and of which slots.
    unread: BTreeMap<u64, Vec<usize>>,
}

impl Logs {
    /// Whether a record that is later than all these may stand where nobody can read: on as many
    /// members as have a record. Records before it show by their absence.
    pub(crate) fn may_hide_the_last(&self, members: &Members, size: u64) -> bool {
        self.first_hidden(members, size).is_some() && !is_planted(Bug::HastyReads)
    }

    /// The block in which it may begin.
    fn first_hidden(&self, members: &Members, size: u64) -> Option<u64> {
        let (_, latest) = self.records.last_key_value()?;
        let end = latest.start + latest.bytes.len() as u64;
        // One for which there is no room before the end of the ring stands at its begin.
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

/// The records that any member has. Whose log cannot be read is out. Where the last record may be
/// one that cannot be read at the moment, that is tried again.
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

/// Of each number the record that is it: see [`choose_record`]. The next one is judged before.
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

/// The records that the latest of these says are needed.
pub(crate) fn needed_of(found: &BTreeMap<u64, Found>) -> Option<RangeInclusive<u64>> {
    let (&last, latest) = found.last_key_value()?;
    Some(latest.record.place.tail.min(last)..=last)
}

/// The records that a member has, as far as they may be needed, and the blocks of the ring that it
/// cannot read, as if nothing stood there. `None` if it can read nothing.
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
