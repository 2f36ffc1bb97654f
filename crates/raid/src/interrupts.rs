//! Long work of a set that a person pauses or cancels: filling a disk, and scrubbing.
//!
//! Both look between two stripes, where they hold none still. Work that is cancelled ends with an
//! error: a disk that was being filled is out, and a good member that was to be replaced stays.
//!
//! Invariants:
//! 1. Work does not begin cancelled.
//!
//! Not asserted: 1, which is what [`Interrupts::begin`] does.

use std::cell::Cell;
use std::time::Duration;

use crate::members::Members;
use crate::planted::{Bug, is_planted};

/// Paused work looks this often whether it may go on.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Long work of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Filling a disk: a rebuild, a replacement, or a member that catches up.
    Fill,
    /// Looking at everything.
    Scrub,
}

/// What a person has said of long work.
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

    /// Waits while work is paused, and has not to end. To be called with no stripe held still.
    pub(crate) async fn while_paused(&self, work: Work, members: &Members) {
        let has_to_end =
            || self.is_cancelled(work) || members.are_closed() || members.have_stopped();
        while self.is_paused() && !has_to_end() && !is_planted(Bug::UnheardPauses) {
            members.clock.sleep(POLL_INTERVAL).await;
        }
    }
}
