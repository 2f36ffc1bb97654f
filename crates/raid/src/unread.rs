//! Blocks that a member lacks because no disk returned them when the member was filled.
//!
//! Such a block is not lost: a disk that could not be read may have it. It keeps its true checksum,
//! which the bytes on the member do not fit, and reads as EIO. It stays on this list until a read,
//! a scrub, a later attempt ([`crate::refill`]) or a client writes it. If the member is to be
//! replaced and stays after all, it still lacks the block.
//!
//! The list is of ranges, and a bounded number of them. If there are more, the smallest gap of all
//! is closed: its range then also covers blocks that the member has, as few as possible. An attempt
//! finds them good.
//!
//! Invariants:
//! 1. A block is listed from the time a fill leaves it out until it is written or its member goes.
//! 2. Ranges of a slot are disjoint, with gaps between them. There are at most [`MAX_RANGES`], or
//!    one for each slot.
//! 3. Each gap between two ranges of a slot is known with its length.
//!
//! Not asserted: 1, which is about calls from other files.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::blocks::BLOCK;
use crate::planted::{Bug, is_planted};

/// Number of ranges above which gaps are closed: about 3 MB.
const MAX_RANGES: usize = 32 << 10;

/// Ranges of blocks of members.
#[derive(Default)]
pub(crate) struct Unread(RefCell<Ranges>);

/// See the module's documentation.
#[derive(Default)]
struct Ranges {
    /// The end of each range, by its slot and its first offset in the data area.
    ends: BTreeMap<(usize, u64), u64>,
    /// Gaps between ranges of a slot: the length of each, and the range behind it.
    gaps: BTreeSet<(u64, (usize, u64))>,
}

impl Ranges {
    /// The last range of a slot that begins here or before.
    fn before(&self, slot: usize, offset: u64) -> Option<Range<u64>> {
        let found = self.ends.range((slot, 0)..=(slot, offset)).next_back();
        found.map(|(&(_, start), &end)| start..end)
    }

    /// The first range of a slot that begins here or behind.
    fn behind(&self, slot: usize, offset: u64) -> Option<Range<u64>> {
        let found = self.ends.range((slot, offset)..(slot + 1, 0)).next();
        found.map(|(&(_, start), &end)| start..end)
    }

    /// Ranges of a slot beside one that is not there.
    fn beside(&self, slot: usize, range: &Range<u64>) -> [Option<Range<u64>>; 2] {
        [self.before(slot, range.start), self.behind(slot, range.end)]
    }

    fn insert(&mut self, slot: usize, range: Range<u64>) {
        let [before, behind] = self.beside(slot, &range);
        if let Some(behind) = &behind {
            if let Some(before) = &before {
                self.gaps.remove(&(behind.start - before.end, (slot, behind.start)));
            }
            self.gaps.insert((behind.start - range.end, (slot, behind.start)));
        }
        if let Some(before) = before {
            self.gaps.insert((range.start - before.end, (slot, range.start)));
        }
        self.ends.insert((slot, range.start), range.end);
    }

    fn remove(&mut self, slot: usize, range: &Range<u64>) {
        self.ends.remove(&(slot, range.start));
        let [before, behind] = self.beside(slot, range);
        if let Some(before) = &before {
            self.gaps.remove(&(range.start - before.end, (slot, range.start)));
        }
        if let Some(behind) = behind {
            self.gaps.remove(&(behind.start - range.end, (slot, behind.start)));
            if let Some(before) = before {
                self.gaps.insert((behind.start - before.end, (slot, behind.start)));
            }
        }
    }

    /// Closes the smallest gaps, until there are no more ranges than this, or no gaps.
    fn limit(&mut self, max: usize) {
        while self.ends.len() > max
            && let Some(&(_, (slot, start))) = self.gaps.first()
        {
            let behind = self.behind(slot, start).expect("invariant 3");
            self.remove(slot, &behind);
            let before = self.before(slot, start).expect("invariant 3");
            self.remove(slot, &before);
            self.insert(slot, before.start..behind.end);
        }
        assert!(self.ends.len() <= max || self.gaps.is_empty(), "invariant 2");
    }
}

impl Unread {
    /// Lists a block that a fill left out.
    pub(crate) fn note(&self, slot: usize, offset: u64) {
        if !is_planted(Bug::GivenUpFills) {
            self.note_with(MAX_RANGES, slot, offset);
        }
    }

    fn note_with(&self, max: usize, slot: usize, offset: u64) {
        let mut all = self.0.borrow_mut();
        let mut noted = offset..offset + BLOCK;
        let [before, behind] = all.beside(slot, &noted);
        if before.as_ref().is_some_and(|before| offset < before.end) {
            return;
        }
        if let Some(before) = before.filter(|before| before.end == noted.start) {
            all.remove(slot, &before);
            noted.start = before.start;
        }
        if let Some(behind) = behind.filter(|behind| behind.start == noted.end) {
            all.remove(slot, &behind);
            noted.end = behind.end;
        }
        all.insert(slot, noted);
        all.limit(max);
    }

    /// Removes the blocks of a range that was written.
    pub(crate) fn forget_range(&self, slot: usize, offset: u64, length: u64) {
        self.forget_with(MAX_RANGES, slot, offset..offset + length);
    }

    fn forget_with(&self, max: usize, slot: usize, gone: Range<u64>) {
        let mut all = self.0.borrow_mut();
        if all.ends.is_empty() {
            return;
        }
        // The range that begins there or earlier, and all that begin within it.
        let first = all.before(slot, gone.start).filter(|range| range.end > gone.start);
        let mut next = first.or_else(|| all.behind(slot, gone.start));
        while let Some(range) = next.filter(|range| range.start < gone.end) {
            all.remove(slot, &range);
            if range.start < gone.start {
                all.insert(slot, range.start..gone.start);
            }
            if gone.end < range.end {
                all.insert(slot, gone.end..range.end);
            }
            next = all.behind(slot, range.end);
        }
        all.limit(max);
    }

    /// Removes all blocks of a slot that another disk has taken.
    pub(crate) fn forget(&self, slot: usize) {
        let all = &mut *self.0.borrow_mut();
        all.ends.retain(|(of, _), _| *of != slot);
        all.gaps.retain(|(_, (of, _))| *of != slot);
    }

    /// Whether no block of a slot is listed.
    pub(crate) fn is_empty(&self, slot: usize) -> bool {
        self.next(slot, 0).is_none()
    }

    /// Whether a block is listed.
    pub(crate) fn has(&self, slot: usize, offset: u64) -> bool {
        self.next(slot, offset) == Some(offset)
    }

    /// Number of listed blocks of a slot.
    pub(crate) fn count(&self, slot: usize) -> u64 {
        let all = self.0.borrow();
        let ranges = all.ends.range((slot, 0)..(slot + 1, 0));
        ranges.map(|((_, start), end)| (end - start) / BLOCK).sum()
    }

    /// The first listed block of a slot that is at this offset or behind it.
    pub(crate) fn next(&self, slot: usize, from: u64) -> Option<u64> {
        let all = self.0.borrow();
        if all.before(slot, from).is_some_and(|range| from < range.end) {
            return Some(from);
        }
        all.behind(slot, from).map(|range| range.start)
    }
}

#[cfg(test)]
mod tests {
    use sim::Prng;

    use super::*;

    fn listed(unread: &Unread, slot: usize) -> BTreeSet<u64> {
        (0..64).filter(|block| unread.has(slot, block * BLOCK)).collect()
    }

    /// Checks invariants 2 and 3.
    fn check(unread: &Unread, max: usize) {
        let all = unread.0.borrow();
        let ranges: Vec<_> = all.ends.iter().collect();
        let pairs = ranges.windows(2).filter(|pair| pair[0].0.0 == pair[1].0.0);
        let gaps: BTreeSet<_> = pairs.map(|pair| (pair[1].0.1 - pair[0].1, *pair[1].0)).collect();
        assert!(gaps.iter().all(|(length, _)| *length > 0) && gaps == all.gaps);
        assert!(ranges.len() <= max);
    }

    /// Notes and forgets blocks of two slots. Returns how many listed blocks were not noted.
    fn compared_with_a_set(max: usize) -> usize {
        let (mut prng, mut beyond) = (Prng::new(3), 0);
        let unread = Unread::default();
        let mut expected = [BTreeSet::new(), BTreeSet::new()];
        for step in 0..4000 {
            let (slot, block) = (prng.below(2) as usize, prng.below(64));
            if prng.below(2) == 0 {
                unread.note_with(max, slot, block * BLOCK);
                expected[slot].insert(block);
            } else {
                let end = block + 1 + prng.below(5);
                unread.forget_with(max, slot, block * BLOCK..end * BLOCK);
                expected[slot].retain(|it| !(block..end).contains(it));
            }
            check(&unread, max);
            for (slot, expected) in expected.iter().enumerate() {
                let listed = listed(&unread, slot);
                assert!(listed.is_superset(expected), "step {step}");
                beyond += listed.len() - expected.len();
                assert_eq!(unread.count(slot), listed.len() as u64, "step {step}");
                assert_eq!(unread.is_empty(slot), listed.is_empty(), "step {step}");
                let first = listed.range(9..).next().map(|block| block * BLOCK);
                assert_eq!(unread.next(slot, 9 * BLOCK), first, "step {step}");
            }
        }
        // An attempt that finds all of them good, one after the other, empties the list.
        for block in 0..64 {
            (0..2)
                .for_each(|slot| unread.forget_with(max, slot, block * BLOCK..(block + 1) * BLOCK));
        }
        assert!((0..2).all(|slot| unread.is_empty(slot)));
        beyond
    }

    #[test]
    fn the_list_has_the_blocks_that_are_unread_and_no_others() {
        assert_eq!(compared_with_a_set(MAX_RANGES), 0);
    }

    #[test]
    fn a_full_list_does_not_grow_and_forgets_no_block_that_is_unread() {
        assert!(compared_with_a_set(5) > 0);
    }

    /// Notes blocks of two slots in this order, in a list of so many ranges. Returns the listed
    /// blocks of each slot.
    fn noted(max: usize, blocks: &[(usize, u64)]) -> [Vec<u64>; 2] {
        let unread = Unread::default();
        for &(slot, block) in blocks {
            unread.note_with(max, slot, block * BLOCK);
            check(&unread, max);
        }
        [0, 1].map(|slot| listed(&unread, slot).into_iter().collect())
    }

    #[test]
    fn a_full_list_closes_the_smallest_gap_of_all_slots() {
        // As a fill notes them. Its last block is far from all others.
        let blocks = [(0, 1), (0, 9), (1, 3), (1, 5), (1, 20), (0, 40)];
        assert_eq!(noted(6, &blocks), [vec![1, 9, 40], vec![3, 5, 20]]);
        assert_eq!(noted(5, &blocks), [vec![1, 9, 40], vec![3, 4, 5, 20]]);
        let eight = (1..10).chain([40]).collect::<Vec<u64>>();
        assert_eq!(noted(4, &blocks), [eight, vec![3, 4, 5, 20]]);
        // The first of a slot comes last.
        let blocks = [(0, 1), (0, 5), (0, 8), (1, 60)];
        assert_eq!(noted(3, &blocks), [vec![1, 5, 6, 7, 8], vec![60]]);
    }

    #[test]
    fn a_range_that_is_split_closes_the_smallest_gap_instead() {
        let unread = Unread::default();
        for block in [1, 3, 20, 21, 22, 23, 24] {
            unread.note_with(3, 0, block * BLOCK);
        }
        unread.forget_with(3, 0, 21 * BLOCK..24 * BLOCK);
        check(&unread, 3);
        assert_eq!(listed(&unread, 0), BTreeSet::from([1, 2, 3, 20, 24]));
        unread.forget(0);
        assert!(unread.is_empty(0) && unread.0.borrow().gaps.is_empty());
    }
}
