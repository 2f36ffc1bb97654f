//! Counters of soft updates since the volume was opened, for administrators.
//!
//! A write is one of a metadata block, or of a piece of payload. It is *sync* if a reply, a COMMIT
//! or a stop waits for it, and *async* if only memory pressure or age caused it. Payload written to
//! free memory counts as async, though the WRITE that needs the room may wait meanwhile.
//!
//! Counters are cells of the serving thread: reading them blocks no task.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::policy::SoftUpdatesCounts;

/// The counters behind [`SoftUpdatesCounts`].
#[derive(Default)]
pub(super) struct Counters {
    sync_writes: Cell<u64>,
    async_writes: Cell<u64>,
    flushes: Cell<u64>,
    rollbacks: Cell<u64>,
    cancelled: Cell<u64>,
    /// Updates in flight that a caller waits for.
    awaited: RefCell<BTreeSet<u64>>,
}

fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get() + more);
}

impl Counters {
    /// Notes that a caller waits for this Update; returns whether that is new.
    pub(super) fn note_awaited(&self, sequence: u64) -> bool {
        self.awaited.borrow_mut().insert(sequence)
    }

    /// Whether a caller waits for this Update.
    pub(super) fn is_awaited(&self, sequence: u64) -> bool {
        self.awaited.borrow().contains(&sequence)
    }

    /// Whether a caller waits for any Update.
    pub(super) fn has_awaited(&self) -> bool {
        !self.awaited.borrow().is_empty()
    }

    /// The Update is durable.
    pub(super) fn forget(&self, sequence: u64) {
        self.awaited.borrow_mut().remove(&sequence);
    }

    /// Writes of payload.
    pub(super) fn count_payload(&self, pieces: usize, is_awaited: bool) {
        let counter = if is_awaited { &self.sync_writes } else { &self.async_writes };
        add(counter, pieces as u64);
    }

    /// A metadata block is written; `is_rolled_back` if a change is undone in the copy.
    pub(super) fn count_write(&self, is_rolled_back: bool, is_awaited: bool) {
        add(if is_awaited { &self.sync_writes } else { &self.async_writes }, 1);
        add(&self.rollbacks, u64::from(is_rolled_back));
    }

    /// The disk was flushed.
    pub(super) fn count_flush(&self) {
        add(&self.flushes, 1);
    }

    /// Two changes that cancel each other were not made.
    pub(super) fn count_cancelled(&self) {
        add(&self.cancelled, 2);
    }

    /// The counters; the state of Updates in flight is not known here.
    pub(super) fn read(&self) -> SoftUpdatesCounts {
        SoftUpdatesCounts {
            sync_writes: self.sync_writes.get(),
            async_writes: self.async_writes.get(),
            flushes: self.flushes.get(),
            rollbacks: self.rollbacks.get(),
            cancelled: self.cancelled.get(),
            ..SoftUpdatesCounts::default()
        }
    }
}
