//! Which mutants are tried: all of a part, or those of a change, or a sample, or a share.
//!
//! 1. The same arguments and the same sources always choose the same mutants.
//! 2. The shards of one choice have every mutant of it once.

use std::str::FromStr;

/// A share of a choice: the `number`th of `of`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Shard, String> {
        let shard = text.split_once('/').and_then(|(number, of)| {
            Some(Shard { number: number.parse().ok()?, of: of.parse().ok()? })
        });
        shard
            .filter(|shard| (1..=shard.of).contains(&shard.number))
            .ok_or_else(|| "a shard is K/N, with K from 1 to N".to_owned())
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.number, self.of)
    }
}

impl Shard {
    /// Its share, spread over the whole.
    pub(super) fn of<T>(self, all: Vec<T>) -> Vec<T> {
        let numbered = all.into_iter().enumerate();
        let mine = numbered.filter(|(index, _)| index % self.of == self.number - 1);
        mine.map(|(_, one)| one).collect()
    }
}

/// A sample of so many, drawn by `seed`, in the order in which they were.
pub(super) fn sample<T>(all: Vec<T>, size: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    let mut left = all.len();
    let mut wanted = size.min(left);
    let mut drawn = Vec::with_capacity(wanted);
    for one in all {
        // Each is taken with the chance that the rest of the sample has in the rest of the list.
        if next(&mut state) % (left as u64) < wanted as u64 {
            drawn.push(one);
            wanted -= 1;
        }
        left -= 1;
    }
    drawn
}

/// The generator splitmix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_that_of_its_seed_and_has_its_size() {
        let draw = |size, seed| sample((0..1000).collect::<Vec<_>>(), size, seed);
        assert_eq!(draw(150, 7).len(), 150);
        assert_eq!(draw(150, 7), draw(150, 7));
        assert_ne!(draw(150, 7), draw(150, 8));
        assert!(draw(150, 7).is_sorted_by(|one, next| one < next), "in order, and none twice");
        assert_eq!(draw(2000, 7).len(), 1000);
    }

    #[test]
    fn the_shards_of_a_choice_have_everything_once() {
        let shard = |number| Shard { number, of: 4 }.of((0..10).collect::<Vec<_>>());
        let mut all = (1..=4).flat_map(shard).collect::<Vec<_>>();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        assert_eq!("2/4".parse(), Ok(Shard { number: 2, of: 4 }));
        assert!(["0/4", "5/4", "1", "a/b"].iter().all(|text| text.parse::<Shard>().is_err()));
    }
}
