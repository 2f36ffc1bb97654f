//! Sequences of faults by which a reader has found losses, each with the bytes that must be read.

use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Verb};
use futures::future::{join, join_all};
use nvram::format::{Header, Layout, SLOT, decode_marks, encode_marks, sum};
use sim::{Effect, Fate, Fault, Honesty, Image, Persistence, Platter};

use crate::world::{ID, MEMORY, Platters, World, made};

fn block(byte: u8, length: usize) -> Vec<bytes::Bytes> {
    vec![vec![byte; length].into()]
}

async fn byte(device: &nvram::Nvram, at: u64, length: usize) -> Option<u8> {
    device.read(at, Buffer::unfilled(length)).await.ok().map(|b| b[0])
}

fn layout() -> Layout {
    Layout::of(MEMORY).expect("it is whole")
}

#[test]
fn the_other_half_of_a_rotten_half_is_read() {
    let world = World::new(1, &made());
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        device.write(0, block(1, 2048), Durability::Through).await.expect("it is whole");
        world.memory.rot(layout().slot(0) + 512 + 100, 3);
        assert_eq!(byte(&device, 2048, 2048).await, Some(0), "runtime: the other half is below");
    });
}

#[test]
fn the_other_half_of_a_rotten_half_is_read_after_a_start() {
    let world = World::new(1, &made());
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        device.write(0, block(1, 2048), Durability::Through).await.expect("it is whole");
        device.write(8192, block(2, 4096), Durability::Through).await.expect("it is whole");
    });
    let platters = world.contents();
    let world = World::new(2, &platters);
    world.memory.rot(layout().slot(0) + 512 + 100, 3);
    world.executor.block_on(async {
        let (device, recovered) = world.open().await;
        assert_eq!(recovered.rotten, 1);
        assert_eq!(byte(&device, 2048, 2048).await, Some(0), "the other half is below");
    });
}

#[test]
fn a_torn_header_over_a_void_entry_is_no_rot_later() {
    // As a cut in the write of entry 20 leaves buffer 0: its front header alone.
    let mut platters = made();
    let mut image = World::new(1, &platters).memory.contents();
    let old = vec![7_u8; 4096];
    let head = |sequence, durable, place, data: &[u8]| {
        Header { id: ID, sequence, durable, place, mask: 255, lost: 0, data_sum: sum(data) }
            .encode()
    };
    let new = vec![8_u8; 4096];
    image.write(layout().slot(0), &head(20, 19, 3, &new));
    image.write(layout().slot(0) + 512, &old);
    image.write(layout().slot(0) + 512 + 4096, &head(5, 4, 9, &old));
    let mut marks = [0; 56];
    marks[0] = 5;
    for at in layout().map(0) {
        let bytes = encode_marks(&ID, 19, &marks);
        assert!(decode_marks(&bytes, &ID).is_some());
        image.write(at, &bytes);
    }
    platters.memory = Platter::new(image, Honesty::Honest);
    let world = World::new(2, &platters);
    let device = world.executor.block_on(async {
        let (device, _) = world.open().await;
        assert_eq!(byte(&device, 3 * 4096, 4096).await, Some(0));
        device
    });
    let write = device.write(50 * 4096, block(9, 8192), Durability::Plain);
    let _ = world.executor.block_on(write);
    let platter = world.memory.platter();
    // The second buffer of the write is whole, and of the first only a sector of the data.
    let slot = layout().slot(0);
    let mut image = platter.image_with(|_| Fate::Lost);
    let whole = world.memory.contents();
    let mut bytes = [0; 512];
    whole.read(slot + 1024, &mut bytes);
    image.write(slot + 1024, &bytes);
    let mut bytes = vec![0; SLOT as usize];
    whole.read(slot + SLOT, &mut bytes);
    image.write(slot + SLOT, &bytes);
    let platters = Platters { below: platters.below, memory: Platter::new(image, Honesty::Honest) };
    let world = World::new(3, &platters);
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        assert_eq!(byte(&device, 3 * 4096, 4096).await, Some(0), "never acknowledged");
    });
}

#[test]
fn everything_goes_below_when_there_is_room_again() {
    let world = World::new(1, &made());
    let device = world.executor.block_on(async {
        let (device, _) = world.open().await;
        device.write(0, block(1, 4096), Durability::Through).await.expect("it is whole");
        world.below.inject(Fault::on(Verb::Write, Effect::NoSpace).forever());
        assert!(device.settle(false).await.is_err());
        world.below.heal();
        device
    });
    for _ in 0..5 {
        world.executor.run_for(Duration::from_secs(60));
    }
    world.executor.block_on(device.settle(false)).expect("it is whole");
}

#[test]
fn a_clean_entry_that_rots_takes_no_newer_write_with_it() {
    let world = World::new(1, &made());
    let device = world.executor.block_on(world.open()).0;
    world.executor.block_on(async {
        for place in 0..60 {
            device
                .write(place * 4096, block(1, 4096), Durability::Through)
                .await
                .expect("it is whole");
        }
    });
    world.executor.run_for(Duration::from_secs(2));
    let at = 36 * 4096;
    // Buffers were taken in their order as long as none was freed.
    for buffer in 30..39 {
        world.memory.rot(layout().slot(buffer) + 512 + 100, 3);
    }
    world.memory.inject(Fault::on(Verb::Read, Effect::Slow(Duration::from_secs(1))));
    let mut read = device.read(at, Buffer::unfilled(4096));
    assert!(world.executor.block_on_for(Duration::from_millis(10), &mut read).is_none());
    world.executor.block_on(async {
        device.write(at, block(2, 4096), Durability::Through).await.expect("it is whole");
        let _ = read.await;
        assert_eq!(byte(&device, at, 4096).await, Some(2), "it was acknowledged");
    });
}

#[test]
fn a_flush_that_failed_below_is_final() {
    let world = World::new(1, &made());
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        device.write(0, block(1, 131_072), Durability::Plain).await.expect("it passes by");
        world.below.fail(Verb::Flush, 1, Persistence::Once);
        assert!(device.settle(false).await.is_err());
        // The failed flush has stranded the write: no later one may vouch for it.
        assert!(device.flush().await.is_err());
    });
}

#[test]
fn the_last_entry_that_rots_after_a_stop_is_lost_and_not_torn() {
    let world = World::new(1, &made());
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        device.write(0, block(1, 4096), Durability::Through).await.expect("it is whole");
        device.settle(false).await.expect("it is whole");
        device.write(0, block(2, 4096), Durability::Through).await.expect("it is whole");
        device.flush().await.expect("it is whole");
        device.close().await.expect("it is whole");
    });
    let platters = world.contents();
    let world = World::new(2, &platters);
    let buffer = 0;
    world.memory.rot(layout().slot(buffer) + 512 + 100, 3);
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        assert_eq!(byte(&device, 0, 4096).await, None, "old bytes are read");
    });
}

#[test]
fn a_clean_block_is_read_below_where_the_memory_fails() {
    let world = World::new(1, &made());
    let device = world.executor.block_on(world.open()).0;
    world.executor.block_on(async {
        for place in 0..60 {
            device
                .write(place * 4096, block(1, 4096), Durability::Through)
                .await
                .expect("it is whole");
        }
    });
    world.executor.run_for(Duration::from_secs(2));
    let all = layout().slot(0)..layout().slot(70);
    world.memory.inject(Fault::on(Verb::Read, Effect::Eio).within(all).forever());
    world.executor.block_on(async {
        let mut bad = Vec::new();
        for place in 0..60 {
            if byte(&device, place * 4096, 4096).await != Some(1) {
                bad.push(place);
            }
        }
        let dirty = device.status().dirty_bytes / 4096;
        assert!(bad.len() as u64 <= dirty, "dirty {dirty} bad {bad:?}");
    });
}

#[test]
fn one_block_without_room_keeps_no_other_from_going_below() {
    let world = World::new(1, &made());
    let device = world.executor.block_on(world.open()).0;
    world.below.inject(Fault::on(Verb::Write, Effect::NoSpace).within(0..4096).forever());
    world.executor.block_on(async {
        let mut refused = 0;
        for place in (0..240_u64).step_by(2) {
            let done = device.write(place * 4096, block(1, 4096), Durability::Through).await;
            refused += u64::from(done.is_err());
        }
        assert_eq!(refused, 0, "there is room for all but one");
    });
}

/// Blocks were refused below, and an hour later there is room. Gives how many writes at once hear
/// that there is none.
fn refused_an_hour_later() -> usize {
    let world = World::new(1, &made());
    let device = world.executor.block_on(world.open()).0;
    let write = |place: u64| device.write(place * 4096, block(1, 4096), Durability::Through);
    world.executor.block_on(async {
        for place in 0..20 {
            write(place).await.expect("it is whole");
        }
    });
    world.below.inject(Fault::on(Verb::Write, Effect::NoSpace).forever());
    device.hurry(true);
    world.executor.run_for(Duration::from_secs(10));
    device.hurry(false);
    world.executor.run_for(Duration::from_secs(10));
    world.below.heal();
    world.executor.run_for(Duration::from_secs(3600));
    let written = world.executor.block_on(join_all((40..240).map(write)));
    written.into_iter().filter(Result::is_err).count()
}

#[test]
fn that_there_was_no_room_an_hour_ago_refuses_nobody() {
    assert_eq!(refused_an_hour_later(), 0);
    #[cfg(feature = "planted-bugs")]
    assert_ne!(crate::with(nvram::planted::Bug::OldRefusal, refused_an_hour_later), 0);
}

/// Many blocks have no room below, and some that come later by address do.
#[test]
fn many_blocks_without_room_keep_no_other_from_going_below() {
    let world = World::new(1, &made());
    let device = world.executor.block_on(world.open()).0;
    let full = 0..30 * 4096;
    world.below.inject(Fault::on(Verb::Write, Effect::NoSpace).within(full).forever());
    let write = |place: u64| device.write(place * 4096, block(1, 4096), Durability::Through);
    let refused = world.executor.block_on(async {
        let mut refused = 0;
        for place in 0..240 {
            refused += usize::from(write(place).await.is_err());
        }
        refused
    });
    assert_eq!(refused, 0, "there is room for most");
    let status = device.status();
    assert!(status.counts.write_backs >= 150, "{:?}", status.counts);
}

#[test]
fn a_read_beyond_all_ends_is_refused() {
    let world = World::new(1, &made());
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        let error = device
            .read(u64::MAX - 511, Buffer::unfilled(1024))
            .await
            .map(drop)
            .expect_err("it is beyond");
        assert_eq!(error.kind, std::io::ErrorKind::InvalidInput);
    });
}

#[test]
fn a_mark_that_a_cut_left_in_one_copy_is_written_to_both() {
    // 60 blocks go below; the marks of some land in the first copy alone, the cut comes.
    let mut platters = made();
    let mut image = World::new(1, &platters).memory.contents();
    let old = vec![7_u8; 4096];
    let head = Header {
        id: ID,
        sequence: 5,
        durable: 4,
        place: 3,
        mask: 255,
        lost: 0,
        data_sum: sum(&old),
    }
    .encode();
    image.write(layout().slot(0), &head);
    image.write(layout().slot(0) + 512, &old);
    image.write(layout().slot(0) + 512 + 4096, &head);
    let mut marks = [0; 56];
    marks[0] = 5;
    image.write(layout().map(0)[0], &encode_marks(&ID, 5, &marks));
    platters.memory = Platter::new(image, Honesty::Honest);
    let world = World::new(2, &platters);
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        device.write(0, block(1, 131072), Durability::Through).await.expect("it is whole");
    });
    let platters = world.contents();
    let world = World::new(3, &platters);
    world.memory.rot(layout().map(0)[0] + 100, 1);
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        assert_eq!(byte(&device, 3 * 4096, 4096).await, Some(1), "one copy of two has rotted");
    });
}

/// Two writes to a block, each acknowledged, and nothing that says so of the second: another one
/// beside it, which comes later in the order of all, knows nothing of it.
fn written_twice() -> Platters {
    let written = (1..).map(|seed| {
        let world = World::new(seed, &made());
        world.executor.block_on(async {
            let (device, _) = world.open().await;
            let write = |at, byte| device.write(at, block(byte, 4096), Durability::Through);
            write(0, 1).await.expect("it is whole");
            let (second, beside) = join(write(0, 2), write(BESIDE * 4096, 9)).await;
            second.and(beside).expect("it is whole");
        });
        world.contents()
    });
    let is_it = |platters: &Platters| {
        let image = platters.memory.durable_image();
        let [second, beside] = [0, BESIDE].map(|place| last_of(&image, place).1.sequence);
        second < beside
    };
    written.into_iter().find(is_it).expect("one of two comes first")
}

/// The block that is written beside.
const BESIDE: u64 = 90;

/// The slot of the last write of a block, and its header.
fn last_of(image: &Image, place: u64) -> (u64, Header) {
    let of_slot = |slot: u64| {
        let mut bytes = vec![0; 512];
        image.read(slot, &mut bytes);
        Some((slot, Header::decode(&bytes, &ID).filter(|header| header.place == place)?))
    };
    let all = (0..layout().buffers).filter_map(|buffer| of_slot(layout().slot(buffer)));
    all.max_by_key(|(_, header)| header.sequence).expect("it was written")
}

/// What is read of the block where a part of its last buffer cannot be read at first, and what
/// once it can. None if the start fails.
fn unread_at_first(at: u64, length: u64) -> (Option<Option<u8>>, Option<u8>) {
    let world = World::new(2, &written_twice());
    let start = last_of(&world.memory.contents(), 0).0 + at;
    let fault = Fault::on(Verb::Read, Effect::Eio).within(start..start + length).forever();
    world.memory.inject(fault);
    let first = world.executor.block_on(async {
        let (device, _) = world.try_open().await.ok()?;
        Some(byte(&device, 0, 4096).await)
    });
    let world = World::new(3, &world.kill());
    let then = world.executor.block_on(async {
        let (device, _) = world.open().await;
        byte(&device, 0, 4096).await
    });
    (first, then)
}

#[test]
fn a_buffer_that_cannot_be_read_is_no_torn_one() {
    assert_eq!(unread_at_first(512, 4096), (Some(None), Some(2)), "its data");
    assert_eq!(unread_at_first(0, 512), (Some(Some(2)), Some(2)), "one of its headers");
    assert_eq!(unread_at_first(0, SLOT), (None, Some(2)), "all of it: nobody knows whose it is");
    #[cfg(feature = "planted-bugs")]
    {
        use nvram::planted::Bug;
        let shown = |bug, at, length| crate::with(bug, || unread_at_first(at, length).0.flatten());
        assert_eq!(shown(Bug::UnreadIsTorn, 512, 4096), Some(1), "what was written before");
        assert_eq!(shown(Bug::UnreadIsVoid, 0, SLOT), Some(1), "the same");
    }
}

#[test]
fn a_start_fails_where_the_map_cannot_be_read() {
    let fails = |copies: &[u64]| {
        let world = World::new(2, &written_twice());
        for &at in copies {
            let fault = Fault::on(Verb::Read, Effect::Eio).within(at..at + 512).forever();
            world.memory.inject(fault);
        }
        world.executor.block_on(world.try_open()).is_err()
    };
    let [one, other] = layout().map(0);
    assert!(fails(&[one, other]) && !fails(&[one]) && !fails(&[other]));
}

/// A block whose second write was torn: a part of its data is there, its first header, and its
/// second one or none. The byte that is read by a start that cannot read a sector of its buffer,
/// and by a later one.
fn torn_and_unread_at_first(has_second: bool, sector: u64) -> [Option<u8>; 2] {
    let mut platters = written_twice();
    let mut image = World::new(1, &platters).memory.contents();
    let slot = last_of(&image, 0).0;
    image.write(slot + 512 + 2048, &[1; 2048]);
    if !has_second {
        image.write(slot + 512 + 4096, &[0; 512]);
    }
    platters.memory = Platter::new(image, Honesty::Honest);
    let world = World::new(2, &platters);
    let unread = slot + sector * 512..slot + (sector + 1) * 512;
    let fault = Fault::on(Verb::Read, Effect::Eio).within(unread).forever();
    world.memory.inject(fault);
    let first = world.executor.block_on(async {
        let (device, _) = world.open().await;
        let first = byte(&device, 0, 4096).await;
        // So many that its buffer would be used again, if it could; or none.
        for place in 1..if has_second { 50 } else { 1 } {
            let write = device.write(place * 4096, block(3, 4096), Durability::Through);
            write.await.expect("there is room");
        }
        device.flush().await.expect("the memory takes writes");
        first
    });
    let world = World::new(3, &world.kill());
    let then = world.executor.block_on(async {
        let (device, _) = world.open().await;
        byte(&device, 0, 4096).await
    });
    [first, then]
}

#[test]
fn nothing_rests_on_an_entry_that_could_not_be_read_and_is_torn() {
    let data = || torn_and_unread_at_first(true, 1);
    assert_eq!(data(), [None, Some(1)], "the first write was acknowledged");
    let header = || torn_and_unread_at_first(false, 0);
    assert_eq!(header(), [Some(1), Some(1)], "nobody knows the second");
    #[cfg(feature = "planted-bugs")]
    {
        use nvram::planted::Bug;
        assert_eq!(crate::with(Bug::UnreadIsDurable, data)[1], None);
        assert_eq!(crate::with(Bug::UnreadHeader, header)[1], None);
    }
}

/// The same, with its second header gone and a sector of the map whose copies differ, where so many
/// writes of the start to that sector go well, and none behind them. The byte that the next start
/// reads.
fn torn_and_unread_in_a_start_that_is_cut(writes: u64) -> Option<u8> {
    let mut platters = written_twice();
    let mut image = World::new(1, &platters).memory.contents();
    let slot = last_of(&image, 0).0;
    image.write(slot + 512 + 2048, &[1; 2048]);
    image.write(slot + 512 + 4096, &[0; 512]);
    let map = layout().map(0);
    image.write(map[0], &encode_marks(&ID, 1, &[0; 56]));
    platters.memory = Platter::new(image, Honesty::Honest);
    let world = World::new(2, &platters);
    let unread = Fault::on(Verb::Read, Effect::Eio).within(slot..slot + 512).forever();
    world.memory.inject(unread);
    let cut = Fault::on(Verb::Write, Effect::Dead).within(map[0]..map[0] + 512).nth(writes + 1);
    world.memory.inject(cut.forever());
    let is_open = world.executor.block_on(world.try_open()).is_ok();
    assert_eq!(is_open, writes > 1, "two writes are enough");
    let platters = world.contents();
    world.executor.crash();
    let world = World::new(3, &platters);
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        byte(&device, 0, 4096).await
    })
}

#[test]
fn a_start_that_cannot_read_a_header_says_of_nothing_behind_it_that_it_is_durable() {
    let all = || (0..3).map(torn_and_unread_in_a_start_that_is_cut).collect::<Vec<_>>();
    assert_eq!(all(), [Some(1); 3], "the first write was acknowledged");
    #[cfg(feature = "planted-bugs")]
    assert_ne!(crate::with(nvram::planted::Bug::HastyMarks, all), [Some(1); 3]);
}

#[test]
fn what_is_hurried_no_more_is_brought_below_for_one_that_waits() {
    let world = World::new(1, &made());
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        for place in 0..20 {
            let write = device.write(place * 4096, block(1, 4096), Durability::Through);
            write.await.expect("it is whole");
        }
        device.hurry(true);
        let mut settled = Box::pin(device.settle(false));
        assert!(futures::poll!(&mut settled).is_pending());
        device.hurry(false);
        settled.await.expect("it is whole");
        assert_eq!(device.status().dirty_bytes, 0);
    });
}

/// The parts of a file are written by two, and its flush is one.
#[test]
fn both_parts_of_a_memory_hear_of_a_flush_that_failed() {
    let executor = sim::Executor::new(1);
    let disk = sim::Disk::new(&executor, sim::Image::zeroed(1 << 20));
    let [upper, lower] = block::slice::split(disk.clone(), 1 << 19);
    executor.block_on(async {
        for (one, other) in [(&upper, &lower), (&lower, &upper)] {
            disk.inject(Fault::on(Verb::Flush, Effect::Eio).nth(1));
            assert!(one.flush().await.is_err());
            assert!(other.flush().await.is_err(), "its writes may be stranded");
            assert!(other.flush().await.is_ok() && one.flush().await.is_ok(), "once");
        }
    });
}

#[test]
fn a_disk_below_that_fails_ends_the_volume_and_one_without_room_does_not() {
    for (effect, is_whole) in [(Effect::NoSpace, true), (Effect::Eio, false)] {
        let world = World::new(1, &made());
        world.executor.block_on(async {
            let (device, _) = world.open().await;
            let write = || device.write(0, block(1, 4096), Durability::Through);
            write().await.expect("it is whole");
            world.below.inject(Fault::on(Verb::Write, effect).forever());
            assert!(device.settle(false).await.is_err());
            assert_eq!((write().await.is_ok(), device.status().has_failed), (is_whole, !is_whole));
        });
    }
}

#[test]
fn a_disk_without_room_is_tried_once_a_second() {
    let world = World::new(1, &made());
    let device = world.executor.block_on(world.open()).0;
    world.executor.block_on(async {
        for place in (0..20).step_by(2) {
            let write = device.write(place * 4096, block(1, 4096), Durability::Through);
            write.await.expect("it is whole");
        }
    });
    world.below.inject(Fault::on(Verb::Write, Effect::NoSpace).forever());
    device.hurry(true);
    let before = world.below.counters().writes;
    world.executor.run_for(Duration::from_secs(20));
    let rounds = (world.below.counters().writes - before) / 10;
    assert!((10..=25).contains(&rounds), "{rounds} in 20 seconds");
}

/// The last entry had not been called durable, and a start can write it again or cannot. Gives its
/// sequence, and the one up to which the start calls all durable.
fn said_of_the_last_entry(is_written_again: bool) -> (u64, u64) {
    let world = World::new(1, &made());
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        device.write(0, block(1, 4096), Durability::Through).await.expect("it is whole");
    });
    let world = World::new(2, &world.kill());
    let (slot, last) = last_of(&world.memory.contents(), 0);
    if !is_written_again {
        let fault = Fault::on(Verb::Write, Effect::Dead).within(slot..slot + SLOT);
        world.memory.inject(fault.forever());
    }
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        assert_eq!(byte(&device, 0, 4096).await, Some(1));
        (last.sequence, device.label().durable)
    })
}

#[test]
fn a_start_calls_an_entry_durable_that_it_has_written_again_and_no_other() {
    let (last, durable) = said_of_the_last_entry(true);
    assert_eq!(last, durable);
    let (last, durable) = said_of_the_last_entry(false);
    assert!(durable < last, "{durable} {last}");
}

#[test]
fn a_start_writes_a_damaged_copy_of_marks_before_the_whole_one() {
    for damaged in 0..2 {
        let mut platters = made();
        let mut image = World::new(1, &platters).memory.contents();
        let map = layout().map(0);
        image.write(map[1 - damaged], &encode_marks(&ID, 1, &[0; 56]));
        platters.memory = Platter::new(image, Honesty::Honest);
        let world = World::new(2, &platters);
        world.memory.rot(map[damaged] + 100, 1);
        let whole = map[1 - damaged]..map[1 - damaged] + 512;
        world.memory.inject(Fault::on(Verb::Write, Effect::Silent).within(whole));
        let opening = world.try_open();
        assert!(world.executor.block_on_for(Duration::from_secs(1), opening).is_none());
        let is_whole = map.map(|at| {
            let mut bytes = [0; 512];
            world.memory.contents().read(at, &mut bytes);
            decode_marks(&bytes, &ID).is_some()
        });
        assert_eq!(is_whole, [true; 2], "damaged: {damaged}");
    }
}

#[test]
fn a_start_that_has_voided_a_torn_entry_calls_all_before_and_behind_it_durable() {
    let mut platters = written_twice();
    let mut image = World::new(1, &platters).memory.contents();
    let (slot, second) = last_of(&image, 0);
    let beside = last_of(&image, BESIDE).1.sequence;
    image.write(slot + 512 + 2048, &[1; 2048]);
    image.write(slot + 512 + 4096, &[0; 512]);
    platters.memory = Platter::new(image, Honesty::Honest);
    let world = World::new(2, &platters);
    let unread = Fault::on(Verb::Read, Effect::Eio).within(slot..slot + 512).forever();
    world.memory.inject(unread);
    world.executor.block_on(async {
        let (device, _) = world.open().await;
        assert!(second.sequence < beside && device.label().durable >= beside);
    });
}
