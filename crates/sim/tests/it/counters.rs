//! The counters, and the classes of writes.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, Verb};
use sim::{Counters, Disk, Executor, Image, Persistence};

fn world() -> (Executor, Rc<Disk>) {
    let executor = Executor::new(4);
    let disk = Disk::new(&executor, Image::zeroed(1 << 16));
    (executor, disk)
}

async fn write(disk: &Disk, durability: Durability) {
    disk.write(0, vec![vec![1; 1024].into()], durability).await.expect("a write");
}

async fn plain(disk: &Disk) {
    write(disk, Durability::Plain).await;
}

async fn flush(disk: &Disk) {
    disk.flush().await.expect("a flush");
}

/// Synchronous, asynchronous and unsettled writes.
fn classes(counters: Counters) -> [u64; 3] {
    let settled = counters.synchronous_writes + counters.asynchronous_writes;
    [counters.synchronous_writes, counters.asynchronous_writes, counters.writes - settled]
}

#[test]
fn every_verb_is_counted_with_its_bytes() {
    let (executor, disk) = world();
    executor.block_on(async {
        disk.read(0, Buffer::zeroed(2048)).await.expect("a read");
        plain(&disk).await;
        write(&disk, Durability::Through).await;
        flush(&disk).await;
        disk.discard(0, 512).await.expect("a discard");
    });
    let counters = Counters { busy_ns: 0, ..disk.counters() };
    let expected = Counters {
        reads: 1,
        writes: 2,
        through_writes: 1,
        synchronous_writes: 2,
        asynchronous_writes: 0,
        flushes: 1,
        discards: 1,
        bytes_read: 2048,
        bytes_written: 2048,
        seeks: 0,
        busy_ns: 0,
    };
    assert_eq!(counters, expected);
    assert_eq!(disk.counters().busy_ns, executor.now().0, "one call followed the other");
    assert_eq!(disk.counters().since(&disk.counters()), Counters::default());
}

#[test]
fn a_write_is_settled_by_the_first_flush_after_it_and_by_no_later_one() {
    let (executor, disk) = world();
    executor.block_on(async {
        plain(&disk).await;
        plain(&disk).await;
        assert_eq!(classes(disk.counters()), [0, 0, 2]);
        disk.set_waited_for(false);
        flush(&disk).await;
        assert_eq!(classes(disk.counters()), [0, 2, 0]);
        plain(&disk).await;
        disk.set_waited_for(true);
        flush(&disk).await;
        assert_eq!(classes(disk.counters()), [1, 2, 0], "it counts who waits for the flush");
        flush(&disk).await;
        assert_eq!(classes(disk.counters()), [1, 2, 0]);
        disk.set_waited_for(false);
        write(&disk, Durability::Through).await;
        assert_eq!(classes(disk.counters()), [1, 3, 0]);
    });
}

#[test]
fn a_flush_settles_what_had_completed_and_not_what_is_under_way() {
    let (executor, disk) = world();
    executor.block_on(async {
        let late = disk.write(0, vec![vec![1; 512].into()], Durability::Plain);
        flush(&disk).await;
        late.await.expect("a write");
        assert_eq!(classes(disk.counters()), [0, 0, 1]);
        flush(&disk).await;
        assert_eq!(classes(disk.counters()), [1, 0, 0]);
    });
}

#[test]
fn failed_writes_and_discards_are_never_settled() {
    let (executor, disk) = world();
    disk.fail(Verb::Write, 1, Persistence::Once);
    executor.block_on(async {
        let failed = disk.write(0, vec![vec![1; 512].into()], Durability::Plain).await;
        assert!(failed.is_err());
        disk.discard(0, 512).await.expect("a discard");
        flush(&disk).await;
    });
    assert_eq!(classes(disk.counters()), [0, 0, 1]);
}
