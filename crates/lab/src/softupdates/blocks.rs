//! The blocks of the model's file system, and their locations.
//!
//! A group of 16 MiB begins with its map; inodes and contents follow. Allocation takes the lowest
//! free number, so that objects made together are adjacent; the paper says: "inodes are clustered".

use std::collections::BTreeSet;

/// Bytes of a block.
pub(super) const BLOCK: u64 = 8192;
/// Bytes of a fragment, the smallest write.
const FRAGMENT: u64 = 1024;
/// Inodes in a block, 128 bytes each.
const INODES_PER_BLOCK: u32 = 64;
/// Inodes in a group.
const INODES_PER_GROUP: u32 = 2048;
/// Bytes of a group.
const GROUP: u64 = 16 << 20;
/// Byte offset of the first group.
const FIRST: u64 = 64 << 10;
/// Blocks of a group with its map and its inodes.
const AHEAD: u64 = 1 + (INODES_PER_GROUP / INODES_PER_BLOCK) as u64;
/// Blocks of a group with contents.
const CONTENTS: u64 = GROUP / BLOCK - AHEAD;

/// A block, by its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Block {
    /// The map of a group.
    Map(u32),
    /// A block of inodes.
    Inodes(u32),
    /// A block of a directory: its inode, and the block's index.
    Entries(u32, u32),
    /// A block of a file: its inode, and the block's index.
    Data(u32, u32),
}

impl Block {
    /// The block with an inode.
    pub(super) fn of_inode(inode: u32) -> Self {
        Self::Inodes(inode / INODES_PER_BLOCK)
    }

    /// The map with the bit of an inode.
    pub(super) fn map_of_inode(inode: u32) -> Self {
        Self::Map(inode / INODES_PER_GROUP)
    }

    /// The map with the bit of a block of contents.
    pub(super) fn map_of_content(number: u64) -> Self {
        Self::Map((number / CONTENTS) as u32)
    }

    /// Byte offset of a map or of a block of inodes.
    pub(super) fn place(self) -> Option<u64> {
        let group = |number: u32| FIRST + u64::from(number) * GROUP;
        match self {
            Self::Map(number) => Some(group(number)),
            Self::Inodes(number) => {
                let (per_group, number) = (INODES_PER_GROUP / INODES_PER_BLOCK, number);
                Some(group(number / per_group) + BLOCK * u64::from(1 + number % per_group))
            }
            Self::Entries(..) | Self::Data(..) => None,
        }
    }
}

/// Byte offset of a block of contents.
pub(super) fn place_of_content(number: u64) -> u64 {
    FIRST + number / CONTENTS * GROUP + BLOCK * (AHEAD + number % CONTENTS)
}

/// Bytes rounded up to whole fragments.
pub(super) fn in_fragments(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(FRAGMENT)
}

/// Allocator of the lowest free number.
#[derive(Default)]
pub(super) struct Numbers {
    next: u64,
    free: BTreeSet<u64>,
}

impl Numbers {
    pub(super) fn take(&mut self) -> u64 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    pub(super) fn give_back(&mut self, number: u64) {
        assert!(number < self.next && self.free.insert(number), "it was taken");
    }
}
