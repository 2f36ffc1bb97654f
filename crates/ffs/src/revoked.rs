//! Runs of fragments with revoked log contents, each with the entry up to which they are revoked.
//!
//! A removal frees whole groups with a few records, so the number of runs is bounded by the number
//! of such records.
//!
//! Invariants:
//! 1. Runs are not empty and do not overlap; neighbours with one recno are one run.

use std::collections::BTreeMap;
use std::ops::Range;

/// See the module's prose.
#[derive(Default)]
pub(crate) struct Revoked {
    /// By first fragment: the fragment behind the run, and the recno.
    runs: BTreeMap<u64, (u64, u64)>,
}

impl Revoked {
    /// Number of runs.
    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Revokes the fragments in entries up to `recno`. Entries come in order: the last one counts.
    pub(crate) fn add(&mut self, fragments: Range<u64>, recno: u64) {
        let Range { mut start, mut end } = fragments;
        if start >= end {
            return;
        }
        let before = self.runs.range(..start).next_back().map(|(&first, &run)| (first, run));
        if let Some((first, (until, older))) = before.filter(|&(_, (until, _))| until >= start) {
            if older == recno {
                start = first;
            } else {
                self.runs.insert(first, (start, older));
            }
            if until > end {
                self.runs.insert(end, (until, older));
            }
        }
        while let Some((&first, &(until, older))) = self.runs.range(start..=end).next() {
            let joins = older == recno;
            if first == end && !joins {
                break;
            }
            self.runs.remove(&first);
            if until > end {
                if joins {
                    end = until;
                } else {
                    self.runs.insert(end, (until, older));
                }
            }
        }
        self.runs.insert(start, (end, recno));
        debug_assert!(self.is_apart(start), "invariant 1: a run has its own fragments, and recno");
    }

    /// Whether the run at `start` neither overlaps its neighbours nor could be merged with one.
    fn is_apart(&self, start: u64) -> bool {
        let (end, recno) = self.runs[&start];
        let apart =
            |(end, one): (u64, u64), (start, other)| end < start || end == start && one != other;
        let before =
            self.runs.range(..start).next_back().is_none_or(|(_, &run)| apart(run, (start, recno)));
        let behind = self
            .runs
            .range(start + 1..)
            .next()
            .is_none_or(|(&first, &(_, other))| apart((end, recno), (first, other)));
        start < end && before && behind
    }

    /// The entry up to which a fragment is revoked, if it is; and the fragment before which the
    /// same is true of all from this one on.
    pub(crate) fn at(&self, fragment: u64) -> (Option<u64>, u64) {
        let here = self.runs.range(..=fragment).next_back();
        if let Some((_, &(end, recno))) = here.filter(|(_, (end, _))| *end > fragment) {
            return (Some(recno), end);
        }
        (None, self.runs.range(fragment..).next().map_or(u64::MAX, |(&first, _)| first))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_say_what_single_fragments_would(
            added in proptest::collection::vec((0u64..60, 0u64..20, 0u64..2), 0..40)
        ) {
            let (mut runs, mut single, mut recno) = (Revoked::default(), [None; 100], 1);
            for (start, count, later) in added {
                recno += later;
                runs.add(start..start + count, recno);
                single[start as usize..(start + count) as usize].fill(Some(recno));
            }
            for fragment in 0..100 {
                let (found, end) = runs.at(fragment);
                prop_assert_eq!(found, single[fragment as usize]);
                let same = single[fragment as usize..].iter().take_while(|&&one| one == found);
                prop_assert_eq!(end.min(100), fragment + same.count() as u64, "invariant 1");
            }
        }
    }

    #[test]
    fn what_is_given_back_as_a_whole_is_one_run() {
        let mut runs = Revoked::default();
        for group in 0..1000 {
            runs.add(group * 4096..(group + 1) * 4096, 7);
        }
        assert_eq!((runs.runs(), runs.at(5)), (1, (Some(7), 4_096_000)));
        (0..1000).for_each(|fragment| runs.add(2 * fragment..2 * fragment + 1, 8));
        runs.add(0..4_096_000, 9);
        assert_eq!((runs.runs(), runs.at(4_096_000)), (1, (None, u64::MAX)));
    }
}
