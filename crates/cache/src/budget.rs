//! The budget: bytes of memory for everything that is kept of one volume.
//!
//! Blocks of metadata, what is kept beside them (files, names, data on its way) and what undoes
//! their changes come first; data that may be read again has what they leave. No task is refused
//! memory: one that takes some asks afterwards whether others should let go of theirs, and the
//! budget is exceeded by what cannot go.
//!
//! Invariants:
//! 1. The keeper of something counts it here for as long as it is kept, under one heading.
//! 2. Being short is told once until more is in use: looking for what may go costs a pass over all
//!    there is.
//!
//! Not asserted: 1, which is about the keepers: a [`Meter`] sees to it that no more is taken away
//! than was counted.

use std::cell::Cell;
use std::rc::Rc;

use crate::data::DataCache;
use crate::memory::Meter;

/// What is kept beside the blocks is mostly small pieces of memory, and such a part of them is
/// counted for the gaps between them. The allocator had 145 MiB of the kernel where 97 were in use,
/// among 2,000,000 files: the rest of that is in what the owner of the budget leaves of the memory,
/// with pieces that are not counted.
const PART_OF_GAPS: usize = 4;

/// See the module's prose.
pub struct Budget {
    /// For all but data.
    most: usize,
    /// Of blocks.
    blocks: Meter,
    /// Of evicted blocks, for the next ones.
    spare: Meter,
    /// Of what is kept beside the blocks and counts with them.
    beside: Meter,
    /// Of what undoes changes, and the most that this took: many small pieces, between which no
    /// block finds room when they are gone.
    deltas: Meter,
    /// Of the blocks those that cannot go before their changes are on the disk.
    pinned: Meter,
    most_deltas: Cell<usize>,
    /// Bytes in use at which some are to go: the budget, or more when less could not go last time.
    limit: Cell<usize>,
    /// The last time not enough could go (invariant 2).
    short: Cell<bool>,
    data: Rc<DataCache>,
}

impl Budget {
    /// `bytes` for everything, and for data if that is kept.
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

    /// Bytes that are meant to suffice for all but data.
    pub fn bytes(&self) -> usize {
        self.most
    }

    /// What is kept of files.
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

    /// Counts what is kept beside the blocks.
    pub fn beside(&self) -> &Meter {
        &self.beside
    }

    /// Counts what undoes changes of blocks.
    pub fn deltas(&self) -> &Meter {
        &self.deltas
    }

    /// Counts blocks that pending changes pin. They are counted as blocks, too.
    pub fn pinned(&self) -> &Meter {
        &self.pinned
    }

    /// Bytes in use, but for data.
    pub fn in_use(&self) -> usize {
        let deltas = self.deltas.bytes().max(self.most_deltas.get());
        let beside = self.beside.bytes();
        self.blocks.bytes() + beside + beside / PART_OF_GAPS + deltas
    }

    /// Whether a block that is read now pushes out another soon.
    pub fn is_under_pressure(&self) -> bool {
        self.in_use() > self.most / 4 * 3
    }

    /// Whether more is in use than should be, and it is time for others to let go of something.
    pub fn is_short(&self) -> bool {
        self.short.get() || self.is_exceeded()
    }

    /// Whether some of what is in use is to go.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.in_use() > self.limit.get()
    }

    /// Whether enough went, so that nothing more is to go for a while.
    pub(crate) fn has_enough_gone(&self) -> bool {
        self.in_use() <= self.most / 8 * 7
    }

    /// What could go has gone.
    pub(crate) fn settle(&self) {
        let further = self.in_use() + self.most / 64;
        self.limit.set(further.max(self.most));
        self.short.set(self.in_use() > self.most && !self.short.get());
        assert!(!self.is_exceeded(), "invariant 2: nobody looks again before more is in use");
    }

    /// Bytes that are left.
    pub(crate) fn room(&self) -> usize {
        self.most.saturating_sub(self.in_use())
    }

    pub(crate) fn note_deltas(&self) {
        self.most_deltas.set(self.most_deltas.get().max(self.deltas.bytes()));
    }

    /// Holds what is kept of files to the memory that everything else leaves.
    pub fn bound_data(&self) {
        self.data.leave(self.in_use() + self.spare.bytes());
    }
}
