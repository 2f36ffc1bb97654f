//! What kind of disk it is, and what it was asked for.

use crate::{Honesty, SECTOR_SIZE};

/// How long the verbs take: from the first to the second number, and more with the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// A read, in nanoseconds.
    pub read_ns: (u64, u64),
    /// A plain write or a discard, in nanoseconds.
    pub write_ns: (u64, u64),
    /// A through write, in nanoseconds.
    pub through_ns: (u64, u64),
    /// A flush, in nanoseconds.
    pub flush_ns: (u64, u64),
    /// Every byte that is read or written, in picoseconds.
    pub byte_ps: u64,
}

impl Default for Latency {
    /// About a consumer's NVMe disk.
    fn default() -> Self {
        Self {
            read_ns: (60_000, 120_000),
            write_ns: (10_000, 40_000),
            through_ns: (50_000, 150_000),
            flush_ns: (80_000, 300_000),
            byte_ps: 500,
        }
    }
}

/// What kind of disk it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long everything takes.
    pub latency: Latency,
    /// Whether it does what it reports.
    pub honesty: Honesty,
    /// The unit of addressing, in bytes.
    pub logical_sector_size: u32,
    /// The unit that it claims to write at once, in bytes. Writes are torn at 512 all the same.
    pub physical_sector_size: u32,
    /// Whether it refuses writes.
    pub read_only: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            latency: Latency::default(),
            honesty: Honesty::Honest,
            logical_sector_size: SECTOR_SIZE as u32,
            physical_sector_size: 4096,
            read_only: false,
        }
    }
}

/// How often a disk was asked for what. Calls that were refused do not count, failed ones do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads.
    pub reads: u64,
    /// Writes of either durability.
    pub writes: u64,
    /// Those of the writes that were through.
    pub through_writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Bytes in the reads.
    pub bytes_read: u64,
    /// Bytes in the writes.
    pub bytes_written: u64,
}

impl Counters {
    /// What came since `earlier`.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            through_writes: self.through_writes - earlier.through_writes,
            flushes: self.flushes - earlier.flushes,
            discards: self.discards - earlier.discards,
            bytes_read: self.bytes_read - earlier.bytes_read,
            bytes_written: self.bytes_written - earlier.bytes_written,
        }
    }
}
