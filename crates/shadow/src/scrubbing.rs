//! Whether the scrub of a volume that is open is under way, of which there is one at a time, and
//! how it gives way to callers.
//!
//! As long as nobody asks anything of the device, a scrub is as fast as that is. Beside callers it
//! reads much at once, and then rests [`RESTS`] times as long as that took, for [`LONGEST`] at
//! most: each time the arm of a disk goes away, a call waits longer, and so few of a hundred calls
//! are to meet that. So a scrub comes to its end however much is asked.

use std::cell::Cell;
use std::time::Duration;

use runtime::{Clock, Instant};

use crate::callers::Callers;

/// What takes less keeps no call for long.
const LONG: Duration = Duration::from_millis(20);
/// Beside callers it rests so many times as long as it was at work,
const RESTS: u32 = 39;
/// and no longer than so.
const LONGEST: Duration = Duration::from_millis(1250);
/// When nothing was asked for so long, nobody calls.
const QUIET: Duration = Duration::from_millis(250);
/// So often it looks whether that is so.
const NAP: Duration = Duration::from_millis(50);

/// See the module's prose.
#[derive(Default)]
pub(crate) struct Scrubbing {
    pub(crate) is_under_way: Cell<bool>,
    /// It is to end: a stop is near.
    pub(crate) ends: Cell<bool>,
}

/// How a scrub gives way.
pub(crate) struct GiveWay<'a> {
    callers: &'a Callers,
    clock: &'a dyn Clock,
    /// For how long it waited for the device since it rested.
    worked: Cell<Duration>,
    /// What callers had asked for when that was looked at last, and when that had grown.
    asked: Cell<u64>,
    called: Cell<Option<Instant>>,
}

impl<'a> GiveWay<'a> {
    pub(crate) fn new(callers: &'a Callers, clock: &'a dyn Clock) -> Self {
        let asked = Cell::new(callers.asked());
        Self { callers, clock, worked: Cell::default(), asked, called: Cell::new(None) }
    }

    /// Whether somebody calls.
    pub(crate) fn is_called(&self) -> bool {
        let (asked, now) = (self.callers.asked(), self.clock.now());
        if self.asked.replace(asked) != asked {
            self.called.set(Some(now));
        }
        self.called.get().is_some_and(|called| now.since(called) < QUIET)
    }

    /// Waits for the device.
    pub(crate) async fn work<T>(&self, work: impl Future<Output = T>) -> T {
        let begun = self.clock.now();
        let done = work.await;
        self.worked.set(self.worked.get() + self.clock.now().since(begun));
        done
    }

    /// How long it is to rest; not at all before it was at work for long.
    pub(crate) fn due(&self) -> Duration {
        if self.worked.get() < LONG {
            return Duration::ZERO;
        }
        (self.worked.take() * RESTS).min(LONGEST)
    }

    /// Rests for a while; says how much of the rest is left.
    pub(crate) async fn nap(&self, left: Duration) -> Duration {
        let nap = left.min(NAP);
        self.clock.sleep(nap).await;
        left - nap
    }
}
