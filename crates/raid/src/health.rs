//! Members whose disks are failing.
//!
//! A disk with a bad sector returns it again once it is rewritten: the member stays in, and the
//! read error is counted. A member is *failing* if it had more unreadable blocks within an hour
//! than the limit.
//! It stays in even so, because it may still have blocks that another disk lacks; a spare takes its
//! place. A failing member is put out only if it returns none of the last [`UNREADABLE`] blocks
//! that were rewritten on it.
//!
//! Invariants:
//! 1. A failing member stays failing until another disk has its slot.
//! 2. No slot keeps more read errors than the limit plus one.
//!
//! Not asserted: 1, which is about the whole history of a slot.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use runtime::Instant;

use crate::planted::{Bug, is_planted};

/// Default limit of blocks that a member may fail to read within an hour.
pub const READ_ERRORS_PER_HOUR: usize = 20;
/// Time for which a read error counts.
const WINDOW: Duration = Duration::from_secs(3600);
/// Consecutive unreadable rewritten blocks after which a failing member is put out.
pub(crate) const UNREADABLE: usize = 16;

/// The health of all members.
pub(crate) struct Health {
    /// Read errors allowed within [`WINDOW`].
    limit: usize,
    slots: RefCell<Vec<MemberHealth>>,
}

/// The health of one member.
#[derive(Clone, Default)]
struct MemberHealth {
    /// Blocks that recently could not be read, each with the time of its first error.
    errors: VecDeque<(Instant, u64)>,
    is_failing: bool,
    /// Rewritten blocks that the member failed to return since it last returned one.
    unreadable: BTreeSet<u64>,
}

impl Health {
    pub(crate) fn new(members: usize, limit: usize) -> Self {
        Self { limit, slots: RefCell::new(vec![MemberHealth::default(); members]) }
    }

    /// Counts a block that a member could not read, once, however often it fails.
    pub(crate) fn note_error(&self, slot: usize, offset: u64, now: Instant) {
        if is_planted(Bug::UncountedErrors) {
            return;
        }
        let health = &mut self.slots.borrow_mut()[slot];
        while health.errors.front().is_some_and(|(at, _)| now.since(*at) >= WINDOW) {
            health.errors.pop_front();
        }
        let is_known = health.errors.iter().any(|(_, known)| *known == offset);
        if is_known || health.errors.len() > self.limit {
            return;
        }
        health.errors.push_back((now, offset));
        assert!(health.errors.len() <= self.limit + 1, "invariant 2");
        health.is_failing |= health.errors.len() > self.limit;
    }

    /// Records that a block was rewritten and read back. Returns whether the member must be put
    /// out.
    pub(crate) fn note_rewrite(&self, slot: usize, offset: u64, is_given_back: bool) -> bool {
        let health = &mut self.slots.borrow_mut()[slot];
        if is_given_back {
            health.unreadable.clear();
        } else if health.unreadable.len() < UNREADABLE {
            health.unreadable.insert(offset);
        }
        health.is_failing && health.unreadable.len() >= UNREADABLE
    }

    /// Whether a member is failing.
    pub(crate) fn is_failing(&self, slot: usize) -> bool {
        self.slots.borrow()[slot].is_failing
    }

    /// Resets the health of a slot that another disk has taken.
    pub(crate) fn forget(&self, slot: usize) {
        self.slots.borrow_mut()[slot] = MemberHealth::default();
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::default().after(Duration::from_secs(seconds))
    }

    #[test]
    fn only_errors_within_an_hour_count() {
        let health = Health::new(2, 3);
        for error in 0..12 {
            health.note_error(0, error, at(error * 1200)); // three an hour
        }
        assert!(!health.is_failing(0), "three are not more than three");
        health.note_error(0, 11, at(11 * 1200 + 1));
        assert!(!health.is_failing(0), "a block counts once");
        health.note_error(0, 12, at(11 * 1200 + 1));
        assert!(health.is_failing(0) && !health.is_failing(1), "four within an hour");
        health.note_error(0, 13, at(1_000_000));
        assert!(health.is_failing(0), "it does not recover by itself");
        health.forget(0);
        assert!(!health.is_failing(0), "another disk");
    }

    #[test]
    fn a_member_is_put_out_when_no_rewritten_block_is_given_back() {
        let health = Health::new(1, 0);
        let last = UNREADABLE as u64 - 1;
        let unreadable = |blocks: Range<u64>| {
            blocks.fold(false, |was, block| was | health.note_rewrite(0, block, false))
        };
        assert!(!unreadable(0..last + 9), "it is not failing yet");
        health.note_error(0, 0, at(0));
        assert!(!health.note_rewrite(0, 0, true));
        assert!(!unreadable(0..last));
        assert!(!unreadable(0..last), "a block counts once");
        assert!(!health.note_rewrite(0, 0, true), "one was given back");
        assert!(!unreadable(0..last));
        assert!(unreadable(last..last + 1));
    }
}
