//! A byte range within a block, and sets of numbers.

use std::collections::BTreeMap;
use std::ops::Range;

/// A half-open byte range; empty if `from` is not below `to`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    from: usize,
    to: usize,
}

impl Span {
    pub(crate) const NONE: Self = Self { from: 0, to: 0 };

    pub(crate) fn is_empty(self) -> bool {
        self.from >= self.to
    }

    /// The smallest span that covers both.
    pub(crate) fn join(self, other: Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self { from: self.from.min(other.from), to: self.to.max(other.to) },
        }
    }

    /// The smallest span of whole `unit`s that covers this one, cut off at `length`.
    pub(crate) fn whole(self, unit: usize, length: usize) -> Range<usize> {
        self.from / unit * unit..self.to.next_multiple_of(unit).min(length)
    }
}

impl From<Range<usize>> for Span {
    fn from(Range { start: from, end: to }: Range<usize>) -> Self {
        Self { from, to }
    }
}

/// A set of numbers, made of ranges that may overlap. The cost of a query or an insertion is
/// logarithmic in the size of the set.
#[derive(Debug, Default)]
pub(crate) struct Union {
    /// The end of each range by its start; the ranges are disjoint.
    ranges: BTreeMap<usize, usize>,
}

impl Union {
    /// Whether the set contains any number of this range.
    pub(crate) fn meets(&self, range: &Range<usize>) -> bool {
        let last = self.ranges.range(..range.end).next_back();
        !range.is_empty() && last.is_some_and(|(_, &end)| end > range.start)
    }

    /// Adds the numbers of a range.
    pub(crate) fn add(&mut self, range: Range<usize>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        while let Some((&other, &its_end)) = self.ranges.range(..=end).next_back()
            && its_end >= start
        {
            self.ranges.remove(&other);
            (start, end) = (start.min(other), end.max(its_end));
        }
        self.ranges.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_union_meets_what_any_of_its_ranges_overlaps(
            ranges in prop::collection::vec((0..60_usize, 0..12_usize), 0..30),
        ) {
            let mut union = Union::default();
            let mut held = [false; 80];
            for (start, count) in ranges {
                union.add(start..start + count);
                held[start..start + count].fill(true);
                let ends: Vec<_> = union.ranges.iter().collect();
                prop_assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", ends);
                for start in 0..70 {
                    for count in 0..5 {
                        let range = start..start + count;
                        let expected = held[range.clone()].contains(&true);
                        prop_assert_eq!(union.meets(&range), expected, "{:?}", range);
                    }
                }
            }
        }
    }

    #[test]
    fn a_join_holds_both_and_nothing_adds_nothing() {
        let span = |range: Range<usize>| Span::from(range);
        assert_eq!(span(3..5).join(span(9..10)), span(3..10));
        assert_eq!(span(9..10).join(span(3..5)), span(3..10));
        assert_eq!(span(3..5).join(Span::NONE), span(3..5));
        assert_eq!(Span::NONE.join(span(3..5)), span(3..5));
        assert!(Span::NONE.join(span(7..7)).is_empty());
    }

    #[test]
    fn whole_units_end_with_the_block() {
        assert_eq!(Span::from(4095..4097).whole(4096, 32_768), 0..8192);
        assert_eq!(Span::from(8192..12_288).whole(4096, 32_768), 8192..12_288);
        assert_eq!(Span::from(600..700).whole(4096, 1024), 0..1024);
    }
}
