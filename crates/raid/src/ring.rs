//! A ring of records: where the next one goes, and which places are needed.
//!
//! Invariants:
//! 1. A record is overwritten only when one that is durable says that it is not needed.
//! 2. Behind each record there is room for an empty one, which says what is needed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::record::BLOCK;

/// A record that is, or may be, still needed.
struct Kept {
    sequence: u64,
    /// Range in the ring, in bytes.
    start: u64,
    length: u64,
}

/// The ring; see the module.
pub(crate) struct Ring {
    /// Its bytes.
    pub(crate) size: u64,
    /// Byte offset behind the last record.
    end: Cell<u64>,
    kept: RefCell<VecDeque<Kept>>,
}

/// The most bytes of a record in a ring of this size.
pub(crate) fn most_of_record(size: u64) -> u64 {
    size / 2
}

impl Ring {
    /// A ring of this size in which nothing is needed, and the offset behind its last record.
    pub(crate) fn new(size: u64, end: u64) -> Self {
        Self { size, end: Cell::new(end), kept: RefCell::default() }
    }

    /// Offset of a free range of this size, with room for an empty record behind it.
    pub(crate) fn place_for(&self, size: u64) -> Option<u64> {
        [self.end.get(), 0].into_iter().find(|&start| {
            let rest = self.rest_behind(start + size);
            let is_beside = rest >= start + size || rest + BLOCK <= start;
            self.is_free(start, size) && self.is_free(rest, BLOCK) && is_beside
        })
    }

    /// Offset of a record for which room was made, or of an empty one.
    pub(crate) fn place(&self, size: u64) -> u64 {
        let start = self.place_for(size).unwrap_or_else(|| self.rest());
        assert!(self.is_free(start, size), "invariant 1");
        start
    }

    /// Offset of the room for an empty record behind the last one (invariant 2).
    fn rest(&self) -> u64 {
        self.rest_behind(self.end.get())
    }

    fn rest_behind(&self, end: u64) -> u64 {
        if end + BLOCK <= self.size { end } else { 0 }
    }

    /// Whether no record needs this range of the ring.
    fn is_free(&self, start: u64, size: u64) -> bool {
        let beside = |kept: &Kept| start + size <= kept.start || kept.start + kept.length <= start;
        start + size <= self.size && self.kept.borrow().iter().all(beside)
    }

    /// Whether there is room for another empty record behind one that is written now, when records
    /// before `needed_from` are free.
    pub(crate) fn may_forget(&self, needed_from: u64) -> bool {
        let start = self.place_for(BLOCK).unwrap_or_else(|| self.rest());
        let next = self.rest_behind(start + BLOCK);
        let kept = self.kept.borrow();
        let mut needed = kept.iter().filter(|kept| kept.sequence >= needed_from);
        let is_beside =
            |kept: &Kept| next + BLOCK <= kept.start || kept.start + kept.length <= next;
        next != start && needed.all(is_beside)
    }

    /// Whether a record here may be needed.
    pub(crate) fn is_needed(&self) -> bool {
        !self.kept.borrow().is_empty()
    }

    /// Takes note of a record that is durable here.
    pub(crate) fn keep(&self, sequence: u64, start: u64, length: u64) {
        self.end.set(start + length);
        self.kept.borrow_mut().push_back(Kept { sequence, start, length });
    }

    /// Frees the records before this one: a durable record says that they are not needed.
    pub(crate) fn forget_before(&self, tail: u64) {
        self.kept.borrow_mut().retain(|kept| kept.sequence >= tail);
        assert!(self.is_free(self.rest(), BLOCK), "invariant 2");
    }
}
