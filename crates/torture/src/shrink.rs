//! Shrinks a failing workload as far as possible: one shrinker for all campaigns.
//!
//! It is delta debugging: parts are left out, half of them at a time, then a quarter, down to
//! single ones, for as long as the rest fails; then the workload offers variants that are simpler
//! in another way. Both are repeated until neither helps or the attempts are spent.
//!
//! A smaller workload may fail for another reason. It counts: a bug shows in many ways.

use std::ops::Range;

/// A workload that can be made smaller.
pub(crate) trait Smaller: Clone {
    /// The number of parts that can be left out.
    fn parts(&self) -> usize;
    /// The workload without some of its parts; `None` if nothing would be left to play.
    fn without(&self, parts: Range<usize>) -> Option<Self>;
    /// Variants that are simpler in one respect, the simplest first.
    fn simpler(&self) -> Vec<Self> {
        Vec::new()
    }
}

/// Steps, any of which can be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Steps<T>(pub Vec<T>);

impl<T: Clone> Smaller for Steps<T> {
    fn parts(&self) -> usize {
        self.0.len()
    }

    fn without(&self, parts: Range<usize>) -> Option<Self> {
        let mut fewer = self.0.clone();
        fewer.drain(parts);
        (!fewer.is_empty()).then_some(Self(fewer))
    }
}

/// The smallest workload that was found to fail, with its failure. `play` returns a workload's
/// failure and the part that was played, which may be less than the whole.
pub(crate) fn shrink<W: Smaller, F>(
    workload: W,
    failure: F,
    attempts: usize,
    play: impl FnMut(W) -> Option<(W, F)>,
) -> (W, F) {
    let mut shrinking = Shrinking { least: (workload, failure), attempts, play };
    while shrinking.leave_out() | shrinking.simplify() {}
    shrinking.least
}

struct Shrinking<W, F, P> {
    least: (W, F),
    /// Remaining number of workloads to play.
    attempts: usize,
    play: P,
}

impl<W: Smaller, F, P: FnMut(W) -> Option<(W, F)>> Shrinking<W, F, P> {
    /// Replaces the smallest workload by this one if it fails.
    fn take(&mut self, workload: W) -> bool {
        if self.attempts == 0 {
            return false;
        }
        self.attempts -= 1;
        let Some(failed) = (self.play)(workload) else { return false };
        self.least = failed;
        true
    }

    /// Leaves out parts; returns whether any could be left out.
    fn leave_out(&mut self) -> bool {
        let mut has_shrunk = false;
        let mut size = self.least.0.parts().div_ceil(2);
        while size > 0 {
            let mut start = 0;
            while start < self.least.0.parts() && self.attempts > 0 {
                let end = (start + size).min(self.least.0.parts());
                let without = self.least.0.without(start..end);
                if without.is_some_and(|fewer| self.take(fewer)) {
                    has_shrunk = true;
                } else {
                    start = end;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        has_shrunk
    }

    /// Takes simpler variants; returns whether one failed.
    fn simplify(&mut self) -> bool {
        let mut has_shrunk = false;
        while self.least.0.simpler().into_iter().any(|simpler| self.take(simpler)) {
            has_shrunk = true;
        }
        has_shrunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers, any of which can be left out, and each of which can be halved.
    impl Smaller for Vec<u32> {
        fn parts(&self) -> usize {
            self.len()
        }

        fn without(&self, parts: Range<usize>) -> Option<Self> {
            let mut fewer = self.clone();
            fewer.drain(parts);
            (!fewer.is_empty()).then_some(fewer)
        }

        fn simpler(&self) -> Vec<Self> {
            let halved = |place: usize| {
                let mut other = self.clone();
                other[place] /= 2;
                other
            };
            (0..self.len()).filter(|&place| self[place] > 1).map(halved).collect()
        }
    }

    fn shrunk(attempts: usize, fails: impl Fn(&Vec<u32>) -> bool) -> (Vec<u32>, usize) {
        let mut played = 0;
        let all: Vec<u32> = (1..=100).collect();
        let (least, ()) = shrink(all, (), attempts, |numbers| {
            played += 1;
            fails(&numbers).then_some((numbers, ()))
        });
        (least, played)
    }

    #[test]
    fn only_the_parts_that_matter_are_left() {
        let has = |numbers: &Vec<u32>, wanted| numbers.contains(&wanted);
        let (least, _) = shrunk(1000, |numbers| has(numbers, 3) && has(numbers, 77));
        assert_eq!(least, [3, 77]);
        assert_eq!(shrunk(1000, |numbers| !numbers.is_empty()).0, [1], "the last part stays");
    }

    #[test]
    fn parts_that_stay_are_made_simpler() {
        let (least, _) = shrunk(1000, |numbers| numbers.iter().any(|&number| number >= 10));
        assert!(least.len() == 1 && (10..20).contains(&least[0]), "{least:?}");
    }

    #[test]
    fn no_more_is_played_than_is_allowed() {
        let (least, played) = shrunk(7, |numbers| numbers.contains(&3));
        assert_eq!(played, 7);
        assert!(least.contains(&3) && least.len() < 100, "{least:?}");
    }

    #[test]
    fn what_was_played_counts_and_not_what_was_asked_for() {
        let play = |numbers: Vec<u32>| Some((numbers[..1].to_vec(), "why"));
        let (least, why) = shrink(vec![7, 8, 9], "whole", 100, play);
        assert_eq!((least, why), (vec![1], "why"));
    }
}
