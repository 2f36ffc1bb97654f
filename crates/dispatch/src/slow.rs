//! Log lines about slow calls, with the time that each has spent waiting and working.
//!
//! A call has times of its own only if a limit is set: without one it costs no look at the clock.
//! At most ten lines are logged in a minute, and the next minute begins with the number
//! of those that were left out.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use runtime::{Clock, Instant};

use crate::counts::CallKind;
use crate::reports::Period;

/// The limit, and the lines that were logged recently.
#[derive(Default)]
pub(crate) struct SlowCalls {
    limit: Cell<Option<Duration>>,
    /// Number of the last slow call.
    number: Cell<u64>,
    lines: RefCell<Period<u64>>,
}

/// Times of a call under way.
pub(crate) struct CallTimes {
    clock: Rc<dyn Clock>,
    arrived: Instant,
    /// When it had its memory and its turn.
    begun: Cell<Instant>,
    /// Time for which it has waited until changes were durable.
    durable_ns: Cell<u64>,
}

impl CallTimes {
    /// The call has its memory and its turn.
    pub(crate) fn begin(&self) {
        self.begun.set(self.clock.now());
    }

    /// Runs the wait for the durability of what a reply shows.
    pub(crate) async fn durable<T>(&self, wait: impl Future<Output = T>) -> T {
        let start = self.clock.now();
        let done = wait.await;
        let ns = self.clock.now().0.saturating_sub(start.0);
        self.durable_ns.set(self.durable_ns.get() + ns);
        done
    }
}

impl SlowCalls {
    /// Sets the limit.
    pub(crate) fn set_limit(&self, limit: Option<Duration>) {
        self.limit.set(limit);
    }

    /// Times for a call that has arrived, if there is a limit.
    pub(crate) fn times(&self, clock: &Rc<dyn Clock>, arrived: Instant) -> Option<Rc<CallTimes>> {
        self.limit.get()?;
        let (clock, begun) = (clock.clone(), Cell::new(arrived));
        Some(Rc::new(CallTimes { clock, arrived, begun, durable_ns: Cell::new(0) }))
    }

    /// Logs an answered call if it has taken longer than the limit.
    pub(crate) fn answered(
        &self,
        times: &CallTimes,
        now: Instant,
        kind: CallKind,
        client: IpAddr,
        volume: &str,
    ) {
        let total = now.since(times.arrived);
        if self.limit.get().is_none_or(|limit| total < limit) {
            return;
        }
        self.number.set(self.number.get() + 1);
        let more = |unreported| tracing::warn!(unreported, "more calls were slow");
        if !self.lines.borrow_mut().admits(now, self.number.get(), more) {
            return;
        }
        let waited = times.begun.get().since(times.arrived);
        let durable = Duration::from_nanos(times.durable_ns.get());
        let worked = total.saturating_sub(waited + durable);
        let [total_ms, waited_ms, worked_ms, durable_ms] =
            [total, waited, worked, durable].map(|time| time.as_millis());
        let procedure = kind.name();
        tracing::warn!(
            procedure,
            %client,
            volume,
            total_ms,
            waited_ms,
            worked_ms,
            durable_ms,
            "a slow call: waited for memory or its turn, worked, and waited for the disk until \
             changes were durable"
        );
    }
}
