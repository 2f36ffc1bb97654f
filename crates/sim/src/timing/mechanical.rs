//! The parameters of a mechanical disk.

use block::platters::{Platters, Zone};

use super::SECOND_NS;
use super::queue::Scheduler;
use crate::image::SECTOR_SIZE;

/// A disk with platters and an arm. An image that is smaller than the disk occupies its outermost
/// cylinders, as a partition would.
///
/// A read takes the command's overhead, the seek of the arm (`a + b * sqrt(d) + c * d` through the
/// three figures given), the rotational delay, and the passing of its sectors with a change of head
/// or cylinder between tracks; the bus runs in parallel with that and ends no earlier. A write does
/// the same, its data ahead of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanical {
    /// The cylinders, the outermost first.
    pub zones: &'static [Zone],
    /// Surfaces, each with its head.
    pub heads: u32,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Seek to the next cylinder, settling included.
    pub seek_single_ns: u64,
    /// The mean seek over all pairs of cylinders.
    pub seek_average_ns: u64,
    /// Seek from the first cylinder to the last.
    pub seek_full_ns: u64,
    /// Switch to another head on the same cylinder.
    pub head_switch_ns: u64,
    /// The overhead of each call before any motion.
    pub command_ns: u64,
    /// The speed of the bus to the host.
    pub bus_bytes_per_second: u64,
    /// Whether commands and the bus run in parallel with the arm. If not, each waits for the other:
    /// a call starts when the one before is answered, and the arm does not move for a write until
    /// its data is in the controller.
    pub pipelined: bool,
    /// The order of waiting calls.
    pub scheduler: Scheduler,
    /// The number of oldest calls among which the scheduler chooses.
    pub queue_depth: usize,
    /// After a read the disk reads ahead into a buffer of this size, until it has other work. There
    /// is one such buffer, and a read that does not continue it empties it.
    pub read_ahead_bytes: u64,
    /// Plain writes are answered once they are in a volatile cache of this size, and written when
    /// the disk is idle, when room is needed, or for a flush.
    pub write_cache_bytes: u64,
}

impl Mechanical {
    /// The size in bytes.
    pub fn capacity(&self) -> u64 {
        self.platters().sectors() * SECTOR_SIZE as u64
    }

    /// The time of one revolution.
    pub fn rotation_ns(&self) -> u64 {
        60 * SECOND_NS / u64::from(self.rpm)
    }

    /// The layout of its sectors.
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
