//! Pausing and cancelling long work of a set: filling a disk, and scrubbing.
//!
//! Both check between stripes, where they hold no stripe lock. Cancelled work ends with an error: a
//! disk that was being filled is out, and a good member that was to be replaced stays.
//!
//! Invariants:
//! 1. Work does not start in the cancelled state.
//!
//! Not asserted: 1, which is what [`Interrupts::begin`] does.

use std::cell::Cell;
use std::time::Duration;

use crate::members::Members;
use crate::planted::{Bug, is_planted};

/// Interval at which work checks whether it may go on, or was cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Long work of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Filling a disk: a rebuild, a replacement, or a member that is catching up.
    Fill,
    /// Scrubbing the whole set.
    Scrub,
}

/// A person's pause and cancel requests.
#[derive(Default)]
pub(crate) struct Interrupts {
    is_paused: Cell<bool>,
    is_fill_cancelled: Cell<bool>,
    is_scrub_cancelled: Cell<bool>,
}

impl Interrupts {
    fn cancelled(&self, work: Work) -> &Cell<bool> {
        match work {
            Work::Fill => &self.is_fill_cancelled,
            Work::Scrub => &self.is_scrub_cancelled,
        }
    }

    pub(crate) fn begin(&self, work: Work) {
        self.cancelled(work).set(false);
    }

    pub(crate) fn cancel(&self, work: Work) {
        self.cancelled(work).set(true);
    }

    pub(crate) fn is_cancelled(&self, work: Work) -> bool {
        self.cancelled(work).get()
    }

    pub(crate) fn pause(&self, is_paused: bool) {
        self.is_paused.set(is_paused);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.get()
    }

    /// Waits this long, or until the work is cancelled.
    pub(crate) async fn wait(&self, work: Work, length: Duration, members: &Members) {
        let end = members.clock.now().after(length);
        while members.clock.now() < end && !self.is_cancelled(work) {
            members.clock.sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits while work is paused and does not have to end. The caller must hold no stripe lock.
    pub(crate) async fn while_paused(&self, work: Work, members: &Members) {
        let has_to_end =
            || self.is_cancelled(work) || members.are_closed() || members.have_stopped();
        while self.is_paused() && !has_to_end() && !is_planted(Bug::UnheardPauses) {
            members.clock.sleep(POLL_INTERVAL).await;
        }
    }
}
