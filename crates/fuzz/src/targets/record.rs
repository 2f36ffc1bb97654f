//! Record marking: the same records, and the same end, however the bytes arrive.
//!
//! The first byte chooses the reader's limits, the next eight how the stream is split; the rest is
//! the stream. The result is compared with that of a reader of a few lines that has all bytes at
//! once and no limits but that of a record.

use nfs::reader::{Limits, Progress, RecordError, RecordReader};
use nfs::record::{HEADER_ROOM, Record};
use sim::Prng;

use super::Target;
use crate::input::Input;
use crate::wire;

pub(super) const TARGET: Target =
    Target { name: "record", check, generate, longest: 12 << 10, memory: 3 << 20 };

/// Small enough that short inputs reach every limit.
const SMALL: Limits = Limits { record: 8 << 10, staging: 2 << 10, placement: (2 << 10) - 1024 };

fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let limits = if input.u8().is_multiple_of(4) { Limits::default() } else { SMALL };
    let mut prng = Prng::new(input.u64());
    let stream = input.rest();
    let whole = drive(stream, limits, &mut |left| left);
    compare(&whole, stream, limits);
    for largest in [1, 7, 300] {
        let mut cut = |left: usize| (1 + prng.index(largest)).min(left);
        let other = drive(stream, limits, &mut cut);
        assert_eq!(whole, other, "the same stream in pieces of up to {largest} bytes");
    }
}

/// The records of a stream, and its end, as the reader reports them.
#[derive(Debug, PartialEq)]
struct Outcome {
    records: Vec<Record>,
    end: Result<(), RecordError>,
}

/// Feeds a reader the stream in pieces of the lengths that `cut` returns.
fn drive(stream: &[u8], limits: Limits, cut: &mut dyn FnMut(usize) -> usize) -> Outcome {
    let mut reader = RecordReader::new(limits).with_checksums();
    let mut records = Vec::new();
    let mut rest = stream;
    let mut granted = None;
    loop {
        match reader.poll() {
            Err(error) => return Outcome { records, end: Err(error) },
            Ok(Progress::NeedsBytes) if rest.is_empty() => {
                return Outcome { records, end: reader.end_of_stream() };
            }
            Ok(Progress::NeedsBytes) => {
                let piece = &rest[..cut(rest.len())];
                let fed = reader.feed(piece);
                assert!(fed > 0, "a reader that needs bytes takes some");
                rest = &rest[fed..];
            }
            Ok(Progress::NeedsMemory(length)) => {
                assert_eq!(granted, None, "memory is asked for once for a record");
                assert!(length <= limits.record, "{length} bytes for one record");
                granted = Some(length);
                reader.grant();
            }
            Ok(Progress::Record(record)) => {
                assert_eq!(granted.take(), Some(record.memory()), "what was granted is what it is");
                records.push(record);
            }
        }
    }
}

/// Compares with the records that the marks alone define.
fn compare(outcome: &Outcome, stream: &[u8], limits: Limits) {
    let (records, end) = reference(stream, limits.record);
    assert!(outcome.records.len() <= records.len(), "no record comes from nowhere");
    for (found, whole) in outcome.records.iter().zip(&records) {
        compare_record(found, whole, limits);
    }
    match outcome.end {
        Ok(()) => assert_eq!((outcome.records.len(), end), (records.len(), End::Between)),
        Err(RecordError::Truncated) => {
            assert_eq!((outcome.records.len(), end), (records.len(), End::Within));
        }
        // A record that is too long, empty or ends differently follows the last one.
        Err(RecordError::PayloadMismatch | RecordError::EmptyFragments) => {}
        Err(RecordError::TooLong { length, limit }) => {
            assert!(length > limit && limit <= limits.record, "{length} is over {limit}");
        }
    }
}

fn compare_record(found: &Record, whole: &[u8], limits: Limits) {
    assert!(whole.starts_with(&found.head), "the head of a record is its start");
    let behind = &whole[found.head.len()..];
    let Some(first) = found.payload.first() else {
        assert!(behind.is_empty(), "a record without payload is all head");
        assert!(whole.len() <= limits.staging, "what is long is placed");
        return;
    };
    let payload = found.payload.concat();
    assert!(behind.starts_with(&payload), "payload comes as it was sent");
    assert!(behind.len() - payload.len() < 4, "nothing but padding is dropped");
    assert!(payload.len() >= limits.placement, "what is short is not placed");
    assert!(found.head.len() <= HEADER_ROOM, "what is placed has a short head");
    assert!((first.as_ptr() as usize).is_multiple_of(4096), "payload starts at a page");
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Between,
    Within,
    TooLong,
}

/// The records of a stream, and its end.
fn reference(stream: &[u8], longest: usize) -> (Vec<Vec<u8>>, End) {
    let mut records = Vec::new();
    let mut rest = stream;
    let mut record = Vec::new();
    let mut begun = false;
    while let Some((mark, behind)) = rest.split_first_chunk::<4>() {
        let mark = u32::from_be_bytes(*mark);
        let length = (mark & 0x7fff_ffff) as usize;
        if record.len() + length > longest {
            return (records, End::TooLong);
        }
        if behind.len() < length {
            return (records, End::Within);
        }
        let (fragment, behind) = behind.split_at(length);
        // Empty fragments announce no record: a stream may end between them.
        begun |= length > 0;
        record.extend_from_slice(fragment);
        if mark >> 31 == 1 {
            records.push(std::mem::take(&mut record));
            begun = false;
        }
        rest = behind;
    }
    let end = if rest.is_empty() && !begun { End::Between } else { End::Within };
    (records, end)
}

/// A few calls, some of them cut into fragments.
fn generate(prng: &mut Prng) -> Vec<u8> {
    let mut input = vec![prng.next_u64() as u8];
    input.extend(prng.next_u64().to_le_bytes());
    for _ in 0..1 + prng.below(4) {
        let call = wire::any_call(prng, 3000);
        let mut rest = &call[..];
        let pieces = if prng.chance(1, 2) { 1 } else { 1 + prng.below(6) };
        for piece in (0..pieces).rev() {
            let length = if piece == 0 { rest.len() } else { prng.index(rest.len() + 1) };
            let last = if piece == 0 { 1 << 31 } else { 0 };
            input.extend((length as u32 | last).to_be_bytes());
            input.extend(&rest[..length]);
            rest = &rest[length..];
        }
    }
    input
}
