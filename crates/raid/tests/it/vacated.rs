//! Stripes whose data is no longer needed.

use block::{BlockDevice, Buffer, Durability, Verb};
use futures::future::join;
use raid::Set;
use raid::layout::Level;
use sim::{Effect, Executor, Fault, Prng};

use crate::losses::{all_of, bytes, copies, devices, new_disks, new_set, opened};

const LEVELS: [(Level, usize); 3] =
    [(Level::Parity, 3), (Level::Mirrored, 2), (Level::Mirrored, 3)];

fn stripe_of(set: &Set) -> u64 {
    set.geometry().stripe.expect("it is cut").length()
}

async fn write(set: &Set, at: u64, byte: u8, length: u64, durability: Durability) {
    let data = vec![vec![byte; length as usize].into()];
    set.write(at, data, durability).await.expect("nothing fails");
}

#[test]
fn whole_stripes_alone_are_vacated_and_the_first_write_makes_the_rest_zeros() {
    for (level, count) in LEVELS {
        let executor = Executor::new(3);
        let disks = new_disks(&executor, count);
        executor.block_on(async {
            let set = new_set(&executor, &disks, level).await;
            let (mut expected, stripe) = (bytes(&set, 4), stripe_of(&set));
            let data = vec![expected.clone().into()];
            set.write(0, data, Durability::Plain).await.expect("nothing fails");
            set.flush().await.expect("nothing fails");
            set.discard(512, 2 * stripe - 1024).await.expect("nothing fails");
            assert!(all_of(&set).await == expected, "{level}: there is no whole stripe in it");
            // Two of four are wholly in the range.
            set.discard(stripe - 512, 2 * stripe + 1024).await.expect("nothing fails");
            assert_eq!(
                (0..4).map(|it| set.was_written(it)).collect::<Vec<_>>(),
                [true, false, false, true]
            );
            write(&set, stripe + 512, 7, 1024, Durability::Through).await;
            let (from, to) = (stripe as usize, 3 * stripe as usize);
            expected[from..to].fill(0);
            expected[from + 512..][..1024].fill(7);
            assert!(all_of(&set).await == expected, "{level}");
            set.flush().await.expect("nothing fails");
            for lost in 0..count {
                let mut rest = copies(&executor, &disks);
                rest.remove(lost);
                let options = raid::OpenOptions { is_meant: true, ..Default::default() };
                let set = raid::open(devices(&rest), &executor.runtime(), options).await;
                assert!(all_of(&set.expect("enough")).await == expected, "{level}, {lost}");
            }
        });
    }
}

/// A stripe is vacated, and a member loses the map block that says so; then the stripe is written
/// in place, and a kill comes before the flush. Returns the first violation, if any.
fn returns_beside_an_old_map(level: Level, count: usize) -> Result<(), String> {
    let executor = Executor::new(5);
    let disks = new_disks(&executor, count);
    executor.block_on(async {
        let set = new_set(&executor, &disks, level).await;
        let (layout, stripe) = (set.layout(), stripe_of(&set));
        write(&set, 0, 1, 2 * stripe, Durability::Through).await;
        set.close().await.expect("nothing fails");
        let disks = copies(&executor, &disks);
        let set = opened(&executor, &disks).await.expect("all are there");
        let map = set.label().data_start + layout.rows * layout.unit;
        let lost = Fault::on(Verb::Write, Effect::Lost).within(map..map + 4096);
        disks[0].inject(lost.forever());
        set.discard(0, stripe).await.expect("nothing fails");
        // The log wraps around, and forgets the vacation.
        for _ in 0..2 * set.label().data_start / stripe {
            write(&set, stripe, 2, stripe, Durability::Through).await;
        }
        write(&set, 0, 4, stripe, Durability::Plain).await;
        let set = opened(&executor, &copies(&executor, &disks)).await.expect("all are there");
        let read = set.read(0, Buffer::zeroed(stripe as usize)).await;
        read.map_err(|error| error.to_string())?;
        let found = set.scrub(|_, _, _| ()).await.expect("nothing fails");
        let is_whole = found.lost.is_empty() && found.mended == 0 && found.unknown == 0;
        if is_whole { Ok(()) } else { Err(format!("{found:?}")) }
    })
}

#[test]
fn an_old_map_of_one_member_does_not_bring_back_what_was_vacated() {
    for (level, count) in LEVELS {
        assert_eq!(returns_beside_an_old_map(level, count), Ok(()), "{level} of {count}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn an_old_map_that_counts_is_found() {
    let bug = raid::planted::Bug::OldMaps;
    // Mirrors agree with each other, and repair their checksums.
    let found = crate::with(bug, || returns_beside_an_old_map(Level::Parity, 3));
    assert!(found.is_err());
}

/// Random writes, flushes and discards, some of them concurrent, with restarts after a kill or a
/// stop.
#[test]
fn what_is_written_where_nothing_was_needed_is_there_after_each_return() {
    for seed in 0..30 {
        let (level, count) = LEVELS[seed as usize % LEVELS.len()];
        let executor = Executor::new(seed);
        let mut disks = new_disks(&executor, count);
        let mut prng = Prng::new(seed);
        executor.block_on(async {
            let mut set = new_set(&executor, &disks, level).await;
            let mut expected = vec![0; set.geometry().size as usize];
            let stripe = stripe_of(&set);
            for _ in 0..40 {
                let first = prng.below(expected.len() as u64 / stripe - 4);
                let (at, length) = (first * stripe, prng.between(1, 4) * stripe);
                let range = at as usize..(at + length) as usize;
                prng.fill(&mut expected[range.clone()]);
                let half = (512 * prng.between(1, length / 512 - 1)) as usize;
                let (one, other) = expected[range].split_at(half);
                let durability = [Durability::Plain, Durability::Through][prng.index(2)];
                if prng.chance(2, 3) {
                    set.discard(at, length).await.expect("nothing fails");
                }
                let one = set.write(at, vec![one.to_vec().into()], durability);
                let other =
                    set.write(at + half as u64, vec![other.to_vec().into()], Durability::Plain);
                let (one, other) = join(one, other).await;
                one.and(other).expect("nothing fails");
                if prng.chance(1, 3) {
                    set.flush().await.expect("nothing fails");
                }
                if prng.chance(1, 6) {
                    set.flush().await.expect("nothing fails");
                    if prng.chance(1, 2) {
                        set.close().await.expect("nothing fails");
                    }
                    disks = copies(&executor, &disks);
                    set = opened(&executor, &disks).await.expect("all are there");
                    assert!(all_of(&set).await == expected, "{level} of {count}, seed {seed}");
                }
            }
            set.flush().await.expect("nothing fails");
            assert!(all_of(&set).await == expected, "{level} of {count}, seed {seed}");
            let found = set.scrub(|_, _, _| ()).await.expect("nothing fails");
            assert_eq!(found, Default::default(), "{level} of {count}, seed {seed}");
        });
    }
}
