//! Random numbers from a seed.

use std::cell::Cell;

use runtime::Random;

/// A seeded random number generator (splitmix64).
pub struct Seeded(Cell<u64>);

impl Seeded {
    /// The generator that starts from this seed.
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }
}

impl Random for Seeded {
    fn next_u64(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut mixed = self.0.get();
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}
