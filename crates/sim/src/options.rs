//! What kind of disk it is.

use crate::timing::Kind;
use crate::{Honesty, Prng, SECTOR_SIZE, Timing};

/// How long the verbs take when chance decides: from the first to the second number, and more
/// with the length.
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

impl Latency {
    /// How long a call takes.
    pub(crate) fn draw(&self, kind: Kind, length: u64, prng: &mut Prng) -> u64 {
        let (low_ns, high_ns) = match kind {
            Kind::Read => self.read_ns,
            Kind::Write | Kind::Discard => self.write_ns,
            Kind::Through => self.through_ns,
            Kind::Flush => self.flush_ns,
        };
        let transfer_ns = length.saturating_mul(self.byte_ps) / 1000;
        prng.between(low_ns, high_ns).saturating_add(transfer_ns)
    }
}

/// What kind of disk it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long everything takes.
    pub timing: Timing,
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
            timing: Timing::default(),
            honesty: Honesty::Honest,
            logical_sector_size: SECTOR_SIZE as u32,
            physical_sector_size: 4096,
            read_only: false,
        }
    }
}
