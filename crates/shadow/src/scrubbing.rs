//! State of the scrub of an open volume, of which there is one at a time, and its throttle.
//!
//! While there is no foreground I/O, a scrub runs at the speed of the device. Beside foreground I/O
//! it reads much at once, and then rests [`RESTS`] times as long as that took, for [`LONGEST`] at
//! most: each time the arm of a disk moves away, a call waits longer, and only few calls in a
//! hundred should meet that. So a scrub ends however much the clients do.

use std::cell::Cell;
use std::time::Duration;

use runtime::{Clock, Instant};

use crate::callers::Callers;

/// Shorter work keeps no call waiting for long.
const LONG: Duration = Duration::from_millis(20);
/// Beside foreground I/O, a rest lasts this many times as long as the work,
const RESTS: u32 = 39;
/// and this long at most.
const LONGEST: Duration = Duration::from_millis(1250);
/// Without I/O for this long, there is no foreground I/O.
const QUIET: Duration = Duration::from_millis(250);
/// Interval of checks for this.
const NAP: Duration = Duration::from_millis(50);

/// See the module's prose.
#[derive(Default)]
pub(crate) struct Scrubbing {
    pub(crate) is_under_way: Cell<bool>,
    /// The scrub is to end because a stop is near.
    pub(crate) ends: Cell<bool>,
}

/// The throttle of a scrub.
pub(crate) struct GiveWay<'a> {
    callers: &'a Callers,
    clock: &'a dyn Clock,
    /// Time spent waiting for the device since the last rest.
    worked: Cell<Duration>,
    /// The count of foreground I/O when last checked, and the time when it had grown.
    asked: Cell<u64>,
    called: Cell<Option<Instant>>,
}

impl<'a> GiveWay<'a> {
    pub(crate) fn new(callers: &'a Callers, clock: &'a dyn Clock) -> Self {
        let asked = Cell::new(callers.asked());
        Self { callers, clock, worked: Cell::default(), asked, called: Cell::new(None) }
    }

    /// Whether there is foreground I/O.
    pub(crate) fn is_called(&self) -> bool {
        let (asked, now) = (self.callers.asked(), self.clock.now());
        if self.asked.replace(asked) != asked {
            self.called.set(Some(now));
        }
        self.called.get().is_some_and(|called| now.since(called) < QUIET)
    }

    /// Waits for the device, and counts the time.
    pub(crate) async fn work<T>(&self, work: impl Future<Output = T>) -> T {
        let begun = self.clock.now();
        let done = work.await;
        self.worked.set(self.worked.get() + self.clock.now().since(begun));
        done
    }

    /// The rest that is due; none before enough work.
    pub(crate) fn due(&self) -> Duration {
        if self.worked.get() < LONG {
            return Duration::ZERO;
        }
        (self.worked.take() * RESTS).min(LONGEST)
    }

    /// Rests for a while; returns how much of the rest is left.
    pub(crate) async fn nap(&self, left: Duration) -> Duration {
        let nap = left.min(NAP);
        self.clock.sleep(nap).await;
        left - nap
    }
}
