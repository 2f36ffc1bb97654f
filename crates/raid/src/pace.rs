//! How a member that is made again leaves the other members to clients.
//!
//! It is made in batches. Where a client called while one was under way, what comes next rests as
//! long as that took: so clients have the members to themselves half of the time, and share them
//! for the other half. Where nobody calls nothing rests, and a batch goes over into the next one.
//!
//! Invariants:
//! 1. As many calls are under way as there are [`Client`]s.
//!
//! Not asserted: 1, which is what making and dropping one does.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use runtime::{Clock, Instant};

/// Nothing rests longer: a batch may have waited for room, and not for the members.
const LONGEST: Duration = Duration::from_secs(1);

/// See the module's prose.
pub(crate) struct Pace {
    clock: Rc<dyn Clock>,
    /// Calls of clients that are under way.
    calls: Cell<usize>,
    /// Calls that ever came.
    all: Cell<u64>,
}

/// A call of a client that is under way.
pub(crate) struct Client<'p>(&'p Pace);

/// Work that began at once, some time ago.
pub(crate) struct Batch {
    begun: Instant,
    /// Calls of clients that had come by then.
    before: u64,
}

impl Pace {
    pub(crate) fn new(clock: Rc<dyn Clock>) -> Self {
        Self { clock, calls: Cell::new(0), all: Cell::new(0) }
    }

    /// A client calls, until this is dropped.
    pub(crate) fn client(&self) -> Client<'_> {
        self.calls.set(self.calls.get() + 1);
        self.all.set(self.all.get() + 1);
        Client(self)
    }

    /// A batch begins.
    pub(crate) fn begin(&self) -> Batch {
        Batch { begun: self.clock.now(), before: self.all.get() }
    }

    /// Whether clients have called since a batch began, or do now.
    pub(crate) fn is_shared(&self, batch: &Batch) -> bool {
        self.calls.get() > 0 || self.all.get() > batch.before
    }

    /// Completes when clients have had their part after a batch that has ended.
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
