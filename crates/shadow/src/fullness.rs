//! The fullness that a volume reports. Its own reserves do not count, so its size stays the same
//! whatever it holds.
//!
//! Invariants:
//! 1. Free space and the space of files add up to the size at most.
//! 2. Free space has room: it is no more than the units that no block takes, less the reserves.
//!
//! Not asserted: 2, which is tested by filling a volume.

use cow::{FAN, INODES, UNIT};
use vfs::FsStat;

use crate::commit::Commits;
use crate::engine::Shadow;
use crate::format::MAPPED;
use crate::format::anchor::Shape;
use crate::format::superblock::MOST_RESERVE;
use crate::room::{Recorded, TWINS, kept, ring};
use crate::space::pool;
use crate::space_log;
use cow::floor::LAST_INO;

/// Units of metadata that exist whatever the files are, at most: the map of space, the blocks that
/// lead to it, to replies and to the log, and the first inodes with the blocks that lead to them,
/// twice.
fn fixed(shape: &Shape) -> u64 {
    let leaves = shape.units.div_ceil(MAPPED);
    let above = [leaves, ring(shape), space_log::ring(shape)].map(|leaves| leaves.div_ceil(FAN));
    let above: u64 = above.into_iter().sum();
    leaves + above + 2 * above.div_ceil(FAN) + 4 + TWINS
}

/// These units, less the reserves.
fn beside_kept(shape: &Shape, units: u64, recorded: Recorded) -> u64 {
    units.saturating_sub(kept(shape, recorded) + pool(shape))
}

/// Total units for files.
pub(crate) fn for_files(shape: &Shape) -> u64 {
    beside_kept(shape, shape.capacity(), Recorded::default()).saturating_sub(fixed(shape))
}

/// Upper bound of the number of files, however many have room: `free_files` falls by one with each
/// file.
pub(crate) fn most_files(shape: &Shape) -> u64 {
    (for_files(shape) * INODES).min(LAST_INO)
}

/// Free units for files, on a volume with this many free units, of which files have `used`.
pub(crate) fn free_for_files(shape: &Shape, (free, recorded): (u64, Recorded), used: u64) -> u64 {
    let most = for_files(shape).saturating_sub(used);
    beside_kept(shape, free, recorded).min(most)
}

/// Units that only root may fill, at this percentage of the units for files. 0 if it is out of
/// range.
pub(crate) fn reserved(shape: &Shape, percent: u8) -> u64 {
    match percent {
        1..=MOST_RESERVE => for_files(shape) * u64::from(percent) / 100,
        _ => 0,
    }
}

impl Commits {
    /// Units that only root may fill.
    pub(crate) fn reserved(&self) -> u64 {
        reserved(&self.shape, self.superblock.borrow().reserve)
    }
}

impl Shadow {
    /// Fullness for root, or for others. Orphans, and their space, count as free.
    pub(crate) fn fullness(&self, is_root: bool, (orphans, used): (u64, u64)) -> FsStat {
        let (shape, unit) = (&self.commits.shape, UNIT as u64);
        let free = self.space.free_units() + self.floor.leaving_units.get();
        let held = self.pins.keeps(self.commits.live.units.get() / self.per_block());
        let kept = kept(shape, self.commits.recorded()) + pool(shape) + held;
        let held = held + self.space.lost_to_data(kept);
        let free = free.saturating_sub(self.space.claimed() * self.per_block() + held);
        let (files, units) = (self.commits.live.files.get(), self.commits.live.units.get());
        let free = free_for_files(shape, (free, self.commits.recorded()), units);
        let (total_bytes, free_bytes) = (for_files(shape) * unit, free * unit + used);
        let total_files = most_files(shape);
        let free_files = total_files.saturating_sub(files) + orphans;
        let reserved = if is_root { 0 } else { self.commits.reserved() * unit };
        assert!(free_bytes <= total_bytes, "invariant 1: {free_bytes} of {total_bytes}");
        FsStat {
            total_bytes,
            free_bytes,
            available_bytes: free_bytes.saturating_sub(reserved),
            total_files,
            free_files,
            available_files: free_files,
        }
    }
}
