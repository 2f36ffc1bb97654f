//! Legal values in a slot or a header: any other value makes it invalid, however well it is sealed.

use crc_fast::CrcAlgorithm;
use journal::format::{
    AREA, Circle, Fields, HEADER_SIZE, Header, LARGEST_BODY, Line, SEGMENT, SEGMENT_UNITS,
    SMALLEST, Slot, State, UNIT, VERSION, write_entry,
};
use journal::{Journal, JournalError, at_rest, find_with};
use sim::Image;
use zerocopy::IntoBytes;

use crate::common::{EPOCH, VOLUME, World, draft};

const RECNO_END: u64 = 1 << 52;
const CIRCLE: Circle = Circle { capacity: 16 * SEGMENT, start: SEGMENT_UNITS };

fn slot(circle: Circle, curhead: u64) -> Slot {
    Slot::new(77, 5, circle, curhead, State::Open, &[])
}

/// The bytes of a slot, with some of them replaced, and sealed.
fn sealed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut slot = slot(CIRCLE, SEGMENT_UNITS).as_bytes().to_vec();
    slot[at..at + bytes.len()].copy_from_slice(bytes);
    slot[20..24].fill(0);
    let sum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, &slot[..72]) as u32;
    slot[20..24].copy_from_slice(&sum.to_le_bytes());
    slot
}

#[test]
fn a_slot_of_something_else_is_none_however_well_it_is_sealed() {
    assert_eq!(Slot::read(&sealed(0, b"duramen")), Some(slot(CIRCLE, SEGMENT_UNITS)));
    assert_eq!(Slot::read(&sealed(0, b"Duramen")), None);
    for version in [0, VERSION + 1] {
        assert_eq!(Slot::read(&sealed(16, &version.to_le_bytes())), None, "version {version}");
    }
    assert_eq!(Slot::later_version(&sealed(16, &(VERSION + 1).to_le_bytes())), Some(VERSION + 1));
    assert_eq!(Slot::later_version(&sealed(16, &VERSION.to_le_bytes())), None);
    assert_eq!(Slot::later_version(&sealed(0, b"Duramen")), None);
}

/// The first version sums only the bytes after the checksum.
#[test]
fn a_slot_of_the_first_version_is_read() {
    let mut slot = slot(CIRCLE, SEGMENT_UNITS).as_bytes().to_vec();
    slot[16..20].copy_from_slice(&1_u32.to_le_bytes());
    let sum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, &slot[24..72]) as u32;
    slot[20..24].copy_from_slice(&sum.to_le_bytes());
    let read = Slot::read(&slot).expect("it is whole");
    assert_eq!((read.version.get(), read.epoch.get(), read.number.get()), (1, 77, 5));
    for damaged in [24, 40, 71] {
        let mut slot = slot.clone();
        slot[damaged] ^= 1;
        assert_eq!(Slot::read(&slot), None, "byte {damaged}");
    }
}

#[test]
fn a_slot_of_an_impossible_circle_is_none() {
    let read = |capacity, start, curhead| {
        Slot::read(slot(Circle { capacity, start }, curhead).as_bytes()).is_some()
    };
    let first = SEGMENT_UNITS;
    for (capacity, start, curhead) in
        [(16 * SEGMENT, first, first), (SEGMENT, 0, 0), (16 * SEGMENT, first, RECNO_END - 1)]
    {
        assert!(read(capacity, start, curhead), "{capacity} from {start}, head {curhead}");
    }
    for (capacity, start, curhead) in [
        (0, first, first),
        (RECNO_END, first, first),
        (16 * SEGMENT + UNIT, first, first),
        (16 * SEGMENT, first + 1, first + 1),
        (16 * SEGMENT, first, first - 1),
        (16 * SEGMENT, first, RECNO_END),
    ] {
        assert!(!read(capacity, start, curhead), "{capacity} from {start}, head {curhead}");
    }
}

/// Whether an entry with these fields and `body` bytes of body has a header.
fn is_header(change: impl Fn(&mut Fields), body: usize) -> bool {
    let mut fields = Fields {
        previous: 3,
        records: 1,
        volume: 0,
        epoch: EPOCH,
        recno: 5 * SEGMENT_UNITS + 8,
        curhead: SEGMENT_UNITS,
        size: 8 * UNIT as u32,
        sequence: 1,
        batch: 5 * SEGMENT_UNITS,
    };
    change(&mut fields);
    let mut image = vec![0; SEGMENT as usize];
    write_entry(&mut image, fields, &vec![7; body]);
    let header = Header::read(&image);
    assert!(header.is_none_or(|header| header.fits(&image)), "it is sealed");
    header.is_some()
}

#[test]
fn a_header_of_an_impossible_entry_is_none() {
    let recno = 5 * SEGMENT_UNITS + 8;
    let room = 8 * UNIT as usize - HEADER_SIZE;
    assert!(is_header(|_| (), 100) && is_header(|_| (), 0) && is_header(|_| (), room));
    assert!(is_header(|fields| (fields.curhead, fields.batch) = (recno, recno), 100));
    assert!(is_header(|fields| fields.size = (SEGMENT - 8 * UNIT) as u32, 100), "up to the end");

    assert!(!is_header(|_| (), room + 1), "longer than its place");
    assert!(!is_header(|fields| fields.size = 0, 100), "without a place");
    assert!(!is_header(|fields| fields.size += 1, 100), "a place of parts of units");
    assert!(!is_header(|fields| fields.curhead = recno + 1, 100), "a head behind it");
    assert!(!is_header(|fields| fields.batch = recno + 1, 100), "a batch that begins behind it");
    assert!(!is_header(|fields| fields.recno = RECNO_END, 100), "behind all recnos");
    let crossing = |fields: &mut Fields| fields.size = (SEGMENT - 7 * UNIT) as u32;
    assert!(!is_header(crossing, 100), "over the end of its segment");
}

#[test]
fn an_entry_that_is_not_all_there_is_not_whole() {
    let mut image = vec![0; 2 * UNIT as usize];
    let fields = Fields {
        previous: 3,
        records: 1,
        volume: 0,
        epoch: EPOCH,
        recno: 0,
        curhead: 0,
        size: 2 * UNIT as u32,
        sequence: 1,
        batch: 0,
    };
    write_entry(&mut image, fields, &[7; 600]);
    let header = Header::read(&image).expect("it is one");
    assert!(header.fits(&image[..HEADER_SIZE + 600]));
    assert!(!header.fits(&image[..HEADER_SIZE + 599]));
}

#[test]
fn a_line_is_open_or_at_rest_or_neither() {
    let states = |line: &Line| (line.is_open(), line.is_at_rest());
    let mut line = Line::new(1, 2, State::Open);
    assert_eq!(states(&line), (true, false));
    line.rest();
    assert_eq!(states(&line), (false, true));
    assert_eq!(line, Line::new(1, 2, State::AtRest));
    line.part();
    assert_eq!(states(&line), (false, false));
    assert_eq!(line, Line::new(1, 2, State::GivenUp));
}

#[test]
fn a_log_at_rest_may_stand_on_a_larger_device_and_not_on_a_smaller_one() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    let placed = world.place(&journal, vec![draft(1, LARGEST_BODY)], Some(0));
    world.run(journal.close(0)).expect("healthy");
    let bytes = world.again().bytes(0, SMALLEST);
    let larger = World::of(Image::from_bytes(&[&bytes[..], &[0; SEGMENT as usize]].concat()));
    let rest = larger.run(at_rest(&*larger.disk, |_| ())).expect("fine").expect("one");
    assert_eq!(larger.walk(&rest), placed);

    let world = World::of(Image::zeroed(AREA + 32 * SEGMENT));
    let journal = world.begin(EPOCH);
    world.run(journal.close(0)).expect("healthy");
    let smaller = World::of(Image::from_bytes(&world.again().bytes(0, SMALLEST)));
    let refused = JournalError::Short { size: SMALLEST, needed: AREA + 32 * SEGMENT };
    assert_eq!(smaller.run(at_rest(&*smaller.disk, |_| ())), Err(refused));
}

#[test]
fn an_epoch_that_began_in_the_middle_is_found_after_any_number_of_entries() {
    let world = World::smallest();
    let before = world.begin(EPOCH);
    for sequence in 1..8 {
        world.place(&before, vec![draft(sequence, LARGEST_BODY)], None);
    }
    let kept = world.entries(EPOCH).0;
    assert_eq!((kept.head, kept.tail), (6 * SEGMENT_UNITS, 7 * SEGMENT_UNITS));
    let begun = Journal::begin(world.device(), EPOCH + 1, VOLUME, Some(&kept));
    let journal = world.run(begun).expect("there is room");
    journal.bear();
    for sequence in 1..50 {
        let placed = world.place(&journal, vec![draft(sequence, LARGEST_BODY)], None);
        let (live, found) = world.again().entries(EPOCH + 1);
        assert_eq!((live.tail, found), (journal.tail(), placed), "entry {sequence}");
        assert_eq!(seen(&world, EPOCH + 1), 1, "entry {sequence}: the search leads to the last");
    }
}

/// Number of entries that are read to find the live part.
fn seen(world: &World, epoch: u64) -> u32 {
    let mut count = 0;
    let found = world.run(find_with(&*world.disk, epoch, |_| count += 1));
    found.expect("not damaged").expect("of this epoch");
    count
}

#[test]
fn of_many_segments_those_before_the_last_are_not_walked() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    for sequence in 1..50 {
        world.place(&journal, vec![draft(sequence, LARGEST_BODY)], None);
        assert_eq!(seen(&world, EPOCH), 1, "entry {sequence}");
    }
}

#[test]
fn the_slot_of_the_epoch_before_stays_until_the_next_is_borne_whichever_it_is() {
    let world = World::smallest();
    let mut journal = world.begin(EPOCH);
    for epoch in EPOCH + 1..EPOCH + 6 {
        // An odd number of slots, and an even one, were written before.
        for _ in 0..epoch % 3 {
            world.run(journal.note_head(journal.tail())).expect("healthy");
        }
        let placed = world.place(&journal, vec![draft(epoch, 100)], None);
        let kept = world.entries(epoch - 1).0;
        let begun = Journal::begin(world.device(), epoch, VOLUME, Some(&kept));
        journal = world.run(begun).expect("there is room");
        for _ in 0..3 {
            world.run(journal.note_head(journal.tail())).expect("healthy");
            assert_eq!(world.again().entries(epoch - 1).1, placed, "epoch {epoch}");
        }
        journal.bear();
        world.run(journal.note_head(journal.tail())).expect("healthy");
        assert_eq!(world.again().read(epoch - 1), Ok(None), "epoch {epoch}");
        assert!(matches!(world.again().read(epoch), Ok(Some(_))), "epoch {epoch}");
    }
}

#[test]
fn what_the_log_has_done_is_counted() {
    let world = World::smallest();
    let journal = world.begin(EPOCH);
    world.place(&journal, vec![draft(1, 100), draft(2, 100)], Some(0));
    world.place(&journal, vec![draft(3, 100)], Some(0));
    world.place(&journal, vec![draft(4, LARGEST_BODY)], None);
    let counters = journal.counters();
    assert_eq!((counters.entries, counters.batches, counters.slots), (4, 3, 1));
    // Two batches of 4 KiB, the rest of their segment, and a whole one.
    assert_eq!(counters.bytes, 2 * SEGMENT);
    assert_eq!(counters.peak_bytes, 2 * SEGMENT - 8 * 2 * UNIT);
}
