//! The one place where this crate meets the clock.
//!
//! The rest of the workspace takes its time from a `runtime::Clock`. A chore waits for processes
//! of the real machine, so the real clock is what it needs.

use std::time::{Duration, Instant};

#[expect(clippy::disallowed_methods, reason = "a chore lives in the real world")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a chore lives in the real world")]
pub(crate) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}
