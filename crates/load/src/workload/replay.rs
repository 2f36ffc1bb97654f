//! Replays a recorded load: the same calls, in the same order of cause and effect, at the same
//! times or faster or slower.
//!
//! Handles, cookies and verifiers of the recorded server are replaced by those of this one, as
//! answers arrive: by position in the results of one call, by name in listings. The root of every
//! mounted export is replaced by the directory of the stage, so that nothing outside of it is
//! touched. Files from before the recording do not exist now; a call that needs one is an error
//! that says so.
//!
//! Invariants:
//! 1. A call begins only when all calls have ended that had ended when it began in the trace. So
//!    everything that it may depend on has happened.
//! 2. A call is successful if it ends as it did in the trace, well or with the same refusal. Any
//!    other answer is an error.
//!
//! Not asserted: 2, which is counted: a server may answer anything.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;
use nfs::nfs3::results::{CreateOk, EntryPlus, LookupOk, ReaddirOk, ReaddirplusOk};
use nfs::nfs3::{Arguments, Handle, Outcome, PostOp, Procedure, Status, Verifier, Wcc};
use nfs::xdr::{DecodeError, Decoder, Encode, UNIT};
use runtime::Instant;
use trace::{Entry, Target};

use crate::run::Measured;
use crate::stage::{Stage, Trouble};
use crate::tally::Tally;
use client::{CallError, results};

/// Replaces data that was not recorded.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Most concurrent calls.
const IN_FLIGHT_MAX: usize = 4096;

/// Replacements for the recorded server's values.
#[derive(Default)]
struct Exchange {
    handles: HashMap<Bytes, Handle>,
    /// Cookies by directory and cookie of the recording.
    cookies: HashMap<(Bytes, u64), (u64, Verifier)>,
}

struct Replay<'a> {
    stage: &'a Stage,
    entries: &'a [Entry],
    /// The speed relative to the trace; `None`: as fast as causes allow.
    speed: Option<f64>,
    start: Instant,
    exchange: RefCell<Exchange>,
    tally: RefCell<Tally>,
}

/// Replays a trace at `speed` times its own, or as fast as possible.
///
/// # Errors
/// [`Trouble::Plan`], when it is empty.
pub async fn replay(
    stage: &Stage,
    entries: &[Entry],
    speed: Option<f64>,
) -> Result<Measured, Trouble> {
    if entries.is_empty() {
        return Err(Trouble::Plan("there is nothing in the trace".to_owned()));
    }
    let mut entries = entries.to_vec();
    entries.sort_by_key(|entry| entry.begun_ns);
    let name = "replay";
    stage.watch.begin(name, entries.len() as u64);
    let (before, start) = (stage.watch.processor_time(), stage.runtime.clock.now());
    let replay = Replay {
        stage,
        entries: &entries,
        speed,
        start,
        exchange: RefCell::default(),
        tally: RefCell::default(),
    };
    replay.play().await;
    let elapsed = stage.runtime.clock.now().since(start);
    let processor_time = stage.watch.processor_time().since(before);
    let tally = replay.tally.into_inner();
    Ok(Measured { name: name.to_owned(), elapsed, tally, processor_time })
}

/// Counts the calls that have ended without a gap, in the trace's order of ends.
struct Ended {
    /// The position of each call in that order.
    places: Vec<usize>,
    has_ended: Vec<bool>,
    prefix: usize,
}

impl Ended {
    fn new(entries: &[Entry]) -> Self {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by_key(|&index| entries[index].ended_ns);
        let mut places = vec![0; entries.len()];
        for (place, index) in order.into_iter().enumerate() {
            places[index] = place;
        }
        Self { has_ended: vec![false; entries.len()], places, prefix: 0 }
    }

    fn end(&mut self, index: usize) {
        self.has_ended[self.places[index]] = true;
        while self.has_ended.get(self.prefix) == Some(&true) {
            self.prefix += 1;
        }
    }
}

impl Replay<'_> {
    async fn play(&self) {
        let mut ends: Vec<u64> = self.entries.iter().map(|entry| entry.ended_ns).collect();
        ends.sort_unstable();
        let (mut ended, mut under_way) = (Ended::new(self.entries), FuturesUnordered::new());
        let clock = &self.stage.runtime.clock;
        for (index, entry) in self.entries.iter().enumerate() {
            if self.stage.watch.is_over() {
                break;
            }
            // Invariant 1. A call with itself among its causes would wait for ever: a call may have
            // taken no time by the recorder's clock.
            let causes = ends.partition_point(|&end| end < entry.begun_ns);
            let due = self.due(entry);
            loop {
                let wait = due.since(clock.now());
                let must_wait = ended.prefix < causes || under_way.len() >= IN_FLIGHT_MAX;
                if must_wait {
                    ended.end(under_way.next().await.expect("causes are under way"));
                } else if wait.is_zero() {
                    break;
                } else if under_way.is_empty() {
                    clock.sleep(wait).await;
                } else if let Either::Left((Some(done), _)) =
                    select(under_way.next(), clock.sleep(wait)).await
                {
                    ended.end(done);
                }
            }
            assert!(ended.prefix >= causes, "invariant 1: its causes have ended");
            under_way.push(self.one(index, entry, due));
            self.tell();
        }
        while under_way.next().await.is_some() {
            self.tell();
        }
    }

    fn tell(&self) {
        let tally = self.tally.borrow();
        self.stage.watch.progress(tally.succeeded(), tally.failed());
    }

    /// The due time of a call.
    fn due(&self, entry: &Entry) -> Instant {
        let first_ns = self.entries.first().map_or(0, |first| first.begun_ns);
        match self.speed {
            None => self.stage.runtime.clock.now(),
            Some(speed) => {
                let after_ns = (entry.begun_ns - first_ns) as f64 / speed;
                self.start.after(Duration::from_nanos(after_ns as u64))
            }
        }
    }

    /// Makes one call; returns its index when it has ended.
    async fn one(&self, index: usize, entry: &Entry, due: Instant) -> usize {
        let Target::Nfs(procedure) = entry.target else {
            self.mounted(entry);
            return index;
        };
        let result = self.call(entry, procedure).await;
        let latency = self.stage.runtime.clock.now().since(due);
        let mut tally = self.tally.borrow_mut();
        match result {
            Ok(moved) => {
                tally.call(procedure, latency);
                tally.bytes += moved;
            }
            Err(what) => tally.error(procedure.name(), what),
        }
        index
    }

    /// Replaces the root of an export by the directory of the stage.
    fn mounted(&self, entry: &Entry) {
        let mut from = Decoder::new(&entry.results);
        let root = from.u32().ok().filter(|&status| status == 0).and_then(|_| from.opaque(64).ok());
        if let Some(root) = root {
            let root = Bytes::copy_from_slice(root);
            self.exchange.borrow_mut().handles.insert(root, self.stage.home);
        }
    }

    async fn call(&self, entry: &Entry, procedure: Procedure) -> Result<u64, String> {
        let client = self.stage.client(entry.connection as usize);
        let record = if procedure == Procedure::Null {
            client.ask(entry.target.numbers(), |_| {}).await
        } else {
            let (head, data) = with_payload(entry, procedure);
            let from = Decoder::of_parts(&head, &data);
            let unreadable = |error: DecodeError| format!("recorded arguments: {error}");
            let mut arguments = Arguments::decode(procedure, from).map_err(unreadable)?;
            let mut olds = Vec::new();
            arguments.replace_handles(|old| {
                olds.push(old);
                old
            });
            self.exchange_cookie(&mut arguments);
            let news: Vec<Handle> =
                olds.iter().map(|old| self.other(old)).collect::<Result<_, _>>()?;
            let mut next = news.iter().map(Handle::as_bytes);
            arguments.replace_handles(|old| next.next().unwrap_or(old));
            client.ask(entry.target.numbers(), |to| arguments.encode(to)).await
        };
        let record = record.map_err(|error| error.to_string())?;
        let given = results(&record).map_err(|error| error.to_string())?;
        self.compare(entry, procedure, given).map_err(|error| error.to_string())??;
        Ok(u64::from(entry.payload))
    }

    /// The replacement of a recorded handle.
    fn other(&self, old: &[u8]) -> Result<Handle, String> {
        let found = self.exchange.borrow().handles.get(old).copied();
        found.ok_or_else(|| "a file that was there before the trace began".to_owned())
    }

    fn exchange_cookie(&self, arguments: &mut Arguments<'_>) {
        let (directory, cookie, verifier) = match arguments {
            Arguments::Readdir(listing) => {
                (listing.directory, &mut listing.cookie, &mut listing.cookie_verifier)
            }
            Arguments::Readdirplus(listing) => {
                (listing.directory, &mut listing.cookie, &mut listing.cookie_verifier)
            }
            _ => return,
        };
        let key = (Bytes::copy_from_slice(directory), *cookie);
        // An unknown cookie is useless: the listing starts over.
        let other = self.exchange.borrow().cookies.get(&key).copied();
        (*cookie, *verifier) = other.unwrap_or_default();
    }

    /// Invariant 2; and replaces recorded values by those of this answer.
    fn compare(
        &self,
        entry: &Entry,
        procedure: Procedure,
        given: Decoder<'_>,
    ) -> Result<Result<(), String>, CallError> {
        if procedure == Procedure::Null {
            return Ok(Ok(()));
        }
        let status = { given }.u32()?;
        if Some(status) != entry.status() {
            let recorded = entry.status().map_or("a refusal".to_owned(), status_name);
            let given = status_name(status);
            return Ok(Err(format!("{given}, where {recorded} was recorded")));
        }
        if status == 0 {
            self.learn(entry, procedure, given)?;
        }
        Ok(Ok(()))
    }

    fn learn(
        &self,
        entry: &Entry,
        procedure: Procedure,
        given: Decoder<'_>,
    ) -> Result<(), DecodeError> {
        let recorded = Decoder::of_parts(&entry.results, &[]);
        let mut exchange = self.exchange.borrow_mut();
        match procedure {
            Procedure::Lookup => {
                let (old, new) = both::<LookupOk, PostOp>(recorded, given)?;
                exchange.learn(&old.object, new.object);
            }
            Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
                let (old, new) = both::<CreateOk, Wcc>(recorded, given)?;
                if let (Some(old), Some(new)) = (old.object, new.object) {
                    exchange.learn(&old, new);
                }
            }
            Procedure::Readdir => {
                let (old, new) = both::<ReaddirOk, PostOp>(recorded, given)?;
                let directory = directory_of(entry)?;
                for old in old.entries {
                    if let Some(new_entry) = new.entries.iter().find(|new| new.name == old.name) {
                        let place = (new_entry.cookie, new.cookie_verifier);
                        exchange.cookies.insert((directory.clone(), old.cookie), place);
                    }
                }
            }
            Procedure::Readdirplus => {
                let (old, new) = both::<ReaddirplusOk, PostOp>(recorded, given)?;
                let directory = directory_of(entry)?;
                let named: HashMap<&[u8], &EntryPlus> =
                    new.entries.iter().map(|entry| (&entry.entry.name[..], entry)).collect();
                for old in &old.entries {
                    let Some(found) = named.get(&old.entry.name[..]) else { continue };
                    let place = (found.entry.cookie, new.cookie_verifier);
                    exchange.cookies.insert((directory.clone(), old.entry.cookie), place);
                    if let (Some(old), Some(new)) = (&old.handle, found.handle) {
                        exchange.learn(old, new);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Exchange {
    fn learn(&mut self, old: &Handle, new: Handle) {
        self.handles.insert(Bytes::copy_from_slice(old.as_bytes()), new);
    }
}

/// The results of the recorded call and of this one, both successful.
fn both<'a, T, W>(mut recorded: Decoder<'a>, mut given: Decoder<'a>) -> Result<(T, T), DecodeError>
where
    Outcome<T, W>: nfs::xdr::Decode<'a>,
{
    let bad = |_| DecodeError::BadValue { of: "the status of a success", value: 1 };
    let recorded: Outcome<T, W> = recorded.value()?;
    let given: Outcome<T, W> = given.value()?;
    Ok((recorded.map_err(bad)?, given.map_err(bad)?))
}

/// The directory of a listing, the first of its arguments, as it was recorded.
fn directory_of(entry: &Entry) -> Result<Bytes, DecodeError> {
    Decoder::of_parts(&entry.arguments, &[]).payload(nfs::nfs3::MAX_HANDLE)
}

/// The arguments for a call: those of a WRITE get data again.
fn with_payload(entry: &Entry, procedure: Procedure) -> (Bytes, Vec<Bytes>) {
    if procedure != Procedure::Write {
        return (entry.arguments.clone(), Vec::new());
    }
    let length = entry.payload.min(ZEROS.len() as u32);
    let mut head = Vec::with_capacity(entry.arguments.len() + UNIT);
    head.extend_from_slice(&entry.arguments);
    head.extend_from_slice(&length.to_be_bytes());
    (head.into(), vec![Bytes::from_static(&ZEROS[..length as usize])])
}

fn status_name(status: u32) -> String {
    match status {
        0 => "NFS3_OK".to_owned(),
        other => match Status::from_number(other) {
            Some(status) => status.name().to_owned(),
            None => format!("status {other}"),
        },
    }
}
