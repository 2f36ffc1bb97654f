//! From bytes of a stream to records: placement, fragments, memory, limits, and any garbage.

mod fragments;
mod frugality;
mod limits;
mod memory;
mod placement;
mod properties;

use nfs::nfs3::{Arguments, Procedure, arguments::WriteArgs};
use nfs::reader::{Limits, Progress, RecordError, RecordReader};
use nfs::record::Record;
use nfs::rpc::{Call, PROGRAM_NFS};
use nfs::xdr::{DecodeError, Encoder};

/// A call without credentials, without its arguments.
fn call(procedure: Procedure) -> Encoder {
    let mut record = Encoder::with_capacity(64);
    for word in [0x1234, 0, 2, PROGRAM_NFS, 3, procedure as u32, 0, 0, 0, 0] {
        record.u32(word);
    }
    record
}

/// The bytes of a record, without its mark.
fn bytes(record: Encoder) -> Vec<u8> {
    record.finish().concat().split_off(4)
}

/// A call that is no WRITE, with `length` bytes of arguments.
fn other(length: usize) -> Vec<u8> {
    let mut record = bytes(call(Procedure::Lookup));
    record.extend((0..length).map(|at| at as u8));
    record
}

/// A WRITE of `payload`.
fn write(payload: &[u8]) -> Vec<u8> {
    let mut record = call(Procedure::Write);
    record.opaque(b"handle");
    record.u64(0);
    record.u32(u32::try_from(payload.len()).expect("a short payload"));
    record.u32(0);
    record.opaque(payload);
    bytes(record)
}

/// Length of a [`write`] before its payload.
const WRITE_HEAD: usize = 40 + 12 + 16 + 4;

/// `length` bytes that differ from one page to the next.
fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

/// The record on the wire, cut into fragments of at most these lengths, the last one repeated.
fn fragmented(record: &[u8], lengths: &[usize]) -> Vec<u8> {
    let (mut stream, mut rest) = (Vec::new(), record);
    let mut lengths = lengths.iter().copied();
    let mut length = usize::MAX;
    loop {
        length = lengths.next().unwrap_or(length).min(rest.len());
        let (fragment, behind) = rest.split_at(length);
        let last = if behind.is_empty() { 1 << 31 } else { 0 };
        let mark = last | u32::try_from(length).expect("a short fragment");
        stream.extend(mark.to_be_bytes());
        stream.extend(fragment);
        rest = behind;
        if rest.is_empty() {
            return stream;
        }
    }
}

/// The record on the wire as one fragment.
fn whole(record: &[u8]) -> Vec<u8> {
    fragmented(record, &[])
}

/// Polls until bytes are needed, grants all memory, and returns the records.
fn drain(reader: &mut RecordReader) -> Result<Vec<Record>, RecordError> {
    let mut records = Vec::new();
    loop {
        match reader.poll()? {
            Progress::NeedsBytes => return Ok(records),
            Progress::NeedsMemory(_) => reader.grant(),
            Progress::Record(record) => records.push(record),
        }
    }
}

/// Feeds all of `stream`, at most `read` bytes at a time, and returns the records.
fn feed(
    reader: &mut RecordReader,
    mut stream: &[u8],
    read: usize,
) -> Result<Vec<Record>, RecordError> {
    let mut records = drain(reader)?;
    while !stream.is_empty() {
        let fed = reader.feed(&stream[..read.min(stream.len())]);
        assert!(fed > 0, "a reader that needs bytes takes some");
        stream = &stream[fed..];
        records.extend(drain(reader)?);
    }
    Ok(records)
}

fn reader() -> RecordReader {
    RecordReader::new(Limits::default())
}

/// All bytes of a record, with the payload and its padding in their places.
fn joined(record: &Record) -> Vec<u8> {
    let mut bytes = record.head.to_vec();
    bytes.extend(record.payload.iter().flatten());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Decodes a record that is a WRITE.
fn decode_write(record: &Record) -> Result<WriteArgs<'_>, DecodeError> {
    let call = Call::decode(record).expect("a call");
    match Arguments::decode(Procedure::Write, call.arguments)? {
        Arguments::Write(arguments) => Ok(arguments),
        other => panic!("not a WRITE: {other:?}"),
    }
}
