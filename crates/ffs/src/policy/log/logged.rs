//! Index of the data in replayable entries: for each fragment, the newest entry that holds it.
//!
//! A task that writes past the log looks here for data that it has to revoke (rule 5 of
//! docs/durability.md). A run may be of any length: an entry can hold any number of zeros.
//!
//! Invariants:
//! 1. Runs do not overlap, and each has the newest entry that holds any of it.
//! 2. The data of an entry is listed from its staging until the durable head has passed it: as long
//!    as a replay might find it.

use std::collections::{BTreeMap, VecDeque};

use crate::planted::{Bug, is_planted};

/// A run of fragments; its first fragment is the key in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// The fragment behind it.
    end: u64,
    /// The Update whose entry holds it.
    sequence: u64,
}

/// See the module's prose.
#[derive(Debug, Default)]
pub(super) struct Logged {
    /// Runs by their first fragment.
    runs: BTreeMap<u64, Run>,
    /// Entries with data that have their places: sequence and recno, in order.
    placed: VecDeque<(u64, u64)>,
}

impl Logged {
    /// The entry of an Update, the newest of all, holds `count` fragments from `first` on.
    pub(super) fn note(&mut self, first: u64, count: u64, sequence: u64) {
        let end = first + count;
        if is_planted(Bug::ShorterRuns) {
            self.runs.insert(first, Run { end, sequence });
            return;
        }
        while let Some((start, run)) = self.last_before(end).filter(|(_, run)| run.end > first) {
            self.runs.remove(&start);
            if start < first {
                self.runs.insert(start, Run { end: first, ..run });
            }
            if end < run.end {
                self.runs.insert(end, run);
            }
        }
        self.runs.insert(first, Run { end, sequence });
        debug_assert!(self.is_apart(first), "invariant 1: runs do not overlap");
    }

    /// Whether the run at `first` overlaps none of its neighbours.
    fn is_apart(&self, first: u64) -> bool {
        let is_before =
            self.runs.range(..first).next_back().is_none_or(|(_, run)| run.end <= first);
        let next = self.runs.range(first + 1..).next();
        is_before && next.is_none_or(|(&next, _)| self.runs[&first].end <= next)
    }

    /// Whether an entry that may be replayed holds any of these fragments.
    pub(super) fn holds(&self, first: u64, count: u64) -> bool {
        if is_planted(Bug::LaterRuns) {
            return self.runs.range(first..first + count).next().is_some();
        }
        self.last_before(first + count).is_some_and(|(_, run)| run.end > first)
    }

    /// The last run that begins before `end`.
    fn last_before(&self, end: u64) -> Option<(u64, Run)> {
        self.runs.range(..end).next_back().map(|(&first, &run)| (first, run))
    }

    /// An entry with data has its place.
    pub(super) fn placed(&mut self, sequence: u64, recno: u64) {
        let follows = self.placed.back().is_none_or(|&(last, at)| last < sequence && at < recno);
        assert!(follows, "invariant 2: what entries hold is forgotten in their order");
        self.placed.push_back((sequence, recno));
    }

    /// Forgets the data of entries before `head`: they will not be replayed any more.
    pub(super) fn forget_before(&mut self, head: u64) {
        let head = head + u64::from(is_planted(Bug::ForgottenAtTheHead));
        let mut newest = None;
        while let Some(&(sequence, recno)) = self.placed.front()
            && recno < head
        {
            newest = Some(sequence);
            self.placed.pop_front();
        }
        if let Some(newest) = newest {
            self.runs.retain(|_, run| run.sequence > newest);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_newer_run_splits_an_older_one_and_hides_none_of_the_rest() {
        let mut logged = Logged::default();
        logged.note(10, 20, 1);
        logged.note(15, 5, 2);
        assert!(logged.holds(29, 5) && logged.holds(0, 11) && logged.holds(16, 1));
        assert!(!logged.holds(30, 5) && !logged.holds(0, 10));
        logged.placed(1, 100);
        logged.placed(2, 104);
        logged.forget_before(100);
        assert!(logged.holds(10, 1), "the entry at the head is replayed");
        logged.forget_before(104);
        assert!(!logged.holds(10, 5) && logged.holds(15, 5) && !logged.holds(20, 10));
    }

    #[test]
    fn runs_that_overlap_on_either_side_are_told_from_runs_that_meet() {
        let with = |runs: [(u64, u64); 2]| {
            let runs = runs.map(|(first, end)| (first, Run { end, sequence: 1 }));
            Logged { runs: runs.into(), ..Logged::default() }
        };
        let meeting = with([(10, 20), (20, 30)]);
        assert!(meeting.is_apart(10) && meeting.is_apart(20));
        let overlapping = with([(10, 21), (20, 30)]);
        assert!(!overlapping.is_apart(10) && !overlapping.is_apart(20));
    }

    proptest! {
        /// Each step logs a run, or moves the head past some of the oldest entries.
        #[test]
        fn what_is_held_of_a_fragment_is_what_was_logged_and_not_forgotten(
            steps in prop::collection::vec((0..200_u64, 1..120_u64, 0..4_u64), 1..60),
        ) {
            let (mut logged, mut model) = (Logged::default(), [0_u64; 400]);
            let mut head = 0;
            for (sequence, (first, count, past)) in (1..).zip(steps) {
                logged.note(first, count, sequence);
                logged.placed(sequence, sequence * 8);
                model[first as usize..][..count as usize].fill(sequence);
                head = (head + past).min(sequence);
                logged.forget_before(head * 8);
                let live = |fragment: u64| model[fragment as usize] >= head.max(1);
                for fragment in 0..320 {
                    prop_assert_eq!(logged.holds(fragment, 1), live(fragment));
                    let any = (fragment..fragment + 30).any(live);
                    prop_assert_eq!(logged.holds(fragment, 30), any);
                }
            }
        }
    }
}
