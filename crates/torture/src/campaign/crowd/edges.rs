//! Limits at their value and one above.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use dispatch::MAX_TRANSFER;
use door::{LEAVING, MAX_AT_DOOR, PATIENCE, QUIET};
use futures::FutureExt;
use nfs::reader::Limits as RecordLimits;
use nfs3_types::nfs3::{Nfs3Option, sattr3, stable_how};

use super::judge::memory;
use super::ledger::{Client, Lane, Role};
use super::peer::{Crowd, exchange, record};
use super::schedule::{run_for, until};
use super::stage::Stage;
use super::workload::{Edge, Workload, guest, stranger};
use crate::calls;
use crate::protocol::Request;

/// Room for a record to arrive whole.
const ROOM: usize = 256 << 10;
/// The payload of a WRITE that goes to its place, and so never stays in the reader.
const PLACED: u64 = 33 << 10;
/// The mark of a record, which takes no memory.
const MARK: usize = 4;
/// Long enough for tasks that wait for no disk, and too short for one that does.
const MOMENT: Duration = Duration::from_nanos(1);
/// Clients that each send as many calls as they may have, and one more.
const CLIENTS: u64 = 3;
/// One part of turns in this many is for strangers, and one for calls that concern no volume.
const SMALL_PART: u32 = 16;

/// Tries a limit.
pub(super) fn play(
    stage: &Stage,
    workload: &Workload,
    crowd: &Crowd,
    edge: Edge,
) -> Result<(), String> {
    match edge {
        Edge::Calls => calls_of_a_connection(stage, workload, crowd),
        Edge::Turns => turns(stage, workload, crowd),
        Edge::Places => places(stage, workload, crowd),
        Edge::Backlog => backlog(stage, workload, crowd),
        Edge::Record => longest_record(stage, workload, crowd),
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, is: T, should: T) -> Result<(), String> {
    if is == should { Ok(()) } else { Err(format!("{what}: {is:?} instead of {should:?}")) }
}

/// A client that sends these records and takes replies until all are answered. Returns when it is
/// done.
fn sends(
    stage: &Stage,
    crowd: &Crowd,
    address: u64,
    records: Vec<Bytes>,
) -> (Rc<Lane>, Rc<Cell<bool>>) {
    let mut client = crowd.ledger.connect(guest(address), Role::Other, ROOM);
    let (lane, done) = (client.lane.clone(), Rc::new(Cell::new(false)));
    let mark = done.clone();
    lane.shortest.set(records.iter().map(Bytes::len).min().unwrap_or(usize::MAX));
    let work = async move {
        let asked = records.len() as u64;
        for record in records {
            if client.pipe.write_all(&record).await.is_err() {
                return;
            }
        }
        let mut buffer = [0; 4096];
        let mut replies = super::records::Records::default();
        while replies.count < asked {
            match client.pipe.read(&mut buffer).await {
                Ok(length) if length > 0 => replies.feed(&buffer[..length]),
                _ => return,
            }
        }
        mark.set(true);
    };
    stage.executor.runtime().tasks.spawn(work.boxed_local());
    (lane, done)
}

fn all_done(lanes: &[(Rc<Lane>, Rc<Cell<bool>>)]) -> Option<()> {
    lanes.iter().all(|(_, done)| done.get()).then_some(())
}

/// With no free turn, exactly as many calls are read as may be unanswered, and the memory held for
/// them is their length.
fn calls_of_a_connection(stage: &Stage, workload: &Workload, crowd: &Crowd) -> Result<(), String> {
    let held = stage.executor.block_on(stage.dispatcher.quiesce());
    let most = workload.bounds.calls_per_connection as u64;
    let write = |xid: u64| {
        let payload = vec![xid as u8; PLACED as usize];
        let write = calls::write(&crowd.files.target, 0, payload, stable_how::UNSTABLE);
        record(xid as u32, &Request::Write(write))
    };
    let length = (write(0).len() - MARK) as u64;
    let lanes: Vec<_> = (0..CLIENTS)
        .map(|client| sends(stage, crowd, client, (0..=most).map(write).collect()))
        .collect();
    run_for(stage, workload, MOMENT)?;
    for (lane, _) in &lanes {
        expect("calls that were read", lane.counts(), (most, 0))?;
    }
    let (requests, _) = stage.dispatcher.under_way();
    let counted = memory(CLIENTS * most, length);
    if !counted.contains(&requests) {
        return Err(format!("{requests} bytes are held for calls of {counted:?}"));
    }
    drop(held);
    until(stage, workload, || all_done(&lanes))?;
    for (lane, _) in &lanes {
        expect("calls that were answered", lane.counts(), (most + 1, most + 1))?;
    }
    Ok(())
}

/// More calls than turns: calls that change something take all turns.
fn turns(stage: &Stage, workload: &Workload, crowd: &Crowd) -> Result<(), String> {
    let most = workload.limits.calls;
    let share = u64::from(most - 2 * (most / SMALL_PART));
    let change = |xid: u64| {
        let mode = sattr3 { mode: Nfs3Option::Some(0o600), ..sattr3::default() };
        record(xid as u32, &Request::Setattr(calls::setattr(&crowd.files.data, mode)))
    };
    let a_client = workload.bounds.calls_per_connection as u64;
    // One client alone does not get all of them.
    let clients = (share + 1).div_ceil(a_client).max(share.min(2));
    let lanes: Vec<_> = (0..clients)
        .map(|client| sends(stage, crowd, client, (0..a_client).map(change).collect()))
        .collect();
    let peak = Cell::new(0);
    until(stage, workload, || {
        peak.set(peak.get().max(stage.dispatcher.turns_taken()));
        all_done(&lanes)
    })?;
    expect("turns that were taken at most", peak.get(), share)
}

/// Idle guests take all places: a stranger is sent away, the door has room for a fixed number, and
/// the first of them gets a place when a guest has been quiet for long.
fn places(stage: &Stage, workload: &Workload, crowd: &Crowd) -> Result<(), String> {
    let connect = |address| crowd.ledger.connect(address, Role::Other, ROOM);
    let places = workload.bounds.connections;
    let guests: Vec<Client> = (0..places).map(|number| connect(guest(number))).collect();
    run_for(stage, workload, MOMENT)?;
    let seated = |clients: &[Client]| clients.iter().filter(|one| one.lane.is_seated()).count();
    expect("guests with a place", seated(&guests), guests.len())?;
    let stranger = connect(stranger(1));
    let waiting: Vec<Client> = (0..=MAX_AT_DOOR).map(|_| connect(guest(700))).collect();
    run_for(stage, workload, MOMENT)?;
    expect("a stranger is sent away", stranger.pipe.is_over(), true)?;
    let sent_away: Vec<bool> = waiting.iter().map(|client| client.pipe.is_over()).collect();
    let mut one_too_many = vec![false; MAX_AT_DOOR];
    one_too_many.push(true);
    expect("who is sent away from a full door", sent_away, one_too_many)?;
    expect("who waits", stage.door.occupants(), (places as usize, MAX_AT_DOOR))?;
    run_for(stage, workload, QUIET + LEAVING)?;
    if seated(&waiting) == 0 {
        return Err("nobody has a place of a guest that was quiet for long".to_owned());
    }
    Ok(())
}

/// Quiet strangers take all places, and as many guests of one address come at once: each gets a
/// place, though more come than wait at the door.
fn backlog(stage: &Stage, workload: &Workload, crowd: &Crowd) -> Result<(), String> {
    let connect = |address| crowd.ledger.connect(address, Role::Other, ROOM);
    let places = workload.bounds.connections;
    let strangers: Vec<Client> = (0..places).map(|number| connect(stranger(number))).collect();
    run_for(stage, workload, MOMENT)?;
    let seated = |clients: &[Client]| clients.iter().filter(|one| one.lane.is_seated()).count();
    expect("strangers with a place", seated(&strangers), strangers.len())?;
    let guests: Vec<Client> = (0..places).map(|_| connect(guest(700))).collect();
    run_for(stage, workload, MOMENT)?;
    expect("guests with a place", seated(&guests), guests.len())?;
    expect("strangers that keep theirs", seated(&strangers), 0)
}

/// The longest WRITE is answered, and so is one that asks for more than is moved; a record whose
/// mark exceeds the longest ends the connection.
fn longest_record(stage: &Stage, workload: &Workload, crowd: &Crowd) -> Result<(), String> {
    let write = |length: u32| {
        let write =
            calls::write(&crowd.files.target, 0, vec![1; length as usize], stable_how::FILE_SYNC);
        record(1, &Request::Write(write))
    };
    let too_long = (RecordLimits::default().record as u32 + 1) | 1 << 31;
    let getattr = Request::Getattr(calls::getattr(&crowd.files.still));
    let cases = [
        ("the longest WRITE", write(MAX_TRANSFER), true),
        ("a WRITE of more than a transfer", write(MAX_TRANSFER + 1), true),
        ("a mark of a record that is too long", too_long.to_be_bytes().to_vec().into(), false),
        ("a call after all that", record(1, &getattr), true),
    ];
    for (what, bytes, is_answered) in cases {
        let mut client = crowd.ledger.connect(guest(1), Role::Other, ROOM);
        client.lane.shortest.set(bytes.len());
        let answer: Rc<RefCell<Option<bool>>> = Rc::default();
        let mark = answer.clone();
        let ask = async move {
            let answer = exchange(&mut client, &bytes).await;
            mark.replace(Some(answer.is_some()));
        };
        let before = stage.executor.now();
        stage.executor.runtime().tasks.spawn(ask.boxed_local());
        let answered = until(stage, workload, || answer.borrow_mut().take())?;
        expect(what, answered, is_answered)?;
        if stage.executor.now().since(before) >= PATIENCE {
            return Err(format!("{what}: hung up on after its patience, not at once"));
        }
    }
    Ok(())
}
