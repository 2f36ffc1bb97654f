//! Sets whose members are lost, fail, or have unreadable blocks.

use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Verb};
use raid::assembly::Refused;
use raid::label::{Label, Standing};
use raid::layout::Level;
use raid::record::{Record, decode, size_at};
use raid::{MakeOptions, OpenError, OpenOptions, RebuildError, Set, make, open};
use sim::{Disk, Effect, Executor, Fault, Image, Persistence, Prng};

const MEMBER: u64 = 4 << 20;

/// Disks full of bytes that no set has written.
pub(crate) fn new_disks(executor: &Executor, count: usize) -> Vec<Rc<Disk>> {
    (0..count).map(|_| Disk::new(executor, rubbish())).collect()
}

fn rubbish() -> Image {
    Image::from_bytes(&vec![0xee; MEMBER as usize])
}

pub(crate) fn devices(disks: &[Rc<Disk>]) -> Vec<Rc<dyn BlockDevice>> {
    disks.iter().map(|disk| disk.clone() as Rc<dyn BlockDevice>).collect()
}

pub(crate) fn options(level: Level) -> MakeOptions {
    MakeOptions { level, unit: 4096, log: 0 }
}

pub(crate) async fn opened(executor: &Executor, disks: &[Rc<Disk>]) -> Result<Set, OpenError> {
    open(devices(disks), &executor.runtime(), OpenOptions::default()).await
}

/// A new set on these disks.
pub(crate) async fn new_set(executor: &Executor, disks: &[Rc<Disk>], level: Level) -> Set {
    make(&devices(disks), &options(level), &executor.runtime()).await.expect("there is room");
    opened(executor, disks).await.expect("it is new")
}

/// Random bytes for all of a set.
pub(crate) fn bytes(set: &Set, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; set.geometry().size as usize];
    Prng::new(seed).fill(&mut bytes);
    bytes
}

pub(crate) async fn all_of(set: &Set) -> Vec<u8> {
    let room = Buffer::zeroed(set.geometry().size as usize);
    set.read(0, room).await.expect("it can be read").to_vec()
}

/// Disks with the same contents.
pub(crate) fn copies(executor: &Executor, disks: &[Rc<Disk>]) -> Vec<Rc<Disk>> {
    disks.iter().map(|disk| Disk::new(executor, disk.contents())).collect()
}

/// A member fails at a flush, and then recovers.
pub(crate) async fn lose(set: &Set, disks: &[Rc<Disk>], slot: usize) {
    disks[slot].fail(Verb::Flush, 1, Persistence::Forever);
    set.flush().await.expect("the others are enough");
    assert_eq!(set.label().slots[slot].standing, Standing::Stale);
    disks[slot].heal();
}

/// The disk of a slot comes back unchanged.
pub(crate) async fn come_back(set: &Set, disks: &[Rc<Disk>], slot: usize) {
    let member = set.label().slots[slot].member;
    set.rebuild(slot, disks[slot].clone(), member, |_, _| ()).await.expect("it goes on");
}

/// Asserts that a set holds these bytes, whichever of its disks is lost.
pub(crate) async fn assert_any_may_be_lost(
    executor: &Executor,
    disks: &[Rc<Disk>],
    expected: &[u8],
    what: &str,
) {
    for lost in 0..disks.len() {
        let mut rest = copies(executor, disks);
        rest.remove(lost);
        let options = OpenOptions { is_meant: true, ..OpenOptions::default() };
        let set = open(devices(&rest), &executor.runtime(), options).await.expect("enough");
        assert!(all_of(&set).await == expected, "{what}, without {lost}");
    }
}

/// Writes pieces of any length in order, some of them concurrently.
pub(crate) async fn write_in_pieces(set: &Set, bytes: &[u8], prng: &mut Prng) {
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
            let set = new_set(&executor, &disks, level).await;
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
                let set = new_set(&executor, &disks, level).await;
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
fn a_disk_that_does_not_answer_is_named() {
    let executor = Executor::new(5);
    let (disks, clock) = (new_disks(&executor, 4), executor.runtime().clock);
    executor.block_on(async {
        make(&devices(&disks), &options(Level::Parity), &executor.runtime()).await.expect("room");
        let set = opened(&executor, &disks).await.expect("it is new");
        let write = |byte| set.write(0, vec![vec![byte; 12_288].into()], Durability::Through);
        write(1).await.expect("nothing fails");
        let silences = || set.status().met.iter().map(|met| met.silent_for).collect::<Vec<_>>();
        clock.sleep(Duration::from_secs(60)).await;
        assert_eq!(silences(), [None; 4], "nobody is asked");
        disks[1].inject(Fault::on(Verb::Write, Effect::Slow(Duration::from_secs(100))));
        let look = async {
            clock.sleep(Duration::from_secs(29)).await;
            assert_eq!(silences(), [None; 4], "it may be slow");
            clock.sleep(Duration::from_secs(11)).await;
            let silent: Vec<bool> = silences().iter().map(Option::is_some).collect();
            assert_eq!(silent, [false, true, false, false]);
            assert_eq!(silences()[1].map(|it| it.as_secs()), Some(40));
        };
        let (written, ()) = futures::future::join(write(2), look).await;
        written.expect("it answers in the end");
        assert_eq!(silences(), [None; 4]);
    });
}

#[test]
fn of_disks_that_contradict_each_other_the_right_ones_are_named() {
    let executor = Executor::new(5);
    let disks = new_disks(&executor, 3);
    executor.block_on(async {
        let (devices, runtime) = (devices(&disks), executor.runtime());
        make(&devices, &options(Level::Parity), &runtime).await.expect("room");
        let copy = copies(&executor, &disks[2..]).remove(0);
        disks[0].fail(Verb::Read, 1, Persistence::Forever); // it is not a member
        let found = [&disks[..], &[copy]].concat();
        let refused = opened(&executor, &found).await.err();
        assert_eq!(refused, Some(Refused::Contradiction(2, 3).into()));
    });
}

#[test]
fn what_a_member_cannot_read_comes_from_the_others_and_is_mended() {
    for (level, count) in [(Level::Mirrored, 2), (Level::Parity, 4)] {
        let executor = Executor::new(3);
        let disks = new_disks(&executor, count);
        executor.block_on(async {
            let set = new_set(&executor, &disks, level).await;
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

/// Many callers overwrite each other's data concurrently, with a log that is always full.
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
            set.write(0, vec![bytes(&set, seed).into()], Durability::Plain).await.expect("room");
            set.flush().await.expect("nothing fails"); // from here on it uses the log
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
            assert_any_may_be_lost(&executor, &disks, &seen, &format!("seed {seed}")).await;
        });
    }
}

/// Rebuilds a member while callers write, and asserts that any other may be lost afterwards.
fn rebuild_meanwhile(level: Level, count: usize, seed: u64) {
    let executor = Executor::new(seed);
    let disks = new_disks(&executor, count);
    let lost = seed as usize % count;
    let fresh = Disk::new(&executor, rubbish());
    executor.block_on(async {
        let set = new_set(&executor, &disks, level).await;
        write_in_pieces(&set, &bytes(&set, seed), &mut Prng::new(1)).await;
        if seed.is_multiple_of(4) {
            set.flush().await.expect("nothing fails");
        }
        disks[lost].fail(Verb::Write, 1, Persistence::Forever);
        set.write(0, vec![vec![1; 65_536].into()], Durability::Plain).await.expect("enough");
        let written = bytes(&set, seed + 1);
        let (mut half, mut prng) = (written[..written.len() / 2].to_vec(), Prng::new(seed));
        let done = std::rc::Rc::new(std::cell::Cell::new((0, 0)));
        let seen = done.clone();
        let rebuild =
            set.rebuild(lost, fresh.clone(), [77; 16], move |has, of| seen.set((has, of)));
        let write = async {
            write_in_pieces(&set, &half, &mut prng).await;
            half.iter_mut().for_each(|byte| *byte = !*byte);
            write_in_pieces(&set, &half, &mut prng).await;
        };
        let (rebuilt, ()) = futures::future::join(rebuild, write).await;
        assert_eq!(rebuilt, Ok(()));
        assert_eq!(done.get(), (set.layout().rows, set.layout().rows));
        assert_eq!(set.label().slots[lost].standing, Standing::InSync);
        write_in_pieces(&set, &written[..99 * 512], &mut prng).await;
        let all = all_of(&set).await;
        set.flush().await.expect("enough are there");
        assert!(
            all[..99 * 512] == written[..99 * 512] && all[99 * 512..half.len()] == half[99 * 512..]
        );
        let mut now = disks.clone();
        now[lost] = fresh.clone();
        assert_any_may_be_lost(&executor, &now, &all, &format!("{level}, seed {seed}")).await;
    });
}

#[test]
fn a_member_is_made_again_while_the_set_is_used() {
    for seed in 0..8 {
        rebuild_meanwhile(Level::Parity, 3 + seed as usize % 3, seed);
        rebuild_meanwhile(Level::Mirrored, 2 + seed as usize % 2, seed);
    }
}

#[test]
fn what_cannot_be_made_again_is_refused() {
    let executor = Executor::new(9);
    let disks = new_disks(&executor, 3);
    executor.block_on(async {
        make(&devices(&disks), &options(Level::Parity), &executor.runtime()).await.expect("room");
        let set = opened(&executor, &disks).await.expect("it is new");
        let fresh = || Disk::new(&executor, rubbish());
        let rebuild = async |slot, disk| set.rebuild(slot, disk, [7; 16], |_, _| ()).await;
        assert_eq!(rebuild(1, fresh()).await, Err(RebuildError::Taken(1)));
        assert_eq!(rebuild(3, fresh()).await, Err(RebuildError::NoSlot(3)));
        disks[1].fail(Verb::Write, 1, Persistence::Forever);
        set.write(0, vec![vec![1; 65_536].into()], Durability::Plain).await.expect("enough");
        let known = set.label().slots[0].member;
        for member in [[0; 16], known] {
            let refused = set.rebuild(1, fresh(), member, |_, _| ()).await;
            assert_eq!(refused, Err(RebuildError::Known));
        }
        let small = Disk::new(&executor, Image::zeroed(MEMBER - (64 << 10)));
        assert!(matches!(rebuild(1, small).await, Err(RebuildError::TooSmall { .. })));
        let coarse = sim::Options { logical_sector_size: 8192, ..sim::Options::default() };
        let coarse = Disk::with_options(&executor, rubbish(), coarse);
        assert_eq!(rebuild(1, coarse).await, Err(RebuildError::Unfit));
        let broken = fresh();
        broken.fail(Verb::Write, 8, Persistence::Forever);
        assert_eq!(rebuild(1, broken).await, Err(RebuildError::Failed));
        assert_eq!(set.label().slots[1].standing, Standing::Stale);
        set.write(0, vec![vec![2; 65_536].into()], Durability::Plain).await.expect("enough");
        assert_eq!(rebuild(1, fresh()).await, Ok(()));
    });
}

/// A set with parity on disks of its own simulation, full of random bytes.
fn with_parity(seed: u64) -> (Executor, Vec<Rc<Disk>>, Vec<u8>) {
    let executor = Executor::new(seed);
    let disks = new_disks(&executor, 4);
    let written = executor.block_on(async {
        make(&devices(&disks), &options(Level::Parity), &executor.runtime()).await.expect("room");
        let set = opened(&executor, &disks).await.expect("it is new");
        let written = bytes(&set, seed);
        write_in_pieces(&set, &written, &mut Prng::new(seed)).await;
        set.flush().await.expect("nothing fails");
        written
    });
    (executor, disks, written)
}

#[test]
fn a_copy_of_a_label_that_was_lost_is_written_again() {
    let (executor, disks, written) = with_parity(20);
    executor.block_on(async {
        let at = raid::label::places(MEMBER)[1];
        let mut torn = vec![9; 4096];
        torn[..16].copy_from_slice(&raid::label::MAGIC);
        let spoilt = disks[2].write(at, vec![torn.into()], Durability::Through);
        spoilt.await.expect("nothing fails");
        let set = opened(&executor, &disks).await.expect("one copy is enough");
        assert!(all_of(&set).await == written);
        for disk in &disks {
            let both = raid::label::places(MEMBER).map(|at| disk.read(at, Buffer::zeroed(4096)));
            let [first, second] = futures::future::join_all(both).await.try_into().expect("two");
            let label = |read: Result<Buffer, _>| Label::decode(&read.expect("read"));
            let (first, second) = (label(first), label(second));
            assert!(first.is_ok() && first == second, "{first:?} {second:?}");
        }
    });
}

/// The latest record of a set on a disk, and its byte offset in the ring.
pub(crate) async fn latest_record(disk: &Disk, set: &Label) -> Option<(Record, u64)> {
    let size = set.data_start - (1 << 20);
    let ring = disk.read(1 << 20, Buffer::zeroed(size as usize)).await.expect("it can be read");
    let records = (0..size).step_by(4096).filter_map(|start| {
        let rest = &ring[start as usize..];
        let record = decode(&rest[..size_at(rest, set.set)? as usize], &set.layout)?;
        Some((record, start))
    });
    records.max_by_key(|(record, _)| record.place.sequence)
}

#[test]
fn a_log_of_which_a_sector_cannot_be_read_does_not_close_a_set() {
    let (executor, disks, written) = with_parity(21);
    executor.block_on(async {
        // An open set needs only its last record.
        let set = opened(&executor, &disks[..3]).await.expect("one may be missing");
        let mut needed = Vec::new();
        for disk in &disks[..3] {
            let latest = latest_record(disk, &set.label()).await.expect("there is a record");
            needed.push(latest.1);
        }
        // A later record could begin right behind the last one, or at the start of the ring.
        let may_be_needed = |place: &u64| needed.iter().any(|it| (*it..=it + 8192).contains(place));
        let other = (1..8).map(|block| block * 8192).find(|place| !may_be_needed(place));
        let place = (1 << 20) + other.expect("the ring is longer");
        for disk in &disks[..3] {
            let bad = Fault::on(Verb::Read, Effect::Eio).within(place + 512..place + 1024);
            disk.inject(bad.forever());
        }
        let set = opened(&executor, &disks[..3]).await.expect("what is needed can be read");
        assert!(all_of(&set).await == written);
        let standing = set.label().slots.iter().map(|slot| slot.standing).collect::<Vec<_>>();
        assert_eq!(standing[..3], [Standing::InSync; 3]);
    });
}

#[test]
fn a_member_that_was_copied_to_a_smaller_disk_is_not_there() {
    let (executor, disks, written) = with_parity(22);
    executor.block_on(async {
        let mut cut = vec![0; MEMBER as usize - (128 << 10)];
        disks[1].contents().read(0, &mut cut);
        let mut found = disks.clone();
        found[1] = Disk::new(&executor, Image::from_bytes(&cut));
        let set = opened(&executor, &found).await.expect("the others are enough");
        assert_eq!(set.label().slots[1].standing, Standing::Stale);
        assert!(all_of(&set).await == written);
    });
}

#[test]
fn what_no_disk_can_read_costs_one_block_until_it_is_written() {
    let (executor, disks, _) = with_parity(23);
    executor.block_on(async {
        let set = opened(&executor, &disks[..3]).await.expect("one may be missing");
        let start = set.label().data_start;
        for disk in &disks[..3] {
            let bad = Fault::on(Verb::Read, Effect::Eio).within(start + 512..start + 1024);
            disk.inject(bad.forever());
        }
        let data = |length: usize| vec![vec![3; length].into()];
        let read = async |at, length| set.read(at, Buffer::zeroed(length)).await;
        assert!(read(0, 512).await.is_err(), "it is of a block with a bad sector");
        read(4096, 4096).await.expect_err("so is this, on another disk");
        set.write(0, data(512), Durability::Plain).await.expect_err("the rest of it is lost");
        set.write(0, data(4096), Durability::Plain).await.expect("nothing of it is needed");
        disks.iter().for_each(|disk| disk.heal());
        let read = read(0, 4096).await.expect("it was written");
        assert!(read.iter().all(|&byte| byte == 3));
    });
}

#[test]
fn a_host_that_is_full_is_no_dead_disk() {
    let (executor, disks, _) = with_parity(24);
    let clock = executor.runtime().clock;
    executor.block_on(async {
        let set = opened(&executor, &disks).await.expect("all are there");
        let start = set.label().data_start;
        let full = Fault::on(Verb::Write, Effect::NoSpace).within(start..start + 4096);
        disks[0].inject(full.forever());
        let begun = clock.now();
        let refused = set.write(0, vec![vec![1; 4096].into()], Durability::Through).await;
        assert!(refused.is_err_and(|error| error.is_full()), "there is no room");
        assert!(clock.now().since(begun) < Duration::from_secs(2), "that is told soon");
        // Allocated ranges are written meanwhile, with much more data than the log holds.
        let (size, length) = (set.geometry().size, 65_536);
        let log = start - raid::label::DATA_START;
        for number in 0..8 * log / length {
            let at = length + number * length % (size - 2 * length) / length * length;
            let data = vec![vec![number as u8; length as usize].into()];
            set.write(at, data, Durability::Plain).await.expect("it has its place");
            let room = Buffer::zeroed(length as usize);
            let read = set.read(at, room).await.expect("it can be read");
            assert!(read.iter().all(|&byte| byte == number as u8));
        }
        set.flush().await.expect("nothing fails");
        let seen = all_of(&set).await;
        let left = copies(&executor, &disks);
        disks[0].heal();
        clock.sleep(Duration::from_secs(1)).await;
        let read = set.read(0, Buffer::zeroed(4096)).await.expect("it can be read");
        assert!(read.iter().all(|&byte| byte == 1), "it is home when there is room");
        assert!(set.label().slots.iter().all(|slot| slot.standing == Standing::InSync));
        // A cut while it was full: the log has the writes that found no space, wherever they were
        // by then.
        for lost in 0..left.len() {
            let mut rest = copies(&executor, &left);
            rest.remove(lost);
            let set = opened(&executor, &rest).await.expect("one may be missing");
            let read = all_of(&set).await;
            assert!(read[..4096].iter().all(|&byte| byte == 1), "without {lost}");
            assert!(read[4096..] == seen[4096..], "without {lost}");
        }
    });
}

#[test]
fn what_was_never_written_is_refused_while_a_host_is_full() {
    for (level, count) in [(Level::Mirrored, 2), (Level::Parity, 3)] {
        let executor = Executor::new(25);
        let disks = new_disks(&executor, count);
        let clock = executor.runtime().clock;
        executor.block_on(async {
            let set = new_set(&executor, &disks, level).await;
            let data = |byte| vec![vec![byte; 4096].into()];
            set.write(0, data(1), Durability::Plain).await.expect("there is room");
            let start = set.label().data_start + 4096;
            let full = Fault::on(Verb::Write, Effect::NoSpace).within(start..MEMBER / 2);
            disks[1].inject(full.forever());
            let begun = clock.now();
            for at in [65_536, 131_072] {
                let refused = set.write(at, data(2), Durability::Through).await;
                assert!(refused.is_err_and(|error| error.is_full()), "there is no room");
            }
            assert!(clock.now().since(begun) < Duration::from_secs(2), "the second at once");
            set.write(0, data(3), Durability::Through).await.expect("it has its place");
            // A start does not wait for space forever: it reports the lack.
            let again = opened(&executor, &disks).await;
            assert!(matches!(again, Err(OpenError::Full)), "{level}");
            disks[1].heal();
            clock.sleep(Duration::from_secs(1)).await;
            set.write(131_072, data(4), Durability::Through).await.expect("there is room");
            let expected = [(0, 3), (65_536, 2), (131_072, 4)];
            let left = copies(&executor, &disks);
            let set = opened(&executor, &left).await.expect("there is room");
            for (at, byte) in expected {
                let read = set.read(at, Buffer::zeroed(4096)).await.expect("it can be read");
                assert!(read.iter().all(|&one| one == byte), "{level} at {at}");
            }
        });
    }
}

/// One flush fails on a member while it waits for another. The next flush must not cover what the
/// first has lost.
#[test]
fn a_flush_that_failed_is_not_made_good_by_the_next() {
    let executor = Executor::new(25);
    let disks = new_disks(&executor, 2);
    let clock = executor.runtime().clock;
    executor.block_on(async {
        make(&devices(&disks), &options(Level::Mirrored), &executor.runtime()).await.expect("room");
        let set = opened(&executor, &disks).await.expect("it is new");
        set.write(0, vec![vec![1; 4096].into()], Durability::Plain).await.expect("all are there");
        let slow = Effect::Slow(Duration::from_secs(5));
        disks[0].inject(Fault::on(Verb::Flush, slow));
        disks[1].inject(Fault::on(Verb::Flush, Effect::Eio));
        let next = async {
            clock.sleep(Duration::from_secs(1)).await;
            set.flush().await.expect("one is enough");
            set.label().slots[1].standing
        };
        let (first, standing) = futures::future::join(set.flush(), next).await;
        assert_eq!((first, standing), (Ok(()), Standing::Stale));
    });
}

/// A read repairs one piece and fails at another. Its repair must not come after a later write.
#[test]
fn a_read_that_fails_ends_what_it_mends() {
    let (executor, disks, _) = with_parity(26);
    let clock = executor.runtime().clock;
    executor.block_on(async {
        let set = opened(&executor, &disks).await.expect("all are there");
        let start = set.label().data_start;
        // One unit of the first stripe is unreadable, and two of the second.
        disks[0].inject(Fault::on(Verb::Read, Effect::Eio).within(start..start + 512).forever());
        for disk in &disks[2..] {
            let second = start + 4096..start + 4608;
            disk.inject(Fault::on(Verb::Read, Effect::Eio).within(second).forever());
        }
        let slow = Effect::Slow(Duration::from_secs(3));
        disks[0].inject(Fault::on(Verb::Write, slow).within(start..start + 4096));
        assert!(set.read(0, Buffer::zeroed(24_576)).await.is_err(), "two members cannot tell");
        disks.iter().for_each(|disk| disk.heal());
        let data = vec![vec![6; 4096].into()];
        set.write(0, data, Durability::Through).await.expect("all are well");
        clock.sleep(Duration::from_secs(10)).await;
        let read = set.read(0, Buffer::zeroed(4096)).await.expect("all are well");
        assert!(read.iter().all(|&byte| byte == 6), "nothing older came home since");
    });
}

#[test]
fn a_set_that_stops_answers_all_that_wait() {
    let executor = Executor::new(27);
    let disks = new_disks(&executor, 4);
    executor.block_on(async {
        make(&devices(&disks), &options(Level::Parity), &executor.runtime()).await.expect("room");
        let set = opened(&executor, &disks).await.expect("it is new");
        disks[0].fail(Verb::Write, 7, Persistence::Forever);
        disks[2].fail(Verb::Write, 9, Persistence::Forever);
        let writes = (0..40_u64)
            .map(|number| set.write(number * 8192, vec![vec![1; 8192].into()], Durability::Plain));
        let mut done = futures::future::join_all(writes.collect::<Vec<_>>()).await;
        done.push(set.flush().await);
        assert!(done.iter().any(Result::is_err), "two are gone");
        set.close().await.expect("nothing is under way");
        let closed = set.flush().await.expect_err("it is closed");
        assert_eq!(closed.kind, std::io::ErrorKind::NotConnected);
    });
}

/// Writes at random places of a new set. Returns whether all data is right.
async fn is_right_when_new(
    executor: &Executor,
    disks: &[Rc<Disk>],
    unit: u64,
    level: Level,
) -> bool {
    let options = MakeOptions { unit, ..options(level) };
    make(&devices(disks), &options, &executor.runtime()).await.expect("room");
    let set = opened(executor, disks).await.expect("it is new");
    let mut expected = vec![0; set.geometry().size as usize];
    assert!(all_of(&set).await == expected, "{level}: it is new");
    let mut prng = Prng::new(3);
    for _ in 0..30 {
        let at = 512 * prng.index(expected.len() / 512 - 40);
        let length = 512 * prng.between(1, 40) as usize;
        expected[at..at + length].fill(prng.next_u64() as u8);
        let data = vec![expected[at..at + length].to_vec().into()];
        set.write(at as u64, data, Durability::Plain).await.expect("all are there");
    }
    if all_of(&set).await != expected {
        return false;
    }
    set.flush().await.expect("nothing fails");
    let written = (0..set.layout().rows).filter(|&stripe| set.was_written(stripe)).count();
    assert!(written > 5 && (written as u64) < set.layout().rows, "{written}");
    assert_any_may_be_lost(executor, disks, &expected, &level.to_string()).await;
    true
}

#[test]
fn what_was_never_written_reads_as_zeros_whichever_member_is_lost() {
    for (level, count) in [(Level::Mirrored, 2), (Level::Parity, 4)] {
        for unit in [4096, 16_384] {
            let executor = Executor::new(28);
            let new = |disks: Vec<Rc<Disk>>| {
                executor.block_on(is_right_when_new(&executor, &disks, unit, level))
            };
            assert!(new(new_disks(&executor, count)), "{level}");
            #[cfg(feature = "planted-bugs")]
            if unit > 4096 {
                let is_right = crate::with(raid::planted::Bug::UnzeroedStripes, || {
                    new(new_disks(&executor, count))
                });
                assert!(!is_right, "{level}: the rest of a stripe is as it was");
            }
        }
    }
}

/// A set is closed while a write finds no space: the log keeps its data.
#[test]
fn what_found_no_room_before_a_stop_is_home_after_the_next_start() {
    let (executor, disks, _) = with_parity(29);
    let clock = executor.runtime().clock;
    executor.block_on(async {
        let set = opened(&executor, &disks).await.expect("all are there");
        let start = set.label().data_start;
        let full = Fault::on(Verb::Write, Effect::NoSpace).within(start..start + 4096);
        disks[0].inject(full.forever());
        let first = set.write(0, vec![vec![4; 4096].into()], Durability::Through);
        let rest = async {
            clock.sleep(Duration::from_millis(100)).await;
            set.close().await.expect("nothing waits for ever");
        };
        futures::future::join(first, rest).await.0.expect("its record is durable");
        let left = copies(&executor, &disks);
        // A start that finds no space either forgets nothing.
        left[0]
            .inject(Fault::on(Verb::Write, Effect::NoSpace).within(start..start + 4096).forever());
        let again = opened(&executor, &left).await;
        assert!(matches!(again, Err(OpenError::Full)));
        left[0].heal();
        let left = copies(&executor, &left);
        let set = opened(&executor, &left).await.expect("all are there");
        let read = set.read(0, Buffer::zeroed(4096)).await.expect("all are there");
        assert!(read.iter().all(|&byte| byte == 4), "it was in the log");
        let seen = all_of(&set).await;
        let set = opened(&executor, &left[1..]).await.expect("one may be missing");
        assert!(all_of(&set).await == seen, "and its stripe fits together");
    });
}

/// A set asks its members for whole blocks, so their sectors may have any size up to a block.
#[test]
fn disks_of_large_sectors_stand_beside_those_of_small_ones() {
    for level in [Level::Mirrored, Level::Parity] {
        let executor = Executor::new(33);
        let coarse = |image| {
            let options = sim::Options { logical_sector_size: 4096, ..sim::Options::default() };
            Disk::with_options(&executor, image, options)
        };
        let mut disks = new_disks(&executor, 3);
        disks[2] = coarse(Image::zeroed(MEMBER));
        executor.block_on(async {
            let set = new_set(&executor, &disks, level).await;
            assert_eq!(set.geometry().logical_sector_size, 512);
            let written = bytes(&set, 33);
            write_in_pieces(&set, &written, &mut Prng::new(33)).await;
            set.fail(0).await.expect("two are enough");
            let new = coarse(rubbish());
            set.rebuild(0, new.clone(), [7; 16], |_, _| ()).await.expect("it fits");
            let sector = vec![vec![5; 512].into()];
            set.write(1536, sector, Durability::Through).await.expect("nothing fails");
            set.scrub(|_, _, _| ()).await.expect("nothing fails");
            assert_eq!(set.label().slots[0].standing, Standing::InSync);
            set.close().await.expect("it ends");
            let found = [new, disks[2].clone(), disks[1].clone()];
            for lost in 0..3 {
                let left: Vec<Rc<Disk>> = (0..3)
                    .filter(|&disk| disk != lost)
                    .map(|disk| {
                        let image = found[disk].contents();
                        if disk == 2 { Disk::new(&executor, image) } else { coarse(image) }
                    })
                    .collect();
                let meant = OpenOptions { is_meant: true, ..OpenOptions::default() };
                let set = open(devices(&left), &executor.runtime(), meant).await;
                let set = set.expect("two are enough");
                let mut expected = written.clone();
                expected[1536..2048].fill(5);
                assert!(all_of(&set).await == expected, "{level}, without {lost}");
            }
        });
    }
}

/// A disk keeps nothing of its earlier contents beside its labels.
#[test]
fn nothing_is_left_of_what_stood_on_a_disk() {
    let executor = Executor::new(31);
    let disks = new_disks(&executor, 4);
    executor.block_on(async {
        let set = &disks[..2];
        make(&devices(set), &options(Level::Mirrored), &executor.runtime()).await.expect("room");
        let opened = opened(&executor, set).await.expect("it is new");
        raid::make_spare(&*disks[2], &opened.label().set).await.expect("nothing fails");
        opened.fail(1).await.expect("one is enough");
        opened.rebuild(1, disks[3].clone(), [7; 16], |_, _| ()).await.expect("one is enough");
        for disk in &disks {
            let mut all = vec![0; MEMBER as usize];
            disk.contents().read(0, &mut all);
            let second = raid::label::places(MEMBER)[1] as usize;
            all[16 << 10..][..4096].fill(0); // the block of missed regions
            let beside = [&all[4096..1 << 20], &all[second + 4096..]].concat();
            assert!(beside.iter().all(|&byte| byte == 0));
        }
    });
}
