//! A pointer of a file: its place, and its target.

use ufs2::layout::{DIRECT_POINTERS, Dinode};

/// The kind of block that a pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Data,
    Indirect,
    Attribute,
}

/// The place of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// In the inode: a direct one, or after those the root of a tree.
    Inode(usize),
    /// In the inode: one of an extended attribute.
    Attribute(usize),
    /// In an indirect block, at this byte of the disk.
    Disk(u64),
}

impl Slot {
    /// Sets a pointer in the inode.
    pub(super) fn set_in(self, dinode: &mut Dinode, address: u64) {
        let field = match self {
            Self::Inode(index) if index < DIRECT_POINTERS => &mut dinode.direct[index],
            Self::Inode(index) => &mut dinode.indirect[index - DIRECT_POINTERS],
            Self::Attribute(index) => &mut dinode.attribute_blocks[index],
            Self::Disk(_) => unreachable!("it stands in an indirect block"),
        };
        field.set(address as i64);
    }
}

/// A pointer of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pointer {
    pub(super) ino: u64,
    pub(super) role: Role,
    pub(super) slot: Slot,
    /// The first block of the file that it leads to.
    pub(super) lbn: u64,
    pub(super) address: u64,
    pub(super) run: u64,
    /// Number of blocks of the file that it leads to.
    pub(super) covers: u64,
    /// Number of its neighbours in the file that are its neighbours on the disk.
    pub(super) neighbours: u32,
}
