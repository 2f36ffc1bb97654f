//! The only use of the clock in this crate.
//!
//! The rest of the workspace takes its time from a `runtime::Clock`. A chore waits for processes of
//! the real machine, so it needs the real clock.

use std::time::{Duration, Instant};

#[expect(clippy::disallowed_methods, reason = "a chore lives in the real world")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a chore lives in the real world")]
pub(crate) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}
