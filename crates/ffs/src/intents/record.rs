//! The bytes of intents, as described in `docs/formats/intents.md`.
//!
//! The body of an entry of the ring is a sequence of records, each with a header that has its kind
//! and the number of bytes that follow.

use std::rc::Rc;

use vfs::Timestamp;
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::evidence::{InodeEvidence, NameEvidence};

/// An Update that answers a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    /// Number of the Update in its epoch.
    pub(crate) sequence: u64,
    /// Earlier intents that were not done: the Update is not visible unless the ring says that they
    /// are.
    pub(crate) after: Vec<u64>,
    /// Names that are evidence of it on the disk.
    pub(crate) names: Vec<NameEvidence>,
    /// If there are no names, the inode.
    pub(crate) inode: Option<InodeEvidence>,
    /// The final size of the file, if this is the first of several steps.
    pub(crate) goal: Option<u64>,
    /// Key and answer: see [`vnode::answer`].
    pub(crate) answer: Rc<[u8]>,
}

/// An intent of an earlier boot.
#[derive(Clone, Debug)]
pub(crate) struct Survivor {
    pub(crate) intent: Intent,
    /// Whether the ring says that it is done.
    pub(crate) is_done: bool,
}

/// A record of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// An intent of an Update that may happen.
    Intent(Intent),
    /// Updates that have happened.
    Done(Vec<u64>),
    /// Updates that have not happened, and will not.
    Dropped(Vec<u64>),
    /// The volume was stopped cleanly, and its superblock has this time.
    Rest(i64),
}

/// The ring's owner is the volume's number with these bits flipped: no policy with a redo log
/// mistakes the ring for its log.
pub(super) const OWNER: u64 = 0x1d_7e27_5d1d_7e27;
/// Flag in the numbers of intents of earlier boots.
pub(super) const INHERITED: u64 = 1 << 63;
const INTENT: u16 = 1;
const DONE: u16 = 2;
const DROPPED: u16 = 3;
const REST: u16 = 4;

/// No goal.
const NO_GOAL: u64 = u64::MAX;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Head {
    kind: U16,
    reserved: U16,
    length: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct IntentHead {
    sequence: U64,
    goal: U64,
    after: U16,
    names: U16,
    has_inode: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct NameHead {
    directory: U64,
    before: U64,
    after: U64,
    length: U16,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct InodeBytes {
    ino: U64,
    size: U64,
    generation: U32,
    uid: U32,
    gid: U32,
    mode: U16,
    reserved: U16,
    mtime: I64,
    ctime: I64,
    mtime_nanoseconds: U32,
    ctime_nanoseconds: U32,
}

impl From<InodeEvidence> for InodeBytes {
    fn from(from: InodeEvidence) -> Self {
        Self {
            ino: from.ino.into(),
            size: from.size.into(),
            generation: from.generation.into(),
            uid: from.uid.into(),
            gid: from.gid.into(),
            mode: from.mode.into(),
            reserved: 0.into(),
            mtime: from.mtime.seconds.into(),
            ctime: from.ctime.seconds.into(),
            mtime_nanoseconds: from.mtime.nanoseconds.into(),
            ctime_nanoseconds: from.ctime.nanoseconds.into(),
        }
    }
}

impl From<InodeBytes> for InodeEvidence {
    fn from(from: InodeBytes) -> Self {
        let time = |seconds: I64, nanoseconds: U32| Timestamp {
            seconds: seconds.get(),
            nanoseconds: nanoseconds.get(),
        };
        Self {
            ino: from.ino.get(),
            generation: from.generation.get(),
            mode: from.mode.get(),
            uid: from.uid.get(),
            gid: from.gid.get(),
            size: from.size.get(),
            mtime: time(from.mtime, from.mtime_nanoseconds),
            ctime: time(from.ctime, from.ctime_nanoseconds),
        }
    }
}

impl Intent {
    fn write(&self, out: &mut Vec<u8>) {
        let head = IntentHead {
            sequence: self.sequence.into(),
            goal: self.goal.unwrap_or(NO_GOAL).into(),
            after: (self.after.len() as u16).into(),
            names: (self.names.len() as u16).into(),
            has_inode: u32::from(self.inode.is_some()).into(),
        };
        out.extend_from_slice(head.as_bytes());
        put_numbers(&self.after, out);
        if let Some(inode) = self.inode {
            out.extend_from_slice(InodeBytes::from(inode).as_bytes());
        }
        for name in &self.names {
            let head = NameHead {
                directory: name.directory.into(),
                before: name.before.into(),
                after: name.after.into(),
                length: (name.name.len() as u16).into(),
            };
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(&name.name);
        }
        out.extend_from_slice(&self.answer);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = IntentHead::read_from_prefix(bytes).ok()?;
        let (after, mut rest) = rest.split_at_checked(usize::from(head.after.get()) * 8)?;
        let mut inode = None;
        if head.has_inode.get() != 0 {
            let (bytes, behind) = InodeBytes::read_from_prefix(rest).ok()?;
            (inode, rest) = (Some(bytes.into()), behind);
        }
        let mut names = Vec::new();
        for _ in 0..head.names.get() {
            let (name, behind) = NameHead::read_from_prefix(rest).ok()?;
            let (bytes, behind) = behind.split_at_checked(name.length.get().into())?;
            rest = behind;
            names.push(NameEvidence {
                directory: name.directory.get(),
                name: bytes.into(),
                before: name.before.get(),
                after: name.after.get(),
            });
        }
        Some(Self {
            sequence: head.sequence.get(),
            after: numbers(after)?,
            names,
            inode,
            goal: Some(head.goal.get()).filter(|&goal| goal != NO_GOAL),
            answer: rest.into(),
        })
    }
}

fn put_numbers(numbers: &[u64], out: &mut Vec<u8>) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn numbers(bytes: &[u8]) -> Option<Vec<u64>> {
    let (numbers, rest) = bytes.as_chunks();
    rest.is_empty().then(|| numbers.iter().map(|&number| u64::from_le_bytes(number)).collect())
}

impl Record {
    /// Appends the record to a body.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + size_of::<Head>(), 0);
        let kind = match self {
            Self::Intent(intent) => {
                intent.write(out);
                INTENT
            }
            Self::Done(numbers) => {
                put_numbers(numbers, out);
                DONE
            }
            Self::Dropped(numbers) => {
                put_numbers(numbers, out);
                DROPPED
            }
            Self::Rest(time) => {
                out.extend_from_slice(&time.to_le_bytes());
                REST
            }
        };
        let length = (out.len() - at - size_of::<Head>()) as u32;
        let head = Head { kind: kind.into(), reserved: 0.into(), length: length.into() };
        out[at..at + size_of::<Head>()].copy_from_slice(head.as_bytes());
    }

    fn read(kind: u16, bytes: &[u8]) -> Option<Self> {
        Some(match kind {
            INTENT => Self::Intent(Intent::read(bytes)?),
            DONE => Self::Done(numbers(bytes)?),
            DROPPED => Self::Dropped(numbers(bytes)?),
            REST => Self::Rest(i64::from_le_bytes(bytes.try_into().ok()?)),
            _ => return None,
        })
    }

    /// The records of a body; `None` if it contains anything else.
    pub(crate) fn read_all(mut body: &[u8]) -> Option<Vec<Self>> {
        let mut records = Vec::new();
        while !body.is_empty() {
            let (head, rest) = Head::read_from_prefix(body).ok()?;
            let (bytes, rest) = rest.split_at_checked(head.length.get() as usize)?;
            records.push(Self::read(head.kind.get(), bytes)?);
            body = rest;
        }
        Some(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Record> {
        let time = |seconds| Timestamp { seconds, nanoseconds: 7 };
        let name = |name: &[u8]| NameEvidence {
            directory: 2,
            name: name.into(),
            before: 0,
            after: 1 << 33,
        };
        let inode = InodeEvidence {
            ino: 5,
            generation: 6,
            mode: 0o100_644,
            uid: 1,
            gid: 2,
            size: 1 << 40,
            mtime: time(-1),
            ctime: time(1 << 33),
        };
        let intent = Intent {
            sequence: 9,
            after: vec![7, 8],
            names: vec![name(b"a"), name(&[b'n'; 255])],
            inode: None,
            goal: None,
            answer: [1, 2, 3].into(),
        };
        let of_inode =
            Intent { after: Vec::new(), names: Vec::new(), inode: Some(inode), ..intent.clone() };
        vec![
            Record::Intent(intent),
            Record::Intent(Intent { goal: Some(3), ..of_inode }),
            Record::Done(vec![1, 2, u64::MAX]),
            Record::Dropped(Vec::new()),
            Record::Rest(-5),
        ]
    }

    fn body_of(records: &[Record]) -> Vec<u8> {
        let mut body = Vec::new();
        records.iter().for_each(|record| record.write(&mut body));
        body
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Record::read_all(&body_of(&examples())), Some(examples()));
    }

    #[test]
    fn what_is_cut_off_is_never_another_record() {
        for record in examples() {
            let body = body_of(std::slice::from_ref(&record));
            assert!((1..body.len()).all(|length| Record::read_all(&body[..length]).is_none()));
        }
    }
}
