//! The effects on writes that a power cut may have, and those that it may not.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability};
use futures::future::{join, select};
use runtime::Instant;
use sim::{Choice, Disk, Event, Executor, Fate, Honesty, Image, Options, Prng, Sectors, Stage};

const SIZE: u64 = 1 << 16;

fn world() -> (Executor, Rc<Disk>) {
    let executor = Executor::new(11);
    let disk = Disk::new(&executor, Image::zeroed(SIZE));
    (executor, disk)
}

async fn put(disk: &Disk, offset: u64, value: u8, length: usize, durability: Durability) {
    disk.write(offset, vec![vec![value; length].into()], durability).await.expect("a write");
}

async fn plain(disk: &Disk, offset: u64, value: u8) {
    put(disk, offset, value, 512, Durability::Plain).await;
}

/// The first byte of every sector.
fn sectors(image: &Image) -> Vec<u8> {
    image.bytes().chunks(512).map(|sector| sector[0]).collect()
}

/// The sectors `first..end` in every image that the subsets of the pending writes give.
fn possible(disk: &Disk, end: usize) -> Vec<Vec<u8>> {
    let platter = disk.platter();
    let images = Choice::subsets(&platter).map(|choice| platter.image(&choice));
    let mut found: Vec<Vec<u8>> = images.map(|image| sectors(&image)[..end].to_vec()).collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn a_completed_write_can_vanish_until_a_flush() {
    let (executor, disk) = world();
    executor.block_on(plain(&disk, 0, 1));
    assert_eq!(possible(&disk, 1), [[0], [1]]);
    executor.block_on(disk.flush()).expect("a flush");
    assert_eq!(possible(&disk, 1), [[1]]);
}

#[test]
fn a_through_write_stays_and_takes_no_other_along() {
    let (executor, disk) = world();
    executor.block_on(async {
        plain(&disk, 0, 1).await;
        put(&disk, 512, 2, 512, Durability::Through).await;
    });
    assert_eq!(possible(&disk, 2), [[0, 2], [1, 2]]);
}

#[test]
fn two_pending_writes_survive_in_any_combination() {
    let (executor, disk) = world();
    executor.block_on(async {
        plain(&disk, 0, 1).await;
        plain(&disk, 512, 2).await;
    });
    assert_eq!(possible(&disk, 2), [[0, 0], [0, 2], [1, 0], [1, 2]]);
}

#[test]
fn an_older_pending_write_never_undoes_a_durable_one() {
    let (executor, disk) = world();
    executor.block_on(async {
        plain(&disk, 0, 1).await;
        put(&disk, 0, 2, 512, Durability::Through).await;
    });
    assert_eq!(possible(&disk, 1), [[2]]);
}

#[test]
fn a_flush_covers_only_what_had_completed_when_it_was_issued() {
    let (executor, disk) = world();
    executor.block_on(async {
        plain(&disk, 0, 1).await;
        let flush = disk.flush();
        // Both are issued after the flush; one of them may even complete before it does.
        let late = join(plain(&disk, 512, 2), plain(&disk, 1024, 3));
        join(flush, late).await.0.expect("a flush");
    });
    assert_eq!(possible(&disk, 3), [[1, 0, 0], [1, 0, 3], [1, 2, 0], [1, 2, 3]]);
}

#[test]
fn a_write_in_flight_at_the_cut_may_be_there_or_not() {
    let (executor, disk) = world();
    drop(disk.write(0, vec![vec![1; 512].into()], Durability::Through));
    assert_eq!(disk.platter().pending().next().expect("one write").stage, Stage::InFlight);
    assert_eq!(possible(&disk, 1), [[0], [1]]);
    executor.crash();
    assert!(!executor.step(), "nobody answers after a crash");
    assert_eq!(possible(&disk, 1), [[0], [1]]);
}

#[test]
fn a_write_is_torn_at_any_of_its_sectors() {
    let (executor, disk) = world();
    executor.block_on(put(&disk, 512, 7, 2048, Durability::Plain));
    let platter = disk.platter();
    let torn = |sectors| platter.image(&Choice::new(vec![Fate::Torn(sectors)]));
    assert_eq!(sectors(&torn(Sectors::first(2, 4)))[..6], [0, 7, 7, 0, 0, 0]);
    assert_eq!(sectors(&torn(Sectors::but_first(3, 4)))[..6], [0, 0, 0, 0, 7, 0]);
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..1000 {
        seen.insert(sectors(&disk.crash(&mut Prng::new(seed)))[1..5].to_vec());
    }
    assert_eq!(seen.len(), 16, "every subset of the four sectors turns up by chance");
}

#[test]
fn a_dropped_future_abandons_the_answer_and_not_the_write() {
    let (executor, disk) = world();
    drop(disk.write(0, vec![vec![9; 512].into()], Durability::Plain));
    drop(disk.read(0, Buffer::zeroed(512)));
    executor.block_on(disk.close()).expect("a close waits for both");
    assert_eq!(sectors(&disk.contents())[0], 9);
    assert!(executor.block_on(disk.flush()).is_err(), "and refuses what comes later");
}

#[test]
fn overlapping_calls_complete_in_any_order() {
    let mut first_wins = 0;
    for seed in 0..100 {
        let executor = Executor::new(seed);
        let disk = Disk::new(&executor, Image::zeroed(SIZE));
        let one = Box::pin(plain(&disk, 0, 1));
        let two = Box::pin(plain(&disk, 512, 2));
        let first = executor.block_on(select(one, two));
        first_wins += u32::from(matches!(first, futures::future::Either::Left(_)));
    }
    assert!((20..80).contains(&first_wins), "{first_wins} of 100");
}

#[test]
fn a_disk_that_ignores_flushes_is_found_out() {
    for (honesty, loses) in [(Honesty::Honest, false), (Honesty::IgnoresFlush, true)] {
        let executor = Executor::new(3);
        let options = Options { honesty, ..Options::default() };
        let disk = Disk::with_options(&executor, Image::zeroed(SIZE), options);
        executor.block_on(async {
            plain(&disk, 0, 1).await;
            disk.flush().await.expect("a flush");
        });
        assert_eq!(possible(&disk, 1).contains(&vec![0]), loses, "{honesty:?}");
    }
}

#[test]
fn a_disk_that_ignores_through_is_found_out() {
    let executor = Executor::new(3);
    let options = Options { honesty: Honesty::IgnoresThrough, ..Options::default() };
    let disk = Disk::with_options(&executor, Image::zeroed(SIZE), options);
    executor.block_on(put(&disk, 0, 1, 512, Durability::Through));
    assert_eq!(possible(&disk, 1), [[0], [1]]);
    executor.block_on(disk.flush()).expect("a flush");
    assert_eq!(possible(&disk, 1), [[1]], "it lies about one thing only");
}

#[test]
fn a_trace_tells_at_every_position_what_had_been_promised() {
    let (executor, disk) = world();
    disk.start_trace();
    executor.block_on(async {
        plain(&disk, 0, 1).await;
        disk.flush().await.expect("a flush");
        disk.mark(1);
        plain(&disk, 512, 2).await;
        disk.mark("unsafe");
    });
    let trace = disk.trace();
    assert_eq!(trace.cuts().count(), trace.events().len() + 1);
    for (position, platter) in trace.cuts() {
        let marks = trace.marks_before(position).count();
        let image = platter.durable_image();
        assert_eq!(image, trace.image_after(position, |_| Fate::Lost));
        assert_eq!(
            platter.image_with(|_| Fate::Whole),
            trace.image_after(position, |_| Fate::Whole)
        );
        if marks >= 1 {
            assert_eq!(sectors(&image)[0], 1, "the first mark follows a flush");
        }
        if marks >= 2 {
            assert_eq!(sectors(&image)[1], 0, "the second one lies");
        }
    }
    let flushed = |traced: &sim::Traced| matches!(traced.event, Event::FlushCompleted { .. });
    let flushed = trace.events().iter().find(|traced| flushed(traced)).expect("the flush");
    assert!(flushed.at > Instant(0) && flushed.at < executor.now());
    assert_eq!(trace.position_of(flushed.serial), 3);
}

#[test]
fn reads_take_time_and_see_completed_writes() {
    let (executor, disk) = world();
    executor.block_on(async {
        plain(&disk, 4096, 3).await;
        let before = executor.runtime().clock.now();
        let sector = disk.read(4096, Buffer::zeroed(512)).await.expect("a read");
        assert_eq!(sector[..], [3; 512]);
        assert!(executor.runtime().clock.now() > before);
    });
    let counters = disk.counters();
    assert_eq!((counters.reads, counters.bytes_read), (1, 512));
    assert_eq!((counters.writes, counters.through_writes, counters.bytes_written), (1, 0, 512));
}

#[test]
fn the_runtime_of_a_crashed_world_goes_on_with_a_new_disk() {
    let (executor, disk) = world();
    executor.block_on(plain(&disk, 0, 1));
    let boot = executor.runtime().random.next_u64();
    executor.crash();
    let reopened = Disk::new(&executor, disk.contents());
    let sector = executor.block_on(reopened.read(0, Buffer::zeroed(512))).expect("a read");
    assert_eq!(sector[0], 1);
    assert_ne!(executor.runtime().random.next_u64(), boot);
    let mut dead = disk.flush();
    assert!(executor.block_on_for(std::time::Duration::from_secs(1), &mut dead).is_none());
}
