//! The head of every block of metadata, so that no bytes of a client, of another volume or of
//! another place pass for it.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{OLDEST, UNIT, VERSION, sum, view, view_mut};

/// The first bytes of each.
const MAGIC: u32 = u32::from_le_bytes(*b"DuSh");

/// Kind of a block. An engine has further ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub u16);

impl Kind {
    /// Pointers.
    pub const POINTERS: Self = Self(4);
    /// Inodes.
    pub const INODES: Self = Self(5);
    /// Chunks of a directory.
    pub const NAMES: Self = Self(6);
    /// Replies.
    pub const ANSWERS: Self = Self(8);
    /// Lines of snapshots.
    pub const SNAPSHOTS: Self = Self(10);
    /// Lines of dead lists: blocks that died while snapshots held them.
    pub const LISTS: Self = Self(11);
    /// A block of such a list.
    pub const DIED: Self = Self(12);

    /// Its first byte in a head; the other is 0.
    pub const fn byte(self) -> u8 {
        self.0 as u8
    }
}

/// The first 64 bytes of a block of metadata.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Head {
    magic: U32,
    version: U16,
    kind: U16,
    /// The file that it belongs to, or the tree.
    owner: U64,
    /// Its level in the tree: 0 for a leaf.
    level: U64,
    /// Its place among those of its level.
    index: U64,
    /// The update that wrote it.
    birth: U64,
    /// The volume's secret: no client knows it.
    secret: [u8; 16],
    /// Its checksum, if no pointer has that. In a block of pointers of a tree of inodes, the unit
    /// of the other copy of the first block to which it leads; 0 for none.
    own_sum: U64,
}

/// The identity that a block must have to be the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Kind of block.
    pub kind: Kind,
    /// The file that it belongs to, or the tree.
    pub owner: u64,
    /// Its level in the tree.
    pub level: u8,
    /// Its place among those of its level.
    pub index: u64,
}

impl Place {
    /// Whether such a block has two copies: the leaf of the root directory's inode, and the blocks
    /// that lead to it from the root.
    pub fn is_twice(&self) -> bool {
        matches!(self.kind, Kind::INODES | Kind::POINTERS) && self.owner == 0 && self.index == 0
    }
}

/// A volume's secret.
pub type Secret = [u8; 16];

/// Writes the head of a block whose body is complete.
pub fn seal(block: &mut [u8], place: Place, birth: u64, secret: &Secret) {
    let head: &mut Head = view_mut(block);
    *head = Head {
        magic: MAGIC.into(),
        version: VERSION.into(),
        kind: place.kind.0.into(),
        owner: place.owner.into(),
        level: u64::from(place.level).into(),
        index: place.index.into(),
        birth: birth.into(),
        secret: *secret,
        own_sum: U64::ZERO,
    };
}

/// Whether blocks of this version are read.
pub fn is_read(version: u16) -> bool {
    (OLDEST..=VERSION).contains(&version)
}

/// Writes the head of a block that has an earlier version.
pub fn seal_as(block: &mut [u8], place: Place, birth: u64, secret: &Secret, version: u16) {
    assert!(is_read(version), "it was read");
    seal(block, place, birth, secret);
    view_mut::<Head>(block).version = version.into();
}

/// The unit of the other copy of the first block to which a block of pointers leads; 0 for none.
pub fn first_twin(block: &[u8]) -> u64 {
    view::<Head>(block).own_sum.get()
}

/// Sets the unit of that copy.
pub(crate) fn set_first_twin(block: &mut [u8], unit: u64) {
    view_mut::<Head>(block).own_sum = unit.into();
}

/// Writes its own checksum into a block to which no pointer leads.
pub fn seal_alone(block: &mut [u8]) {
    assert_eq!(block.len(), UNIT, "a block is a unit");
    let own = sum(block);
    view_mut::<Head>(block).own_sum = own.into();
}

/// Whether a block has this identity, and was written by the update `birth`.
pub fn is(block: &[u8], place: Place, birth: u64, secret: &Secret) -> bool {
    let head: &Head = view(block);
    head.magic.get() == MAGIC
        && is_read(head.version.get())
        && head.kind.get() == place.kind.0
        && head.owner.get() == place.owner
        && head.level.get() == u64::from(place.level)
        && head.index.get() == place.index
        && head.birth.get() == birth
        && head.secret == *secret
}

/// Whether a block matches its own checksum and is of this kind; then its birth and its version of
/// the format, which may be another one.
pub fn alone(block: &[u8], kind: Kind) -> Option<(u64, u16)> {
    let head: &Head = view(block);
    if head.magic.get() != MAGIC || head.kind.get() != kind.0 {
        return None;
    }
    let mut copy = block.to_vec();
    view_mut::<Head>(&mut copy).own_sum = U64::ZERO;
    (sum(&copy) == head.own_sum.get()).then(|| (head.birth.get(), head.version.get()))
}

/// The bytes of a block to which no pointer leads, as its own checksum covers them, and that
/// checksum.
pub fn unsealed(block: &[u8]) -> (Vec<u8>, u64) {
    let mut copy = block.to_vec();
    let own = std::mem::take(&mut view_mut::<Head>(&mut copy).own_sum);
    (copy, own.get())
}

/// The birth in a head.
pub fn birth(block: &[u8]) -> u64 {
    view::<Head>(block).birth.get()
}

/// Whether a block begins like every block with a head.
pub fn has_magic(block: &[u8]) -> bool {
    view::<Head>(block).magic.get() == MAGIC
}

/// The place in a head among those of its level.
pub fn index(block: &[u8]) -> u64 {
    view::<Head>(block).index.get()
}

/// The secret in a head.
pub fn secret(block: &[u8]) -> Secret {
    view::<Head>(block).secret
}

const _: () = assert!(size_of::<Head>() == 64);
