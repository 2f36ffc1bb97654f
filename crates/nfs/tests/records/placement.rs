//! Large WRITE payload is placed at a page boundary, and copied only as far as it was staged.

use nfs::reader::Counters;
use nfs::record::HEADER_ROOM;
use nfs::rpc::PROGRAM_NFS;
use nfs::xdr::{DecodeError, Encoder};

use crate::{WRITE_HEAD, bytes, decode_write, feed, payload, reader, whole, write};

const PAGE: usize = 4096;

#[test]
fn payload_that_follows_its_header_is_never_copied() {
    let (mut reader, payload) = (reader(), payload(1 << 20));
    let stream = whole(&write(&payload));
    let (head, rest) = stream.split_at(4 + WRITE_HEAD);
    assert!(feed(&mut reader, head, usize::MAX).expect("no error").is_empty());
    let target = reader.targets()[0].as_ptr();
    let records = feed(&mut reader, rest, 100_000).expect("no error");
    let data = decode_write(&records[0]).expect("a WRITE").data;
    assert!(data.concat() == payload);
    let starts = data.iter().map(|piece| piece.as_ptr() as usize);
    let parts = (0..payload.len()).step_by(block::PART).map(|at| target as usize + at);
    assert!(starts.eq(parts), "each part has memory of its own, where it arrived");
    assert_eq!(target as usize % PAGE, 0);
    let counters =
        Counters { staged: WRITE_HEAD as u64, copied_payload: 0, placed_payload: 1 << 20 };
    assert_eq!(reader.counters(), counters);
}

#[test]
fn payload_that_was_staged_is_copied_once_and_the_rest_is_not() {
    let (mut reader, payload) = (reader(), payload(1 << 20));
    let stream = whole(&write(&payload));
    let records = feed(&mut reader, &stream, usize::MAX).expect("no error");
    let data = decode_write(&records[0]).expect("a WRITE").data;
    assert!(data.concat() == payload);
    assert_eq!(data[0].as_ptr() as usize % PAGE, 0);
    let staged = (64 << 10) - 4 - WRITE_HEAD as u64;
    assert_eq!(reader.counters().copied_payload, staged);
    assert_eq!(reader.counters().placed_payload, (1 << 20) - staged);
}

#[test]
fn payload_that_arrived_as_a_whole_is_placed_all_the_same() {
    let (mut reader, payload) = (reader(), payload(40_000));
    let records = feed(&mut reader, &whole(&write(&payload)), usize::MAX).expect("no error");
    let data = decode_write(&records[0]).expect("a WRITE").data;
    assert!(data.concat() == payload);
    assert_eq!(data[0].as_ptr() as usize % PAGE, 0);
}

#[test]
fn payload_of_every_remainder_is_padded() {
    for length in (32 << 10)..(32 << 10) + 4 {
        let (mut reader, payload) = (reader(), payload(length));
        let stream = [whole(&write(&payload)), whole(&write(b"next"))].concat();
        for read in [1, 4, 5000, usize::MAX] {
            let records = feed(&mut reader, &stream, read).expect("no error");
            assert!(decode_write(&records[0]).expect("a WRITE").data.concat() == payload);
            assert_eq!(decode_write(&records[1]).expect("a WRITE").data.concat(), b"next");
        }
    }
}

#[test]
fn small_payload_is_copied_once_and_shares_the_memory_of_its_record() {
    let (mut reader, payload) = (reader(), payload((32 << 10) - 1));
    let records = feed(&mut reader, &whole(&write(&payload)), 1000).expect("no error");
    assert!(records[0].payload.is_empty());
    let data = decode_write(&records[0]).expect("a WRITE").data;
    assert!(data.concat() == payload);
    assert_eq!(data[0].as_ptr(), records[0].head[WRITE_HEAD..].as_ptr());
    assert_eq!(reader.counters().staged, records[0].head.len() as u64);
}

#[test]
fn the_longest_header_there_can_be_is_recognised() {
    let (mut reader, payload) = (reader(), payload(32 << 10));
    let mut record = Encoder::with_capacity(HEADER_ROOM);
    for word in [0x1234, 0, 2, PROGRAM_NFS, 3, 7, 0] {
        record.u32(word);
    }
    record.opaque(&[1; 400]); // credential
    record.u32(0);
    record.opaque(&[2; 400]); // verifier
    record.opaque(&[3; 64]); // handle
    for word in [0, 0, 32 << 10, 0, 32 << 10] {
        record.u32(word);
    }
    let head = bytes(record);
    assert!(head.len() + 3 <= HEADER_ROOM);
    let stream = whole(&[&head, &payload[..]].concat());
    let records = feed(&mut reader, &stream, 9999).expect("no error");
    assert!(!records[0].payload.is_empty());
    assert!(decode_write(&records[0]).expect("a WRITE").data.concat() == payload);
}

#[test]
fn the_rest_of_the_payload_and_the_next_header_come_with_one_read() {
    let (mut reader, payload) = (reader(), payload(32 << 10));
    let stream = [whole(&write(&payload)), whole(&write(b"next"))].concat();
    let (head, rest) = stream.split_at(4 + WRITE_HEAD);
    feed(&mut reader, head, usize::MAX).expect("no error");
    assert_eq!(reader.targets()[0].len(), 32 << 10);
    assert_eq!(reader.feed(rest), rest.len());
    assert_eq!(feed(&mut reader, &[], 1).expect("no error").len(), 2);
}

#[test]
fn a_payload_length_that_does_not_fit_the_record_is_garbage() {
    let mut record = write(&payload(40_000));
    record.truncate(WRITE_HEAD + 39_996);
    let records = feed(&mut reader(), &whole(&record), 1000).expect("no error");
    assert_eq!(decode_write(&records[0]).err(), Some(DecodeError::Short));

    let mut record = write(&payload(40_000));
    record.extend([0; 4]);
    let records = feed(&mut reader(), &whole(&record), 1000).expect("no error");
    assert_eq!(decode_write(&records[0]).err(), Some(DecodeError::Trailing(4)));
}
