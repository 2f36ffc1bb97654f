//! Sets of which members are lost, fail, or cannot read something.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Verb};
use raid::assembly::Refused;
use raid::label::Standing;
use raid::layout::Level;
use raid::{MakeOptions, OpenError, OpenOptions, Set, make, open};
use sim::{Disk, Effect, Executor, Fault, Image, Persistence, Prng};

const MEMBER: u64 = 4 << 20;

fn new_disks(executor: &Executor, count: usize) -> Vec<Rc<Disk>> {
    (0..count).map(|_| Disk::new(executor, Image::zeroed(MEMBER))).collect()
}

fn devices(disks: &[Rc<Disk>]) -> Vec<Rc<dyn BlockDevice>> {
    disks.iter().map(|disk| disk.clone() as Rc<dyn BlockDevice>).collect()
}

fn options(level: Level) -> MakeOptions {
    MakeOptions { level, unit: 4096, log: 0 }
}

async fn opened(executor: &Executor, disks: &[Rc<Disk>]) -> Result<Set, OpenError> {
    open(devices(disks), &executor.runtime(), OpenOptions::default()).await
}

/// Bytes by chance for all of a set.
fn bytes(set: &Set, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; set.geometry().size as usize];
    Prng::new(seed).fill(&mut bytes);
    bytes
}

async fn all_of(set: &Set) -> Vec<u8> {
    let room = Buffer::zeroed(set.geometry().size as usize);
    set.read(0, room).await.expect("it can be read").to_vec()
}

/// Pieces of any length, one after the other and some at once.
async fn write_in_pieces(set: &Set, bytes: &[u8], prng: &mut Prng) {
    let mut at = 0;
    while at < bytes.len() {
        let mut writes = Vec::new();
        for _ in 0..prng.between(1, 4) {
            let length = (512 * prng.between(1, 60) as usize).min(bytes.len() - at);
            let data = vec![bytes[at..at + length].to_vec().into()];
            writes.push(set.write(at as u64, data, Durability::Plain));
            at += length;
        }
        let done = futures::future::join_all(writes).await;
        assert!(done.iter().all(Result::is_ok), "{done:?}");
    }
}

#[test]
fn every_level_gives_back_what_was_written_also_after_a_stop() {
    for (level, count) in [(Level::Striped, 3), (Level::Mirrored, 2), (Level::Parity, 5)] {
        let executor = Executor::new(1);
        let disks = new_disks(&executor, count);
        executor.block_on(async {
            make(&devices(&disks), &options(level), &executor.runtime()).await.expect("room");
            let set = opened(&executor, &disks).await.expect("it is new");
            let written = bytes(&set, 5);
            write_in_pieces(&set, &written, &mut Prng::new(6)).await;
            assert!(all_of(&set).await == written, "{level}");
            set.flush().await.expect("nothing fails");
            let turned: Vec<Rc<Disk>> = disks.iter().rev().cloned().collect();
            drop(set);
            let set = opened(&executor, &turned).await.expect("disks come in any order");
            assert!(all_of(&set).await == written, "{level}, later");
        });
    }
}

#[test]
fn a_member_that_fails_is_out_and_what_it_missed_is_there() {
    for (level, count) in [(Level::Mirrored, 3), (Level::Parity, 4)] {
        for verb in [Verb::Write, Verb::Flush] {
            let executor = Executor::new(2);
            let disks = new_disks(&executor, count);
            executor.block_on(async {
                make(&devices(&disks), &options(level), &executor.runtime()).await.expect("room");
                let set = opened(&executor, &disks).await.expect("it is new");
                write_in_pieces(&set, &bytes(&set, 1), &mut Prng::new(1)).await;
                disks[1].fail(verb, 9, Persistence::Forever);
                let written = bytes(&set, 2);
                for part in written.chunks(written.len() / 12 / 512 * 512).enumerate() {
                    let (number, part) = part;
                    let at = (number * (written.len() / 12 / 512 * 512)) as u64;
                    let data = vec![part.to_vec().into()];
                    set.write(at, data, Durability::Plain).await.expect("the others are there");
                    set.flush().await.expect("the others are there");
                }
                let standing = |slot: usize| set.label().slots[slot].standing;
                assert_eq!((standing(0), standing(1)), (Standing::InSync, Standing::Stale));
                assert!(all_of(&set).await == written, "{level}, {verb:?}, without it");
                disks[1].heal();
                let set = opened(&executor, &disks).await.expect("enough are there");
                assert_eq!(set.label().slots[1].standing, Standing::Stale, "it is not read");
                assert!(all_of(&set).await == written, "{level}, {verb:?}, later");
            });
        }
    }
}

#[test]
fn what_a_member_cannot_read_comes_from_the_others_and_is_mended() {
    for (level, count) in [(Level::Mirrored, 2), (Level::Parity, 4)] {
        let executor = Executor::new(3);
        let disks = new_disks(&executor, count);
        executor.block_on(async {
            make(&devices(&disks), &options(level), &executor.runtime()).await.expect("room");
            let set = opened(&executor, &disks).await.expect("it is new");
            let written = bytes(&set, 7);
            write_in_pieces(&set, &written, &mut Prng::new(1)).await;
            let before: Vec<u64> = disks.iter().map(|disk| disk.counters().writes).collect();
            let data = set.label().data_start;
            let bad = Fault::on(Verb::Read, Effect::Eio).within(data + 8192..data + 16_384);
            disks[0].inject(bad.forever());
            assert!(all_of(&set).await == written, "{level}");
            assert!(disks[0].counters().writes > before[0], "{level}: it was written once more");
            assert!(set.label().slots[0].standing == Standing::InSync, "to read is no promise");
        });
    }
}

#[test]
fn a_set_with_too_few_members_says_so_and_stops() {
    let executor = Executor::new(4);
    let disks = new_disks(&executor, 4);
    executor.block_on(async {
        make(&devices(&disks), &options(Level::Parity), &executor.runtime()).await.expect("room");
        let set = opened(&executor, &disks).await.expect("it is new");
        for disk in &disks[..2] {
            disk.fail(Verb::Write, 1, Persistence::Forever);
        }
        let data = || vec![vec![1; 65_536].into()];
        assert!(set.write(0, data(), Durability::Plain).await.is_err());
        assert!(set.write(0, data(), Durability::Plain).await.is_err(), "and stays so");
        assert!(set.flush().await.is_err());
        let refused = opened(&executor, &disks[2..]).await.err();
        let few = Refused::TooFew { found: 2, needed: 3, of: 4 };
        assert_eq!(refused, Some(OpenError::Refused(few)));
    });
}

#[test]
fn what_is_no_set_is_refused() {
    let executor = Executor::new(5);
    let disks = new_disks(&executor, 4);
    executor.block_on(async {
        let runtime = executor.runtime();
        let few = make(&devices(&disks[..2]), &options(Level::Parity), &runtime).await;
        assert_eq!(few, Err(OpenError::Members(Level::Parity, 3, 32, 2)));
        let small = Disk::new(&executor, Image::zeroed(1 << 20));
        let both = vec![disks[0].clone() as Rc<dyn BlockDevice>, small as _];
        let made = make(&both, &options(Level::Mirrored), &runtime).await;
        assert!(matches!(made, Err(OpenError::TooSmall(1, ..))), "{made:?}");
        let none = opened(&executor, &disks).await.err();
        assert!(matches!(none, Some(OpenError::NoMember(0, _))), "{none:?}");
    });
}

/// Writes that many callers make at once over each other, with a log that is full all the time.
#[test]
fn a_small_log_is_used_over_and_over() {
    for seed in 0..6 {
        let executor = Executor::new(seed);
        let disks = new_disks(&executor, 3);
        executor.block_on(async {
            make(&devices(&disks), &options(Level::Parity), &executor.runtime())
                .await
                .expect("room");
            let set = opened(&executor, &disks).await.expect("it is new");
            let mut prng = Prng::new(seed);
            for round in 0..40_u8 {
                let writes = (0..8_u64).map(|number| {
                    let (at, length) = (number * (96 << 10), 512 * prng.between(1, 190));
                    let data = vec![vec![round + number as u8; length as usize].into()];
                    set.write(at, data, Durability::Plain)
                });
                let writes: Vec<_> = writes.collect();
                let done = futures::future::join_all(writes).await;
                assert!(done.iter().all(Result::is_ok), "{done:?}");
            }
            assert!(set.log_writes() > 60, "{}", set.log_writes());
            let seen = all_of(&set).await;
            drop(set);
            for lost in 0..3 {
                let mut rest: Vec<Rc<Disk>> = disks.clone();
                rest.remove(lost);
                let images: Vec<Image> = rest.iter().map(|disk| disk.contents()).collect();
                let rest: Vec<Rc<Disk>> =
                    images.into_iter().map(|image| Disk::new(&executor, image)).collect();
                let set = opened(&executor, &rest).await.expect("one may be missing");
                assert!(all_of(&set).await == seen, "seed {seed}, without {lost}");
            }
        });
    }
}
