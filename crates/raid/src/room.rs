//! Writes of members that find no room below, and wait for it.
//!
//! A member may be a file that grows, and its host be full: it is no dead disk. The write is tried
//! again until there is room; the log has what it holds. A member is put out for want of room only
//! if it refuses a range that was allocated before, for [`REFUSAL_LIMIT`], while all others take
//! their writes. Where the others refuse as well, the host of all is full.
//!
//! Invariants:
//! 1. A slot waits for room while one of its writes has been refused and not taken since.
//!
//! Not asserted: 1, which is what making and dropping a [`Refusal`] does.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use runtime::Instant;
use runtime::sync::Signal;

/// A member that alone refuses an allocated range for this long is out.
const REFUSAL_LIMIT: Duration = Duration::from_secs(30);

/// Refused writes of all members.
pub(crate) struct Refusals {
    /// How many writes wait, by slot.
    waiting: RefCell<Vec<usize>>,
    /// How many of them wait for what was never allocated.
    unallocated: Cell<usize>,
    /// Notified when a write begins to wait.
    begun: Signal,
}

/// A write of a member that waits for room.
pub(crate) struct Refusal<'r> {
    all: &'r Refusals,
    slot: usize,
    was_allocated: bool,
    /// Since when the member has been the only one to refuse.
    alone_since: Cell<Instant>,
}

impl Refusals {
    pub(crate) fn new(members: usize) -> Self {
        let waiting = RefCell::new(vec![0; members]);
        Self { waiting, unallocated: Cell::new(0), begun: Signal::new() }
    }

    /// A write of this slot is refused, until the answer is dropped.
    pub(crate) fn begin(&self, slot: usize, was_allocated: bool, now: Instant) -> Refusal<'_> {
        self.waiting.borrow_mut()[slot] += 1;
        self.unallocated.set(self.unallocated.get() + usize::from(!was_allocated));
        self.begun.notify();
        Refusal { all: self, slot, was_allocated, alone_since: Cell::new(now) }
    }

    /// Whether all of them are of one member, and of what was allocated before.
    pub(crate) fn are_of_one(&self) -> bool {
        let waiting = self.waiting.borrow();
        self.unallocated.get() == 0 && waiting.iter().filter(|&&waiting| waiting > 0).count() == 1
    }

    /// Whether any member waits for room.
    pub(crate) fn is_any(&self) -> bool {
        self.waiting.borrow().iter().any(|&waiting| waiting > 0)
    }

    /// Whether this one does.
    pub(crate) fn is_of(&self, slot: usize) -> bool {
        self.waiting.borrow()[slot] > 0
    }

    /// Completes when a member waits for room.
    pub(crate) async fn any(&self) {
        while !self.is_any() {
            self.begun.wait().await;
        }
    }
}

impl Refusal<'_> {
    /// Whether another member waits for room as well.
    pub(crate) fn is_shared(&self) -> bool {
        let waiting = self.all.waiting.borrow();
        let mut others = waiting.iter().enumerate().filter(|(slot, _)| *slot != self.slot);
        others.any(|(_, &waiting)| waiting > 0)
    }

    /// The write was refused once more. Whether no other member has refused one for so long that
    /// the fault is this member's own.
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
