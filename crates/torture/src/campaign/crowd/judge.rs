//! Checks of a crowd: budgets at every step, and at the end turns, waits, places and patience.
//!
//! All bounds follow from the door's documented ones: [`TURN_CALLS`] and [`TURN_BYTES`] of a turn,
//! [`PATIENCE`] and its beats, [`QUIET`] and [`LEAVING`] of places, and the limits of the server.

use std::time::Duration;

use dispatch::{CALL_MEMORY, MAX_TRANSFER};
use door::{
    LEAVING, MAX_AT_DOOR, MAX_UNSENT_BYTES, PATIENCE, QUIET, RECORD_BEAT, REPLY_BEAT,
    STRANGERS_UNSENT_BYTES, TURN_BYTES, TURN_CALLS,
};

use super::ledger::{Lane, Owed, QuietTurn, Role};
use super::peer::KEEPS;
use super::stage::{CACHE_BYTES, Stage};
use super::workload::{Manner, Occupants, Peer, Scene, Workload, is_guest};

/// Bytes that a reader buffers besides the record being read.
const STAGING: usize = 64 << 10;
/// Longest reply that reserves no memory.
const SHORT_REPLY: u64 = 1024;
/// Most disk bytes of a call besides its payload: inodes, maps, a chunk of a directory, groups, an
/// entry of the log, each as a block.
const BESIDE_PAYLOAD: u64 = 128 << 10;
/// Most time of the disk for one call, including earlier ones in the queue.
const DISK: Duration = Duration::from_millis(500);

/// Checks the limits at this step.
pub(super) fn look(stage: &Stage, workload: &Workload) -> Result<(), String> {
    let (limits, bounds) = (workload.limits, workload.bounds);
    let (requests, replies) = stage.dispatcher.under_way();
    let (mut lanes, mut seated, mut wrong) = (0, 0, None);
    stage.ledger.each_live(|lane| {
        lanes += 1;
        seated += u64::from(lane.is_seated());
        wrong = wrong.take().or_else(|| of_lane(lane, workload));
    });
    let unreserved = lanes * bounds.calls_per_connection as u64 * SHORT_REPLY;
    let hold = |what: &str, held: u64, most: u64| {
        (held > most).then(|| format!("{what}: {held} where {most} are the most"))
    };
    let (occupants, at_door) = stage.door.occupants();
    let wrongs = [
        wrong,
        hold("bytes for calls", requests, limits.request_memory),
        hold("bytes for calls that arrive", stage.dispatcher.arriving(), arriving(workload)),
        hold("bytes for replies", replies, limits.reply_memory + unreserved),
        hold("turns", stage.dispatcher.turns_taken(), limits.calls.into()),
        hold("occupants", occupants as u64, bounds.connections),
        hold("connections that are served", seated, bounds.connections),
        // One more for each quiet occupant that is leaving.
        hold("clients at the door", at_door as u64, MAX_AT_DOOR as u64 + bounds.connections),
    ];
    wrongs.into_iter().flatten().next().map_or(Ok(()), Err)
}

fn arriving(workload: &Workload) -> u64 {
    workload.limits.request_memory / 4 * 3
}

/// Checks a lane by the counts of its pipes alone.
fn of_lane(lane: &Lane, workload: &Workload) -> Option<String> {
    let most = workload.bounds.calls_per_connection as u64;
    let (calls, replies) = lane.counts();
    // Records in the reader are read, but are not calls yet.
    let staged = (STAGING / lane.shortest.get().min(STAGING)) as u64 + 1;
    if calls > replies + most + staged {
        let waiting = calls - replies;
        return Some(format!("{}: {waiting} calls of {most} wait, {staged} unread", lane.address));
    }
    let (_, held) = lane.meter.held();
    let room = if is_guest(lane.address.ip()) { MAX_UNSENT_BYTES } else { STRANGERS_UNSENT_BYTES };
    (held > room).then(|| format!("{}: {held} bytes of replies not taken", lane.address))
}

/// Checks after all clients have gone.
pub(super) fn at_end(stage: &Stage, workload: &Workload) -> Result<(), String> {
    for turn in &*stage.ledger.turns.borrow() {
        of_turn(turn, workload).map_err(|reason| format!("{reason}: {turn:?}"))?;
    }
    for lane in stage.ledger.lanes() {
        let told = |reason| format!("{} ({:?}): {reason}", lane.address, lane.role);
        of_patience(&lane, workload).map_err(told)?;
        if lane.role == Role::Newcomer {
            of_newcomer(&lane, workload).map_err(told)?;
        }
    }
    given_back(stage)
}

/// Checks that all memory, turns and places were returned.
fn given_back(stage: &Stage) -> Result<(), String> {
    let (requests, replies) = stage.dispatcher.under_way();
    let (occupants, at_door) = stage.door.occupants();
    let held = [
        requests,
        replies,
        stage.dispatcher.arriving(),
        stage.dispatcher.turns_taken(),
        occupants as u64,
        at_door as u64,
    ];
    if held != [0; 6] {
        return Err(format!(
            "held at the end: calls, replies, arriving, turns, occupants, at the door: {held:?}"
        ));
    }
    let left = stage.ledger.lanes().into_iter().find(|lane| lane.ended.get().is_none());
    left.map_or(Ok(()), |lane| Err(format!("{} is not hung up", lane.address)))
}

/// Between a quiet client's call and its answer each other connection has one turn, if no call has
/// to wait for memory or turns.
fn of_turn(turn: &QuietTurn, workload: &Workload) -> Result<(), String> {
    let most = workload.bounds.calls_per_connection as u64;
    let (mut calls, mut waits) = (TURN_CALLS as u64, DISK);
    if !matches!(workload.scene, Scene::Flood | Scene::Hoard) {
        // It waits once for turns and once for the memory of a peer that owes; others use what they
        // hold.
        calls = 3 * calls + most;
        waits += 2 * REPLY_BEAT + 2 * RECORD_BEAT;
    }
    // "Or a little more": the last call of a turn, and the last read or write.
    let bytes = 2 * (TURN_BYTES as u64 + u64::from(MAX_TRANSFER));
    let turns = calls.div_ceil(TURN_CALLS as u64);
    let disk = calls * BESIDE_PAYLOAD + turns * bytes;
    let hold = |what: &str, done: u64, each: u64, more: u64| {
        let most = each * turn.others + more;
        let is_over = done > most && !turn.may_wait_for_disk;
        if is_over { Err(format!("{what} of others: {done} of {most}")) } else { Ok(()) }
    };
    hold("calls", turn.calls, calls, 0)?;
    hold("bytes", turn.bytes, turns * bytes, 0)?;
    hold("bytes of the disk", turn.disk_bytes, disk, CACHE_BYTES as u64)?;
    if turn.waited > waits {
        return Err(format!("a quiet client waits for more than {waits:?}"));
    }
    Ok(())
}

/// The server waits for a peer that owes as long as documented: not less, if no other client waits,
/// and never a beat more.
fn of_patience(lane: &Lane, workload: &Workload) -> Result<(), String> {
    let Some((owed, waited)) = lane.patience() else { return Ok(()) };
    let beat = match owed {
        Owed::Taking => REPLY_BEAT,
        Owed::Rest => RECORD_BEAT,
    };
    let is_ample = matches!(workload.scene, Scene::Flood | Scene::Full(_));
    // If memory is short a peer owes nothing before it has some, and each that had it earlier takes
    // two beats: the one in which it arrived, and a whole one.
    let is_half = |peer: &&Peer| matches!(peer.manner, Manner::HalfSent { .. });
    let before = workload.peers.iter().filter(is_half).count() as u32;
    let most = PATIENCE + beat * if is_ample { 1 } else { 1 + 2 * before };
    if waited > most {
        return Err(format!("given up after {waited:?}, a beat too late"));
    }
    if workload.scene == Scene::Flood && waited < PATIENCE {
        return Err(format!("given up after {waited:?}, while nobody waited"));
    }
    Ok(())
}

/// A stranger is sent away if all places are taken, and a guest gets one in time.
fn of_newcomer(lane: &Lane, workload: &Workload) -> Result<(), String> {
    let found = lane.found.get().expect("it is noted when it comes");
    let is_full = found.seated == workload.bounds.connections;
    let waited = lane.seated.get().map(|seated| seated.since(lane.arrived));
    if !is_guest(lane.address.ip()) && is_full {
        return match (waited, lane.ended.get()) {
            (None, Some(ended)) if ended == lane.arrived => Ok(()),
            _ => Err("a stranger is not sent away from a full house".to_owned()),
        };
    }
    let places = workload.bounds.connections as u32;
    let most = if !is_full {
        Duration::ZERO
    } else if found.is_easy {
        DISK
    } else {
        QUIET + LEAVING * places + KEEPS * places
    };
    let may_owe = matches!(workload.scene, Scene::Full(Occupants::Mixed | Occupants::Deaf));
    let has_debtors = may_owe && is_full;
    // A peer that does not take its replies is given up in the second beat after it was asked.
    let most = if has_debtors { most + 2 * REPLY_BEAT + LEAVING * places } else { most };
    match waited {
        Some(waited) if waited <= most => Ok(()),
        Some(waited) => Err(format!("a place after {waited:?}, where {most:?} are the most")),
        None => Err("it never got a place".to_owned()),
    }
}

/// The memory of this many calls of this many bytes: the least, and the most, since a payload takes
/// whole pages.
pub(super) fn memory(calls: u64, bytes: u64) -> std::ops::RangeInclusive<u64> {
    const PAGE: u64 = 4096;
    calls * (bytes + CALL_MEMORY)..=calls * (bytes + CALL_MEMORY + PAGE)
}
