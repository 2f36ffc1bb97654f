//! The units of a chunk as a bit set, and the pieces within it.
//!
//! A piece is of order `n` when it has `1 << n` units. It begins at a multiple of its length, so
//! that two pieces have no unit in common or one is within the other.

use std::ops::{BitAnd, BitOr, Sub};

/// Units in a chunk.
pub(super) const COUNT: usize = u64::BITS as usize;
/// Orders of pieces, from one unit to all.
pub(super) const ORDERS: usize = COUNT.ilog2() as usize + 1;

/// A set of units of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Units(u64);

impl Units {
    pub(super) const NONE: Self = Self(0);
    pub(super) const ALL: Self = Self(u64::MAX);

    /// The units of a piece.
    pub(super) fn of(first: usize, order: usize) -> Self {
        Self((u64::MAX >> (COUNT - (1 << order))) << first)
    }

    pub(super) fn is_empty(self) -> bool {
        self == Self::NONE
    }

    pub(super) fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The first piece of an order that lies within the set.
    pub(super) fn first(self, order: usize) -> Option<usize> {
        let starts = (0..order).fold(self.0, |starts, half| starts & starts >> (1 << half));
        let multiples = u64::MAX / Self::of(0, order).0;
        let starts = starts & multiples;
        (starts != 0).then(|| starts.trailing_zeros() as usize)
    }

    /// The order of the largest piece that lies within the set.
    pub(super) fn largest(self) -> Option<usize> {
        (0..ORDERS).rev().find(|&order| self.first(order).is_some())
    }

    /// Runs of adjacent units: first unit and number of each.
    pub(super) fn stretches(mut self) -> impl Iterator<Item = (usize, usize)> {
        std::iter::from_fn(move || {
            let first = self.0.trailing_zeros() as usize;
            let count = self.0.checked_shr(first as u32)?.trailing_ones() as usize;
            self.0 &= self.0.wrapping_add(1 << first); // carries through the run
            Some((first, count))
        })
    }
}

impl BitAnd for Units {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Units {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Sub for Units {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_piece_is_the_first_that_fits_and_begins_at_a_multiple() {
        // Against a search by hand, over sets of every density.
        let mut bits: u64 = 1;
        for round in 0..2_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
            for units in [bits, bits | bits >> 7, bits & bits >> 9, bits | u64::MAX << 32] {
                let units = Units(units);
                let by_hand = |order: usize| {
                    let pieces = (0..COUNT).step_by(1 << order);
                    pieces.into_iter().find(|&first| (Units::of(first, order) - units).is_empty())
                };
                (0..ORDERS).for_each(|order| assert_eq!(units.first(order), by_hand(order)));
                let largest = (0..ORDERS).rev().find(|&order| by_hand(order).is_some());
                assert_eq!(units.largest(), largest);
            }
        }
        assert_eq!((Units::ALL.largest(), Units::NONE.largest()), (Some(ORDERS - 1), None));
    }

    #[test]
    fn stretches_are_all_units_and_no_other() {
        for bits in [0, 1, 1 << 63, u64::MAX, u64::MAX << 1, 0b1110_0110, 5 << 61] {
            let mut all = Units::NONE;
            for (first, count) in Units(bits).stretches() {
                let stretch = Units((first..first + count).fold(0, |some, unit| some | 1 << unit));
                assert!((all & stretch).is_empty());
                all = all | stretch;
            }
            assert_eq!(all, Units(bits));
        }
        assert_eq!(Units(0b1110_0110).stretches().collect::<Vec<_>>(), [(1, 2), (5, 3)]);
    }
}
