//! Records: the contents of a log entry, physically addressed and redo only.
//!
//! The body of an entry is a table of contents, 32 bytes a record, followed by the data of the
//! records that have some, in the same order. All addresses are bytes of the volume.

use std::rc::Rc;

use bytes::Bytes;
use vfs::Repetitions;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use vnode::answer;
use vnode::chain::Chain;

/// A line of the table of contents.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Line {
    kind: U16,
    /// For bits: the map, and their value.
    flags: U16,
    /// Bytes of data.
    length: U32,
    /// A byte address of the volume, a group number, or an inode number.
    place: U64,
    /// For bits: the first bit. For bytes in a group: the offset. For a chain: the generation.
    first: U64,
    /// For bits: their number. For records without data: number of bytes. For a chain: the size.
    count: U64,
}

/// Bytes of a line.
pub const LINE: usize = size_of::<Line>();
const _: () = assert!(LINE == 32);
/// Maximum bytes of log that an answer takes.
pub(super) const LARGEST_ANSWER: usize = LINE + answer::LARGEST;

/// The maps of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    /// A set bit is a free fragment.
    Fragments,
    /// A set bit is a used inode.
    Inodes,
}

/// One record of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Bytes of an inode, of directory chunks, of pointers, of payload.
    Bytes {
        /// Byte address.
        offset: u64,
        /// New contents.
        data: Bytes,
    },
    /// A range of zeros.
    Zeros {
        /// Byte address.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
    /// Bits of a map. Fragments that become free revoke everything logged of them before.
    Bits {
        /// The group.
        group: u64,
        /// Which map.
        map: Map,
        /// The first bit.
        first: u64,
        /// Number of bits.
        count: u64,
        /// Their value.
        value: bool,
    },
    /// Bytes of a group's header, which has to be sealed anew.
    Group {
        /// The group.
        group: u64,
        /// Offset in the group's block.
        offset: u64,
        /// New contents.
        data: Bytes,
    },
    /// A new block of inodes, all free: zeros except for the generations.
    Inodes {
        /// Byte address.
        offset: u64,
        /// The generation of each, 4 bytes each.
        generations: Bytes,
    },
    /// Revokes everything that was logged of these bytes before: it is not replayed.
    Revoked {
        /// Byte address.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
    /// A chain of Updates has begun.
    ChainBegins(Chain),
    /// The chain of this inode has come to its end.
    ChainEnds(u64),
    /// The answer of a call: see [`vnode::answer`].
    Answer(Rc<[u8]>),
    /// Number of repeated calls since the volume has had a log.
    Repetitions(Repetitions),
}

impl Record {
    /// Whether the record sets the content of a place on the volume.
    pub fn is_change(&self) -> bool {
        use Record::{Bits, Bytes, Group, Inodes, Zeros};
        matches!(self, Bytes { .. } | Zeros { .. } | Bits { .. } | Group { .. } | Inodes { .. })
    }
}

/// A record that this version does not understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {index} of an entry is none")]
pub struct BadRecord {
    /// Index of the record in its entry.
    pub index: usize,
}

/// Size of a chain that ends with freeing the whole file.
const NOTHING: u64 = u64::MAX;

const BYTES: u16 = 1;
const ZEROS: u16 = 2;
const BITS: u16 = 3;
const GROUP: u16 = 4;
const INODES: u16 = 5;
const REVOKED: u16 = 6;
const CHAIN_BEGINS: u16 = 7;
const CHAIN_ENDS: u16 = 8;
const ANSWER: u16 = 9;
const REPETITIONS: u16 = 10;

const OF_INODES: u16 = 1;
const SET: u16 = 2;

impl Record {
    /// Size of the record in an entry, in bytes.
    pub(super) fn size(&self) -> usize {
        LINE + self.line().1.len()
    }

    fn line(&self) -> (Line, &[u8]) {
        let mut line = Line::new_zeroed();
        let mut set = |kind, place, first, count| {
            line.kind.set(kind);
            line.place.set(place);
            line.first.set(first);
            line.count.set(count);
        };
        let data: &[u8] = match self {
            Record::Bytes { offset, data } => {
                set(BYTES, *offset, 0, 0);
                data
            }
            Record::Zeros { offset, length } => {
                set(ZEROS, *offset, 0, *length);
                &[]
            }
            Record::Bits { group, map, first, count, value } => {
                set(BITS, *group, *first, *count);
                let map = if *map == Map::Inodes { OF_INODES } else { 0 };
                line.flags.set(map | if *value { SET } else { 0 });
                &[]
            }
            Record::Group { group, offset, data } => {
                set(GROUP, *group, *offset, 0);
                data
            }
            Record::Inodes { offset, generations } => {
                set(INODES, *offset, 0, 0);
                generations
            }
            Record::Revoked { offset, length } => {
                set(REVOKED, *offset, 0, *length);
                &[]
            }
            Record::ChainBegins(Chain { ino, generation, size }) => {
                set(CHAIN_BEGINS, *ino, (*generation).into(), size.unwrap_or(NOTHING));
                &[]
            }
            Record::ChainEnds(ino) => {
                set(CHAIN_ENDS, *ino, 0, 0);
                &[]
            }
            Record::Answer(data) => {
                set(ANSWER, 0, 0, 0);
                data
            }
            Record::Repetitions(Repetitions { answered, over_a_start }) => {
                set(REPETITIONS, 0, *over_a_start, *answered);
                &[]
            }
        };
        line.length.set(data.len() as u32);
        (line, data)
    }

    fn read(line: &Line, data: Bytes) -> Option<Self> {
        let (place, first, count) = (line.place.get(), line.first.get(), line.count.get());
        Some(match line.kind.get() {
            BYTES => Self::Bytes { offset: place, data },
            ZEROS => Self::Zeros { offset: place, length: count },
            BITS => {
                let flags = line.flags.get();
                let map = if flags & OF_INODES == 0 { Map::Fragments } else { Map::Inodes };
                Self::Bits { group: place, map, first, count, value: flags & SET != 0 }
            }
            GROUP => Self::Group { group: place, offset: first, data },
            INODES => Self::Inodes { offset: place, generations: data },
            REVOKED => Self::Revoked { offset: place, length: count },
            CHAIN_BEGINS => {
                let size = Some(count).filter(|&size| size != NOTHING);
                let generation = u32::try_from(first).ok()?;
                Self::ChainBegins(Chain { ino: place, generation, size })
            }
            CHAIN_ENDS => Self::ChainEnds(place),
            ANSWER => Self::Answer(data[..].into()),
            REPETITIONS => Self::Repetitions(Repetitions { answered: count, over_a_start: first }),
            _ => return None,
        })
    }
}

/// The body of an entry.
pub fn write_records(records: &[Record]) -> Vec<u8> {
    let data: usize = records.iter().map(|record| record.line().1.len()).sum();
    let mut body = Vec::with_capacity(records.len() * LINE + data);
    for record in records {
        body.extend_from_slice(record.line().0.as_bytes());
    }
    for record in records {
        body.extend_from_slice(record.line().1);
    }
    body
}

/// Parses a body with `count` records.
///
/// # Errors
/// [`BadRecord`].
pub fn read_records(count: u16, body: &Bytes) -> Result<Vec<Record>, BadRecord> {
    let count = usize::from(count);
    let mut data_at = count * LINE;
    let mut records = Vec::new();
    for index in 0..count {
        let bad = BadRecord { index };
        let line = body.get(index * LINE..).and_then(|line| Line::read_from_prefix(line).ok());
        let (line, _) = line.ok_or(bad)?;
        let end = data_at.checked_add(line.length.get() as usize).ok_or(bad)?;
        if end > body.len() {
            return Err(bad);
        }
        records.push(Record::read(&line, body.slice(data_at..end)).ok_or(bad)?);
        data_at = end;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Record> {
        let data = Bytes::from_static(b"some bytes");
        let chain = Chain { ino: 77, generation: 5, size: Some(9) };
        vec![
            Record::Bytes { offset: 4096, data: data.clone() },
            Record::Zeros { offset: 512, length: 32 << 10 },
            Record::Bits { group: 3, map: Map::Fragments, first: 7, count: 8, value: true },
            Record::Bits { group: 4, map: Map::Inodes, first: 1, count: 1, value: false },
            Record::Group { group: 2, offset: 24, data: data.clone() },
            Record::Answer(data[..].into()),
            Record::Repetitions(Repetitions { answered: 7, over_a_start: 3 }),
            Record::Inodes { offset: 1 << 40, generations: data },
            Record::Revoked { offset: 1 << 20, length: 1 << 19 },
            Record::ChainBegins(chain),
            Record::ChainBegins(Chain { size: None, ..chain }),
            Record::ChainEnds(77),
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        let records = examples();
        let body = Bytes::from(write_records(&records));
        assert_eq!(records.iter().map(Record::size).sum::<usize>(), body.len());
        assert_eq!(read_records(records.len() as u16, &body), Ok(records));
    }

    #[test]
    fn what_says_what_a_place_is_to_hold_is_a_change_and_nothing_else() {
        let changes = examples().into_iter().filter(Record::is_change);
        let kinds: Vec<u16> = changes.map(|record| record.line().0.kind.get()).collect();
        assert_eq!(kinds, [BYTES, ZEROS, BITS, BITS, GROUP, INODES]);
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let records = examples();
        let body = Bytes::from(write_records(&records));
        for length in 0..body.len() {
            assert!(read_records(records.len() as u16, &body.slice(..length)).is_err());
        }
        assert!(read_records(u16::MAX, &body).is_err());
    }
}
