//! The running hash of all events: equal digests mean equal runs.

use crate::prng::mix;

/// A hash of a sequence of numbers and bytes. It guards against our accidents, not against an
/// adversary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(u64);

impl Digest {
    /// The initial digest of a seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x5851_f42d_4c95_7f2d))
    }

    /// Adds a number.
    pub fn add(&mut self, value: u64) {
        self.0 = mix(self.0.rotate_left(5) ^ value);
    }

    /// Adds bytes and their count.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        let mut state = self.0 ^ bytes.len() as u64;
        let (words, rest) = bytes.as_chunks::<8>();
        for &word in words {
            state = absorb(state, u64::from_le_bytes(word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.0 = mix(absorb(state, u64::from_le_bytes(last)));
    }

    /// The hash so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// One multiplication per eight bytes: cheap enough to hash every byte that is ever written.
fn absorb(state: u64, word: u64) -> u64 {
    let product = (state ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93);
    product ^ (product >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[&[u8]]) -> u64 {
        let mut digest = Digest::new(0);
        parts.iter().for_each(|part| digest.add_bytes(part));
        digest.value()
    }

    #[test]
    fn content_order_and_length_count() {
        assert_eq!(of(&[b"ab", b"c"]), of(&[b"ab", b"c"]));
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"c", b"ab"]));
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
        assert_ne!(of(&[&[0; 8]]), of(&[&[0; 9]]));
        assert_ne!(of(&[&[0; 16]]), of(&[&[0; 8], &[0; 8]]));
    }
}
