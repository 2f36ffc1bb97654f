//! One possible fate of the pending writes of a disk in a power cut.

use std::collections::BTreeSet;

use crate::fate::{Choice, Fate, Sectors};
use crate::platter::{Platter, Written};
use crate::prng::Prng;

/// Up to this many pending writes every subset is tried.
const SUBSETS_MAX: usize = 10;
/// Beyond it, this many random subsets beside the systematic ones.
const RANDOM_SUBSETS: usize = 256;
/// Up to this many sectors a write is torn at every sector boundary.
const TORN_EVERYWHERE_MAX: usize = 8;

impl Choice {
    /// All subsets of the pending writes, each write lost or whole.
    ///
    /// # Panics
    /// With more than 20 pending writes, which would take too long.
    pub fn subsets(platter: &Platter) -> impl Iterator<Item = Self> + use<> {
        let count = platter.pending().count();
        assert!(count <= 20, "{count} pending writes have too many subsets");
        all_subsets(count)
    }

    /// The choices worth trying, none twice and in a fixed order: all subsets, or, of many pending
    /// writes, the prefixes, those that lose or keep at most two, and some random ones; and every
    /// write torn in every likely shape, while the earlier ones, all or none of the others survive.
    pub fn explore(platter: &Platter, prng: &mut Prng) -> Vec<Self> {
        worth_trying(&sector_counts(platter).collect::<Vec<_>>(), prng)
    }

    /// The same for several disks that lose their power together, treating all their pending writes
    /// as those of one disk. Each item has a choice for every disk.
    pub fn explore_together(platters: &[Platter], prng: &mut Prng) -> Vec<Vec<Self>> {
        let sectors: Vec<usize> = platters.iter().flat_map(sector_counts).collect();
        let share = |all: Self| {
            let mut fates = all.0.into_iter();
            let counts = platters.iter().map(|platter| platter.pending().count());
            counts.map(|count| Self(fates.by_ref().take(count).collect())).collect()
        };
        worth_trying(&sectors, prng).into_iter().map(share).collect()
    }

    /// A random choice. All lost, all whole and a plain prefix are likely; otherwise every write
    /// has its own fate.
    pub fn random(platter: &Platter, prng: &mut Prng) -> Self {
        let sectors: Vec<usize> = platter.pending().map(|written| written.sector_count()).collect();
        match prng.below(8) {
            0 => Self::of(sectors.len(), |_| false),
            1 => Self::of(sectors.len(), |_| true),
            2 | 3 => {
                let end = prng.index(sectors.len() + 1);
                Self::of(sectors.len(), |index| index < end)
            }
            _ => Self(sectors.into_iter().map(|total| Fate::random(total, prng)).collect()),
        }
    }

    /// A mixture of sectors: a quarter of the pending writes are whole, and each sector of the
    /// others survives with one chance, the same for all of them.
    pub fn mixture(platter: &Platter, prng: &mut Prng) -> Self {
        let luck = (prng.between(1, 7), 8);
        let fate = |total| match prng.below(4) {
            0 => Fate::Whole,
            _ => Fate::Torn(Sectors::some(total, luck, prng)),
        };
        Self(sector_counts(platter).map(fate).collect())
    }

    fn of(count: usize, survives: impl Fn(usize) -> bool) -> Self {
        let fate = |index| if survives(index) { Fate::Whole } else { Fate::Lost };
        Self((0..count).map(fate).collect())
    }
}

/// The number of sectors of each pending write.
fn sector_counts(platter: &Platter) -> impl Iterator<Item = usize> {
    platter.pending().map(Written::sector_count)
}

/// [`Choice::explore`] for writes of these lengths in sectors.
fn worth_trying(sectors: &[usize], prng: &mut Prng) -> Vec<Choice> {
    let mut choices = BTreeSet::new();
    if sectors.len() <= SUBSETS_MAX {
        choices.extend(all_subsets(sectors.len()));
    } else {
        add_likely_subsets(sectors.len(), prng, &mut choices);
    }
    for (torn, &total) in sectors.iter().enumerate() {
        for shape in shapes(total, prng) {
            let contexts: [fn(usize, usize) -> bool; 3] =
                [|index, torn| index < torn, |_, _| true, |_, _| false];
            for survives in contexts {
                let mut choice = Choice::of(sectors.len(), |index| survives(index, torn));
                choice.0[torn] = Fate::Torn(shape.clone());
                choices.insert(choice);
            }
        }
    }
    choices.into_iter().collect()
}

fn all_subsets(count: usize) -> impl Iterator<Item = Choice> {
    (0..1_u32 << count).map(move |subset| Choice::of(count, |index| subset >> index & 1 == 1))
}

fn add_likely_subsets(count: usize, prng: &mut Prng, choices: &mut BTreeSet<Choice>) {
    for end in 0..=count {
        choices.insert(Choice::of(count, |index| index < end));
    }
    for one in 0..count {
        for two in one..count {
            choices.insert(Choice::of(count, |index| index == one || index == two));
            choices.insert(Choice::of(count, |index| index != one && index != two));
        }
    }
    for _ in 0..RANDOM_SUBSETS {
        let subset = Sectors::random(count, prng);
        choices.insert(Choice::of(count, |index| subset.contains(index)));
    }
}

/// The likely tears of a write of this many sectors.
fn shapes(sectors: usize, prng: &mut Prng) -> Vec<Sectors> {
    if sectors < 2 {
        return Vec::new();
    }
    let cuts = if sectors <= TORN_EVERYWHERE_MAX {
        (1..sectors).collect()
    } else {
        vec![1, sectors / 2, sectors - 1]
    };
    let first = cuts.iter().map(|&cut| Sectors::first(cut, sectors));
    let last = cuts.iter().map(|&cut| Sectors::but_first(cut, sectors));
    first.chain(last).chain([Sectors::random(sectors, prng)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_disks_lose_in_every_combination() {
        let mut prng = Prng::new(1);
        let platters = [1, 2].map(Platter::with_pending);
        let choices = Choice::explore_together(&platters, &mut prng);
        assert_eq!(choices.len(), 8);
        for choice in &choices {
            assert_eq!(choice.iter().map(|one| one.0.len()).collect::<Vec<_>>(), [1, 2]);
        }
        let one = Choice::explore(&platters[1], &mut prng);
        let of_one = Choice::explore_together(&platters[1..], &mut prng);
        assert_eq!(of_one.concat(), one, "one disk is no special case");
    }
}
