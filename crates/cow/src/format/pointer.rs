//! Pointers, and the roots of trees of them.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{FAN, UNIT};

/// Location and identity of a block: a block that does not match its pointer is another one.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct Pointer {
    /// The unit at which it begins; 0 for no block.
    pub address: U64,
    /// The update that wrote it.
    pub birth: U64,
    /// Its checksum.
    pub sum: U64,
}

impl Pointer {
    /// Points to no block.
    pub const NULL: Self = Self { address: U64::ZERO, birth: U64::ZERO, sum: U64::ZERO };

    /// Points to the block at a unit.
    pub fn new(address: u64, birth: u64, sum: u64) -> Self {
        Self { address: address.into(), birth: birth.into(), sum: sum.into() }
    }

    /// First byte of the block on the disk. An address that is too high becomes one that no disk
    /// has.
    pub fn offset(&self) -> u64 {
        self.address.get().min(1 << 50) * UNIT as u64
    }

    /// The pointer to another copy of the same block; null for unit 0.
    pub fn at(&self, address: u64) -> Self {
        if address == 0 { Self::NULL } else { Self { address: address.into(), ..*self } }
    }

    /// Whether it points to no block.
    pub fn is_null(&self) -> bool {
        self.address.get() == 0
    }
}

/// Pointers in the root of a tree.
pub const WIDTH: usize = 6;

/// The root of a tree. With height 0 its pointers lead to leaves, with height 1 to blocks of
/// pointers to leaves, and so on.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct Root {
    /// The pointers, those to lower leaves first.
    pub pointers: [Pointer; WIDTH],
}

/// A tree that is not a file's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Number of levels of pointer blocks between the root and the leaves.
    pub height: u8,
    /// Its root.
    pub root: Root,
    /// The unit of the other copy of the first block to which the root leads; 0 for none. Only
    /// trees of inodes have one.
    pub twin: u64,
}

/// Greatest height of a tree: it has more leaves than a file may have blocks.
pub const HIGHEST: u8 = 4;

/// Number of leaves in a tree of this height.
pub const fn capacity(height: u8) -> u64 {
    WIDTH as u64 * reach(height)
}

/// Leaves below one pointer in a block of this level, or in a root above such blocks.
pub const fn reach(level: u8) -> u64 {
    FAN.pow(level as u32)
}

/// Leaves below the block of this level with this index.
pub const fn below(level: u8, index: u64) -> std::ops::Range<u64> {
    index * reach(level)..(index + 1) * reach(level)
}
