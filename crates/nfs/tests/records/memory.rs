//! Memory is requested before it is used, and the reader stops until it is granted.

use nfs::reader::Progress;

use crate::{WRITE_HEAD, other, payload, reader, whole, write};

#[test]
fn a_small_record_asks_for_its_length_when_it_is_complete() {
    let mut reader = reader();
    let stream = whole(&other(1000));
    let (last, start) = stream.split_last().expect("not empty");
    reader.feed(start);
    assert!(matches!(reader.poll(), Ok(Progress::NeedsBytes)));
    reader.feed(&[*last]);
    assert!(matches!(reader.poll(), Ok(Progress::NeedsMemory(1040))));
    reader.grant();
    let Ok(Progress::Record(record)) = reader.poll() else { panic!("a record is there") };
    assert_eq!(record.memory(), 1040);
}

#[test]
fn a_large_write_asks_as_soon_as_its_header_is_there() {
    let mut reader = reader();
    let stream = whole(&write(&payload(1_000_001)));
    reader.feed(&stream[..4 + WRITE_HEAD - 1]);
    assert!(matches!(reader.poll(), Ok(Progress::NeedsBytes)));
    reader.feed(&stream[4 + WRITE_HEAD - 1..4 + WRITE_HEAD]);
    let memory = WRITE_HEAD + 1_000_001;
    let Ok(Progress::NeedsMemory(asked)) = reader.poll() else { panic!("memory is wanted") };
    assert_eq!(asked, memory);
    reader.grant();
    let mut rest = &stream[4 + WRITE_HEAD..];
    loop {
        match reader.poll().expect("no error") {
            Progress::NeedsBytes => rest = &rest[reader.feed(rest)..],
            Progress::NeedsMemory(_) => panic!("memory is asked for once"),
            Progress::Record(record) => return assert_eq!(record.memory(), memory),
        }
    }
}

#[test]
fn a_reader_that_waits_for_memory_says_so_again() {
    let mut reader = reader();
    reader.feed(&whole(&write(&payload(40_000))));
    for _ in 0..3 {
        assert!(matches!(reader.poll(), Ok(Progress::NeedsMemory(_))));
    }
    reader.grant();
    assert!(matches!(reader.poll(), Ok(Progress::Record(_))));
}

#[test]
fn each_record_asks_for_itself() {
    let mut reader = reader();
    reader.feed(&whole(&other(8)).repeat(2));
    for _ in 0..2 {
        assert!(matches!(reader.poll(), Ok(Progress::NeedsMemory(48))));
        reader.grant();
        assert!(matches!(reader.poll(), Ok(Progress::Record(_))));
    }
    assert!(matches!(reader.poll(), Ok(Progress::NeedsBytes)));
}

#[test]
#[should_panic(expected = "waits for memory")]
fn reading_on_while_memory_is_wanted_is_a_mistake() {
    let mut reader = reader();
    reader.feed(&whole(&other(8)));
    assert!(matches!(reader.poll(), Ok(Progress::NeedsMemory(_))));
    reader.targets();
}
