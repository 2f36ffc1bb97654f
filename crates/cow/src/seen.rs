//! A bitmap of visited blocks, sparse over the disk.

use std::collections::BTreeMap;

/// Words of a part.
const WORDS: usize = 64;
/// Units of a part: its bits.
const UNITS: u64 = WORDS as u64 * u64::BITS as u64;

/// Visited blocks, by their first units. Only parts of the disk that have some take memory.
#[derive(Default)]
pub struct Seen(BTreeMap<u64, Box<[u64; WORDS]>>);

/// The part, the word and the bit of a unit.
fn place(unit: u64) -> (u64, usize, u64) {
    let within = unit % UNITS;
    (unit / UNITS, (within / u64::from(u64::BITS)) as usize, 1 << (within % u64::from(u64::BITS)))
}

impl Seen {
    /// Notes a visit; returns whether it is the first.
    pub fn insert(&mut self, unit: u64) -> bool {
        let (part, word, bit) = place(unit);
        let word = &mut self.0.entry(part).or_insert_with(|| Box::new([0; WORDS]))[word];
        let is_first = *word & bit == 0;
        *word |= bit;
        is_first
    }

    /// Forgets it.
    pub fn remove(&mut self, unit: u64) {
        let (part, word, bit) = place(unit);
        self.0.get_mut(&part).into_iter().for_each(|part| part[word] &= !bit);
    }

    /// Whether a block was visited.
    pub fn has(&self, unit: u64) -> bool {
        let (part, word, bit) = place(unit);
        self.0.get(&part).is_some_and(|part| part[word] & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_known_and_nothing_else() {
        let mut seen = Seen::default();
        let units = [0, 1, 63, 64, 4095, 4096, 1 << 40, (1 << 40) + 4097];
        assert!(units.into_iter().all(|unit| seen.insert(unit)));
        assert!(!seen.insert(64), "it is known");
        assert!(units.into_iter().all(|unit| seen.has(unit)));
        assert!([2, 62, 65, 4094, 4097, 1 << 39, u64::MAX].iter().all(|&unit| !seen.has(unit)));
        seen.remove(64);
        seen.remove(1 << 50);
        let left: Vec<u64> = units.into_iter().filter(|&unit| seen.has(unit)).collect();
        assert_eq!(left, [0, 1, 63, 4095, 4096, 1 << 40, (1 << 40) + 4097]);
    }
}
