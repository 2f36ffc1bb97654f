//! The latencies of disks: models of their parts, and of the queues of calls.
//!
//! A [`Timing`] is a description, and a [`Machine`] is one at work. A machine knows when calls were
//! accepted and decides when each is answered; it never sees their bytes. The effect of a call on
//! the medium, and the losses of a cut, are decided elsewhere, in the worst case for every machine:
//! so a wrong model of time cannot hide a mistake.
//!
//! # Layers
//! * [`block::platters`]: the arithmetic of arms and tracks.
//! * `drive`: an arm, a queue, a read-ahead buffer, a write cache.
//! * `flash` and `nvram`: no moving parts, and answers known as soon as a call arrives.
//! * [`presets`]: particular disks, and the sources of their numbers.
//!
//! Deliberately absent: drift. The only random value of a machine is the initial angle of its
//! spindle. All arithmetic is in whole nanoseconds, and in floating point only where IEEE 754 fixes
//! every bit (the square root of the seek curve), so that a seed means the same on every computer.

mod agenda;
mod drive;
mod flash;
mod latency;
mod mechanical;
mod nvram;
pub mod presets;
mod queue;
mod read_ahead;
mod write_cache;

pub use block::platters::Zone;
pub use flash::Flash;
pub use latency::Latency;
pub use mechanical::Mechanical;
pub use nvram::Nvram;
pub use queue::Scheduler;

use crate::prng::Prng;

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;

/// The latencies of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Random latencies, so that overlapping calls are answered in any order. Nothing queues: for
    /// finding mistakes, not for predicting speed.
    Random(Latency),
    /// Platters and an arm.
    Mechanical(Mechanical),
    /// Flash behind channels.
    Flash(Flash),
    /// Memory that survives a power loss. Its writes are durable when they are answered.
    Nvram(Nvram),
}

impl Default for Timing {
    fn default() -> Self {
        Timing::Random(Latency::default())
    }
}

impl Timing {
    /// The size in bytes, if the model of the disk defines one.
    pub fn capacity(&self) -> Option<u64> {
        match self {
            Timing::Mechanical(mechanical) => Some(mechanical.capacity()),
            Timing::Random(_) | Timing::Flash(_) | Timing::Nvram(_) => None,
        }
    }

    /// Whether every answered write is durable.
    pub(crate) fn is_stable(&self) -> bool {
        matches!(self, Timing::Nvram(_))
    }

    /// The machine; `None` when latencies are random.
    pub(crate) fn machine(&self, prng: &mut Prng) -> Option<Box<dyn Machine>> {
        match self {
            Timing::Random(_) => None,
            Timing::Mechanical(spec) => Some(Box::new(drive::Drive::new(*spec, prng))),
            Timing::Flash(flash) => Some(flash.machine()),
            Timing::Nvram(nvram) => Some(nvram.machine()),
        }
    }
}

/// The verb of a call, for its timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Through,
    Flush,
    Discard,
}

/// A machine's view of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Its number, which grows.
    pub(crate) ticket: u64,
    pub(crate) kind: Kind,
    /// In bytes.
    pub(crate) offset: u64,
    /// In bytes.
    pub(crate) length: u64,
}

/// A disk at work. It is asked again at every time that [`Machine::next_at`] has named.
pub(crate) trait Machine {
    /// Takes a call.
    fn submit(&mut self, now_ns: u64, request: Request);

    /// Does the due work, and returns the calls that it answers, the first one first.
    fn advance(&mut self, now_ns: u64) -> Vec<u64>;

    /// The time of the next event, if no further call arrives.
    fn next_at(&self) -> Option<u64>;

    /// Number of moves of an arm to another cylinder.
    fn seeks(&self) -> u64 {
        0
    }
}

/// The transfer time of this many bytes, rounded up: no transfer takes zero time.
fn duration_ns(bytes: u64, bytes_per_second: u64) -> u64 {
    let product = u128::from(bytes) * u128::from(SECOND_NS);
    product.div_ceil(u128::from(bytes_per_second)) as u64
}
