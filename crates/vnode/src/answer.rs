//! The bytes of a reply that an engine stores with the change that the reply reports.
//!
//! A head of 28 bytes, the key of the call, and then the facts about the files, each part if its
//! bit is set: the attributes of the file that was found, and for each of the two files that the
//! call named, its attributes just before and just after. A separate bit says that a later step of
//! the call has failed.

use std::rc::Rc;

use vfs::{
    Attributes, CallKey, CallOutcome, CallReply, Device, FileKind, Ino, LoggedReply, ObjectId,
    Timestamp, Wcc, WccBefore,
};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::planted::{Bug, is_planted};

/// The fixed head of the record.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Head {
    /// Time at which the call was executed, in seconds.
    at: I64,
    /// Inode number and generation of the file that was found; 0 for none.
    ino: U64,
    generation: U32,
    nanoseconds: U32,
    /// Bytes of the key.
    key: U16,
    /// Which parts follow.
    parts: U16,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Time {
    seconds: I64,
    nanoseconds: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Before {
    size: U64,
    mtime: Time,
    ctime: Time,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct After {
    ino: U64,
    size: U64,
    used: U64,
    generation: U32,
    nlink: U32,
    uid: U32,
    gid: U32,
    major: U32,
    minor: U32,
    kind: U16,
    mode: U16,
    atime: Time,
    mtime: Time,
    ctime: Time,
}

/// The bit in `parts` that marks a failure; no bytes follow for it.
const HAS_FAILED: u16 = 1 << 5;

/// The most bytes that a reply takes.
pub const LARGEST: usize =
    size_of::<Head>() + vfs::MAX_KEY + 3 * size_of::<After>() + 2 * size_of::<Before>();

const KINDS: [FileKind; 7] = [
    FileKind::Regular,
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::BlockDevice,
    FileKind::CharacterDevice,
    FileKind::Fifo,
    FileKind::Socket,
];

impl From<Timestamp> for Time {
    fn from(from: Timestamp) -> Self {
        Self { seconds: from.seconds.into(), nanoseconds: from.nanoseconds.into() }
    }
}

impl From<Time> for Timestamp {
    fn from(from: Time) -> Self {
        Self { seconds: from.seconds.get(), nanoseconds: from.nanoseconds.get() }
    }
}

impl From<WccBefore> for Before {
    fn from(from: WccBefore) -> Self {
        Self { size: from.size.into(), mtime: from.mtime.into(), ctime: from.ctime.into() }
    }
}

impl From<Before> for WccBefore {
    fn from(from: Before) -> Self {
        Self { size: from.size.get(), mtime: from.mtime.into(), ctime: from.ctime.into() }
    }
}

impl From<Attributes> for After {
    fn from(from: Attributes) -> Self {
        let kind = KINDS.iter().position(|&kind| kind == from.kind).expect("every kind is listed");
        Self {
            ino: from.ino.0.into(),
            size: from.size.into(),
            used: from.used.into(),
            generation: from.generation.into(),
            nlink: from.nlink.into(),
            uid: from.uid.into(),
            gid: from.gid.into(),
            major: from.device.major.into(),
            minor: from.device.minor.into(),
            kind: (kind as u16).into(),
            mode: from.mode.into(),
            atime: from.atime.into(),
            mtime: from.mtime.into(),
            ctime: from.ctime.into(),
        }
    }
}

impl After {
    fn attributes(self) -> Option<Attributes> {
        Some(Attributes {
            kind: *KINDS.get(usize::from(self.kind.get()))?,
            mode: self.mode.get(),
            nlink: self.nlink.get(),
            uid: self.uid.get(),
            gid: self.gid.get(),
            size: self.size.get(),
            used: self.used.get(),
            device: Device { major: self.major.get(), minor: self.minor.get() },
            ino: Ino(self.ino.get()),
            generation: self.generation.get(),
            atime: self.atime.into(),
            mtime: self.mtime.into(),
            ctime: self.ctime.into(),
        })
    }
}

/// Encodes a reply.
pub fn write(at: Timestamp, answered: &CallReply) -> Rc<[u8]> {
    let CallReply { key, outcome: done } = answered;
    let mut head = Head {
        at: at.seconds.into(),
        ino: done.found.map_or(0, |found| found.ino.0).into(),
        generation: done.found.map_or(0, |found| found.generation).into(),
        nanoseconds: at.nanoseconds.into(),
        key: (key.as_bytes().len() as u16).into(),
        parts: 0.into(),
    };
    let (mut data, mut end) = ([0; LARGEST], size_of::<Head>());
    let mut append = |bytes: &[u8]| {
        data[end..end + bytes.len()].copy_from_slice(bytes);
        end += bytes.len();
    };
    append(key.as_bytes());
    let (mut parts, mut bit) = (0, 1);
    let mut put = |part: Option<&[u8]>| {
        if let Some(bytes) = part {
            parts |= bit;
            append(bytes);
        }
        bit <<= 1;
    };
    put(done.attributes.map(After::from).as_ref().map(IntoBytes::as_bytes));
    let told = if is_planted(Bug::HalfAnswers) { 1 } else { done.about.len() };
    for about in &done.about[..told] {
        put(about.before.map(Before::from).as_ref().map(IntoBytes::as_bytes));
        put(about.after.map(After::from).as_ref().map(IntoBytes::as_bytes));
    }
    head.parts.set(parts | if done.has_failed { HAS_FAILED } else { 0 });
    data[..size_of::<Head>()].copy_from_slice(head.as_bytes());
    data[..end].into()
}

/// Decodes the reply in the data of a record, if there is one.
pub fn read(data: &[u8]) -> Option<LoggedReply> {
    let (head, rest) = Head::read_from_prefix(data).ok()?;
    let (key, rest) = rest.split_at_checked(head.key.get().into())?;
    let has_failed = head.parts.get() & HAS_FAILED != 0;
    let mut parts = Parts { bits: head.parts.get() & !HAS_FAILED, rest };
    let attributes = parts.after()?;
    let mut about = [Wcc::default(); 2];
    for wcc in &mut about {
        *wcc = Wcc { before: parts.before()?, after: parts.after()? };
    }
    if parts.bits != 0 || !parts.rest.is_empty() {
        return None;
    }
    let (ino, generation) = (Ino(head.ino.get()), head.generation.get());
    let found = (ino.0 != 0).then_some(ObjectId::live(ino, generation));
    let at = Timestamp { seconds: head.at.get(), nanoseconds: head.nanoseconds.get() };
    let done = CallOutcome { found, attributes, about, has_failed };
    Some(LoggedReply {
        at,
        answered: CallReply { key: Rc::new(CallKey::new(key)?), outcome: done },
    })
}

/// The optional parts after the key.
struct Parts<'a> {
    bits: u16,
    rest: &'a [u8],
}

impl Parts<'_> {
    /// The next part, unless its bit is not set. Nothing at all when it is cut off.
    fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Option<Option<T>> {
        let is_there = self.bits & 1 != 0;
        self.bits >>= 1;
        if !is_there {
            return Some(None);
        }
        let (part, rest) = T::read_from_prefix(self.rest).ok()?;
        self.rest = rest;
        Some(Some(part))
    }

    fn before(&mut self) -> Option<Option<WccBefore>> {
        Some(self.take::<Before>()?.map(WccBefore::from))
    }

    fn after(&mut self) -> Option<Option<Attributes>> {
        match self.take::<After>()? {
            Some(after) => after.attributes().map(Some),
            None => Some(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(ino: u64) -> Attributes {
        let time = |seconds| Timestamp { seconds, nanoseconds: 999_999_999 };
        Attributes {
            kind: FileKind::Socket,
            mode: 0o7777,
            nlink: 3,
            uid: 4,
            gid: 5,
            size: 1 << 40,
            used: 7,
            device: Device { major: 8, minor: 9 },
            ino: Ino(ino),
            generation: 10,
            atime: time(-1),
            mtime: time(12),
            ctime: time(1 << 33),
        }
    }

    fn examples() -> Vec<CallOutcome> {
        let (one, other) = (attributes(77), attributes(78));
        let whole = |of: Attributes| Wcc { before: Some(WccBefore::from(&of)), after: Some(of) };
        let found = Some(ObjectId::live(Ino(77), 10));
        vec![
            CallOutcome::default(),
            CallOutcome {
                found,
                attributes: Some(one),
                about: [whole(other), Wcc::default()],
                has_failed: false,
            },
            CallOutcome { found, ..CallOutcome::default() },
            CallOutcome { about: [whole(one), whole(other)], ..CallOutcome::default() },
            CallOutcome {
                about: [Wcc { before: None, ..whole(one) }, whole(one)],
                ..CallOutcome::default()
            },
            CallOutcome {
                found,
                attributes: Some(one),
                about: [whole(one), whole(other)],
                has_failed: true,
            },
        ]
    }

    fn written(done: CallOutcome) -> (CallReply, Rc<[u8]>) {
        let key = Rc::new(CallKey::new(&[5; vfs::MAX_KEY]).expect("not too long"));
        let answered = CallReply { key, outcome: done };
        let at = Timestamp { seconds: 1_700_000_000, nanoseconds: 5 };
        let data = write(at, &answered);
        (answered, data)
    }

    #[test]
    fn what_is_written_is_read() {
        let sizes = examples().into_iter().map(|done| written(done).1.len());
        assert_eq!(sizes.max(), Some(LARGEST));
        for done in examples() {
            let (answered, data) = written(done);
            let read = read(&data).expect("an answer");
            assert_eq!((read.answered.key, read.answered.outcome), (answered.key, done));
            assert_eq!(read.at, Timestamp { seconds: 1_700_000_000, nanoseconds: 5 });
        }
    }

    #[test]
    fn what_is_cut_off_or_goes_on_is_none() {
        for done in examples() {
            let (_, data) = written(done);
            assert!((0..data.len()).all(|length| read(&data[..length]).is_none()));
            assert!(read(&[&data, &[0][..]].concat()).is_none());
        }
    }
}
