//! What a mechanical disk is made of.

use block::platters::{Platters, Zone};

use super::SECOND_NS;
use super::queue::Scheduler;
use crate::image::SECTOR_SIZE;

/// A disk with platters and an arm. An image that is smaller than the disk lies on its outermost
/// cylinders, as a partition would.
///
/// A read takes the command's overhead, the way of the arm (`a + b * sqrt(d) + c * d` through the
/// three figures given), the rest of a turn, and the passing of its sectors with a change of head
/// or cylinder between tracks; the bus runs beside that and ends no earlier. A write does the
/// same, its data ahead of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanical {
    /// The cylinders, the outermost first.
    pub zones: &'static [Zone],
    /// Surfaces, each with its head.
    pub heads: u32,
    /// Turns in a minute.
    pub rpm: u32,
    /// From a cylinder to the next, settling included.
    pub seek_single_ns: u64,
    /// The mean over all pairs of cylinders.
    pub seek_average_ns: u64,
    /// From the first cylinder to the last.
    pub seek_full_ns: u64,
    /// From a head to another on the same cylinder.
    pub head_switch_ns: u64,
    /// What each call costs before anything moves.
    pub command_ns: u64,
    /// The speed of the way to the host.
    pub bus_bytes_per_second: u64,
    /// Whether commands and the bus run beside the arm. Without, each waits for the other: a call
    /// is taken up when the one before is answered, and a write moves nothing until its data is
    /// in the controller.
    pub pipelined: bool,
    /// How calls that wait are ordered.
    pub scheduler: Scheduler,
    /// So many of the oldest calls does the scheduler choose among.
    pub queue_depth: usize,
    /// After a read the disk reads on into a buffer of so many bytes, until something else is to
    /// be done. There is one such buffer, and what does not go on in it empties it.
    pub read_ahead_bytes: u64,
    /// Plain writes are answered when they are in a volatile cache of so many bytes, and written
    /// when there is nothing better to do, when room is needed, or for a flush.
    pub write_cache_bytes: u64,
}

impl Mechanical {
    /// Its size in bytes.
    pub fn capacity(&self) -> u64 {
        self.platters().sectors() * SECTOR_SIZE as u64
    }

    /// One turn.
    pub fn rotation_ns(&self) -> u64 {
        60 * SECOND_NS / u64::from(self.rpm)
    }

    /// Where its sectors lie.
    pub fn platters(&self) -> Platters {
        Platters {
            zones: self.zones,
            heads: self.heads.into(),
            rotation_ns: self.rotation_ns(),
            head_switch_ns: self.head_switch_ns,
            seek_ns: [self.seek_single_ns, self.seek_average_ns, self.seek_full_ns],
            bus_bytes_per_second: self.bus_bytes_per_second,
            are_turns_known: !self.pipelined && self.write_cache_bytes == 0,
            first: 0,
        }
    }
}
