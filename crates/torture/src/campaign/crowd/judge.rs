//! What may be of a crowd: budgets at every step, and at the end turns, waits, places and patience.
//!
//! All bounds follow from what the door documents: [`TURN_CALLS`] and [`TURN_BYTES`] of a turn,
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

/// What a reader takes in besides the record in front.
const STAGING: usize = 64 << 10;
/// A reply that reserves nothing is no longer.
const SHORT_REPLY: u64 = 1024;
/// Bytes that a call has a disk read or write besides its payload, at most: inodes, maps, a chunk
/// of a directory, groups, an entry of the log, each as a block.
const BESIDE_PAYLOAD: u64 = 128 << 10;
/// How long the disk may take for what one call waits for, with those that come before it.
const DISK: Duration = Duration::from_millis(500);

/// What is wrong at this step.
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
        hold("clients at the door", at_door as u64, MAX_AT_DOOR as u64),
    ];
    wrongs.into_iter().flatten().next().map_or(Ok(()), Err)
}

fn arriving(workload: &Workload) -> u64 {
    workload.limits.request_memory / 4 * 3
}

/// By the count of its pipes alone.
fn of_lane(lane: &Lane, workload: &Workload) -> Option<String> {
    let most = workload.bounds.calls_per_connection as u64;
    let (calls, replies) = lane.counts();
    // What stands in the reader is read and no call yet.
    let staged = (STAGING / lane.shortest.get().min(STAGING)) as u64 + 1;
    if calls > replies + most + staged {
        let waiting = calls - replies;
        return Some(format!("{}: {waiting} calls of {most} wait, {staged} unread", lane.address));
    }
    let (_, held) = lane.meter.held();
    let room = if is_guest(lane.address.ip()) { MAX_UNSENT_BYTES } else { STRANGERS_UNSENT_BYTES };
    (held > room).then(|| format!("{}: {held} bytes of replies not taken", lane.address))
}

/// What is wrong when all clients have gone.
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

/// Everything has been given back.
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

/// Between a quiet client's call and its answer each other connection has one turn, where nothing
/// has to be waited for.
fn of_turn(turn: &QuietTurn, workload: &Workload) -> Result<(), String> {
    let most = workload.bounds.calls_per_connection as u64;
    let (mut calls, mut waits) = (TURN_CALLS as u64, DISK);
    if workload.scene != Scene::Flood {
        // Its turns, and the memory of a peer that owes, each once; others have what they hold.
        calls = 3 * calls + most;
        waits += 2 * REPLY_BEAT + 2 * RECORD_BEAT;
    }
    // "Or a little more": the last call of a turn, and the last read or write.
    let bytes = 2 * (TURN_BYTES as u64 + u64::from(MAX_TRANSFER));
    let turns = calls.div_ceil(TURN_CALLS as u64);
    let disk = calls * BESIDE_PAYLOAD + turns * bytes;
    let hold = |what: &str, done: u64, each: u64, more: u64| {
        let most = each * turn.others + more;
        if done > most { Err(format!("{what} of others: {done} of {most}")) } else { Ok(()) }
    };
    hold("calls", turn.calls, calls, 0)?;
    hold("bytes", turn.bytes, turns * bytes, 0)?;
    hold("bytes of the disk", turn.disk_bytes, disk, CACHE_BYTES as u64)?;
    if turn.waited > waits {
        return Err(format!("a quiet client waits for more than {waits:?}"));
    }
    Ok(())
}

/// Who owes is waited for as long as it is documented: not less, where nobody else waits, and never
/// a beat more.
fn of_patience(lane: &Lane, workload: &Workload) -> Result<(), String> {
    let Some((owed, waited)) = lane.patience() else { return Ok(()) };
    let beat = match owed {
        Owed::Taking => REPLY_BEAT,
        Owed::Rest => RECORD_BEAT,
    };
    let is_ample = matches!(workload.scene, Scene::Flood | Scene::Full(_));
    // Where memory is short a peer owes nothing before it has some, and each that has it before it
    // has two beats: one in which it came, and a whole one.
    let is_half = |peer: &&Peer| matches!(peer.manner, Manner::HalfSent { .. });
    let before = workload.peers.iter().filter(is_half).count() as u32;
    let most = PATIENCE + beat * if is_ample { 1 } else { 1 + 2 * before };
    if waited > most {
        return Err(format!("given up after {waited:?}, a beat too late"));
    }
    if is_ample && waited < PATIENCE {
        return Err(format!("given up after {waited:?}, while nobody waited"));
    }
    Ok(())
}

/// A stranger is sent away where all places are taken, and a guest gets one in time.
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
    let has_debtors = workload.scene == Scene::Full(Occupants::Mixed) && is_full;
    let most = if has_debtors { most + PATIENCE + REPLY_BEAT + LEAVING * places } else { most };
    match waited {
        Some(waited) if waited <= most => Ok(()),
        Some(waited) => Err(format!("a place after {waited:?}, where {most:?} are the most")),
        None => Err("it never got a place".to_owned()),
    }
}

/// The bytes that so many calls of so many bytes hold: at least, and at most, since a payload has
/// whole pages.
pub(super) fn memory(calls: u64, bytes: u64) -> std::ops::RangeInclusive<u64> {
    const PAGE: u64 = 4096;
    calls * (bytes + CALL_MEMORY)..=calls * (bytes + CALL_MEMORY + PAGE)
}
