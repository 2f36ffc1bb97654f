//! Random latencies of a disk.

use super::Kind;
use crate::prng::Prng;

/// Random latencies of the verbs: from the first to the second number, and more with the length.
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
    /// The latency of a call.
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
