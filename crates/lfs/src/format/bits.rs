//! A set of indexes in a row.

use super::ROW;

/// See the module's prose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bits(pub [u64; ROW / 64]);

impl Bits {
    /// Whether an index is in the set.
    pub fn has(&self, index: u64) -> bool {
        self.0[index as usize / 64] >> (index % 64) & 1 == 1
    }

    /// Adds an index.
    pub fn set(&mut self, index: u64) {
        self.0[index as usize / 64] |= 1 << (index % 64);
    }

    /// Removes an index.
    pub fn clear(&mut self, index: u64) {
        self.0[index as usize / 64] &= !(1 << (index % 64));
    }

    /// Number of indexes in the set.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Number of indexes in the set below this one.
    pub fn rank(&self, index: u64) -> u64 {
        let (word, bit) = (index as usize / 64, index % 64);
        let below: u64 = self.0[..word].iter().map(|word| u64::from(word.count_ones())).sum();
        let here = self.0.get(word).map_or(0, |word| word & ((1 << bit) - 1));
        below + u64::from(here.count_ones())
    }

    /// Its indexes, in order.
    pub fn indexes(&self) -> impl Iterator<Item = u64> + use<> {
        let bits = *self;
        (0..ROW as u64).filter(move |&index| bits.has(index))
    }

    /// Whether all of its indexes are in another set.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(mine, other)| mine & !other == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_counts_what_is_below() {
        let mut bits = Bits::default();
        for index in [0, 63, 64, 200, 255] {
            bits.set(index);
        }
        let ranks = [0, 1, 63, 64, 65, 200, 201, 255].map(|index| bits.rank(index));
        assert_eq!(ranks, [0, 1, 1, 2, 3, 3, 4, 4]);
        assert_eq!((bits.rank(256), bits.count()), (5, 5));
        bits.clear(63);
        assert_eq!(bits.indexes().collect::<Vec<_>>(), [0, 64, 200, 255]);
        assert!(bits.is_within(&bits) && !bits.is_within(&Bits::default()));
    }
}
