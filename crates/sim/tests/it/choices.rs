//! The losses that [`sim::Choice::explore`] tries.

use std::collections::BTreeSet;

use block::{BlockDevice, Durability};
use sim::{Choice, Disk, Executor, Fate, Image, Platter, Prng};

/// A disk with this many pending writes of this many sectors.
fn pending(writes: u64, sectors: usize) -> Platter {
    let executor = Executor::new(5);
    let disk = Disk::new(&executor, Image::zeroed(1 << 20));
    executor.block_on(async {
        for number in 0..writes {
            let data = vec![vec![number as u8 + 1; sectors * 512].into()];
            let offset = number * sectors as u64 * 512;
            disk.write(offset, data, Durability::Plain).await.expect("a write");
        }
    });
    disk.platter()
}

fn survivors(choice: &Choice) -> usize {
    choice.fates().iter().filter(|fate| **fate == Fate::Whole).count()
}

#[test]
fn a_few_writes_are_tried_in_every_subset_and_torn_everywhere() {
    let platter = pending(4, 3);
    let choices = Choice::explore(&platter, &mut Prng::new(1));
    let subsets: BTreeSet<Choice> = Choice::subsets(&platter).collect();
    assert_eq!(subsets.len(), 16);
    assert!(subsets.iter().all(|subset| choices.contains(subset)));
    for (torn, text) in [(0, "[100] 1 1 1"), (1, "1 [011] 0 0"), (3, "0 0 0 [110]")] {
        let named = |choice: &Choice| choice.to_string() == text;
        assert!(choices.iter().any(named), "write {torn}: {text}");
    }
    let images: BTreeSet<u128> =
        choices.iter().map(|choice| platter.image(choice).fingerprint()).collect();
    assert!(images.len() >= 16 + 4 * 4 * 2);
}

#[test]
fn many_writes_are_tried_in_the_likely_subsets() {
    let platter = pending(40, 1);
    let choices = Choice::explore(&platter, &mut Prng::new(1));
    assert!(choices.len() < 3000, "{}", choices.len());
    let with = |count| choices.iter().filter(|choice| survivors(choice) == count).count();
    let pairs = 40 * 39 / 2;
    assert_eq!([with(0), with(1), with(2)], [1, 40, pairs]);
    assert_eq!([with(40), with(39), with(38)], [1, 40, pairs]);
    assert!((3..38).all(|count| with(count) >= 1), "every prefix");
    let distinct: BTreeSet<&Choice> = choices.iter().collect();
    assert_eq!(distinct.len(), choices.len());
}

#[test]
fn the_same_seed_explores_the_same() {
    let platter = pending(12, 9);
    let explore = |seed| Choice::explore(&platter, &mut Prng::new(seed));
    assert_eq!(explore(1), explore(1));
    assert_ne!(explore(1), explore(2));
}
