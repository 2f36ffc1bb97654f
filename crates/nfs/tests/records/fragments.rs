//! A record may come in any number of fragments.

use nfs::nfs3::Procedure;
use nfs::reader::{Counters, RecordError};
use nfs::xdr::DecodeError;

use crate::{call, decode_write, feed, fragmented, joined, other, payload, reader, whole, write};

#[test]
fn a_record_in_fragments_is_the_same_record() {
    let record = other(5000);
    for lengths in [&[1][..], &[3, 1000], &[4096], &[0, 0, 7]] {
        for read in [1, 7, usize::MAX] {
            let stream = fragmented(&record, lengths);
            let records = feed(&mut reader(), &stream, read).expect("no error");
            assert_eq!(records.len(), 1);
            assert!(joined(&records[0]) == record);
        }
    }
}

#[test]
fn a_payload_in_fragments_is_placed() {
    let payload = payload(100_001);
    for lengths in [&[10][..], &[100, 4000], &[8192], &[60_000]] {
        for read in [999, usize::MAX] {
            let mut reader = reader();
            let stream = fragmented(&write(&payload), lengths);
            let records = feed(&mut reader, &stream, read).expect("no error");
            assert!(!records[0].payload.is_empty());
            assert!(decode_write(&records[0]).expect("a WRITE").data.concat() == payload);
            let Counters { copied_payload, placed_payload, .. } = reader.counters();
            assert_eq!(copied_payload + placed_payload, 100_001);
        }
    }
}

#[test]
fn an_empty_last_fragment_ends_a_record() {
    let record = other(8);
    let mut stream = whole(&record);
    stream[0] = 0; // no longer the last fragment
    stream.extend(0x8000_0000_u32.to_be_bytes());
    let records = feed(&mut reader(), &stream, usize::MAX).expect("no error");
    assert!(joined(&records[0]) == record);
}

#[test]
fn an_empty_record_is_a_record() {
    let records = feed(&mut reader(), &whole(&[]), usize::MAX).expect("no error");
    assert_eq!((records.len(), records[0].head.len()), (1, 0));
}

#[test]
fn many_records_come_out_of_one_read() {
    let stream = whole(&super::bytes(call(Procedure::Null))).repeat(100);
    assert_eq!(feed(&mut reader(), &stream, usize::MAX).expect("no error").len(), 100);
}

/// Feeds a large WRITE whose last part, `end`, is a fragment of its own.
fn cut(start: &[u8], end: &[u8]) -> Result<usize, RecordError> {
    let mut stream = whole(start);
    stream[0] = 0; // not the last fragment
    stream.extend(whole(end));
    feed(&mut reader(), &stream, usize::MAX).map(|records| records.len())
}

#[test]
fn fragments_that_end_before_or_after_the_payload_are_an_error() {
    let record = write(&payload(40_000));
    let (start, end) = record.split_at(100);
    assert_eq!(cut(start, end), Ok(1));
    assert_eq!(cut(start, &end[4..]), Err(RecordError::PayloadMismatch));
    assert_eq!(cut(start, &[end, &[0; 4]].concat()), Err(RecordError::PayloadMismatch));
}

#[test]
fn padding_that_is_missing_is_an_error() {
    let record = write(&payload(40_001));
    let (start, end) = record.split_at(100);
    assert_eq!(cut(start, end), Ok(1));
    for missing in 1..=3 {
        let end = &end[..end.len() - missing];
        assert_eq!(cut(start, end), Err(RecordError::PayloadMismatch));
    }
}

#[test]
fn a_first_fragment_that_goes_on_behind_the_payload_is_garbage() {
    let record = write(&payload(40_000));
    let mut stream = whole(&[&record[..], &[0; 4]].concat());
    stream[0] = 0; // not the last fragment
    stream.extend(whole(&[0; 4]));
    let records = feed(&mut reader(), &stream, usize::MAX).expect("no error");
    assert!(records[0].payload.is_empty());
    assert_eq!(decode_write(&records[0]).err(), Some(DecodeError::Trailing(8)));
}
