//! Records that are too long are refused before they are read, and an end within one is reported.

use nfs::reader::RecordError;
use nfs::record::{HEADER_ROOM, MAX_PAYLOAD};

use crate::{WRITE_HEAD, feed, fragmented, other, payload, reader, whole, write};

const LIMIT: usize = MAX_PAYLOAD + HEADER_ROOM;

#[test]
fn a_mark_over_the_limit_is_refused() {
    let mark = |length: usize| u32::try_from(length).expect("32 bits").to_be_bytes();
    let length = LIMIT + 1;
    let error = RecordError::TooLong { length, limit: LIMIT };
    assert_eq!(feed(&mut reader(), &mark(length), 4).err(), Some(error));
    assert!(feed(&mut reader(), &mark(LIMIT), 4).expect("no error").is_empty());
}

#[test]
fn fragments_that_add_up_over_the_limit_are_refused() {
    let record = write(&payload(MAX_PAYLOAD));
    let mut stream = fragmented(&record, &[60_000]);
    let filled = record.len() % 60_000;
    let last = stream.len() - filled - 4;
    stream[last..last + 4].copy_from_slice(&60_000_u32.to_be_bytes());
    let length = record.len() - filled + 60_000;
    let error = RecordError::TooLong { length, limit: LIMIT };
    assert_eq!(feed(&mut reader(), &stream, usize::MAX).err(), Some(error));
}

#[test]
fn empty_fragments_without_end_are_refused() {
    let call = other(100);
    for (empty, expected) in [(1024, Ok(1)), (1025, Err(RecordError::EmptyFragments))] {
        for read in [3, usize::MAX] {
            let stream = [vec![0; 4 * empty], whole(&call)].concat();
            // The count restarts with each record.
            let mut reader = reader();
            for _ in 0..3 {
                let records = feed(&mut reader, &stream, read).map(|records| records.len());
                assert_eq!(records, expected, "{empty}");
                if records.is_err() {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_payload_over_the_limit_is_refused_when_its_first_fragment_shows_it() {
    let mut stream = whole(&write(&payload(40_000)));
    stream[0] = 0; // not the last fragment
    stream[4 + WRITE_HEAD - 4..4 + WRITE_HEAD].copy_from_slice(&(2_u32 << 20).to_be_bytes());
    let error = RecordError::TooLong { length: WRITE_HEAD + (2 << 20), limit: LIMIT };
    assert_eq!(feed(&mut reader(), &stream, usize::MAX).err(), Some(error));
}

#[test]
fn a_long_record_that_is_no_write_is_refused() {
    let longest = other((64 << 10) - 4 - 40);
    assert_eq!(feed(&mut reader(), &whole(&longest), 9999).map(|records| records.len()), Ok(1));
    let longer = other((64 << 10) - 4 - 40 + 1);
    let error = RecordError::TooLong { length: (64 << 10) - 3, limit: (64 << 10) - 4 };
    assert_eq!(feed(&mut reader(), &whole(&longer), 9999).err(), Some(error));
}

#[test]
fn the_stream_may_end_between_records_alone() {
    let mut reader = reader();
    assert_eq!(reader.end_of_stream(), Ok(()));
    for byte in whole(&write(&payload(32 << 10))) {
        assert!(feed(&mut reader, &[], 1).expect("no error").is_empty());
        reader.feed(&[byte]);
        assert_eq!(reader.end_of_stream(), Err(RecordError::Truncated));
    }
    assert_eq!(feed(&mut reader, &[], 1).expect("no error").len(), 1);
    assert_eq!(reader.end_of_stream(), Ok(()));
}
