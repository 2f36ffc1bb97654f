//! Counts of a disk's calls and of its time: exact, and readable at any moment.
//!
//! # Synchronous and asynchronous writes
//! The literature calls a write synchronous when a process slept until it was on the disk. A block
//! device sees no sleepers; it sees requests for durability. So the counter works like this: a
//! write is settled when durability is first requested for it, by being written through or by the
//! first flush that is issued after its completion. If a caller was waiting then, it is
//! *synchronous*; if none was, it is *asynchronous*. Until then it is neither.
//!
//! A caller that asks for durability is taken to wait for it. A background writer, which flushes
//! for no caller, is the exception, and only the experiment knows when one is running: it calls
//! [`crate::Disk::set_waited_for`]. One case cannot be detected: the same flush covers the writes
//! of two writers, one that waits and one that does not. Both count as synchronous then, for the
//! flush had to wait for both.

/// Number and size of a disk's calls. Refused calls do not count, failed ones do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads.
    pub reads: u64,
    /// Writes of either durability.
    pub writes: u64,
    /// Through writes among them.
    pub through_writes: u64,
    /// Writes that a caller waited for: see above.
    pub synchronous_writes: u64,
    /// Writes that became durable without a waiting caller: see above.
    pub asynchronous_writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Bytes in the reads.
    pub bytes_read: u64,
    /// Bytes in the writes.
    pub bytes_written: u64,
    /// Number of moves of an arm to another cylinder, for a call or to destage the cache.
    pub seeks: u64,
    /// Time with at least one call in flight, in nanoseconds.
    pub busy_ns: u64,
}

impl Counters {
    /// The difference to `earlier`.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            through_writes: self.through_writes - earlier.through_writes,
            synchronous_writes: self.synchronous_writes - earlier.synchronous_writes,
            asynchronous_writes: self.asynchronous_writes - earlier.asynchronous_writes,
            flushes: self.flushes - earlier.flushes,
            discards: self.discards - earlier.discards,
            bytes_read: self.bytes_read - earlier.bytes_read,
            bytes_written: self.bytes_written - earlier.bytes_written,
            seeks: self.seeks - earlier.seeks,
            busy_ns: self.busy_ns - earlier.busy_ns,
        }
    }
}

/// Keeps the counters of one disk.
#[derive(Debug)]
pub(crate) struct Meter {
    counters: Counters,
    waited_for: bool,
    /// Completed plain writes for which no caller has requested durability.
    unsettled: u64,
    in_flight: u64,
    busy_since_ns: u64,
}

impl Meter {
    pub(crate) fn new() -> Self {
        let counters = Counters::default();
        Self { counters, waited_for: true, unsettled: 0, in_flight: 0, busy_since_ns: 0 }
    }

    /// The current counters except the seeks, which the machine counts.
    pub(crate) fn counters(&self, now_ns: u64) -> Counters {
        let under_way_ns = if self.in_flight > 0 { now_ns - self.busy_since_ns } else { 0 };
        Counters { busy_ns: self.counters.busy_ns + under_way_ns, ..self.counters }
    }

    pub(crate) fn set_waited_for(&mut self, waited_for: bool) {
        self.waited_for = waited_for;
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(crate) fn begin(&mut self, now_ns: u64) {
        if self.in_flight == 0 {
            self.busy_since_ns = now_ns;
        }
        self.in_flight += 1;
    }

    pub(crate) fn end(&mut self, now_ns: u64) {
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.counters.busy_ns += now_ns - self.busy_since_ns;
        }
    }

    pub(crate) fn read(&mut self, bytes: u64) {
        self.counters.reads += 1;
        self.counters.bytes_read += bytes;
    }

    pub(crate) fn write(&mut self, bytes: u64, through: bool) {
        self.counters.writes += 1;
        self.counters.bytes_written += bytes;
        if through {
            self.counters.through_writes += 1;
            self.settle(1);
        }
    }

    /// A plain write was answered with success.
    pub(crate) fn plain_write_completed(&mut self) {
        self.unsettled += 1;
    }

    pub(crate) fn flush(&mut self) {
        self.counters.flushes += 1;
        let covered = std::mem::take(&mut self.unsettled);
        self.settle(covered);
    }

    pub(crate) fn discard(&mut self) {
        self.counters.discards += 1;
    }

    fn settle(&mut self, writes: u64) {
        if self.waited_for {
            self.counters.synchronous_writes += writes
        } else {
            self.counters.asynchronous_writes += writes
        }
    }
}
