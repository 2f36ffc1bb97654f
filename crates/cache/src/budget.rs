//! The budget: bytes of memory for everything that is cached of one volume.
//!
//! Blocks of metadata, the memory beside them (files, names, data in flight) and the undo data of
//! their changes come first; cached file data has the rest. No task is refused memory: one that
//! takes some asks afterwards whether others should free theirs, and memory that cannot be freed
//! may exceed the budget.
//!
//! Invariants:
//! 1. The owner of some memory counts it here for as long as it is held, under one heading.
//! 2. A shortage is reported once until more is in use: searching for evictable memory costs a pass
//!    over everything.
//!
//! Not asserted: 1, which is about the owners: a [`Meter`] asserts that no more is subtracted than
//! was counted.

use std::cell::Cell;
use std::rc::Rc;

use crate::data::DataCache;
use crate::memory::Meter;

/// Memory beside the blocks is mostly small pieces, and this part of it is added for the gaps
/// between them. The allocator had 145 MiB of the kernel where 97 were in use, among 2,000,000
/// files: the rest of the gaps comes out of the memory that the owner of the budget leaves free,
/// with pieces that are not counted.
const PART_OF_GAPS: usize = 4;

/// See the module's prose.
pub struct Budget {
    /// For everything but data.
    most: usize,
    /// Memory of blocks.
    blocks: Meter,
    /// Memory of evicted blocks, for reuse.
    spare: Meter,
    /// Memory beside the blocks that counts with them.
    beside: Meter,
    /// Undo data of changes, and the most that it took: many small pieces, and no block fits into
    /// the gaps that they leave.
    deltas: Meter,
    /// Blocks that cannot be evicted before their changes are on the disk.
    pinned: Meter,
    most_deltas: Cell<usize>,
    /// Bytes in use that trigger eviction: the budget, or more when less could not go last time.
    limit: Cell<usize>,
    /// Whether too little could be evicted last time (invariant 2).
    short: Cell<bool>,
    data: Rc<DataCache>,
}

impl Budget {
    /// A budget of `bytes` for everything, including data if `keeps_data`.
    pub fn new(bytes: usize, block_size: u64, keeps_data: bool) -> Rc<Self> {
        let for_data = if keeps_data { bytes } else { 0 };
        let most = DataCache::rest_of(bytes);
        Rc::new(Self {
            most,
            blocks: Meter::default(),
            spare: Meter::default(),
            beside: Meter::default(),
            deltas: Meter::default(),
            pinned: Meter::default(),
            most_deltas: Cell::new(0),
            limit: Cell::new(most),
            short: Cell::new(false),
            data: Rc::new(DataCache::new(block_size, for_data)),
        })
    }

    /// Bytes meant for everything but data.
    pub fn bytes(&self) -> usize {
        self.most
    }

    /// Cached file data.
    pub fn data(&self) -> &Rc<DataCache> {
        &self.data
    }

    /// Counts blocks.
    pub fn blocks(&self) -> &Meter {
        &self.blocks
    }

    /// Counts memory that waits for the next blocks.
    pub(crate) fn spare(&self) -> &Meter {
        &self.spare
    }

    /// Counts memory beside the blocks.
    pub fn beside(&self) -> &Meter {
        &self.beside
    }

    /// Counts undo data of changes of blocks.
    pub fn deltas(&self) -> &Meter {
        &self.deltas
    }

    /// Counts blocks that pending changes pin. They are counted as blocks, too.
    pub fn pinned(&self) -> &Meter {
        &self.pinned
    }

    /// Bytes in use, without data.
    pub fn in_use(&self) -> usize {
        let deltas = self.deltas.bytes().max(self.most_deltas.get());
        let beside = self.beside.bytes();
        self.blocks.bytes() + beside + beside / PART_OF_GAPS + deltas
    }

    /// Whether a block that is read now soon pushes out another.
    pub fn is_under_pressure(&self) -> bool {
        self.in_use() > self.most / 4 * 3
    }

    /// Whether more is in use than should be, so that other owners should free memory now.
    pub fn is_short(&self) -> bool {
        self.short.get() || self.is_exceeded()
    }

    /// Whether blocks should be evicted.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.in_use() > self.limit.get()
    }

    /// Whether enough was evicted for now.
    pub(crate) fn has_enough_gone(&self) -> bool {
        self.in_use() <= self.most / 8 * 7
    }

    /// Called when everything that could be evicted is gone.
    pub(crate) fn settle(&self) {
        let further = self.in_use() + self.most / 64;
        self.limit.set(further.max(self.most));
        self.short.set(self.in_use() > self.most && !self.short.get());
        assert!(!self.is_exceeded(), "invariant 2: nobody looks again before more is in use");
    }

    /// Free bytes of the budget.
    pub(crate) fn room(&self) -> usize {
        self.most.saturating_sub(self.in_use())
    }

    pub(crate) fn note_deltas(&self) {
        self.most_deltas.set(self.most_deltas.get().max(self.deltas.bytes()));
    }

    /// Limits cached file data to the memory that everything else leaves.
    pub fn bound_data(&self) {
        self.data.leave(self.in_use() + self.spare.bytes());
    }
}
