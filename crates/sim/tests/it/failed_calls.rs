//! The remains of a failing disk's calls.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Verb};
use sim::{Choice, Disk, Executor, Image, Persistence};

fn world(seed: u64) -> (Executor, Rc<Disk>) {
    let executor = Executor::new(seed);
    let disk = Disk::new(&executor, Image::zeroed(1 << 16));
    (executor, disk)
}

fn write(disk: &Disk, value: u8, durability: Durability) -> block::Io<()> {
    disk.write(0, vec![vec![value; 2048].into()], durability)
}

#[test]
fn the_nth_read_fails_once() {
    let (executor, disk) = world(1);
    disk.fail(Verb::Read, 2, Persistence::Once);
    let read = || executor.block_on(disk.read(512, Buffer::zeroed(512)));
    assert!(read().is_ok());
    let error = read().expect_err("the second one");
    assert_eq!((error.verb, error.offset, error.length), (Verb::Read, 512, 512));
    assert!(read().is_ok());
}

#[test]
fn a_disk_that_is_gone_fails_until_it_is_healed() {
    let (executor, disk) = world(1);
    disk.fail(Verb::Flush, 1, Persistence::Forever);
    assert!((0..3).all(|_| executor.block_on(disk.flush()).is_err()));
    disk.heal();
    assert!(executor.block_on(disk.flush()).is_ok());
}

#[test]
fn a_failed_write_leaves_old_new_or_torn_and_nothing_promises_it() {
    let (mut old, mut new, mut torn) = (0, 0, 0);
    for seed in 0..200 {
        let (executor, disk) = world(seed);
        executor.block_on(write(&disk, 1, Durability::Through)).expect("a write");
        disk.fail(Verb::Write, 1, Persistence::Once);
        assert!(executor.block_on(write(&disk, 2, Durability::Through)).is_err());
        let seen = &disk.contents().bytes()[..2048];
        match seen.iter().filter(|&&byte| byte == 2).count() {
            0 => old += 1,
            2048 => new += 1,
            changed => {
                assert!(changed.is_multiple_of(512));
                torn += 1;
            }
        }
        executor.block_on(disk.flush()).expect("a flush");
        let durable = disk.platter().durable_image();
        assert!(durable.bytes()[..2048].iter().all(|&byte| byte == 1), "seed {seed}");
    }
    assert!(old > 0 && new > 0 && torn > 0, "{old} {new} {torn}");
}

#[test]
fn a_flush_that_succeeds_after_one_that_failed_promises_nothing_of_before() {
    let (executor, disk) = world(1);
    executor.block_on(write(&disk, 1, Durability::Plain)).expect("a write");
    disk.fail(Verb::Flush, 1, Persistence::Once);
    assert!(executor.block_on(disk.flush()).is_err());
    executor.block_on(disk.flush()).expect("a flush");
    assert_eq!(disk.contents().bytes()[0], 1, "readers see it");
    assert_eq!(disk.platter().durable_image().bytes()[0], 0, "and it may be lost");
    executor.block_on(write(&disk, 2, Durability::Plain)).expect("a write");
    executor.block_on(disk.flush()).expect("a flush");
    let platter = disk.platter();
    for choice in Choice::subsets(&platter) {
        assert_eq!(platter.image(&choice).bytes()[0], 2, "writing it anew settles it");
    }
}

#[test]
fn refusals_never_reach_the_disk() {
    let (executor, disk) = world(1);
    assert!(executor.block_on(disk.read(1, Buffer::zeroed(512))).is_err());
    assert!(executor.block_on(disk.read(1 << 16, Buffer::zeroed(512))).is_err());
    let odd = disk.write(0, vec![vec![1; 100].into()], Durability::Plain);
    assert!(executor.block_on(odd).is_err());
    assert_eq!(disk.counters(), sim::Counters::default());
    assert_eq!(disk.platter().pending().count(), 0);
}
