//! Written entries are found, in order, anywhere in the circle; and the exact layout of the bytes.

use block::{BlockDevice, Durability};
use crc_fast::CrcAlgorithm;
use journal::format::{
    AREA, LARGEST_BATCH, LARGEST_BODY, SEGMENT, SEGMENT_UNITS, SLOTS, SMALLEST, State, UNIT,
    VERSION,
};
use journal::{Draft, Journal, JournalError, at_rest, close, find, forget, peek};
use sim::{Image, Options, Prng};

use crate::common::bounds::{grown_log, long_batches};
use crate::common::{EPOCH, Placed, VOLUME, World, batches_are_aligned, draft};

#[test]
fn entries_are_found_in_the_order_in_which_they_were_placed() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    let mut placed = Vec::new();
    let lengths = [0, 1, 448, 449, 20_000, LARGEST_BODY, 7, LARGEST_BODY - 1, 100];
    let mut sequence = 0;
    for batch in lengths.chunks(2) {
        let drafts = batch.iter().map(|&length| {
            sequence += 1;
            draft(sequence, length)
        });
        placed.extend(world.place(&journal, drafts.collect(), Some(0)));
    }
    let (live, found) = world.again().entries(EPOCH);
    assert_eq!(found, placed);
    assert_eq!((live.head, live.tail), (0, journal.tail()));
    assert_eq!(live.bytes(), journal.tail() * UNIT);
}

#[test]
fn a_log_without_entries_is_empty() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    let (live, found) = world.again().entries(EPOCH);
    assert_eq!((live.bytes(), found), (0, Vec::new()));
    let (recnos, written) = journal.place(Vec::new(), None);
    world.run(written).expect("nothing is written");
    assert_eq!((recnos, journal.tail()), (Vec::new(), 0));
}

/// Writes batches of entries of any size, with the last `needed` of them behind the head.
fn fill(world: &World, journal: &Journal, seed: u64, rounds: u64, needed: usize) -> Vec<Placed> {
    let mut prng = Prng::new(seed);
    let mut placed: Vec<Placed> = Vec::new();
    let end = journal.tail() + journal.capacity() / UNIT * rounds;
    let mut sequence = 0;
    while journal.tail() < end {
        let drafts = (0..=prng.below(4)).map(|_| {
            sequence += 1;
            draft(sequence, prng.index(20_000))
        });
        let drafts: Vec<Draft> = drafts.collect();
        let oldest = placed.get(placed.len().saturating_sub(needed)).map(|oldest| oldest.recno);
        let before = oldest.filter(|_| needed > 0);
        let room: u64 = drafts.iter().map(|draft| journal.room_for(draft.body.len())).sum();
        while journal.room() < room {
            world.run(journal.note_head(oldest.unwrap_or(journal.tail()))).expect("healthy");
        }
        placed.extend(world.place(journal, drafts, before));
    }
    let head = placed.len().saturating_sub(needed);
    world.run(journal.note_head(placed[head].recno)).expect("healthy");
    placed.split_off(head)
}

#[test]
fn the_circle_closes_several_times() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    for round in 1..=5 {
        let needed = fill(&world, &journal, round, 1, 20);
        let (live, found) = world.again().entries(EPOCH);
        assert_eq!(found, needed, "round {round}");
        assert_eq!(live.tail, journal.tail());
    }
    assert!(journal.tail() > 5 * (SMALLEST - AREA) / UNIT);
}

#[test]
fn the_tail_is_found_wherever_it_is() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    for sequence in 1..100 {
        let placed = world.place(&journal, vec![draft(sequence, 30_000)], None);
        let (live, found) = world.again().entries(EPOCH);
        assert_eq!((live.tail, found), (journal.tail(), placed));
    }
}

#[test]
fn finding_the_tail_among_512_segments_takes_9_reads() {
    // One read finds where the newest round began, 8 bisect the rest; one of the two segments that
    // remain is read whole anyway.
    let world = World::of(Image::zeroed(AREA + 512 * SEGMENT));
    let mut journal = world.begin(EPOCH);
    // The second epoch begins where the first has ended, within the circle.
    for epoch in [EPOCH, EPOCH + 1] {
        let begun = journal.tail();
        let (mut most, mut sequence) = (0, 0);
        while journal.tail() < begun + 600 * SEGMENT_UNITS {
            for _ in 0..37 {
                sequence += 1;
                world.place(&journal, vec![draft(sequence, LARGEST_BODY)], None);
            }
            let (live, found) = world.entries(epoch);
            assert_eq!(live.tail, journal.tail());
            assert_eq!(found.len(), 1);
            most = most.max(live.search_reads);
        }
        assert_eq!(most, 9, "of epoch {epoch}");
        world.run(journal.close(0)).expect("a healthy disk");
        world.reopen();
        let kept = world.run(at_rest(&*world.disk, |_| ())).expect("not damaged");
        let next = Journal::begin(world.device(), epoch + 1, VOLUME, kept.as_ref());
        journal = world.run(next).expect("the device is large enough");
        journal.bear();
    }
}

#[test]
fn a_batch_takes_four_entries_that_fill_their_segments() {
    let world = World::smallest();
    let mut filling = world.begin(EPOCH).filling();
    let taken = (0..9).take_while(|_| filling.takes(LARGEST_BODY)).count();
    assert_eq!(taken as u64, LARGEST_BATCH / SEGMENT);
}

#[test]
fn no_entry_crosses_the_end_of_a_segment() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    for sequence in 0..40 {
        // Two and a half segments to a batch; the last that fits is padded up to the end.
        let lengths = [40_000, 40_000, 30_000, 9_000, LARGEST_BODY];
        let drafts = lengths.iter().map(|&length| draft(sequence, length)).collect();
        for entry in world.place(&journal, drafts, None) {
            let header = world.header(entry.recno, journal.capacity()).expect("an entry");
            let (start, units) = (entry.recno % SEGMENT_UNITS, u64::from(header.size.get()) / UNIT);
            assert!(start + units <= SEGMENT_UNITS, "{} and {units} units", entry.recno);
        }
        for segment in 0..journal.tail() / SEGMENT_UNITS {
            let first = segment * SEGMENT_UNITS;
            if first + journal.capacity() / UNIT >= journal.tail() {
                let header = world.header(first, journal.capacity()).expect("invariant 2");
                assert_eq!(header.recno.get(), first, "every segment begins with an entry");
            }
        }
    }
}

#[test]
fn batches_begin_and_end_at_whole_sectors() {
    for (physical, unit) in [(512, 4096), (4096, 4096), (16_384, 16_384)] {
        batches_are_aligned(physical, unit).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn a_disk_with_large_sectors_holds_a_log() {
    let options = Options { logical_sector_size: 4096, ..Options::default() };
    let world = World::with(Image::zeroed(SMALLEST), options);
    let journal = world.begin(EPOCH);
    let needed = fill(&world, &journal, 9, 2, 10);
    assert_eq!(world.entries(EPOCH).1, needed);
    world.run(journal.close(journal.tail())).expect("healthy");
}

#[test]
fn a_device_with_sectors_that_are_larger_than_a_segment_is_refused() {
    let (at_most, more) = (SEGMENT as u32, 2 * SEGMENT as u32);
    for (logical_sector_size, physical_sector_size, refused) in
        [(512, at_most, None), (512, more, Some(more)), (at_most, at_most, Some(at_most))]
    {
        let options = Options { logical_sector_size, physical_sector_size, ..Options::default() };
        let world = World::with(Image::zeroed(2 << 20), options);
        let begun = world.run(Journal::begin(world.device(), EPOCH, VOLUME, None));
        let refused = refused.map(|size| JournalError::Sector { size: size.into() });
        assert_eq!(begun.err(), refused);
    }
}

/// As after a manual copy: entries written beside it are found after a cut anywhere.
#[test]
fn a_slot_that_stands_twice_counts_once() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    let placed = world.place(&journal, vec![draft(1, 10_000)], None);
    let slot = world.bytes(0, AREA / 2);
    world.run(world.disk.write(AREA / 2, vec![slot.into()], Durability::Through)).expect("fine");
    let world = world.again();
    let (live, found) = world.entries(EPOCH);
    assert_eq!(found, placed);
    let next = Journal::begin(world.device(), EPOCH + 1, VOLUME, Some(&live));
    world.run(next).expect("there is room");
    for epoch in [EPOCH, EPOCH + 1] {
        assert!(world.run(find(&*world.disk, epoch)).expect("fine").is_some());
    }
    let closed = world.again();
    closed.run(close(&*closed.disk, &live)).expect("healthy");
    let newest = closed.run(peek(&*closed.disk)).expect("fine").expect("one");
    assert_eq!((newest.epoch.get(), newest.state()), (EPOCH, State::AtRest));
    assert_eq!(newest.owner(), Some(VOLUME));
}

#[test]
fn what_room_is_set_aside_for_fits() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    let mut prng = Prng::new(8);
    for sequence in 0..300 {
        let lengths: Vec<usize> =
            (0..=prng.below(3)).map(|_| prng.index(LARGEST_BODY + 1)).collect();
        let room: u64 = lengths.iter().map(|&length| journal.room_for(length)).sum();
        let before = journal.tail();
        let drafts = lengths.into_iter().map(|length| draft(sequence, length)).collect();
        world.place(&journal, drafts, None);
        let taken = (journal.tail() - before) * UNIT;
        assert!(taken <= room, "{taken} of {room} bytes");
    }
}

#[test]
fn what_is_named_as_the_head_without_an_entry_may_be_overwritten() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    world.place(&journal, vec![draft(1, LARGEST_BODY); 15], Some(0));
    let room = journal.room();
    world.run(journal.note_head(10 * SEGMENT_UNITS)).expect("healthy");
    assert_eq!(journal.room(), room + 10 * SEGMENT);
    assert_eq!(world.entries(EPOCH).0.head, 10 * SEGMENT_UNITS);
    world.place(&journal, vec![draft(2, LARGEST_BODY); 11], Some(10 * SEGMENT_UNITS));
    let (live, found) = world.again().entries(EPOCH);
    assert_eq!((live.head, found.len()), (10 * SEGMENT_UNITS, 16));
}

#[test]
fn a_log_of_another_epoch_is_none() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    world.place(&journal, vec![draft(1, 100)], None);
    assert_eq!(world.read(EPOCH + 1), Ok(None));
    assert_eq!(World::smallest().read(EPOCH), Ok(None));
    let new = World::smallest();
    assert_eq!(new.run(peek(&*new.disk)), Ok(None));
    // The next epoch has no entry of the previous one, although those are behind its first entry.
    for sequence in 2..20 {
        world.place(&journal, vec![draft(sequence, LARGEST_BODY)], None);
    }
    let journal = world.begin(EPOCH + 1);
    let placed = world.place(&journal, vec![draft(7, LARGEST_BODY)], None);
    let (live, found) = world.again().entries(EPOCH + 1);
    assert_eq!((live.tail, found), (journal.tail(), placed));
}

#[test]
fn what_is_closed_keeps_what_is_at_rest_and_what_is_given_up_nothing() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    let first = world.place(&journal, vec![draft(1, 10_000)], Some(0));
    let head = journal.tail();
    let second = world.place(&journal, vec![draft(0, 10_000)], Some(0));
    let (by_other, given_up, emptied) = (world.again(), world.again(), world.again());
    let live = by_other.entries(EPOCH).0;
    by_other.run(close(&*by_other.disk, &live)).expect("healthy");
    given_up.run(forget(&*given_up.disk)).expect("healthy");
    let tail = journal.tail();
    emptied.run(emptied.begin(EPOCH + 1).close(0)).expect("healthy");
    world.run(journal.close(head)).expect("healthy");
    for (world, kept) in [
        (world.again(), Some(second.clone())),
        (by_other, Some([first, second].concat())),
        (given_up, None),
        (emptied.again(), Some(Vec::new())),
    ] {
        let slot = world.run(peek(&*world.disk)).expect("fine").expect("one");
        assert_ne!(slot.state(), State::Open);
        let live = world.run(find(&*world.disk, slot.epoch.get())).expect("fine").expect("one");
        assert_eq!(live.bytes(), 0, "no change is needed");
        let rest = world.run(at_rest(&*world.disk, |_| ())).expect("fine");
        assert_eq!(rest.is_some(), kept.is_some());
        let Some((rest, kept)) = rest.zip(kept) else { continue };
        assert_eq!(world.walk(&rest), kept);
        assert!(kept.is_empty() || rest.tail == tail);
    }
}

#[test]
fn a_device_that_is_too_small_is_refused() {
    let world = World::of(Image::zeroed(SMALLEST - 512));
    let refused = JournalError::TooSmall { size: SMALLEST - 512, smallest: SMALLEST };
    let begun = world.run(Journal::begin(world.device(), EPOCH, VOLUME, None));
    assert_eq!(begun.err(), Some(refused.clone()));
    assert_eq!(world.run(peek(&*world.disk)), Err(refused.clone()));
    assert_eq!(world.run(forget(&*world.disk)), Err(refused));
}

#[test]
fn a_log_that_was_cut_off_is_refused() {
    let whole = World::of(Image::zeroed(AREA + 32 * SEGMENT));
    let journal = whole.begin(EPOCH);
    whole.place(&journal, vec![draft(1, 100)], None);
    let live = whole.entries(EPOCH).0;
    let short = World::of(Image::from_bytes(&whole.bytes(0, SMALLEST)));
    let refused = JournalError::Short { size: SMALLEST, needed: AREA + 32 * SEGMENT };
    assert_eq!(short.read(EPOCH), Err(refused.clone()));
    // Nor does an epoch begin behind its live part: that might be elsewhere now.
    let begun = short.run(Journal::begin(short.device(), EPOCH + 1, VOLUME, Some(&live)));
    assert_eq!(begun.err(), Some(refused));
}

/// A slot of the next version, as far as this version knows its format.
fn put_later_slot(image: &mut Image, offset: u64) {
    let mut slot = [0; 72];
    image.read(offset, &mut slot);
    slot[16..20].copy_from_slice(&(VERSION + 1).to_le_bytes());
    slot[20..24].fill(0);
    let sum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, &slot) as u32;
    slot[20..24].copy_from_slice(&sum.to_le_bytes());
    image.write(offset, &slot);
}

#[test]
fn a_later_version_is_refused_and_left_alone() {
    for slot in SLOTS {
        let world = World::smallest();
        let journal = world.begin(EPOCH);
        world.run(journal.note_head(0)).expect("healthy");
        let mut image = world.disk.contents();
        put_later_slot(&mut image, slot);
        let world = World::of(image.clone());
        assert_eq!(world.run(find(&*world.disk, EPOCH)), Err(JournalError::Version(VERSION + 1)));
        assert_eq!(world.run(peek(&*world.disk)), Err(JournalError::Version(VERSION + 1)));
        let begun = world.run(Journal::begin(world.device(), EPOCH, VOLUME, None));
        assert_eq!(begun.err(), Some(JournalError::Version(VERSION + 1)));
        assert_eq!(world.disk.contents(), image);
    }
}

#[test]
fn of_two_slots_one_may_be_damaged() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    let placed = world.place(&journal, vec![draft(1, 100), draft(2, 9_000)], Some(0));
    world.run(journal.note_head(0)).expect("healthy");
    for at in SLOTS.iter().flat_map(|&slot| slot..slot + 72) {
        let mut image = world.disk.contents();
        let mut byte = [0];
        image.read(at, &mut byte);
        for mask in [1, 3, 0xff] {
            image.write(at, &[byte[0] ^ mask]);
            let damaged = World::of(image.clone());
            assert_eq!(damaged.entries(EPOCH).1, placed, "byte {at} xor {mask}");
            let (live, _) = damaged.entries(EPOCH);
            let begun = Journal::begin(damaged.device(), EPOCH + 1, VOLUME, Some(&live));
            damaged.run(begun).expect("the damaged slot is written");
            assert_eq!(damaged.entries(EPOCH).1, placed, "byte {at} xor {mask}");
        }
    }
}

#[test]
fn a_batch_takes_no_more_than_its_share_of_the_circle() {
    long_batches().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn what_is_at_rest_stays_in_a_log_that_has_grown() {
    grown_log().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn a_log_that_is_too_full_for_another_epoch_says_so() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    while journal.room() >= journal.room_for(LARGEST_BODY) {
        world.place(&journal, vec![draft(1, LARGEST_BODY)], Some(0));
    }
    world.place(&journal, vec![draft(1, 100)], Some(0));
    let world = world.again();
    let live = world.entries(EPOCH).0;
    let begun = world.run(Journal::begin(world.device(), EPOCH + 1, VOLUME, Some(&live)));
    assert_eq!(begun.err(), Some(JournalError::Full));
    assert_eq!(world.entries(EPOCH).0, live, "nothing was written");
}
