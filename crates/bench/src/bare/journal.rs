//! Group commit of the bare server: a log that many calls write together.
//!
//! A call that changes something durably adds a record, and its payload if it has one. All waiting
//! changes are a *group*: one write of whole blocks and one flush make them durable. Changes that
//! arrive meanwhile are the next group. The first call of a group writes it as soon as the group
//! before has ended, so a call that is alone waits for no other.
//!
//! The log is never read again, and groups wrap around in the last part of the device. A real
//! server must write data that it needs once more, elsewhere, before it is overwritten here; no
//! honest server can do with less than this.
//!
//! # Invariants
//! 1. A change succeeds when the device was flushed after the write of its group had ended: this is
//!    its commit point.
//! 2. One group at a time is on its way to the device. Each begins where the one before has ended,
//!    or at the start of the region.
//! 3. No byte before the region is written.
//! 4. When a write or a flush has failed, its group fails, and every later one: see `medium`.
//!
//! Not asserted: 1 and 4, which are about the results of calls: a medium of the tests counts; 2,
//! which a lock keeps.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use block::Buffer;
use bytes::Bytes;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::executor::block_on;
use futures::future::Shared;
use tokio::task::spawn_blocking;

use super::lock;
use super::medium::Device;

/// Bytes of a record without its payload: about the size of a name, a handle and the attributes of
/// a file and of its directory.
const RECORD: usize = 256;

/// Granularity of a group's size; every device takes such writes without reading first.
const BLOCK: usize = 4 << 10;

/// Alignment of the region's begin and end.
const UNIT: u64 = 1 << 20;

/// Maximum units of the region: a call of the largest size on each connection is a group.
const UNITS: u64 = 64;

/// On a small device the region is one part in this many.
const PART: u64 = 8;

/// The journal.
pub(super) struct Journal {
    device: Arc<Device>,
    region: Range<u64>,
    /// The group that calls join, if one is waiting.
    open: Mutex<Option<Group>>,
    /// State of the log. The call that holds the lock writes a group.
    log: Mutex<Log>,
}

/// Completes when a group has ended, with an error if it failed.
type Ended = Shared<oneshot::Receiver<()>>;

struct Group {
    payloads: Vec<Vec<Bytes>>,
    end: oneshot::Sender<()>,
    ended: Ended,
}

struct Log {
    /// Offset of the next group.
    next: u64,
    /// Number of records written.
    records: u64,
}

/// A change that is not durable yet. Its holder must wait for it, because others may wait for the
/// holder.
#[must_use]
pub(super) struct Change {
    journal: Arc<Journal>,
    ended: Ended,
    is_first: bool,
}

impl Journal {
    /// A journal in the last part of a device.
    pub(super) fn new(device: Arc<Device>) -> Journal {
        let units = device.size() / UNIT;
        let first = units - (units / PART).min(UNITS);
        let region = first * UNIT..units * UNIT;
        let log = Log { next: region.start, records: 0 };
        Journal { device, region, open: Mutex::default(), log: Mutex::new(log) }
    }

    /// Bytes of the device in front of the region, for other uses.
    pub(super) fn start(&self) -> u64 {
        self.region.start
    }

    /// Adds a change to the group that is written next.
    pub(super) fn enter(self: &Arc<Self>, payload: Vec<Bytes>) -> Change {
        let mut open = lock(&self.open);
        let is_first = open.is_none();
        let group = open.get_or_insert_with(Group::new);
        group.payloads.push(payload);
        Change { journal: self.clone(), ended: group.ended.clone(), is_first }
    }

    /// Writes the waiting group; its first change calls this.
    fn write_group(&self) {
        let mut log = lock(&self.log); // invariant 2
        let Some(group) = lock(&self.open).take() else { return };
        let written = self.write(&mut log, &group.payloads);
        drop(log); // the next group is written while these are answered
        if written.is_ok() {
            let _ = group.end.send(()); // invariant 1
        }
    }

    fn write(&self, log: &mut Log, payloads: &[Vec<Bytes>]) -> io::Result<()> {
        let group = log.lay_out(payloads).freeze();
        let end = |start: u64| start + group.len() as u64;
        let mut starts = [log.next, self.region.start].into_iter();
        let start = starts.find(|&start| end(start) <= self.region.end); // invariant 3
        let start = start.ok_or(ErrorKind::StorageFull)?;
        let is_within = self.region.start <= start && end(start) <= self.region.end;
        assert!(is_within, "invariant 3: a group stays in the region");
        log.next = end(start);
        self.device.write(start, &[group])?;
        self.device.flush()
    }
}

impl Group {
    fn new() -> Group {
        let (end, ended) = oneshot::channel();
        Group { payloads: Vec::new(), end, ended: ended.shared() }
    }
}

impl Log {
    /// The blocks of a group: numbered records, each followed by its payload.
    fn lay_out(&mut self, payloads: &[Vec<Bytes>]) -> Buffer {
        let payload: usize = payloads.iter().flatten().map(Bytes::len).sum();
        let length = payloads.len() * RECORD + payload;
        let mut buffer = Buffer::unfilled(length.next_multiple_of(BLOCK));
        let mut rest = &mut buffer[..];
        for payload in payloads {
            let (record, behind) = rest.split_at_mut(RECORD);
            record.fill(0);
            record[..8].copy_from_slice(&self.records.to_le_bytes());
            self.records += 1;
            rest = behind;
            for piece in payload {
                let (data, behind) = rest.split_at_mut(piece.len());
                data.copy_from_slice(piece);
                rest = behind;
            }
        }
        rest.fill(0);
        buffer
    }
}

impl Change {
    /// Waits in this thread until it is durable, and writes its group if it is the first.
    pub(super) fn wait(self) -> io::Result<()> {
        if self.is_first {
            self.journal.write_group();
        }
        block_on(self.ended).map_err(|_| ErrorKind::BrokenPipe.into())
    }

    /// The same for a task, which lets others go on.
    pub(super) async fn settled(self) -> io::Result<()> {
        if self.is_first {
            spawn_blocking(move || self.journal.write_group());
        }
        self.ended.await.map_err(|_| ErrorKind::BrokenPipe.into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::medium::Medium;
    use super::*;

    /// Counts what it is asked for, and fails at a flush.
    #[derive(Clone, Default)]
    struct Counting {
        writes: Arc<Mutex<Vec<(u64, Bytes)>>>,
        flushes: Arc<Mutex<usize>>,
        fails_at: Option<usize>,
    }

    impl Medium for Counting {
        fn size(&self) -> u64 {
            9 * UNIT
        }

        fn read(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            Err(ErrorKind::Unsupported.into())
        }

        fn write(&self, offset: u64, blocks: &[Bytes]) -> io::Result<()> {
            lock(&self.writes).push((offset, blocks.concat().into()));
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            let mut flushes = lock(&self.flushes);
            assert!(lock(&self.writes).len() > *flushes, "there is a write before each");
            *flushes += 1;
            if self.fails_at == Some(*flushes) { Err(io::Error::other("no")) } else { Ok(()) }
        }
    }

    fn journal(fails_at: Option<usize>) -> (Counting, Arc<Journal>) {
        let medium = Counting { fails_at, ..Default::default() };
        let device = Arc::new(Device::new(Box::new(medium.clone())));
        (medium, Arc::new(Journal::new(device)))
    }

    fn has_ended(change: &Change) -> bool {
        change.ended.clone().now_or_never().is_some()
    }

    #[test]
    fn those_that_wait_share_a_write_and_a_flush() {
        let (medium, journal) = journal(None);
        let changes: Vec<_> =
            (0..32).map(|number| journal.enter(vec![vec![number; 300].into()])).collect();
        assert!(!changes.iter().any(has_ended), "nothing was written");
        assert_eq!(changes.iter().filter(|change| change.is_first).count(), 1);
        for (number, change) in changes.into_iter().enumerate() {
            assert_eq!(has_ended(&change), number > 0, "when the first has waited");
            change.wait().expect("it is durable");
        }
        assert_eq!(*lock(&medium.flushes), 1);
        let writes = lock(&medium.writes);
        let [(8_388_608, group)] = &writes[..] else { panic!("one write, behind the store") };
        assert_eq!(group.len(), (32 * (RECORD + 300)).next_multiple_of(BLOCK));
        for number in 0..32 {
            let record = &group[number * (RECORD + 300)..][..RECORD + 300];
            assert_eq!(record[..8], (number as u64).to_le_bytes());
            assert_eq!(record[RECORD..], [number as u8; 300]);
        }
    }

    #[test]
    fn what_comes_during_a_flush_waits_for_another() {
        let (medium, journal) = journal(None);
        let early = journal.enter(Vec::new());
        let held = lock(&medium.flushes);
        let (early, later) = std::thread::scope(|scope| {
            let early = scope.spawn(|| early.wait());
            while lock(&medium.writes).is_empty() {
                std::thread::yield_now();
            }
            let later = [journal.enter(Vec::new()), journal.enter(Vec::new())];
            drop(held);
            (early.join().expect("it does not panic"), later)
        });
        early.expect("it is durable");
        assert!(!later.iter().any(has_ended), "they came too late");
        assert!(later[0].is_first && !later[1].is_first);
        later.into_iter().for_each(|change| change.wait().expect("it is durable"));
        assert_eq!(*lock(&medium.flushes), 2);
    }

    #[test]
    fn groups_go_round_and_stay_in_the_region() {
        let (medium, journal) = journal(None);
        let payload = vec![Bytes::from(vec![7; 100 << 10])];
        for _ in 0..25 {
            journal.enter(payload.clone()).wait().expect("it is durable");
        }
        assert!(journal.enter(vec![vec![7; 1 << 20].into()]).wait().is_err(), "more than there is");
        journal.enter(payload).wait().expect("others may go on");
        let mut next = 8 * UNIT;
        for (offset, group) in lock(&medium.writes).iter() {
            let end = next + group.len() as u64;
            assert_eq!(*offset, if end > 9 * UNIT { 8 * UNIT } else { next });
            next = *offset + group.len() as u64;
            assert!(group.len().is_multiple_of(BLOCK) && next <= 9 * UNIT);
        }
    }

    #[test]
    fn after_a_failure_nothing_succeeds() {
        let (medium, journal) = journal(Some(2));
        journal.enter(Vec::new()).wait().expect("it is durable");
        let group = [journal.enter(Vec::new()), journal.enter(Vec::new())];
        group.into_iter().for_each(|change| assert!(change.wait().is_err()));
        assert!(journal.enter(Vec::new()).wait().is_err());
        assert_eq!(*lock(&medium.flushes), 2, "it is not asked again");
    }
}
