//! Member writes that failed for lack of space, and wait for it.
//!
//! A member may be a growing file on a host that is full: the disk is not dead. The write is
//! retried until there is space; the log holds its data. A member is put out for lack of space only
//! if it refuses a range that was allocated before, for [`REFUSAL_LIMIT`], while all other members
//! take their writes. If others refuse as well, the host that they share is full.
//!
//! Invariants:
//! 1. A slot waits for space while one of its writes has been refused and not taken since.
//!
//! Not asserted: 1, which creating and dropping a [`Refusal`] maintains.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use runtime::Instant;
use runtime::sync::Signal;

/// A member that alone refuses an allocated range for this long is put out.
const REFUSAL_LIMIT: Duration = Duration::from_secs(30);

/// Refused writes of all members.
pub(crate) struct Refusals {
    /// Number of waiting writes, by slot.
    waiting: RefCell<Vec<usize>>,
    /// Number of those that go to a range that was never allocated.
    unallocated: Cell<usize>,
    /// Notified when a write starts to wait.
    begun: Signal,
}

/// A member's write that waits for space.
pub(crate) struct Refusal<'r> {
    all: &'r Refusals,
    slot: usize,
    was_allocated: bool,
    /// Start of the time during which this member has been the only one to refuse.
    alone_since: Cell<Instant>,
}

impl Refusals {
    pub(crate) fn new(members: usize) -> Self {
        let waiting = RefCell::new(vec![0; members]);
        Self { waiting, unallocated: Cell::new(0), begun: Signal::new() }
    }

    /// Registers a refused write of a slot, until the result is dropped.
    pub(crate) fn begin(&self, slot: usize, was_allocated: bool, now: Instant) -> Refusal<'_> {
        self.waiting.borrow_mut()[slot] += 1;
        self.unallocated.set(self.unallocated.get() + usize::from(!was_allocated));
        self.begun.notify();
        Refusal { all: self, slot, was_allocated, alone_since: Cell::new(now) }
    }

    /// Whether all waiting writes are of one member and go to ranges that were allocated before.
    pub(crate) fn are_of_one(&self) -> bool {
        let waiting = self.waiting.borrow();
        self.unallocated.get() == 0 && waiting.iter().filter(|&&waiting| waiting > 0).count() == 1
    }

    /// Whether any member waits for space.
    pub(crate) fn is_any(&self) -> bool {
        self.waiting.borrow().iter().any(|&waiting| waiting > 0)
    }

    /// Whether the member of this slot waits for space.
    pub(crate) fn is_of(&self, slot: usize) -> bool {
        self.waiting.borrow()[slot] > 0
    }

    /// Completes when a member waits for space.
    pub(crate) async fn any(&self) {
        while !self.is_any() {
            self.begun.wait().await;
        }
    }
}

impl Refusal<'_> {
    /// Whether another member waits for space as well.
    pub(crate) fn is_shared(&self) -> bool {
        let waiting = self.all.waiting.borrow();
        let mut others = waiting.iter().enumerate().filter(|(slot, _)| *slot != self.slot);
        others.any(|(_, &waiting)| waiting > 0)
    }

    /// Records another refusal of the write. Returns whether no other member has refused one for so
    /// long that the fault is this member's own.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        if self.is_shared() {
            self.alone_since.set(now);
        }
        now.since(self.alone_since.get()) >= REFUSAL_LIMIT
    }
}

impl Drop for Refusal<'_> {
    fn drop(&mut self) {
        self.all.waiting.borrow_mut()[self.slot] -= 1;
        let unallocated = self.all.unallocated.get() - usize::from(!self.was_allocated);
        self.all.unallocated.set(unallocated);
    }
}
