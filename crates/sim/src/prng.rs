//! Random numbers from a seed: xoshiro256++ (Blackman and Vigna, 2019), its state filled by
//! splitmix64, as its authors advise. Fast and well spread; an observer of enough output can
//! predict it, which is the point here.

/// A stream of pseudo-random numbers. The same seed gives the same stream, everywhere and always.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prng {
    state: [u64; 4],
}

impl Prng {
    /// The stream of a seed; near seeds give unrelated streams.
    pub fn new(seed: u64) -> Self {
        let mut counter = seed;
        let state = std::array::from_fn(|_| {
            counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(counter)
        });
        Self { state }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number below `limit`, which is not zero. The bias of at most `limit` in 2^64 is accepted.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "there is no number below zero");
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// An index into a collection of `length` items, which is not zero.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range");
        match (high - low).checked_add(1) {
            Some(width) => low + self.below(width),
            None => self.next_u64(),
        }
    }

    /// True `part` times out of `whole`.
    pub fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.below(whole) < part
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// A separate stream, so that its user's draws do not disturb this one.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }
}

/// The output function of splitmix64: spreads every bit of `value` over all of the result.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_first_numbers_come_out() {
        // xoshiro256++ from the state 1, 2, 3, 4.
        let mut prng = Prng { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| prng.next_u64()).collect();
        assert_eq!(first, [41943041, 58720359, 3588806011781223, 3591011842654386]);
        // splitmix64 from the state 0.
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_its_ends() {
        let mut prng = Prng::new(5);
        let drawn: Vec<u64> = (0..1000).map(|_| prng.between(3, 7)).collect();
        assert!(drawn.iter().all(|number| (3..=7).contains(number)));
        assert!((3..=7).all(|number| drawn.contains(&number)));
    }

    #[test]
    fn a_fork_goes_its_own_way() {
        let mut prng = Prng::new(5);
        let mut fork = prng.fork();
        assert_ne!(prng.next_u64(), fork.next_u64());
    }
}
