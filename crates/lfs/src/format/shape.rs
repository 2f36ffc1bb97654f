//! Sizes of the parts of a volume. They follow from those of its disk, its segments and its blocks.

use std::ops::Range;

use super::{BACK, FRONT, ROW, table};

/// Segments that the smallest volume has.
pub const LEAST_SEGMENTS: u64 = 32;
/// Dirty blocks of metadata, at most, on a large volume.
const MOST_DIRTY: u64 = 2048;
/// Bytes of staged changes, at most, on a large volume.
const MOST_STAGED: u64 = 256 << 10;

/// See the module's prose. All in units, unless told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The whole volume.
    pub units: u64,
    /// A segment.
    pub segment: u64,
    /// A block of a file.
    pub block: u64,
    /// Percent of the segments that the cleaner may need.
    pub reserve: u8,
}

impl Shape {
    /// Rows that there may be.
    pub fn rows(&self) -> u64 {
        (self.units / self.block + 4 * (self.units / self.segment) + 64).min(1 << 32)
    }

    /// Units of one copy of the table.
    pub fn table(&self) -> u64 {
        self.rows().div_ceil(table::ROWS as u64)
    }

    /// The first unit of each copy of the table.
    pub fn tables(&self) -> [u64; 2] {
        [FRONT, self.units.saturating_sub(BACK + self.table())]
    }

    /// The places of the two heads.
    pub fn heads(&self) -> [u64; 2] {
        [0, self.units - 1]
    }

    /// The places of the two copies of one of the two regions.
    pub fn regions(&self, turn: u64) -> [u64; 2] {
        [1 + turn, self.units - BACK + turn]
    }

    /// The first unit of the first segment: a multiple of a segment, so that a segment of whole
    /// stripes lies on whole stripes.
    fn first(&self) -> u64 {
        (FRONT + self.table()).next_multiple_of(self.segment)
    }

    /// Number of segments.
    pub fn segments(&self) -> u64 {
        self.tables()[1].saturating_sub(self.first()) / self.segment
    }

    /// The units of a segment.
    pub fn units_of(&self, segment: u64) -> Range<u64> {
        let start = self.first() + segment * self.segment;
        start..start + self.segment
    }

    /// The segment that has a unit, if one has.
    pub fn segment_of(&self, unit: u64) -> Option<u64> {
        let segment = unit.checked_sub(self.first())? / self.segment;
        (segment < self.segments()).then_some(segment)
    }

    /// Indexes that a row uses at most: a fraction of a segment, so that moved rows fill segments.
    pub fn row(&self) -> u64 {
        (self.segment / 4).max(2 * self.block).min(self.segment).min(ROW as u64)
    }

    /// Dirty blocks of metadata, at most, before a checkpoint is due.
    pub fn dirty(&self) -> u64 {
        (self.units / 64).clamp(32, MOST_DIRTY)
    }

    /// Bytes of staged changes, at most, before changes wait for a commit.
    pub fn staged(&self) -> u64 {
        (self.units * 8).clamp(24 << 10, MOST_STAGED)
    }

    /// Clean segments that a checkpoint may need.
    pub fn for_checkpoint(&self) -> u64 {
        (self.dirty() + self.dirty() / 4 + 16).div_ceil(self.segment) + 1
    }

    /// The same for the cleaner.
    pub fn for_cleaner(&self) -> u64 {
        let share = self.segments() * u64::from(self.reserve) / 100;
        let others = self.for_checkpoint() + self.for_commit();
        share.saturating_sub(others).max(others).max(3)
    }

    /// The same for commits: twice the staged changes, a summary, and an end of a segment.
    pub fn for_commit(&self) -> u64 {
        (2 * self.staged() / cow::UNIT as u64 + 4).div_ceil(self.segment) + 2
    }

    /// Clean segments that no block of a file takes.
    pub fn reserved(&self) -> u64 {
        self.for_checkpoint() + self.for_cleaner() + self.for_commit()
    }

    /// Units for files and their metadata. The rest of the segments is clean, or is what the
    /// cleaner cannot compact further.
    pub fn usable(&self) -> u64 {
        let segments = self.segments().saturating_sub(self.reserved() + 3);
        let cleaner = self.for_cleaner();
        segments * self.segment / (cleaner + 1) * cleaner
    }

    /// Whether it makes sense, whatever the disk is.
    pub fn is_legal(&self) -> bool {
        let is_block = self.block.is_power_of_two() && self.block <= 16;
        let is_size = (64..1 << 40).contains(&self.units) && self.reserve <= 50;
        // The other sizes make sense only then.
        if !(is_block && is_size) {
            return false;
        }
        let is_segment = (2 * self.block..=1 << 16).contains(&self.segment);
        if !is_segment || !self.segment.is_multiple_of(self.block) {
            return false;
        }
        self.segments() >= LEAST_SEGMENTS && self.usable() >= 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(units: u64, segment: u64) -> Shape {
        Shape { units, segment, block: 2, reserve: 8 }
    }

    #[test]
    fn parts_do_not_overlap() {
        for (units, segment) in [(2048, 4), (16_384, 16), (1 << 18, 256), (1 << 28, 240)] {
            let shape = shape(units, segment);
            assert!(shape.is_legal(), "{shape:?}");
            let [front, back] = shape.tables();
            assert!(front + shape.table() <= shape.units_of(0).start);
            assert!(shape.units_of(shape.segments() - 1).end <= back);
            assert!(back + shape.table() + BACK <= units);
            assert_eq!(shape.segment_of(shape.units_of(7).end), Some(8));
            assert_eq!(shape.segment_of(shape.units_of(7).end - 1), Some(7));
            assert_eq!(shape.segment_of(back), None.filter(|_: &u64| true));
        }
    }

    #[test]
    fn most_of_a_large_disk_is_for_files() {
        let shape = shape(1 << 18, 256);
        let share = shape.usable() * 100 / shape.units;
        assert!((84..=95).contains(&share), "{share} %");
    }

    #[test]
    fn a_small_disk_is_refused() {
        assert!(!shape(512, 16).is_legal());
        assert!(!shape(64, 256).is_legal());
    }
}
