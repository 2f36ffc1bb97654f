//! Throttle of a rebuild: leaves the members to clients for part of the time.
//!
//! A rebuild proceeds in batches. If a client called during a batch, the rebuild then rests as long
//! as that batch took: clients have the members to themselves half of the time and share them for
//! the other half. Without client calls the rebuild never rests, and batches overlap.
//!
//! Invariants:
//! 1. The number of client calls under way is the number of live [`Client`]s.
//!
//! Not asserted: 1, which creating and dropping a [`Client`] maintains.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use runtime::{Clock, Instant};

/// Upper bound of a rest: a batch may have waited for space rather than for the members.
const LONGEST: Duration = Duration::from_secs(1);

/// The throttle; see the module.
pub(crate) struct Pace {
    clock: Rc<dyn Clock>,
    /// Client calls under way.
    calls: Cell<usize>,
    /// Client calls since the set was opened.
    all: Cell<u64>,
}

/// A client call under way.
pub(crate) struct Client<'p>(&'p Pace);

/// A batch of rebuild work, with its start time.
pub(crate) struct Batch {
    begun: Instant,
    /// Client calls that had arrived when the batch began.
    before: u64,
}

impl Pace {
    pub(crate) fn new(clock: Rc<dyn Clock>) -> Self {
        Self { clock, calls: Cell::new(0), all: Cell::new(0) }
    }

    /// Counts a client call until the result is dropped.
    pub(crate) fn client(&self) -> Client<'_> {
        self.calls.set(self.calls.get() + 1);
        self.all.set(self.all.get() + 1);
        Client(self)
    }

    /// Begins a batch.
    pub(crate) fn begin(&self) -> Batch {
        Batch { begun: self.clock.now(), before: self.all.get() }
    }

    /// Whether clients have called since a batch began, or are calling now.
    pub(crate) fn is_shared(&self, batch: &Batch) -> bool {
        self.calls.get() > 0 || self.all.get() > batch.before
    }

    /// Rests after a finished batch, if clients called meanwhile.
    pub(crate) async fn rest(&self, batch: &Batch) {
        let took = self.clock.now().since(batch.begun);
        if self.is_shared(batch) && took > Duration::ZERO {
            self.clock.sleep(took.min(LONGEST)).await;
        }
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.0.calls.set(self.0.calls.get() - 1);
    }
}
