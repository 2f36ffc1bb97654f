//! How far a campaign is: a line to standard error for each twentieth of a long one.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Lines of a campaign.
const PARTS: usize = 20;
/// Workloads of one that is long.
const MANY: usize = 100;

/// How many workloads of all there are have been tried, by all threads together.
#[derive(Debug)]
pub(super) struct Progress {
    total: usize,
    done: AtomicUsize,
}

impl Progress {
    /// Of a campaign that has `total` workloads to try.
    pub(super) fn of(total: usize) -> Self {
        Self { total, done: AtomicUsize::new(0) }
    }

    /// One more was tried.
    pub(super) fn one(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        debug_assert!(done <= self.total, "{done} of {}", self.total);
        if self.total >= MANY && done.is_multiple_of(self.total / PARTS) {
            eprintln!("{done} of {} workloads", self.total);
        }
    }
}
