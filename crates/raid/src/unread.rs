//! Blocks that a member lacks because no disk returned them when the member was filled.
//!
//! Such a block is not lost: a disk that could not be read may have it. It keeps its true checksum,
//! which the bytes on the member do not fit, and reads as EIO. It stays on this list until a read,
//! a scrub, a later attempt ([`crate::refill`]) or a client writes it. If the member is to be
//! replaced and stays after all, it still lacks the block.
//!
//! The list is of ranges, and a bounded number of them. If there are more, a range also covers
//! blocks beside its own, which the member has: an attempt finds them good. No range is split then,
//! so a block within one stays listed until those before or behind it are written.
//!
//! Invariants:
//! 1. A block is listed from the time a fill leaves it out until it is written or its member goes.
//! 2. Ranges of a slot are disjoint, with gaps between them. There are at most [`MAX_RANGES`], and
//!    one for each slot.
//!
//! Not asserted: 1, which is about calls from other files.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::blocks::BLOCK;
use crate::planted::{Bug, is_planted};

/// Number of ranges from which on no further ones begin: about 1.5 MB.
const MAX_RANGES: usize = 32 << 10;

/// Ranges of blocks of members: the end of each, by its slot and its first offset in the data area.
#[derive(Default)]
pub(crate) struct Unread(RefCell<BTreeMap<(usize, u64), u64>>);

impl Unread {
    /// Lists a block that a fill left out.
    pub(crate) fn note(&self, slot: usize, offset: u64) {
        if !is_planted(Bug::GivenUpFills) {
            self.note_with(MAX_RANGES, slot, offset);
        }
    }

    fn note_with(&self, max: usize, slot: usize, offset: u64) {
        let mut all = self.0.borrow_mut();
        let before =
            all.range((slot, 0)..=(slot, offset)).next_back().map(|(it, end)| (it.1, *end));
        if before.is_some_and(|(_, end)| offset < end) {
            return;
        }
        let behind = all.range((slot, offset)..(slot + 1, 0)).next().map(|(it, end)| (it.1, *end));
        let is_full = all.len() >= max;
        let gap =
            |(start, end): (u64, u64)| if end <= offset { offset - end } else { start - offset };
        let (of_before, of_behind) = (before.map(gap), behind.map(|it| gap(it) - BLOCK));
        let nearest = of_before.into_iter().chain(of_behind).min();
        let is_joined = |gap: Option<u64>| gap == Some(0) || is_full && gap == nearest;
        let (mut start, mut end) = (offset, offset + BLOCK);
        if let Some((first, _)) = before.filter(|_| is_joined(of_before)) {
            start = first;
        }
        if let Some((first, last)) = behind.filter(|_| is_joined(of_behind)) {
            all.remove(&(slot, first));
            end = last;
        }
        all.insert((slot, start), end);
        assert!(is_full || all.len() <= max, "invariant 2");
    }

    /// Removes the blocks of a range that was written.
    pub(crate) fn forget_range(&self, slot: usize, offset: u64, length: u64) {
        self.forget_with(MAX_RANGES, slot, offset..offset + length);
    }

    fn forget_with(&self, max: usize, slot: usize, gone: std::ops::Range<u64>) {
        let mut all = self.0.borrow_mut();
        if all.is_empty() {
            return;
        }
        // A range that begins earlier, and all that begin within it.
        let earlier = all.range((slot, 0)..(slot, gone.start)).next_back();
        let within = all.range((slot, gone.start)..(slot, gone.end));
        let met = earlier.filter(|(_, end)| **end > gone.start).into_iter().chain(within);
        let met: Vec<(u64, u64)> = met.map(|(&(_, start), &end)| (start, end)).collect();
        for (start, end) in met {
            let (has_head, has_tail) = (start < gone.start, gone.end < end);
            if has_head && has_tail && all.len() >= max {
                continue;
            }
            all.remove(&(slot, start));
            if has_head {
                all.insert((slot, start), gone.start);
            }
            if has_tail {
                all.insert((slot, gone.end), end);
            }
        }
    }

    /// Removes all blocks of a slot that another disk has taken.
    pub(crate) fn forget(&self, slot: usize) {
        self.0.borrow_mut().retain(|(of, _), _| *of != slot);
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
        let ranges = all.range((slot, 0)..(slot + 1, 0));
        ranges.map(|((_, start), end)| (end - start) / BLOCK).sum()
    }

    /// The first listed block of a slot that is at this offset or behind it.
    pub(crate) fn next(&self, slot: usize, from: u64) -> Option<u64> {
        let all = self.0.borrow();
        let earlier = all.range((slot, 0)..=(slot, from)).next_back();
        if earlier.is_some_and(|(_, end)| from < *end) {
            return Some(from);
        }
        all.range((slot, from)..(slot + 1, 0)).next().map(|((_, start), _)| *start)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sim::Prng;

    use super::*;

    fn listed(unread: &Unread, slot: usize) -> BTreeSet<u64> {
        (0..64).filter(|block| unread.has(slot, block * BLOCK)).collect()
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
            assert!(unread.0.borrow().len() <= max + 2, "step {step}");
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
}
