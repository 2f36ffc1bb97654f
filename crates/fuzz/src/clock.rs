//! The only use of the clock in this crate: to detect a case that does not end.

use std::path::PathBuf;
use std::time::{Duration, Instant};

#[expect(clippy::disallowed_methods, reason = "a case that does not end ends no simulated clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The processor time of one thread. A busy machine makes a case late, but does not add to it.
#[derive(Clone, Debug)]
pub(crate) struct ThreadTime(PathBuf);

/// The kernel's unit of processor time.
const TICKS_PER_SECOND: u64 = 100;

impl ThreadTime {
    /// The processor time of the calling thread.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let thread = std::fs::read_link("/proc/thread-self").ok()?;
        Some(Self(PathBuf::from("/proc").join(thread).join("stat")))
    }

    /// The processor time that the thread has used so far.
    pub(crate) fn used(&self) -> Option<Duration> {
        let line = std::fs::read_to_string(&self.0).ok()?;
        // The second field is the thread's name, in brackets: it may contain blanks.
        let fields = line.rsplit_once(')')?.1;
        let mut fields = fields.split_ascii_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        Some(Duration::from_millis((ticks()? + ticks()?) * 1000 / TICKS_PER_SECOND))
    }
}
