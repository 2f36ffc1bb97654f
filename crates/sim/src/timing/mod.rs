//! How long a disk takes: what is inside of it, and which call has to wait for which.
//!
//! A [`Timing`] is a description, and a [`Machine`] is one at work. A machine knows when calls
//! were accepted and says when each is answered; it never sees a byte of theirs. What a call does
//! to the medium, and what a cut may leave of it, is decided elsewhere and taken at its worst for
//! every machine: a model may thus be wrong about time without hiding a mistake.
//!
//! # Layers
//! * [`block::platters`]: the arithmetic of arms and tracks.
//! * `drive`: an arm, a queue, a buffer that reads ahead, a write cache.
//! * `flash` and `nvram`: no moving parts, and answers known as soon as a call comes.
//! * [`presets`]: particular disks, and where each of their numbers comes from.
//!
//! Deliberately absent: drift. A machine's only chance is the angle of its spindle at the start.
//! All arithmetic is in whole nanoseconds, and in floating point only where IEEE 754 fixes every
//! bit (the square root of the seek curve), so that a seed means the same on every computer.

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

/// How long everything takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Latencies at random, so that calls that overlap are answered in any order. Nothing queues:
    /// for finding mistakes, not for predicting speed.
    Random(Latency),
    /// Platters and an arm.
    Mechanical(Mechanical),
    /// Flash behind channels.
    Flash(Flash),
    /// Memory that outlives the power. Its writes are durable when they are answered.
    Nvram(Nvram),
}

impl Default for Timing {
    fn default() -> Self {
        Timing::Random(Latency::default())
    }
}

impl Timing {
    /// The size in bytes of a disk that has one by its making.
    pub fn capacity(&self) -> Option<u64> {
        match self {
            Timing::Mechanical(mechanical) => Some(mechanical.capacity()),
            Timing::Random(_) | Timing::Flash(_) | Timing::Nvram(_) => None,
        }
    }

    /// Whether every write that is answered is durable.
    pub(crate) fn is_stable(&self) -> bool {
        matches!(self, Timing::Nvram(_))
    }

    /// What does it; `None` when latencies are random.
    pub(crate) fn machine(&self, prng: &mut Prng) -> Option<Box<dyn Machine>> {
        match self {
            Timing::Random(_) => None,
            Timing::Mechanical(spec) => Some(Box::new(drive::Drive::new(*spec, prng))),
            Timing::Flash(flash) => Some(flash.machine()),
            Timing::Nvram(nvram) => Some(nvram.machine()),
        }
    }
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Through,
    Flush,
    Discard,
}

/// A call, as a machine sees it.
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

    /// Does what is due, and says which calls are answered by it, the first one first.
    fn advance(&mut self, now_ns: u64) -> Vec<u64>;

    /// When something happens next, if no caller asks for anything more.
    fn next_at(&self) -> Option<u64>;

    /// How often an arm has set out for another cylinder.
    fn seeks(&self) -> u64 {
        0
    }
}

/// How long so many bytes take, rounded up: nothing is moved in no time.
fn duration_ns(bytes: u64, bytes_per_second: u64) -> u64 {
    let product = u128::from(bytes) * u128::from(SECOND_NS);
    product.div_ceil(u128::from(bytes_per_second)) as u64
}
