//! The read pattern of a file: the data that a sequential reader will want next.
//!
//! A file is read sequentially when a call begins near where the farthest one ended: not just
//! there, because clients send several calls at once, which arrive in any order. Then a window
//! behind it is read ahead, twice as large each time, and refilled when half of it has been used.

use std::ops::Range;

/// The most bytes that are read ahead.
const WINDOW_MOST: u64 = 2 << 20;
/// Distance from the expected offset at which a call of a sequential reader may begin, in bytes.
const DISORDER: u64 = 1 << 20;
/// The read pattern of a file, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// End of the farthest call.
    next: u64,
    /// End of the data that has been read ahead.
    ahead: u64,
    window: u64,
}

impl Reading {
    /// Notes a read of `count` bytes from `offset` on; returns the range to read ahead, if there is
    /// room.
    pub(crate) fn advance(&mut self, offset: u64, count: u64, has_room: bool) -> Range<u64> {
        let end = offset.saturating_add(count);
        if offset.abs_diff(self.next) > DISORDER {
            *self = Self { next: end, ahead: end, window: 0 };
            return end..end;
        }
        self.next = self.next.max(end);
        self.ahead = self.ahead.max(self.next);
        if !has_room || self.ahead - self.next > self.window / 2 {
            return end..end;
        }
        self.window = (2 * self.window.max(count)).min(WINDOW_MOST);
        let from = self.ahead;
        self.ahead = self.next.saturating_add(self.window).max(from);
        from..self.ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranges that are read ahead for calls of `count` bytes at these offsets.
    fn ahead(count: u64, offsets: &[u64]) -> Vec<Range<u64>> {
        let mut reading = Reading::default();
        offsets.iter().map(|&offset| reading.advance(offset, count, true)).collect()
    }

    #[test]
    fn the_window_of_a_sequential_reader_doubles_and_is_refilled_when_half_is_used() {
        let offsets: Vec<u64> = (0..200).map(|call| call * 10_000).collect();
        let ranges = ahead(10_000, &offsets);
        assert_eq!(ranges[0], 10_000..30_000);
        assert!(ranges[1].is_empty() || ranges[1].start == 30_000);
        let mut to = 10_000;
        for (range, offset) in ranges.iter().zip(offsets) {
            if !range.is_empty() {
                assert_eq!(range.start, to, "nothing twice, and nothing left out");
                to = range.end;
            }
            assert!(to >= offset + 10_000 && to - offset <= WINDOW_MOST + 10_000);
        }
        assert!(to > 2_000_000 + WINDOW_MOST / 2, "the window has become as large as it may");
    }

    #[test]
    fn calls_that_overtake_each_other_are_still_sequential() {
        let offsets = [0, 128 << 10, 64 << 10, 256 << 10, 192 << 10, 320 << 10];
        let ranges = ahead(64 << 10, &offsets);
        assert!(ranges.iter().filter(|range| !range.is_empty()).count() >= 2, "{ranges:?}");
    }

    #[test]
    fn nothing_is_read_ahead_for_calls_from_anywhere() {
        let offsets = [7 << 30, 1 << 30, 5 << 30, 3 << 30];
        assert!(ahead(64 << 10, &offsets).iter().all(Range::is_empty));
        assert!(ahead(1 << 20, &[u64::MAX - 10, 1 << 40]).iter().all(Range::is_empty));
    }
}
