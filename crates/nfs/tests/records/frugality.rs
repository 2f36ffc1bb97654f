//! Reads are short where a payload may follow, so that little of it is staged.

use nfs::reader::Counters;

use crate::{feed, other, payload, reader, whole, write};

#[test]
fn a_stream_of_large_writes_is_copied_by_less_than_a_hundredth() {
    let mut reader = reader();
    let stream = whole(&write(&payload(64 << 10))).repeat(100);
    feed(&mut reader, &stream[..stream.len() / 100], usize::MAX).expect("no error");
    let first = reader.counters();
    feed(&mut reader, &stream[stream.len() / 100..], usize::MAX).expect("no error");
    let Counters { copied_payload, placed_payload, .. } = reader.counters();
    let copied = copied_payload - first.copied_payload;
    let placed = placed_payload - first.placed_payload;
    assert_eq!(copied + placed, 99 * (64 << 10));
    assert!(copied * 100 < placed, "{copied} bytes copied, {placed} not");
}

#[test]
fn a_small_call_between_large_writes_does_not_end_frugality() {
    let mut reader = reader();
    let large = whole(&write(&payload(64 << 10)));
    feed(&mut reader, &large, usize::MAX).expect("no error");
    let first = reader.counters().copied_payload;
    feed(&mut reader, &whole(&other(8)), usize::MAX).expect("no error");
    feed(&mut reader, &large, usize::MAX).expect("no error");
    assert!(reader.counters().copied_payload - first < 512);
}

#[test]
fn reads_are_long_again_after_a_row_of_small_calls() {
    let mut reader = reader();
    feed(&mut reader, &whole(&write(&payload(64 << 10))), usize::MAX).expect("no error");
    assert_eq!(reader.targets()[0].len(), 512);
    feed(&mut reader, &whole(&other(8)).repeat(8), usize::MAX).expect("no error");
    assert_eq!(reader.targets()[0].len(), 64 << 10);
}

#[test]
fn the_rest_of_a_record_that_is_known_is_read_at_once() {
    let mut reader = reader();
    feed(&mut reader, &whole(&write(&payload(64 << 10))), usize::MAX).expect("no error");
    feed(&mut reader, &whole(&other(20_000))[..512], usize::MAX).expect("no error");
    assert!(reader.targets()[0].len() >= 20_000);
}
