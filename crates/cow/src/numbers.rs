//! Numbers of slots and places: those in use, and the lowest free ones.
//!
//! Invariants:
//! 1. Free numbers are below the end, in runs that are each followed by a number in use, or by the
//!    end.
//! 2. A free number below the end is reused before one above it: the end is never above the most
//!    numbers that were in use at once since the opening, and those that the opening found.
//!
//! Not asserted: 2, which is about many openings.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use crate::planted::{Bug, is_planted};

/// See the module's prose.
#[derive(Default)]
pub struct Numbers {
    /// All numbers from this one on are free.
    end: Cell<u64>,
    /// Runs of free numbers below the end: the first of each, and its end.
    free: RefCell<BTreeMap<u64, u64>>,
}

impl Numbers {
    /// From the runs of numbers in use, in order; all numbers from `end` on are free, or from the
    /// end of the last run.
    pub fn new(end: u64, used: impl IntoIterator<Item = Range<u64>>) -> Self {
        let (mut free, mut next) = (BTreeMap::new(), 0);
        for run in used {
            if next < run.start {
                free.insert(next, run.start);
            }
            next = next.max(run.end);
        }
        let end = end.max(next);
        if next < end {
            free.insert(next, end);
        }
        Self { end: Cell::new(end), free: RefCell::new(free) }
    }

    /// All numbers from this one on are free.
    pub fn end(&self) -> u64 {
        self.end.get()
    }

    /// The lowest free numbers.
    pub fn next(&self, count: usize) -> Vec<u64> {
        let free = self.free.borrow();
        let below = free.iter().flat_map(|(&start, &end)| start..end);
        below.chain(self.end.get()..).take(count).collect()
    }

    /// Takes a number.
    pub fn take(&self, number: u64) {
        let (end, mut free) = (self.end.get(), self.free.borrow_mut());
        if number >= end {
            if number > end {
                let last = free.last_key_value().filter(|&(_, &last)| last == end);
                let start = last.map_or(end, |(&start, _)| start);
                free.insert(start, number);
                assert_apart(&free, number + 1, start);
            }
            self.end.set(number + 1);
            return;
        }
        let run = free.range(..=number).next_back().map(|(&start, &end)| start..end);
        if let Some(run) = run.filter(|run| run.contains(&number)) {
            free.remove(&run.start);
            for rest in [run.start..number, number + 1..run.end] {
                if !rest.is_empty() {
                    free.insert(rest.start, rest.end);
                    assert_apart(&free, end, rest.start);
                }
            }
        }
    }

    /// Frees a number.
    pub fn give_back(&self, number: u64) {
        let mut free = self.free.borrow_mut();
        let before = free.range(..=number).next_back().map(|(&start, &end)| start..end);
        if before.as_ref().is_some_and(|run| run.contains(&number)) {
            return;
        }
        let start = before.filter(|run| run.end == number).map_or(number, |run| run.start);
        let end = free.remove(&(number + 1)).unwrap_or(number + 1);
        free.insert(start, end);
        assert_apart(&free, self.end.get(), start);
    }

    /// Frees all numbers.
    pub fn clear(&self) {
        self.end.set(0);
        self.free.borrow_mut().clear();
    }
}

/// Asserts invariant 1 for the run of free numbers that begins at `start`.
fn assert_apart(free: &BTreeMap<u64, u64>, end: u64, start: u64) {
    let run_end = free[&start];
    let before = free.range(..start).next_back().map(|(_, &end)| end);
    let is_apart = before.is_none_or(|before| before < start) && !free.contains_key(&run_end);
    let is_right = start < run_end && run_end <= end && is_apart;
    assert!(is_right || is_planted(Bug::LastPlaceFree), "invariant 1: {start}..{run_end} of {end}");
}

/// Numbers of the blocks that a tree has, or may have, as runs.
#[derive(Default)]
pub struct Occupied {
    runs: Vec<Range<u64>>,
}

impl Occupied {
    /// Adds numbers in use, which are greater than all that were added before.
    pub fn note(&mut self, run: Range<u64>) {
        match self.runs.last_mut() {
            Some(last) if last.end >= run.start => last.end = last.end.max(run.end),
            _ => self.runs.push(run),
        }
    }

    /// The numbers, of which an opening may reuse the free ones. According to the newest root all
    /// from `said` on are free, which only a planted bug relies on.
    pub fn numbers(mut self, said: u64) -> Numbers {
        if is_planted(Bug::ForgottenPlaces) {
            return Numbers { end: Cell::new(said), ..Numbers::default() };
        }
        if is_planted(Bug::LastPlaceFree)
            && let Some(last) = self.runs.last_mut()
        {
            last.end -= 1;
        }
        Numbers::new(0, self.runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_what_is_not_in_use() {
        let numbers = Numbers::new(9, [2..4, 4..5, 7..8]);
        assert_eq!(numbers.next(6), [0, 1, 5, 6, 8, 9]);
        assert_eq!(numbers.end(), 9);
        assert_eq!(Numbers::new(3, std::iter::once(7..8)).end(), 8);
        assert_eq!(Numbers::new(0, []).next(2), [0, 1]);
    }

    #[test]
    fn the_lowest_are_handed_out_again() {
        let numbers = Numbers::default();
        for number in [0, 1, 2, 3, 4, 7] {
            numbers.take(number);
        }
        assert_eq!((numbers.next(3), numbers.end()), (vec![5, 6, 8], 8));
        for number in [2, 4, 3, 3, 0] {
            numbers.give_back(number);
        }
        assert_eq!(numbers.next(8), [0, 2, 3, 4, 5, 6, 8, 9]);
        numbers.take(3);
        numbers.take(3);
        assert_eq!(numbers.next(5), [0, 2, 4, 5, 6]);
        numbers.give_back(1);
        assert_eq!(numbers.next(5), [0, 1, 2, 4, 5]);
        numbers.clear();
        assert_eq!((numbers.next(2), numbers.end()), (vec![0, 1], 0));
    }

    #[test]
    fn all_orders_lead_to_the_same() {
        let numbers = Numbers::default();
        let mut used = std::collections::BTreeSet::new();
        let mut seed = 5_u64;
        for _ in 0..5000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = seed >> 58;
            if seed >> 40 & 1 == 0 {
                numbers.take(number);
                used.insert(number);
            } else if used.remove(&number) {
                numbers.give_back(number);
            }
            let free: Vec<u64> = (0..70).filter(|it| !used.contains(it)).take(6).collect();
            assert_eq!(numbers.next(6), free);
        }
    }
}
