//! Counters of calls and connections: plain cells, incremented where a call begins and ends.
//!
//! # From the cells to a page
//! The thread that serves owns the cells and formats nothing. For a scrape it makes one copy of all
//! of them ([`ServerCounts`]), which is plain numbers and may go to another thread. The copy grows
//! with the number of volumes and with nothing else; that of the connections ([`Connected`]) is
//! bounded by [`MAX_LISTED`]. No counter is kept for a client, so a million of them cost nothing.
//!
//! # Cost of a call
//! A call looks at the clock when it begins and when its reply is made, and once more if it has to
//! wait for memory or a turn. All else is an increment of a cell.
//!
//! Invariants:
//! 1. Each call that is answered is counted once: by its procedure, or as rejected.
//! 2. A connection is listed for as long as its [`Session`](crate::Session) lives.
//!
//! Not asserted: 1, since a reply is counted where it is made, and by value; 2, since the entry is
//! removed by the drop of the session.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use nfs::nfs3::Status;
use nfs::{mount, nfs3, rpc};
use runtime::Instant;

use crate::parties;

/// Upper bounds of the latency buckets, in nanoseconds. One more bucket has all longer calls.
pub const LATENCY_BOUNDS_NS: [u64; 13] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    100_000_000,
    500_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// Maximum number of connections in a list: those that came last.
pub const MAX_LISTED: usize = 1_000;

const PROCEDURES: usize = nfs3::Procedure::ALL.len();
const MOUNT_PROCEDURES: usize = mount::Procedure::ALL.len();
const STATUSES: usize = Status::ALL.len();

/// Procedure of a call, as its header names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallKind {
    /// A procedure of NFS version 3.
    Nfs(nfs3::Procedure),
    /// A procedure of MOUNT version 3.
    Mount(mount::Procedure),
    /// Any other.
    #[default]
    Unknown,
}

impl CallKind {
    pub(crate) fn of(target: Option<(u32, u32)>) -> Self {
        match target {
            Some((rpc::PROGRAM_NFS, number)) => {
                nfs3::Procedure::from_number(number).map_or(Self::Unknown, Self::Nfs)
            }
            Some((rpc::PROGRAM_MOUNT, number)) => {
                mount::Procedure::from_number(number).map_or(Self::Unknown, Self::Mount)
            }
            _ => Self::Unknown,
        }
    }

    /// Name of the procedure.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nfs(procedure) => procedure.name(),
            Self::Mount(procedure) => procedure.name(),
            Self::Unknown => "unknown",
        }
    }
}

/// Latencies of the calls of one procedure, or of one kind of a device's calls.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    buckets: [Cell<u64>; LATENCY_BOUNDS_NS.len() + 1],
    sum_ns: Cell<u64>,
}

impl Latencies {
    /// Notes a call that took this time.
    pub fn note(&self, ns: u64) {
        add(&self.buckets[LATENCY_BOUNDS_NS.partition_point(|&bound| bound < ns)], 1);
        add(&self.sum_ns, ns);
    }

    /// Number of calls in each bucket: those within its bound and above the one before.
    pub fn buckets(&self) -> [u64; LATENCY_BOUNDS_NS.len() + 1] {
        std::array::from_fn(|index| self.buckets[index].get())
    }

    /// Number of calls.
    pub fn calls(&self) -> u64 {
        self.buckets().iter().sum()
    }

    /// Total time of all calls.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns.get())
    }
}

/// Counters of the NFS calls for one volume, or for none.
#[derive(Clone, Debug, Default)]
pub struct CallCounts {
    latencies: [Latencies; PROCEDURES],
    errors: [Cell<u64>; STATUSES],
    received_bytes: Cell<u64>,
    sent_bytes: Cell<u64>,
}

impl CallCounts {
    /// Latencies by procedure.
    pub fn latencies(&self) -> impl Iterator<Item = (nfs3::Procedure, &Latencies)> {
        nfs3::Procedure::ALL.into_iter().zip(&self.latencies)
    }

    /// Number of replies with each status except success.
    pub fn errors(&self) -> impl Iterator<Item = (Status, u64)> {
        Status::ALL.into_iter().zip(self.errors.iter().map(Cell::get))
    }

    /// Bytes of calls, without their record marks.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes.get()
    }

    /// Bytes of replies, with their record marks.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.get()
    }

    fn note(&self, procedure: nfs3::Procedure, call: &EndedCall) {
        self.latencies[procedure as usize].note(call.ns);
        add(&self.received_bytes, call.received);
        add(&self.sent_bytes, call.sent);
        if let Verdict::Status(status @ 1..) = call.verdict
            && let Some(at) = Status::ALL.iter().position(|&one| one as u32 == status)
        {
            add(&self.errors[at], 1);
        }
    }

    /// The sum of both.
    fn plus(self, other: &Self) -> Self {
        for (mine, theirs) in self.latencies.iter().zip(&other.latencies) {
            for (mine, theirs) in mine.buckets.iter().zip(&theirs.buckets) {
                add(mine, theirs.get());
            }
            add(&mine.sum_ns, theirs.sum_ns.get());
        }
        self.errors.iter().zip(&other.errors).for_each(|(mine, theirs)| add(mine, theirs.get()));
        add(&self.received_bytes, other.received_bytes.get());
        add(&self.sent_bytes, other.sent_bytes.get());
        self
    }
}

/// Outcome of a call, as its reply has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The RPC layer rejected it.
    Rejected,
    /// Status of the procedure; 0 is success.
    Status(u32),
}

/// A call with its reply.
pub(crate) struct EndedCall {
    pub(crate) party: usize,
    pub(crate) kind: CallKind,
    pub(crate) verdict: Verdict,
    pub(crate) ns: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// The cells of a server.
#[derive(Default)]
pub(crate) struct Cells {
    /// By party, as [`parties`] numbers them.
    calls: Vec<CallCounts>,
    mount: [Cell<u64>; MOUNT_PROCEDURES],
    rejected: Cell<u64>,
    pub(crate) memory_waits: Cell<u64>,
    pub(crate) turn_waits: Cell<u64>,
    turn_wait_ns: Cell<u64>,
    waiting: Cell<u64>,
    connected: RefCell<BTreeMap<u64, Rc<ConnectionCells>>>,
}

/// Counters of calls.
#[derive(Clone, Debug)]
pub struct ServerCounts {
    /// Calls for each volume, in the order of the start.
    pub volumes: Vec<CallCounts>,
    /// Calls for no volume, or for one that the client may not use.
    pub no_volume: CallCounts,
    /// Calls of MOUNT, by the number of the procedure.
    pub mount: [u64; MOUNT_PROCEDURES],
    /// Calls that the RPC layer rejected.
    pub rejected: u64,
    /// Calls that waited for memory before they were read.
    pub memory_waits: u64,
    /// Calls that waited for memory for the reply, or for a turn.
    pub turn_waits: u64,
    /// Total time of the latter, of those that have ended.
    pub turn_wait: Duration,
    /// Calls that wait now.
    pub waiting: u64,
}

impl Cells {
    /// Cells for this many volumes.
    pub(crate) fn new(volumes: usize) -> Self {
        let parties = parties::shares(0, volumes).len();
        Self { calls: vec![CallCounts::default(); parties], ..Self::default() }
    }

    /// Counts a call that has its reply (invariant 1).
    pub(crate) fn note(&self, call: &EndedCall) {
        match (call.verdict, call.kind) {
            (Verdict::Rejected, _) | (_, CallKind::Unknown) => add(&self.rejected, 1),
            (_, CallKind::Nfs(procedure)) => self.calls[call.party].note(procedure, call),
            (_, CallKind::Mount(procedure)) => add(&self.mount[procedure as usize], 1),
        }
    }

    /// Counts a call as waiting until the result is dropped.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        add(&self.turn_waits, 1);
        add(&self.waiting, 1);
        Waiting(self)
    }

    /// A copy of the counters.
    pub(crate) fn copy(&self) -> ServerCounts {
        let (small, volumes) = self.calls.split_at(parties::FIRST_VOLUME);
        let no_volume = small.iter().fold(CallCounts::default(), CallCounts::plus);
        ServerCounts {
            volumes: volumes.to_vec(),
            no_volume,
            mount: std::array::from_fn(|number| self.mount[number].get()),
            rejected: self.rejected.get(),
            memory_waits: self.memory_waits.get(),
            turn_waits: self.turn_waits.get(),
            turn_wait: Duration::from_nanos(self.turn_wait_ns.get()),
            waiting: self.waiting.get(),
        }
    }

    /// Lists a connection.
    pub(crate) fn connect(&self, number: u64, cells: Rc<ConnectionCells>) {
        self.connected.borrow_mut().insert(number, cells);
    }

    /// Removes a connection (invariant 2).
    pub(crate) fn disconnect(&self, number: u64) {
        self.connected.borrow_mut().remove(&number);
    }

    /// The connections that came last, and their total number.
    pub(crate) fn connected(&self, now: Instant) -> Connected {
        let connected = self.connected.borrow();
        let last = connected.iter().rev().take(MAX_LISTED);
        let listed = last.map(|(&number, cells)| cells.copy(number, now)).collect();
        Connected { total: connected.len(), listed }
    }
}

/// A call that waits for memory for its reply, or for a turn.
pub(crate) struct Waiting<'a>(&'a Cells);

impl Waiting<'_> {
    /// The wait is over, after this time.
    pub(crate) fn end(self, ns: u64) {
        add(&self.0.turn_wait_ns, ns);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}

/// Connections of clients.
#[derive(Clone, Debug)]
pub struct Connected {
    /// Number of connections.
    pub total: usize,
    /// The last [`MAX_LISTED`] of them, the newest first.
    pub listed: Vec<ConnectionCounts>,
}

/// A connection of a client.
#[derive(Clone, Debug)]
pub struct ConnectionCounts {
    /// Number of the connection, from 1 on.
    pub number: u64,
    /// Address of the client.
    pub client: IpAddr,
    /// Indexes of the volumes that its calls were for, in the order of the start.
    pub volumes: Vec<usize>,
    /// Time since it was opened.
    pub age: Duration,
    /// Time since its last call was answered; none if no call was.
    pub idle: Option<Duration>,
    /// Answered calls.
    pub calls: u64,
    /// Those that were rejected, or answered with an error.
    pub errors: u64,
    /// Bytes of calls.
    pub received_bytes: u64,
    /// Bytes of replies.
    pub sent_bytes: u64,
    /// The last answered call.
    pub last: CallKind,
    /// The slowest call and its time.
    pub slowest: (CallKind, Duration),
}

/// The cells of a connection.
pub(crate) struct ConnectionCells {
    client: IpAddr,
    begun: Instant,
    last_at: Cell<Option<Instant>>,
    calls: Cell<u64>,
    errors: Cell<u64>,
    received_bytes: Cell<u64>,
    sent_bytes: Cell<u64>,
    last: Cell<CallKind>,
    slowest: Cell<(CallKind, u64)>,
    /// Party of the last call, which is in `parties`.
    last_party: Cell<Option<usize>>,
    parties: RefCell<BTreeSet<usize>>,
}

impl ConnectionCells {
    pub(crate) fn new(client: IpAddr, now: Instant) -> Rc<Self> {
        Rc::new(Self {
            client,
            begun: now,
            last_at: Cell::default(),
            calls: Cell::default(),
            errors: Cell::default(),
            received_bytes: Cell::default(),
            sent_bytes: Cell::default(),
            last: Cell::default(),
            slowest: Cell::default(),
            last_party: Cell::default(),
            parties: RefCell::default(),
        })
    }

    /// Counts a call that was answered at this time.
    pub(crate) fn note(&self, call: &EndedCall, now: Instant) {
        add(&self.calls, 1);
        add(&self.errors, u64::from(call.verdict != Verdict::Status(0)));
        add(&self.received_bytes, call.received);
        add(&self.sent_bytes, call.sent);
        self.last_at.set(Some(now));
        self.last.set(call.kind);
        if call.ns > self.slowest.get().1 {
            self.slowest.set((call.kind, call.ns));
        }
        if self.last_party.replace(Some(call.party)) != Some(call.party) {
            self.parties.borrow_mut().insert(call.party);
        }
    }

    fn copy(&self, number: u64, now: Instant) -> ConnectionCounts {
        let volumes = self.parties.borrow();
        let volumes = volumes.iter().filter_map(|party| party.checked_sub(parties::FIRST_VOLUME));
        let (kind, ns) = self.slowest.get();
        ConnectionCounts {
            number,
            client: self.client,
            volumes: volumes.collect(),
            age: now.since(self.begun),
            idle: self.last_at.get().map(|at| now.since(at)),
            calls: self.calls.get(),
            errors: self.errors.get(),
            received_bytes: self.received_bytes.get(),
            sent_bytes: self.sent_bytes.get(),
            last: self.last.get(),
            slowest: (kind, Duration::from_nanos(ns)),
        }
    }
}

/// Adds to a counter. It wraps around after 2^64, as a counter of Prometheus may.
pub(crate) fn add(cell: &Cell<u64>, amount: u64) {
    cell.set(cell.get().wrapping_add(amount));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(party: usize, kind: CallKind, verdict: Verdict, ns: u64) -> EndedCall {
        EndedCall { party, kind, verdict, ns, received: 100, sent: 200 }
    }

    const GETATTR: CallKind = CallKind::Nfs(nfs3::Procedure::Getattr);

    #[test]
    fn a_bucket_has_the_calls_within_its_bound_and_above_the_one_before() {
        let latencies = Latencies::default();
        for ns in [0, 50_000, 50_001, 10_000_000_000, 10_000_000_001, u64::MAX >> 1] {
            latencies.note(ns);
        }
        let buckets = latencies.buckets();
        assert_eq!((buckets[0], buckets[1], buckets[12], buckets[13]), (2, 1, 1, 2));
        assert_eq!(latencies.calls(), 6);
        assert!(LATENCY_BOUNDS_NS.is_sorted(), "a bucket is found by bisection");
    }

    #[test]
    fn a_call_is_counted_for_its_volume_by_procedure_and_status() {
        let cells = Cells::new(2);
        cells.note(&ended(3, GETATTR, Verdict::Status(70), 1_000));
        cells.note(&ended(3, GETATTR, Verdict::Status(0), 2_000));
        cells.note(&ended(0, GETATTR, Verdict::Status(13), 1));
        cells.note(&ended(1, GETATTR, Verdict::Status(13), 1));
        cells.note(&ended(1, CallKind::Mount(mount::Procedure::Mnt), Verdict::Status(0), 1));
        cells.note(&ended(1, GETATTR, Verdict::Rejected, 1));
        cells.note(&ended(1, CallKind::Unknown, Verdict::Status(0), 1));
        let copy = cells.copy();
        let [first, second] = &copy.volumes[..] else { panic!("two volumes") };
        let calls = |counts: &CallCounts| {
            counts.latencies().map(|(_, latencies)| latencies.calls()).sum::<u64>()
        };
        assert_eq!([first, second, &copy.no_volume].map(calls), [0, 2, 2]);
        assert_eq!((second.received_bytes(), second.sent_bytes()), (200, 400));
        let errors =
            |counts: &CallCounts| counts.errors().filter(|&(_, count)| count > 0).collect();
        let (of_second, of_none): (Vec<_>, Vec<_>) = (errors(second), errors(&copy.no_volume));
        assert_eq!(of_second, [(Status::Stale, 1)]);
        assert_eq!(of_none, [(Status::Access, 2)], "strangers and guests are one");
        assert_eq!((copy.mount[1], copy.rejected), (1, 2));
    }

    #[test]
    fn a_call_that_waits_is_counted_until_it_has_its_turn_or_is_given_up() {
        let cells = Cells::new(1);
        let (first, given_up) = (cells.wait(), cells.wait());
        assert_eq!((cells.copy().waiting, cells.copy().turn_waits), (2, 2));
        drop(given_up);
        first.end(5_000);
        let copy = cells.copy();
        assert_eq!((copy.waiting, copy.turn_waits, copy.turn_wait.as_nanos()), (0, 2, 5_000));
    }

    #[test]
    fn a_list_has_the_last_connections_and_the_number_of_all() {
        let cells = Cells::new(1);
        let client = "10.0.0.1".parse().expect("an address");
        for number in 1..=MAX_LISTED as u64 + 2 {
            cells.connect(number, ConnectionCells::new(client, Instant(number)));
        }
        cells.disconnect(MAX_LISTED as u64);
        let Connected { total, listed } = cells.connected(Instant(5_000));
        assert_eq!((total, listed.len()), (MAX_LISTED + 1, MAX_LISTED));
        let numbers: Vec<u64> = listed.iter().take(3).map(|one| one.number).collect();
        assert_eq!(numbers, [1_002, 1_001, 999], "the newest first");
        assert_eq!((listed[0].age.as_nanos(), listed[0].idle), (3_998, None));
    }

    #[test]
    fn a_connection_has_its_volumes_its_errors_and_its_slowest_call() {
        let cells = ConnectionCells::new("::1".parse().expect("an address"), Instant(10));
        let write = CallKind::Nfs(nfs3::Procedure::Write);
        cells.note(&ended(1, GETATTR, Verdict::Status(13), 10), Instant(20));
        cells.note(&ended(3, write, Verdict::Status(0), 30), Instant(60));
        cells.note(&ended(2, GETATTR, Verdict::Rejected, 20), Instant(90));
        let copy = cells.copy(7, Instant(100));
        assert_eq!((copy.volumes, copy.calls, copy.errors), (vec![0, 1], 3, 2));
        assert_eq!(copy.slowest, (write, Duration::from_nanos(30)));
        assert_eq!((copy.last, copy.idle), (GETATTR, Some(Duration::from_nanos(10))));
        assert_eq!((copy.received_bytes, copy.sent_bytes), (300, 600));
    }
}
