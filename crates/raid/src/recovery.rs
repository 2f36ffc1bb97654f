//! Replays the log when a set is opened.
//!
//! The latest record of all that were found names the oldest that is needed. It may rest on the
//! word of one member alone, or of one of two log devices, and the next start may be without that
//! one: so it is written to all members first.
//!
//! **Commit point**: an empty record on the members, which says that nothing is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::slice;

use block::{Buffer, Durability, Verb};
use futures::future::join_all;
use runtime::Runtime;

use crate::label::{Label, MAP_BLOCK};
use crate::layout::Level;
use crate::logs::{Found, hole_in, latest_of, needed_of, read_logs, ring_of};
use crate::members::Members;
use crate::missed::Missed;
use crate::options::{OpenError, OpenOptions};
use crate::planted::{Bug, is_planted};
use crate::prelog::{LOG_START, PreLog};
use crate::recall;
use crate::record::{Change, Slots};
use crate::ring::Ring;
use crate::sums::{Sums, TableUnread};
use crate::written::{self, MapBlock, Written};

/// Result of recovery.
pub(crate) struct Returned {
    pub(crate) log: PreLog,
    pub(crate) map: Rc<Written>,
}

/// The map of written stripes, as read.
struct ReadMap {
    map: Written,
    /// Stripes that only the tables show to have been written.
    recalled: BTreeSet<u64>,
    /// Members that have another map, or none.
    lacking: Slots,
}

/// Replays the log, and begins it anew.
pub(crate) async fn recover(
    (members, sums, missed): (&Rc<Members>, &Rc<Sums>, &Rc<Missed>),
    options: &OpenOptions,
    runtime: &Runtime,
) -> Result<Returned, OpenError> {
    let label = members.label();
    let size = ring_of(&label);
    let log = async |next, end| {
        let map = return_map(members, sums, options.accepts_loss).await?;
        let of_set = (members.clone(), map.clone(), sums.clone(), missed.clone());
        Ok(Returned { log: PreLog::new(of_set, runtime.clone(), next, end), map })
    };
    if label.layout.level == Level::Striped {
        return log((1, 0), 0).await;
    }
    let found = read_records(members, size, options).await?;
    let failed = |_| if members.gave_up() { OpenError::Full } else { OpenError::Failed };
    let settle = async || members.settled(Verb::Write).await.map_err(failed);
    settle().await?;
    let Some((needed, (&last, latest))) = needed_of(&found).zip(found.last_key_value()) else {
        return log((1, 0), 0).await;
    };
    if let Some(hole) = hole_in(&found) {
        let gives_up = options.gives_up_log && label.has_log_apart;
        let is_meant = options.is_meant && !label.has_log_apart && !is_planted(Bug::RefusedHoles);
        if !options.accepts_loss && !gives_up && !is_meant {
            let of_device = label.has_log_apart.then_some(OpenError::LogDevice(hole));
            return Err(of_device.unwrap_or(OpenError::Hole(hole)));
        }
        let lacked = needed.clone().filter(|sequence| !found.contains_key(sequence)).count();
        members.counts.note(|done| done.lacked_records = lacked as u64);
    }
    let mut end = latest_of(&found, false).map_or(0, Found::end);
    if !is_planted(Bug::LonelyReturns) {
        end = write_to_all(members, latest, (size, end)).await;
        settle().await?;
    }
    has_room(members)?;
    let needed = still_needed(&found, needed, label.layout.unit);
    for (_, changes) in &needed {
        for change in changes.iter().filter(|change| !(change.is_lost && change.is_zeros)) {
            members.bring_home(label.data_start, slice::from_ref(change)).await;
        }
        if is_planted(Bug::HalfReturns) {
            break;
        }
    }
    has_room(members)?;
    members.flush().await;
    settle().await?;
    return_sums(sums, missed, &needed).await?;
    missed.are_flushed(last + 1);
    missed.bring_home().await;
    settle().await?;
    let returned = log((last + 1, latest.record.checksum), end).await?;
    returned.log.forget_all().await.map_err(failed)?;
    Ok(returned)
}

/// Writes the latest record to all members, durably, where it is, or behind their own latest one.
/// Gives the offset behind it. State that rests on the word of one is written to all: that is law 3
/// of every engine.
async fn write_to_all(members: &Members, latest: &Found, (size, end): (u64, u64)) -> u64 {
    let length = latest.bytes.len() as u64;
    // There is room on the members for any record of the log device.
    let start = if latest.is_apart { Ring::new(size, end).place(length) } else { latest.start };
    let again = members.slots().iter().map(|slot| {
        let (at, data) = (LOG_START + start, vec![latest.bytes.clone()]);
        members.write(slot, at, data, Durability::Plain)
    });
    join_all(again).await;
    members.flush().await;
    start + length
}

/// The records of all logs. Fails if a later one may be hidden, unless a person says that there is
/// none, or accepts that it is lost.
async fn read_records(
    members: &Members,
    size: u64,
    options: &OpenOptions,
) -> Result<BTreeMap<u64, Found>, OpenError> {
    let has_apart = members.label().has_log_apart || is_planted(Bug::BelievedLogDevices);
    let is_asked = has_apart && !options.gives_up_log;
    let apart = if is_asked { &options.log_devices[..] } else { &[] };
    let logs = read_logs(members, size, apart).await;
    members.counts.note(|done| done.damaged_record = logs.damaged);
    if options.accepts_loss {
        let is_lacking = has_apart && apart.is_empty();
        let may_lack = logs.may_lack_the_last(members, size) || is_lacking || logs.may_hide_apart;
        members.counts.note(|done| done.may_lack_the_last = may_lack);
    } else if logs.may_hide_apart {
        let last = logs.records.last_key_value().map_or(0, |(&last, _)| last);
        return Err(OpenError::LogDevice(last + 1));
    } else if !options.is_meant && logs.may_hide_the_last(members, size) {
        return Err(OpenError::Unread);
    }
    Ok(logs.records)
}

/// Fails if a write was given up for lack of space: its data stays as it was, or in the log.
fn has_room(members: &Members) -> Result<(), OpenError> {
    if members.gave_up() { Err(OpenError::Full) } else { Ok(()) }
}

/// The changes to replay: none of a stripe that a later record has vacated.
fn still_needed(
    found: &BTreeMap<u64, Found>,
    needed: RangeInclusive<u64>,
    unit: u64,
) -> Vec<(u64, Vec<Change>)> {
    let needed = || found.range(needed.clone()).map(|(&sequence, one)| (sequence, one));
    let vacated = needed().flat_map(|(sequence, one)| {
        let changes = one.record.changes.iter().filter(|change| change.is_vacated);
        changes.map(move |change| (change.offset / unit, sequence))
    });
    let vacated: BTreeMap<u64, u64> = vacated.collect(); // the last one of each
    let is_needed = |change: &Change, sequence| {
        let vacated = vacated.get(&(change.offset / unit)).filter(|_| !is_planted(Bug::OldStripes));
        !change.is_vacated && vacated.is_none_or(|&it| it <= sequence)
    };
    let of_each = needed().map(|(sequence, one)| {
        let changes = one.record.changes.iter().filter(|change| is_needed(change, sequence));
        (sequence, changes.cloned().collect())
    });
    of_each.collect()
}

/// Brings the tables up to date with these records. Fails before it writes any if nobody can read
/// one of them, unless a person says that the set is to start: an empty one would take its place.
async fn return_sums(
    sums: &Sums,
    missed: &Missed,
    needed: &[(u64, Vec<Change>)],
) -> Result<(), OpenError> {
    for (sequence, changes) in needed.iter().filter(|_| !is_planted(Bug::ForgottenSums)) {
        let taken = take_sums(sums, changes, *sequence).await;
        taken.map_err(|TableUnread| OpenError::Unread)?;
    }
    // Not earlier: a disk that is out may have lent a table, to which the records are to be added.
    needed.iter().for_each(|(sequence, changes)| missed.touch_all(changes, *sequence));
    let had_room = sums.bring_home(false).await.map_err(|_| OpenError::Failed)?;
    if had_room { Ok(()) } else { Err(OpenError::Full) }
}

/// Updates the checksums by a record's changes, on members that are out as well.
async fn take_sums(sums: &Sums, changes: &[Change], record: u64) -> Result<(), TableUnread> {
    let of_group = sums.of_group(changes).await?;
    of_group.are_logged(record);
    of_group.are_home();
    Ok(())
}

/// Brings the map up to date on all members. The losses that a rebuilt block shows are durable
/// before it: a block that the map calls written and that has no checksum passes for data.
async fn return_map(
    members: &Members,
    sums: &Sums,
    accepts_loss: bool,
) -> Result<Rc<Written>, OpenError> {
    let ReadMap { map, recalled, lacking } = read_map(members, sums, accepts_loss).await?;
    let map = Rc::new(map);
    sums.know(map.clone());
    if is_planted(Bug::LateLosses) {
        write_map(members, &map, lacking).await?;
    }
    lose_unknown((members, sums), &recalled).await?;
    write_map(members, &map, lacking).await?;
    Ok(map)
}

/// Marks blocks without a known checksum as lost, durably, in stripes that only the tables show to
/// have been written.
async fn lose_unknown(
    (members, sums): (&Members, &Sums),
    recalled: &BTreeSet<u64>,
) -> Result<(), OpenError> {
    if recalled.is_empty() {
        return Ok(());
    }
    let lost = sums.lose_unknown(recalled).await.map_err(|error| match error {
        error if error == TableUnread.into() => OpenError::Unread,
        _ if members.gave_up() => OpenError::Full,
        _ => OpenError::Failed,
    })?;
    if lost { Ok(()) } else { Err(OpenError::Full) }
}

/// Writes the map to members that have another one, durably.
async fn write_map(members: &Members, map: &Written, lacking: Slots) -> Result<(), OpenError> {
    if lacking.iter().next().is_none() {
        return Ok(());
    }
    members.bring_home(members.label().data_start, &[map.all(lacking)]).await;
    has_room(members)?;
    members.flush().await;
    members.settled(Verb::Write).await.map_err(|_| OpenError::Failed)
}

/// Reads the map of written stripes: for each block the latest version on any member, or else one
/// rebuilt from the tables. The map of a striped set is empty.
async fn read_map(
    members: &Members,
    sums: &Sums,
    accepts_loss: bool,
) -> Result<ReadMap, OpenError> {
    let Label { layout, data_start, set, .. } = members.label();
    let (start, length) = written::place(&layout);
    let mut recalled = BTreeSet::new();
    if layout.level == Level::Striped {
        let (map, lacking) = (Written::nothing(&layout, set), Slots(0));
        return Ok(ReadMap { map, recalled, lacking });
    }
    let mut read = Vec::new();
    for slot in members.slots().iter() {
        read.push((slot, read_blocks(members, slot, data_start + start, length).await));
    }
    let mut blocks = Vec::new();
    for number in 0..length / MAP_BLOCK {
        let of_block = |bytes: &Buffer| written::decode(bytes, &set, number);
        let of_all = read.iter().map(|(_, blocks)| blocks[number as usize].as_ref());
        let mut known: Vec<MapBlock> = of_all.clone().flatten().filter_map(of_block).collect();
        if known.is_empty() && of_all.clone().any(|block| block.is_none()) {
            let at = data_start + start + number * MAP_BLOCK;
            let look = async || read_of_all(members, at).await;
            let is_enough = |all: &Vec<Buffer>| all.iter().any(|it| of_block(it).is_some());
            known.extend(members.retry(look, is_enough).await.iter().filter_map(of_block));
        }
        if let Some(latest) = MapBlock::latest(known) {
            blocks.push(latest);
            continue;
        }
        let of_tables = recall::map_block(sums, &layout, number).await;
        if of_tables.is_unread && !accepts_loss && !is_planted(Bug::HastyReads) {
            return Err(OpenError::Unread);
        }
        members.slots().iter().for_each(|slot| members.counts.meet(slot, |met| met.mended += 1));
        blocks.push(of_tables.block);
        recalled.extend(of_tables.written);
    }
    let map = Written::new(&layout, set, &blocks);
    let whole = map.all(members.slots());
    let is_as_read = |read: &[Option<Buffer>]| {
        let blocks = read.iter().zip(whole.data[0].chunks(MAP_BLOCK as usize));
        blocks.into_iter().all(|(read, whole)| read.as_ref().is_some_and(|it| it[..] == *whole))
    };
    let lacking = read.iter().filter(|(_, read)| !is_as_read(read)).map(|(slot, _)| *slot);
    let lacking = lacking.collect();
    Ok(ReadMap { map, recalled, lacking })
}

/// Reads blocks of a member one by one if need be; `None` for an unreadable one.
async fn read_blocks(members: &Members, slot: usize, at: u64, length: u64) -> Vec<Option<Buffer>> {
    if let Some(all) = members.read(slot, at, room(length)).await {
        return all.chunks(MAP_BLOCK as usize).map(|block| Some(Buffer::copied(block))).collect();
    }
    let mut all = Vec::new();
    for block in (at..at + length).step_by(MAP_BLOCK as usize) {
        all.push(members.read(slot, block, room(MAP_BLOCK)).await);
    }
    all
}

/// Reads a block from all members that can read it.
async fn read_of_all(members: &Members, at: u64) -> Vec<Buffer> {
    let slots = members.slots();
    let read = slots.iter().map(|slot| members.read(slot, at, room(MAP_BLOCK)));
    join_all(read).await.into_iter().flatten().collect()
}

fn room(length: u64) -> Buffer {
    Buffer::unfilled(length as usize)
}
