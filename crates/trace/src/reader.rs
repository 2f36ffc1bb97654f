//! Reader of traces.

use bytes::Bytes;
use nfs::xdr::{DecodeError, Decoder, UNIT};

use crate::{Entry, MAGIC, Target};

/// Bit of a record mark that says "last fragment": every record here is whole.
const LAST: u32 = 1 << 31;

/// Reason why a file is not a trace, or stops being one at some place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTrace {
    /// It does not begin like a trace.
    #[error("this is no trace: it does not begin with 'duramen trace 1'")]
    Magic,
    /// It ends within an entry.
    #[error("the trace is cut off within entry {entry}, at byte {at}")]
    Cut {
        /// The number of the entry, from 1.
        entry: usize,
        /// Byte offset of the entry.
        at: usize,
    },
    /// An entry is damaged.
    #[error("entry {entry} of the trace, at byte {at}, makes no sense: {source}")]
    Damaged {
        /// The number of the entry, from 1.
        entry: usize,
        /// Byte offset of the entry.
        at: usize,
        /// Error of the decoder.
        source: DecodeError,
    },
}

/// Reads a whole trace. The entries share its memory.
///
/// # Errors
/// [`BadTrace`].
pub fn read(trace: &Bytes) -> Result<Vec<Entry>, BadTrace> {
    if !trace.starts_with(MAGIC) {
        return Err(BadTrace::Magic);
    }
    let (mut entries, mut at) = (Vec::new(), MAGIC.len());
    while at < trace.len() {
        let entry = entries.len() + 1;
        let cut = BadTrace::Cut { entry, at };
        let mark = trace[at..].first_chunk().ok_or(cut.clone())?;
        let length = (u32::from_be_bytes(*mark) & !LAST) as usize;
        let first = at + UNIT;
        let end = first.checked_add(length).filter(|&end| end <= trace.len()).ok_or(cut)?;
        let record = trace.slice(first..end);
        let read = decode(&record);
        entries.push(read.map_err(|source| BadTrace::Damaged { entry, at, source })?);
        at = end;
    }
    Ok(entries)
}

fn decode(record: &Bytes) -> Result<Entry, DecodeError> {
    let mut from = Decoder::of_parts(record, &[]);
    let (begun_ns, ended_ns, connection) = (from.u64()?, from.u64()?, from.u64()?);
    let (program, procedure) = (from.u32()?, from.u32()?);
    let target = Target::of(program, procedure);
    let target = target.ok_or(DecodeError::BadValue { of: "procedure", value: procedure })?;
    let payload = from.u32()?;
    let (arguments, results) = (from.payload(usize::MAX)?, from.payload(usize::MAX)?);
    from.finish()?;
    if ended_ns < begun_ns {
        return Err(DecodeError::BadValue { of: "end before the begin", value: procedure });
    }
    Ok(Entry { begun_ns, ended_ns, connection, target, arguments, payload, results })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Begun;
    use nfs::nfs3::arguments::{LookupArgs, WriteArgs};
    use nfs::nfs3::results::LookupOk;
    use nfs::nfs3::{Handle, Outcome, Procedure, Stability};
    use nfs::record::Record;
    use nfs::rpc::{self, Caller, PROGRAM_NFS};

    fn record(procedure: Procedure, arguments: &impl nfs::xdr::Encode) -> Record {
        let mut call = rpc::call(1, PROGRAM_NFS, 3, procedure as u32, &Caller::none());
        call.value(arguments);
        let bytes = call.finish().concat().split_off(UNIT);
        Record::whole(bytes)
    }

    /// A LOOKUP that found something, and a WRITE that was refused.
    fn entries() -> Vec<Entry> {
        let handle = Handle::new(b"found").expect("five bytes");
        let what = nfs::nfs3::arguments::DirectoryName { directory: b"root", name: b"name" };
        let look_up = Begun::seen(&record(Procedure::Lookup, &LookupArgs { what }));
        let ok = LookupOk { object: handle, attributes: None, directory: None };
        let mut found = rpc::success(1);
        found.value(&Outcome::<_, ()>::Ok(ok));
        let data = Bytes::from(vec![7; 10_000]);
        let (file, stable) = (&b"found"[..], Stability::FileSync);
        let write = WriteArgs { file, offset: 3, count: 10_000, stable, data: vec![data] };
        let write = Begun::seen(&record(Procedure::Write, &write));
        let refused = rpc::refuse(2, rpc::Refusal::SystemError);
        vec![
            Entry::seen(look_up.expect("it is traced"), (10, 20), 1, &found.finish()),
            Entry::seen(write.expect("it is traced"), (15, 40), 2, &refused),
        ]
    }

    fn file(entries: &[Entry]) -> Vec<u8> {
        entries.iter().fold(MAGIC.to_vec(), |mut file, entry| {
            file.extend(entry.encode());
            file
        })
    }

    #[test]
    fn what_was_written_is_read_and_contents_are_not_there() {
        let entries = entries();
        let file = file(&entries);
        assert_eq!(read(&file.clone().into()), Ok(entries.clone()));
        assert_eq!((entries[0].status(), entries[1].status()), (Some(0), None));
        assert_eq!((entries[1].payload, entries[1].arguments.len()), (10_000, 28));
        assert!(file.len() < 400, "{} bytes", file.len());
    }

    #[test]
    fn a_trace_that_is_cut_anywhere_says_where() {
        let entries = entries();
        let file = file(&entries);
        let second = MAGIC.len() + entries[0].encode().len();
        for length in 0..file.len() {
            let read = read(&file[..length].to_vec().into());
            match length {
                0..16 => assert_eq!(read, Err(BadTrace::Magic)),
                16 => assert_eq!(read, Ok(Vec::new())),
                _ if length == second => assert_eq!(read, Ok(entries[..1].to_vec())),
                _ if length < second => {
                    assert_eq!(read, Err(BadTrace::Cut { entry: 1, at: MAGIC.len() }));
                }
                _ => assert_eq!(read, Err(BadTrace::Cut { entry: 2, at: second })),
            }
        }
    }

    #[test]
    fn no_damage_to_a_byte_does_more_than_make_an_error() {
        let file = file(&entries());
        for index in 0..file.len() {
            for bit in 0..8 {
                let mut damaged = file.clone();
                damaged[index] ^= 1 << bit;
                let _ = read(&damaged.into()); // no panic; a changed name may still be valid
            }
        }
    }
}
