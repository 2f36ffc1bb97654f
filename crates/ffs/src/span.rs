//! A stretch of bytes within a block.

use std::ops::Range;

/// From one byte to before another; empty where there is nothing between them.
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

    /// The smallest that holds both.
    pub(crate) fn join(self, other: Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self { from: self.from.min(other.from), to: self.to.max(other.to) },
        }
    }

    /// The smallest of whole `units` that holds this one, as far as there are bytes.
    pub(crate) fn whole(self, unit: usize, length: usize) -> Range<usize> {
        self.from / unit * unit..self.to.next_multiple_of(unit).min(length)
    }
}

impl From<Range<usize>> for Span {
    fn from(Range { start: from, end: to }: Range<usize>) -> Self {
        Self { from, to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
