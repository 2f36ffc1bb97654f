//! Statistics of an open volume.

use crate::engine::Shadow;
use crate::renewed::Renewed;

/// Statistics of a volume since it was opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Status {
    /// The last durable update.
    pub update: u64,
    /// Average number of changes in an update.
    pub calls_per_update: f64,
    /// Flushes, and write-through writes.
    pub barriers: u64,
    /// Updates whose blocks had to be flushed before the superblock was written.
    pub split_updates: u64,
    /// Bytes of metadata written, superblocks and anchors included.
    pub metadata_bytes: u64,
    /// Bytes of data of files written.
    pub data_bytes: u64,
    /// Bytes of the live blocks of the space log.
    pub space_log_bytes: u64,
    /// Number of pieces of the free space.
    pub free_runs: u64,
    /// Bytes that a compaction moved to free whole zones.
    pub compacted_bytes: u64,
    /// Number of snapshots, including those being deleted.
    pub snapshots: u64,
    /// Damaged blocks of the engine's own books, which were rewritten.
    pub renewed: Renewed,
}

impl Shadow {
    /// The volume's statistics.
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
    /// Number of places for blocks that were considered by the position of the disk's arm.
    pub fn places_looked_at(&self) -> u64 {
        self.space.placement().map_or(0, |placement| placement.looked())
    }
}
