//! The lines of a slot: the volumes that share a log, and those that belong to it.

use journal::format::{Circle, LINES, Line, SEGMENT, SEGMENT_UNITS, Slot, State};
use zerocopy::IntoBytes;

const CIRCLE: Circle = Circle { capacity: 16 * SEGMENT, start: SEGMENT_UNITS };

fn slot(lines: &[Line]) -> Slot {
    Slot::new(77, 5, CIRCLE, SEGMENT_UNITS, State::Open, lines)
}

#[test]
fn lines_are_read_as_they_were_written() {
    let some = [Line::new(1, 0, State::Open), Line::new(2, 66, State::AtRest)];
    let full = [Line::new(9, 9, State::Open); LINES];
    for lines in [&some[..], &full[..], &[]] {
        let written = slot(lines);
        let read = Slot::read(written.as_bytes()).expect("it is whole");
        assert_eq!((read, read.lines()), (written, lines));
        assert_eq!(read.version.get(), if lines.is_empty() { 2 } else { 3 });
        assert_eq!(read.owner(), None);
    }
}

#[test]
fn a_log_of_one_volume_says_whose_it_is() {
    let written = slot(&[Line::owner(9)]);
    assert_eq!((written.version.get(), written.owner(), written.lines()), (2, Some(9), &[][..]));
    assert_eq!(Slot::read(written.as_bytes()), Some(written));
    // The epoch decides which volume has entries in it; one that bears none has those under its
    // number.
    assert_eq!([9, 8].map(|volume| written.number_of(volume, 77)), [Some(0); 2]);
    assert_eq!([9, 8].map(|volume| written.number_at_rest(volume)), [Some(0), None]);
    // If the owner is unknown, it may be any volume.
    assert_eq!(slot(&[]).number_at_rest(8), Some(0));
    let shared = slot(&[Line::new(9, 0, State::Open)]);
    assert_eq!([9, 8].map(|volume| shared.number_at_rest(volume)), [Some(0), None]);
    for at in 0..size_of::<Slot>() {
        let mut bytes = written.as_bytes().to_vec();
        bytes[at] ^= 4;
        assert_eq!(Slot::read(&bytes), None, "byte {at}");
    }
}

#[test]
fn an_owner_has_no_state_that_could_change() {
    let mut owner = Line::owner(9);
    owner.rest();
    owner.part();
    assert_eq!(owner, Line::owner(9));
}

#[test]
fn a_damaged_line_damages_its_slot() {
    let lines = [Line::new(1, 0, State::Open), Line::new(2, 66, State::AtRest)];
    let whole = slot(&lines);
    for at in 0..size_of::<Slot>() {
        let mut bytes = whole.as_bytes().to_vec();
        bytes[at] ^= 4;
        assert_eq!(Slot::read(&bytes), None, "byte {at}");
    }
    // A log of one volume has nothing there, and nothing is read.
    let alone = slot(&[]);
    let mut bytes = alone.as_bytes().to_vec();
    bytes[72..].fill(0xa5);
    assert_eq!(Slot::read(&bytes), Some(alone));
}

#[test]
fn who_bears_the_epoch_or_the_one_before_belongs_to_a_shared_log() {
    let mut parted = Line::new(3, 66, State::Open);
    parted.part();
    let shared = slot(&[Line::new(1, 0, State::Open), Line::new(2, 66, State::AtRest), parted]);
    let numbers = [(1, 77), (1, 66), (2, 66), (2, 77), (2, 55), (3, 77), (3, 66), (4, 77)]
        .map(|(volume, epoch)| shared.number_of(volume, epoch));
    let expected = [Some(0), None, Some(1), Some(1), None, None, None, None];
    assert_eq!(numbers, expected);
    let alone = slot(&[]);
    assert_eq!([77, 66].map(|epoch| alone.number_of(4, epoch)), [Some(0), None]);
}
