//! Waits in a disk: queues, caches, flushes, and the order that a scheduler makes.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability};
use futures::future::join_all;
use sim::{
    Disk, Executor, Image, Mechanical, Options, Prng, SECTOR_SIZE, Scheduler, Timing, Zone, presets,
};

const MS: u64 = 1_000_000;

/// A small disk with nothing that hides the arm: 10 ms a turn, 100 sectors a track.
const PLAIN: Mechanical = Mechanical {
    zones: &[Zone { cylinders: 500, sectors_per_track: 100 }],
    heads: 2,
    rpm: 6000,
    seek_single_ns: MS,
    seek_average_ns: 8 * MS,
    seek_full_ns: 16 * MS,
    head_switch_ns: MS,
    command_ns: MS / 10,
    bus_bytes_per_second: 10_000_000,
    pipelined: true,
    scheduler: Scheduler::Fifo,
    queue_depth: 64,
    read_ahead_bytes: 0,
    write_cache_bytes: 0,
};

fn world(spec: Mechanical) -> (Executor, Rc<Disk>) {
    let executor = Executor::new(6);
    let timing = Timing::Mechanical(spec);
    let options = Options { timing, ..Options::default() };
    let disk = Disk::with_options(&executor, Image::zeroed(spec.capacity()), options);
    (executor, disk)
}

async fn write(disk: &Disk, sector: u64, durability: Durability) {
    let data = vec![vec![1; SECTOR_SIZE].into()];
    disk.write(sector * SECTOR_SIZE as u64, data, durability).await.expect("a write");
}

async fn read(disk: &Disk, sector: u64) {
    let buffer = Buffer::zeroed(SECTOR_SIZE);
    disk.read(sector * SECTOR_SIZE as u64, buffer).await.expect("a read");
}

async fn flush(disk: &Disk) {
    disk.flush().await.expect("a flush");
}

/// The duration in nanoseconds.
fn time(executor: &Executor, work: impl Future) -> u64 {
    let start = executor.now().0;
    executor.block_on(work);
    executor.now().0 - start
}

#[test]
fn a_sector_that_has_just_passed_costs_a_turn_to_the_nanosecond() {
    let (executor, disk) = world(PLAIN);
    let (turn, sector) = (10 * MS, MS / 10);
    executor.block_on(read(&disk, 0));
    // The answer comes with the end of the sector, and the next command too late for the next.
    assert_eq!(time(&executor, read(&disk, 1)), turn + sector);
    assert_eq!(time(&executor, read(&disk, 3)), 2 * sector, "the command takes one of them");
    // The next track begins a change of head later: 1 ms is 10 sectors, and one for the rounding.
    assert_eq!(time(&executor, read(&disk, 99)), (99 - 4 + 1) * sector);
    assert_eq!(time(&executor, read(&disk, 101)), (11 + 1 + 1) * sector);
    assert_eq!(disk.counters().seeks, 0);
}

/// A hundred concurrent reads all over the disk: returns the time and the seeks.
fn burst(spec: Mechanical) -> (u64, u64) {
    let (executor, disk) = world(spec);
    let mut prng = Prng::new(3);
    let reads = (0..100).map(|_| read(&disk, prng.below(100_000))).collect::<Vec<_>>();
    (time(&executor, join_all(reads)), disk.counters().seeks)
}

#[test]
fn a_scheduler_saves_the_arm_its_ways() {
    let with = |scheduler| burst(Mechanical { scheduler, queue_depth: 100, ..PLAIN });
    let (fifo, fifo_seeks) = with(Scheduler::Fifo);
    let (elevator, _) = with(Scheduler::Elevator);
    let (shortest, shortest_seeks) = with(Scheduler::ShortestFirst);
    println!("100 reads in ms: {} {} {}", fifo / MS, elevator / MS, shortest / MS);
    assert!(fifo.abs_diff(100 * 13 * MS) < 100 * MS, "8 ms, half a turn, a sector: {fifo}");
    assert!(shortest < elevator && elevator < fifo);
    assert!(shortest < fifo / 2, "{shortest} of {fifo}");
    assert!((95..=100).contains(&fifo_seeks), "{fifo_seeks}");
    assert!((90..=100).contains(&shortest_seeks), "{shortest_seeks}");
}

#[test]
fn the_elevator_goes_up_and_begins_anew_at_the_bottom() {
    let (executor, disk) = world(Mechanical { scheduler: Scheduler::Elevator, ..PLAIN });
    let order = Rc::new(RefCell::new(Vec::new()));
    let sectors = [50_000, 80_000, 20_000, 60_000, 10_000];
    let reads = sectors.map(|sector| {
        let (disk, order) = (disk.clone(), order.clone());
        async move {
            read(&disk, sector).await;
            order.borrow_mut().push(sector);
        }
    });
    let mut first = Box::pin(read(&disk, 45_000));
    let before_it_ends = Duration::from_micros(200);
    assert!(executor.block_on_for(before_it_ends, &mut first).is_none());
    executor.block_on(join_all(reads));
    assert_eq!(*order.borrow(), [50_000, 60_000, 80_000, 10_000, 20_000]);
}

#[test]
fn nobody_starves_behind_shorter_ways() {
    let (executor, disk) = world(Mechanical { scheduler: Scheduler::ShortestFirst, ..PLAIN });
    let far = {
        let (disk, executor) = (disk.clone(), &executor);
        async move {
            read(&disk, 99_000).await;
            executor.now().0
        }
    };
    // Several concurrent readers, so that one of them waits whenever the arm has a choice.
    let near = join_all((0..4).map(|reader| {
        let disk = disk.clone();
        async move {
            for round in 0..200 {
                read(&disk, (reader * 200 + round) * 37 % 1000).await;
            }
        }
    }));
    let (answered_ns, _) = executor.block_on(futures::future::join(far, near));
    assert!(answered_ns > 100 * MS, "shorter ways go first: {answered_ns}");
    assert!(answered_ns < 600 * MS, "and not for ever: {answered_ns}");
}

#[test]
fn a_write_cache_answers_at_once_and_a_flush_waits_for_the_platters() {
    let spec = Mechanical { write_cache_bytes: 1 << 20, ..PLAIN };
    let (executor, disk) = world(spec);
    let bus = SECTOR_SIZE as u64 * 100;
    assert_eq!(time(&executor, write(&disk, 50_000, Durability::Plain)), MS / 10 + bus);
    assert_eq!(disk.counters().seeks, 1, "it is written as soon as nothing else is to be done");
    let waits = time(&executor, flush(&disk));
    assert!(waits > 5 * MS, "{waits}");
    assert_eq!(time(&executor, flush(&disk)), MS / 10, "with nothing to do it is a command");
    let through = time(&executor, write(&disk, 0, Durability::Through));
    assert!(through > 5 * MS, "a write through waits for the arm: {through}");
    let (executor, disk) = world(PLAIN);
    let plain = time(&executor, write(&disk, 50_000, Durability::Plain));
    assert!(plain > 5 * MS, "without a cache, every write does: {plain}");
    assert_eq!(time(&executor, flush(&disk)), MS / 10);
}

#[test]
fn a_flush_does_not_wait_for_a_pause_between_reads() {
    let answered = |flushes: bool| {
        let (executor, disk) = world(Mechanical { write_cache_bytes: 1 << 20, ..PLAIN });
        let readers = join_all((0..3).map(|reader| {
            let disk = disk.clone();
            async move {
                for round in 0..100 {
                    read(&disk, (reader * 100 + round) * 7919 % 100_000).await;
                }
            }
        }));
        let writer = async {
            for index in 0..5 {
                write(&disk, index * 20_000, Durability::Plain).await;
            }
            if flushes {
                flush(&disk).await;
            }
            executor.now().0
        };
        let (answered_ns, _) = executor.block_on(futures::future::join(writer, readers));
        (answered_ns, executor.now().0)
    };
    let (flushed_ns, end_ns) = answered(true);
    assert!(flushed_ns < end_ns / 4, "{flushed_ns} of {end_ns}");
    assert!(answered(false).1 < end_ns, "and without it the cache leaves the arm to the reads");
}

#[test]
fn the_bus_is_free_while_the_arm_is_on_its_way() {
    let (executor, disk) = world(Mechanical { write_cache_bytes: 1 << 20, ..PLAIN });
    let mut far = Box::pin(read(&disk, 90_000));
    assert!(executor.block_on_for(Duration::from_millis(1), &mut far).is_none());
    let answered = time(&executor, write(&disk, 0, Durability::Plain));
    assert!(answered < MS / 5, "{answered}");
    assert!(time(&executor, far) > MS);
}

#[test]
fn a_full_cache_takes_writes_as_fast_as_it_empties() {
    let spec = Mechanical { write_cache_bytes: 8 * 512, ..PLAIN };
    let (executor, disk) = world(spec);
    let apart = |index: u64| index * 7919 % 100_000;
    let writes = |range: Range<u64>| {
        let disk = disk.clone();
        async move {
            for index in range {
                write(&disk, apart(index), Durability::Plain).await;
            }
        }
    };
    let eight = time(&executor, writes(0..8));
    assert!(eight < 2 * MS, "they fit: {eight}");
    let more = time(&executor, writes(8..48));
    assert!((40 * 5 * MS..40 * 20 * MS).contains(&more), "they wait for the arm: {more}");
}

#[test]
fn what_is_rewritten_in_the_cache_is_written_once() {
    let spec = Mechanical { write_cache_bytes: 1 << 20, ..PLAIN };
    let (executor, disk) = world(spec);
    let work = async {
        write(&disk, 90_000, Durability::Plain).await; // keeps the arm away
        for _ in 0..50 {
            write(&disk, 10_000, Durability::Plain).await;
        }
        flush(&disk).await;
    };
    let took = time(&executor, work);
    assert!(took < 80 * MS, "a turn for each would be half a second: {took}");
    assert_eq!(disk.counters().writes, 51);
}

#[test]
fn reading_on_finds_the_next_sectors_in_the_buffer() {
    let sequential = |read_ahead_bytes| {
        let (executor, disk) = world(Mechanical { read_ahead_bytes, ..PLAIN });
        let reads = async {
            for sector in 0..200 {
                read(&disk, sector).await;
            }
        };
        (time(&executor, reads), disk.counters().seeks)
    };
    let (with, seeks) = sequential(64 << 10);
    let (without, _) = sequential(0);
    assert!(with < 50 * MS, "two tracks and what each call costs: {with}");
    assert!(without > 200 * 9 * MS, "a turn each: {without}");
    assert_eq!(seeks, 0, "reading on into the next cylinder is no seek");
}

#[test]
fn a_read_that_leaves_the_buffer_and_comes_back_finds_it_gone() {
    let (executor, disk) = world(Mechanical { read_ahead_bytes: 64 << 10, ..PLAIN });
    executor.block_on(read(&disk, 0));
    let hit = time(&executor, read(&disk, 1));
    assert!(hit < MS, "{hit}");
    executor.block_on(read(&disk, 70_000));
    let miss = time(&executor, read(&disk, 2));
    assert!(miss > MS, "{miss}");
}

#[test]
fn flash_does_many_things_at_once_and_a_channel_one() {
    let executor = Executor::new(1);
    let options = Options { timing: presets::SATA_SSD, ..Options::default() };
    let disk = Disk::with_options(&executor, Image::zeroed(1 << 24), options);
    let page = |number: u64| read(&disk, number * 8);
    let one = time(&executor, page(0));
    let apart = time(&executor, join_all((0..32).map(page)));
    let together = time(&executor, join_all((0..32).map(|index| page(index * 32))));
    assert!(apart < 2 * one, "32 channels at once: {apart}, and one alone: {one}");
    assert!(together > 20 * one, "one channel for all: {together}");
}

#[test]
fn a_program_of_flash_waits_for_the_reads_of_its_channel() {
    let time_of_write = |sector: u64| {
        let executor = Executor::new(1);
        let options = Options { timing: presets::SATA_SSD, ..Options::default() };
        let disk = Disk::with_options(&executor, Image::zeroed(1 << 24), options);
        let reads = (0..32).map(|index| disk.read(index * 32 * 4096, Buffer::zeroed(512)));
        let _under_way: Vec<_> = reads.collect();
        time(&executor, write(&disk, sector, Durability::Through))
    };
    assert!(time_of_write(0) > 2 * MS, "32 reads of 60 us come first");
    assert!(time_of_write(8) < MS / 2, "another channel has nothing to do");
}

#[test]
fn the_disk_is_busy_while_a_call_is_under_way() {
    let (executor, disk) = world(PLAIN);
    let first = time(&executor, read(&disk, 50_000));
    executor.run_for(Duration::from_secs(1));
    assert_eq!(disk.counters().busy_ns, first);
    let before = disk.counters();
    let mut pending = disk.flush();
    assert!(executor.block_on_for(Duration::from_nanos(10), &mut pending).is_none());
    assert_eq!(disk.counters().since(&before).busy_ns, 10, "and so far");
    executor.block_on(pending).expect("a flush");
    assert_eq!(disk.counters().since(&before).busy_ns, MS / 10);
}

#[test]
#[should_panic(expected = "an image fits on its disk")]
fn a_disk_is_as_large_as_it_is_made() {
    let executor = Executor::new(1);
    let options = Options { timing: Timing::Mechanical(PLAIN), ..Options::default() };
    Disk::with_options(&executor, Image::zeroed(PLAIN.capacity() + 512), options);
}
