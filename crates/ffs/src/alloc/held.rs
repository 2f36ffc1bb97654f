//! Held bits of a map: few of many, and in most maps none. Only words with a bit set are kept, and
//! a map without held bits takes no memory.

use std::collections::BTreeMap;

/// The bits that are held, 64 at a time.
#[derive(Debug, Default)]
pub(super) struct Held(BTreeMap<u32, u64>);

const WORD: usize = u64::BITS as usize;

impl Held {
    fn word(&self, bit: usize) -> u64 {
        if self.0.is_empty() {
            return 0; // the usual case
        }
        self.0.get(&((bit / WORD) as u32)).copied().unwrap_or(0)
    }

    /// Whether a bit is held.
    pub(super) fn has(&self, bit: usize) -> bool {
        self.word(bit) >> (bit % WORD) & 1 == 1
    }

    /// Eight bits from `first` on: those of its word, and zeros behind it.
    pub(super) fn bits(&self, first: usize) -> u8 {
        (self.word(first) >> (first % WORD)) as u8
    }

    /// Holds or releases a bit.
    pub(super) fn put(&mut self, bit: usize, held: bool) {
        assert_ne!(self.has(bit), held, "invariant 1: held once, let go once");
        let (word, mask) = ((bit / WORD) as u32, 1 << (bit % WORD));
        let bits = self.0.entry(word).or_default();
        *bits ^= mask;
        if *bits == 0 {
            self.0.remove(&word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Held;
    use std::collections::BTreeSet;

    #[test]
    fn it_holds_what_it_was_given_and_nothing_when_all_is_let_go() {
        let (mut held, mut model) = (Held::default(), BTreeSet::new());
        // Multiples of a number coprime to the length visit all bits, twice.
        for step in 0..2 * 641 {
            let bit = step * 257 % 641;
            let holds = model.insert(bit);
            if !holds {
                model.remove(&bit);
            }
            held.put(bit, holds);
            for bit in 0..641 {
                assert_eq!(held.has(bit), model.contains(&bit), "bit {bit} after {step}");
            }
            for first in (0..640).step_by(8) {
                let bits = (0..8).filter(|bit| model.contains(&(first + bit)));
                assert_eq!(held.bits(first), bits.fold(0, |bits, bit| bits | 1 << bit));
            }
        }
        assert!(held.0.is_empty(), "{held:?}");
    }

    #[test]
    #[should_panic(expected = "held once, let go once")]
    fn nothing_is_held_twice() {
        let mut held = Held::default();
        held.put(70, true);
        held.put(70, true);
    }
}
