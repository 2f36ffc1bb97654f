//! A random number generator of our own: the same seed gives the same workload, over TCP and in a
//! simulated world.

/// A sequence of random numbers from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The sequence of this seed for the `stream`th of its users.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut chance = Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        chance.next_u64();
        chance
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which must not be 0. (Biased by less than one in 2^32 for the
    /// bounds of workloads, and quick.)
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below zero");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 up to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The index of a weight, chosen with a probability proportional to the weight.
    pub fn weighted(&mut self, weights: impl Iterator<Item = f64> + Clone) -> usize {
        let mut left = self.unit() * weights.clone().sum::<f64>();
        for (index, weight) in weights.clone().enumerate() {
            if left < weight {
                return index;
            }
            left -= weight;
        }
        weights.count().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_kept() {
        let mut chance = Chance::new(1, 0);
        let mut drawn = [0_u32; 3];
        for _ in 0..10_000 {
            drawn[chance.weighted([1.0, 0.0, 3.0].into_iter())] += 1;
        }
        assert_eq!(drawn[1], 0);
        assert!((2300..2700).contains(&drawn[0]), "{drawn:?}");
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let draw = |seed, stream| Chance::new(seed, stream).next_u64();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }
}
