//! What soft updates have done since the volume was opened, for whoever looks after it.
//!
//! A write is one of a block of metadata, or of a piece of payload. It is *sync* if a reply, a
//! COMMIT or a stop waits for it, and *async* if memory or age alone wanted it. Payload that left
//! memory to make room counts as async, though the WRITE that needs the room may wait meanwhile.
//!
//! Counters are cells of the thread that serves: to read them holds up nobody.

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
    /// Updates in flight that somebody waits for.
    awaited: RefCell<BTreeSet<u64>>,
}

fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get() + more);
}

impl Counters {
    /// Somebody waits for this one; whether that is new.
    pub(super) fn note_awaited(&self, sequence: u64) -> bool {
        self.awaited.borrow_mut().insert(sequence)
    }

    /// Whether somebody waits for this one.
    pub(super) fn is_awaited(&self, sequence: u64) -> bool {
        self.awaited.borrow().contains(&sequence)
    }

    /// Whether somebody waits for any.
    pub(super) fn has_awaited(&self) -> bool {
        !self.awaited.borrow().is_empty()
    }

    /// This one is durable.
    pub(super) fn forget(&self, sequence: u64) {
        self.awaited.borrow_mut().remove(&sequence);
    }

    /// Writes of payload.
    pub(super) fn count_payload(&self, pieces: usize, is_awaited: bool) {
        let counter = if is_awaited { &self.sync_writes } else { &self.async_writes };
        add(counter, pieces as u64);
    }

    /// A block of metadata is written; whether something is undone in the copy.
    pub(super) fn count_write(&self, is_rolled_back: bool, is_awaited: bool) {
        add(if is_awaited { &self.sync_writes } else { &self.async_writes }, 1);
        add(&self.rollbacks, u64::from(is_rolled_back));
    }

    /// The disk was flushed.
    pub(super) fn count_flush(&self) {
        add(&self.flushes, 1);
    }

    /// Two changes that take each other back were not made.
    pub(super) fn count_cancelled(&self) {
        add(&self.cancelled, 2);
    }

    /// What they say; what is in flight is not known here.
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
