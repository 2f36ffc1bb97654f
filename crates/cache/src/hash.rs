//! Maps keyed by numbers of the disk: inodes, and the fragments at which blocks begin.
//!
//! A volume has millions of each, and most calls look up several. A tree would be a chain of cache
//! misses of the processor; here it is one or two. No client chooses these numbers, so the hash
//! need not be secret; and it is always the same, so that a simulation is reproducible. Nothing may
//! depend on the iteration order of such a map.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// An odd constant whose product with a number has no pattern.
pub const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Both halves of a product: every bit depends on all of them.
pub fn folded_product(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product >> 64) as u64 ^ product as u64
}

/// A map keyed by such numbers.
pub type NumberMap<V> = HashMap<u64, V, BuildHasherDefault<NumberHasher>>;

/// Hashes one number.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = folded_product(self.0 ^ number, SPREAD);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn neighbours_and_blocks_of_all_groups_are_spread() {
        let hash = |number| {
            let mut hasher = NumberHasher::default();
            hasher.write_u64(number);
            hasher.finish()
        };
        // A table takes its slots from the low bits, and compares seven high ones.
        for step in [1, 8, 64, 4096, 160_032] {
            let low: BTreeSet<_> = (0..4096).map(|index| hash(index * step) % 4096).collect();
            assert!(low.len() > 2000, "{} places for steps of {step}", low.len());
            let high: BTreeSet<_> = (0..4096).map(|index| hash(index * step) >> 57).collect();
            assert_eq!(high.len(), 128, "for steps of {step}");
        }
    }
}
