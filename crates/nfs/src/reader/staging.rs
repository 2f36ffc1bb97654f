//! The memory in which a connection's bytes arrive before the reader knows their kind.
//!
//! ```text
//!   0      record      kept       raw        end       capacity
//!   | free  | of the    | free (a  | not yet  | free     |
//!   |       | record    | mark was | looked   | (space)  |
//!   |       | in front  | here)    | at       |          |
//! ```
//!
//! Invariants:
//! 1. `record <= kept <= raw <= end <= capacity`.
//! 2. `record..kept` holds the first bytes of the current record, without marks.
//! 3. Each byte is moved at most twice: over the marks, when its record has several fragments, and
//!    to the start, when the room behind it is used up.
//!
//! Not asserted: 2, which only another copy of the bytes could show; 3, which is about the earlier
//! moves of a byte.

use crate::xdr::UNIT;

#[derive(Debug)]
pub(super) struct Staging {
    memory: Box<[u8]>,
    record: usize,
    kept: usize,
    raw: usize,
    end: usize,
}

impl Staging {
    pub(super) fn new(capacity: usize) -> Self {
        let memory = vec![0; capacity].into_boxed_slice();
        Self { memory, record: 0, kept: 0, raw: 0, end: 0 }
    }

    /// The longest record that can be staged as a whole: a partial mark may follow it.
    pub(super) fn longest_record(&self) -> usize {
        self.memory.len() - UNIT
    }

    /// The kept bytes of the current record.
    pub(super) fn record(&self) -> &[u8] {
        &self.memory[self.record..self.kept]
    }

    /// The bytes that the reader has not processed yet.
    pub(super) fn raw(&self) -> &[u8] {
        &self.memory[self.raw..self.end]
    }

    /// Takes a mark off the raw bytes, if it has arrived completely.
    pub(super) fn take_mark(&mut self) -> Option<u32> {
        let mark = *self.raw().first_chunk::<UNIT>()?;
        self.skip(UNIT);
        Some(u32::from_be_bytes(mark))
    }

    /// Adds the next `length` raw bytes to the current record.
    pub(super) fn keep(&mut self, length: usize) {
        assert!(length <= self.raw().len(), "only what has arrived can be kept");
        if self.kept < self.raw {
            self.memory.copy_within(self.raw..self.raw + length, self.kept);
        }
        self.kept += length;
        self.raw += length;
        self.check();
    }

    /// Drops the next `length` raw bytes.
    pub(super) fn skip(&mut self, length: usize) {
        assert!(length <= self.raw().len(), "only what has arrived can be dropped");
        self.raw += length;
        if self.record == self.kept {
            self.release_record(); // nothing to close up to: a first fragment is never moved
        }
        self.check();
    }

    /// Drops the current record.
    pub(super) fn release_record(&mut self) {
        if self.raw == self.end {
            (self.raw, self.end) = (0, 0);
        }
        (self.record, self.kept) = (self.raw, self.raw);
    }

    /// Room for at most `wanted` more bytes, and less only if there is no more. Empty only if a
    /// record as long as [`longest_record`](Self::longest_record) is staged and not released.
    pub(super) fn space(&mut self, wanted: usize) -> &mut [u8] {
        if self.memory.len() - self.end < wanted {
            self.close_up();
        }
        let end = self.memory.len().min(self.end + wanted);
        &mut self.memory[self.end..end]
    }

    /// Notes that `length` bytes have arrived in the [`space`](Self::space).
    pub(super) fn arrived(&mut self, length: usize) {
        assert!(length <= self.memory.len() - self.end, "a read is no longer than its target");
        self.end += length;
        self.check();
    }

    /// Moves everything to the start (invariant 3).
    fn close_up(&mut self) {
        if self.record == 0 && self.kept == self.raw {
            return;
        }
        self.memory.copy_within(self.record..self.kept, 0);
        self.kept -= self.record;
        self.record = 0;
        self.memory.copy_within(self.raw..self.end, self.kept);
        self.end -= self.raw - self.kept;
        self.raw = self.kept;
        self.check();
    }

    fn check(&self) {
        let places = [self.record, self.kept, self.raw, self.end, self.memory.len()];
        debug_assert!(places.is_sorted(), "invariant 1: {places:?} are in order");
    }
}
