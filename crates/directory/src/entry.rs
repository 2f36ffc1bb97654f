//! The fixed part of a directory entry. The layout of entries in a chunk is not known here.

use std::mem::offset_of;

use vfs::FileKind;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A directory is an array of chunks of this many bytes, on every disk: no entry crosses one, and
/// a write of one is atomic.
pub const CHUNK_SIZE: usize = 512;
/// Bytes of [`EntryHeader`]; the name follows.
pub const ENTRY_HEADER_SIZE: usize = size_of::<EntryHeader>();
/// Record lengths are multiples of this.
pub const ENTRY_ALIGNMENT: usize = 4;
/// The inode number that a whiteout names.
pub const WHITEOUT_INODE: u64 = 1;
/// The type byte of a directory.
pub const DIRECTORY_TYPE: u8 = 4;
/// The type byte of a whiteout.
pub const WHITEOUT_TYPE: u8 = 14;

/// The first 8 bytes of a directory entry; its name, a NUL and zeros up to a multiple of 4 follow.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct EntryHeader {
    /// The inode that the name is for; 0 for an empty slot.
    pub inode: U32,
    /// Bytes from here to the next entry, or to the end of the chunk.
    pub record_length: U16,
    /// Type of the inode, as FreeBSD numbers types.
    pub kind: u8,
    /// Bytes of the name, without its NUL.
    pub name_length: u8,
}

impl EntryHeader {
    /// Offset of the record length in an entry, in bytes.
    pub const RECORD_LENGTH_OFFSET: usize = offset_of!(Self, record_length);
    /// Offset of the type in an entry, in bytes.
    pub const KIND_OFFSET: usize = offset_of!(Self, kind);

    /// The header at `offset` of a run of chunks.
    ///
    /// # Panics
    /// If the run ends before it.
    pub fn at(run: &[u8], offset: usize) -> &Self {
        Self::ref_from_prefix(&run[offset..]).expect("a header has no alignment").0
    }

    /// As [`EntryHeader::at`], for changing it.
    ///
    /// # Panics
    /// If the run ends before it.
    pub fn at_mut(run: &mut [u8], offset: usize) -> &mut Self {
        Self::mut_from_prefix(&mut run[offset..]).expect("a header has no alignment").0
    }
}

const _: () = {
    assert!(size_of::<EntryHeader>() == 8);
    assert!(offset_of!(EntryHeader, inode) == 0);
    assert!(offset_of!(EntryHeader, record_length) == 4);
    assert!(offset_of!(EntryHeader, kind) == 6);
    assert!(offset_of!(EntryHeader, name_length) == 7);
};

/// The high 4 bits of the mode that encode a kind; also the type byte of a directory entry.
pub const fn kind_bits(kind: FileKind) -> u8 {
    match kind {
        FileKind::Fifo => 1,
        FileKind::CharacterDevice => 2,
        FileKind::Directory => 4,
        FileKind::BlockDevice => 6,
        FileKind::Regular => 8,
        FileKind::Symlink => 10,
        FileKind::Socket => 12,
    }
}

/// The kind that 4 bits of mode or a directory entry's type byte encode, if any. A whiteout (14)
/// has no kind: it names no inode.
pub const fn kind_of_bits(bits: u8) -> Option<FileKind> {
    match bits {
        1 => Some(FileKind::Fifo),
        2 => Some(FileKind::CharacterDevice),
        4 => Some(FileKind::Directory),
        6 => Some(FileKind::BlockDevice),
        8 => Some(FileKind::Regular),
        10 => Some(FileKind::Symlink),
        12 => Some(FileKind::Socket),
        _ => None,
    }
}

/// Minimum length of an entry with a name of `name_length` bytes: header, name and NUL, rounded up.
pub const fn minimum_record_length(name_length: usize) -> usize {
    (ENTRY_HEADER_SIZE + name_length + 1).next_multiple_of(ENTRY_ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_entries_leave_room_for_a_nul() {
        for (name_length, record_length) in [(1, 12), (3, 12), (4, 16), (7, 16), (255, 264)] {
            assert_eq!(minimum_record_length(name_length), record_length);
        }
    }
}
