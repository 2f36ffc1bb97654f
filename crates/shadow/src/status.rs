//! How a volume is doing that is open, as it tells of itself.

use crate::engine::Shadow;
use crate::renewed::Renewed;

/// What it is doing, and has done since it was opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Status {
    /// The last update that is durable.
    pub update: u64,
    /// How many changes became durable with one update.
    pub calls_per_update: f64,
    /// Flushes, and writes that were through.
    pub barriers: u64,
    /// Updates of which the blocks had to be flushed before the superblock was written.
    pub split_updates: u64,
    /// Bytes of metadata that were written, superblocks and anchors among them.
    pub metadata_bytes: u64,
    /// Bytes of data of files that were written.
    pub data_bytes: u64,
    /// Bytes of the blocks of the space log that count.
    pub space_log_bytes: u64,
    /// In how many pieces is what is free.
    pub free_runs: u64,
    /// Bytes that were moved so that whole zones are free.
    pub compacted_bytes: u64,
    /// How many snapshots there are, those that are being deleted among them.
    pub snapshots: u64,
    /// What was damaged of the engine's own books since it was opened, and was written anew.
    pub renewed: Renewed,
}

impl Shadow {
    /// How it is doing.
    pub fn status(&self) -> Status {
        let counts = self.counts();
        Status {
            update: self.commits.superblock.borrow().durable,
            calls_per_update: counts.changes as f64 / counts.updates.max(1) as f64,
            barriers: counts.barriers,
            split_updates: counts.split_updates,
            metadata_bytes: counts.metadata_bytes,
            data_bytes: counts.data_bytes,
            space_log_bytes: self.commits.log.borrow().bytes(),
            free_runs: self.space.free_runs(),
            compacted_bytes: self.compaction.moved_bytes.get(),
            snapshots: self.pins.count(),
            renewed: self.commits.renewed.get(),
        }
    }
    /// Places for blocks that were looked at, by where the arm of the disk would be.
    pub fn places_looked_at(&self) -> u64 {
        self.space.placement().map_or(0, |placement| placement.looked())
    }
}
