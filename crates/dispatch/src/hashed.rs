//! A key with its stored hash, for maps with repeated lookups.

use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

/// A key and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hashed<K> {
    hash: u64,
    pub(crate) key: K,
}

/// Builds the hashers of a map with such keys.
pub(crate) type AsTaken = BuildHasherDefault<Taken>;

impl<K: Hash> Hashed<K> {
    /// The key with its hash by `state`, which is the same for all keys of a map, and secret.
    pub(crate) fn new(key: K, state: &RandomState) -> Self {
        Self { hash: state.hash_one(&key), key }
    }
}

impl<K> Hash for Hashed<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A hasher that returns the hash that it was given.
#[derive(Default)]
pub(crate) struct Taken(u64);

impl Hasher for Taken {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a hash was taken before, and is one number")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_finds_the_hash_that_was_taken_when_the_key_was_made() {
        let state = RandomState::new();
        for key in ["", "one", "another"] {
            let hashed = Hashed::new(key, &state);
            assert_eq!(AsTaken::default().hash_one(hashed), state.hash_one(key), "{key}");
        }
    }

    #[test]
    #[should_panic(expected = "a hash was taken before")]
    fn a_key_whose_hash_was_not_taken_is_a_mistake() {
        AsTaken::default().hash_one("a key alone");
    }
}
