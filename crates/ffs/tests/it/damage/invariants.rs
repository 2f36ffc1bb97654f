//! For each invariant a damage that it alone detects: found by a search through all cases.

use fsck::Invariant as I;

/// A damage that only this invariant detects: whether it is sealed, and its label.
pub(crate) struct Proof {
    pub(crate) invariant: I,
    pub(crate) sealed: bool,
    pub(crate) label: &'static str,
}

const fn sealed(invariant: I, label: &'static str) -> Proof {
    Proof { invariant, sealed: true, label }
}

const fn raw(invariant: I, label: &'static str) -> Proof {
    Proof { invariant, sealed: false, label }
}

/// All except [`I::Data`] and [`I::Readable`], which need an unreadable disk, and [`I::LogHome`],
/// which needs a log.
pub(crate) const PROOFS: &[Proof] = &[
    sealed(I::SuperblockFields, "primary byte 61: 0x00 becomes 0xff"),
    raw(I::SuperblockHash, "primary byte 92: 0x00 becomes 0x80"),
    sealed(I::SuperblockDerived, "primary byte 208: 0x00 becomes 0xff"),
    sealed(I::SuperblockSpare, "primary byte 0: 0x00 becomes 0x01"),
    sealed(I::Flags, "primary byte 1310: 0x00 becomes 0x80"),
    sealed(I::State, "primary byte 864: 0x00 becomes 0x80"),
    sealed(I::Totals, "primary byte 1008: 0x09 becomes 0x08"),
    sealed(I::Snapshots, "primary byte 1117: 0x00 becomes 0x01"),
    sealed(I::Recovery, "record byte 1: 0x01 becomes 0x00"),
    sealed(I::Backup, "copy of group 0 byte 1: 0x00 becomes 0x01"),
    sealed(I::GroupHeader, "group 0 byte 0: 0x00 becomes 0xff"),
    sealed(I::GroupHints, "group 0 byte 41: 0x00 becomes 0x80"),
    sealed(I::GroupInitialized, "more initialised inodes than there are"),
    sealed(I::GroupCounts, "group 0 byte 24: 0x01 becomes 0x81"),
    sealed(I::GroupRuns, "group 0 byte 53: 0x00 becomes 0x01"),
    sealed(I::GroupUnreferenced, "group 0 byte 125: 0x00 becomes 0x01"),
    raw(I::GroupHash, "group 0 byte 8: 0x00 becomes 0x01"),
    sealed(I::InodeMap, "group 0 byte 168: 0xff becomes 0x00"),
    sealed(I::FragmentMap, "group 0 byte 184: 0x00 becomes 0x01"),
    sealed(I::ClusterMap, "group 0 byte 504: 0x00 becomes 0x80"),
    sealed(I::ClusterSums, "group 0 byte 441: 0x00 becomes 0x80"),
    sealed(I::GroupTail, "group 0 byte 536: 0x00 becomes 0x01"),
    sealed(I::SummaryRow, "area byte 0: 0x01 becomes 0xfe"),
    sealed(I::FreeInode, "free inode 0 byte 1: 0x00 becomes 0x01"),
    raw(I::InodeHash, "inode 2 () byte 0: 0xed becomes 0xec"),
    sealed(I::InodeType, "free inode 18 byte 1: 0x00 becomes 0x01"),
    sealed(I::InodeWhole, "an inode of which three fields make no sense"),
    sealed(I::InodeTimes, "inode 2 () byte 71: 0x00 becomes 0xff"),
    sealed(I::InodeSpare, "inode 2 () byte 249: 0x00 becomes 0x80"),
    sealed(I::InodeSize, "inode 2 () size becomes 0x78"),
    sealed(I::InodePointers, "inode 7 (/single) byte 120: 0x00 becomes 0x80"),
    sealed(I::IndirectPointers, "inode 9 blocks from 12, pointer 1 becomes 0x1fff"),
    sealed(I::Duplicate, "inode 5 (/tail) pointer 3 becomes 0xf0"),
    sealed(I::PointersBehindEnd, "inode 2 () byte 120: 0x00 becomes 0xff"),
    sealed(I::LastBlock, "inode 3 (/empty) byte 18: 0x00 becomes 0x01"),
    sealed(I::SymlinkTarget, "inode 12 (/short-link) byte 16: 0x0b becomes 0x0a"),
    sealed(I::Device, "inode 14 (/fifo) byte 113: 0x00 becomes 0x01"),
    sealed(I::Attributes, "inode 2 () byte 92: 0x00 becomes 0xff"),
    sealed(I::BlockCount, "inode 2 () byte 25: 0x00 becomes 0x01"),
    sealed(I::LinkCount, "inode 2 () byte 2: 0x05 becomes 0xfa"),
    sealed(I::Root, "a name of the root"),
    sealed(I::DirectoryHole, "a hole in a directory"),
    sealed(I::Chunk, " chunk 0 entry at 372 length becomes 0x20"),
    sealed(I::EntryName, " chunk 0 entry at 24 name byte 2 becomes 0x0"),
    sealed(I::Dots, " chunk 0 entry at 0 inode becomes 0x2f"),
    sealed(I::DotDot, " chunk 0 entry at 12 inode becomes 0x10"),
    sealed(I::DuplicateName, "a name twice"),
    sealed(I::EntryTarget, " chunk 0 entry at 340 inode becomes 0x1"),
    sealed(I::EntryType, "inode 3 (/empty) mode becomes 0x21a4"),
    sealed(I::SecondName, "a directory with two names"),
    sealed(I::Cycle, "directories in a circle"),
    sealed(I::Unreachable, "a name that nobody has any more"),
    sealed(I::Depth, "inode 2 () byte 240: 0x00 becomes 0xff"),
];
