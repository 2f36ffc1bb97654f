//! What every block of metadata begins with, so that no bytes of a client, of another volume or of
//! another place pass for it.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{OLDEST, UNIT, VERSION, sum, view, view_mut};

/// The first bytes of each.
const MAGIC: u32 = u32::from_le_bytes(*b"DuSh");

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// It says what the volume is, and where its superblocks may stand.
    Anchor = 1,
    /// It says where everything else is.
    Superblock = 2,
    /// What an update took and gave back, and its answers.
    Record = 3,
    /// Pointers.
    Pointers = 4,
    /// Inodes.
    Inodes = 5,
    /// Chunks of a directory.
    Names = 6,
    /// Which units are in use.
    Map = 7,
    /// Answers that were folded out of records.
    Answers = 8,
    /// A volume is being made, and there is none.
    Begun = 9,
    /// What there is of snapshots.
    Snapshots = 10,
    /// Which lists there are of what died while snapshots held it.
    Lists = 11,
    /// Such a list, or a part of it.
    Died = 12,
    /// What became of units, where the map does not tell it yet.
    Log = 13,
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
    /// Its checksum, if no pointer has that. Of a block of pointers of a tree of inodes, the unit
    /// of the other copy of the first block to which it leads; 0 for none.
    own_sum: U64,
}

/// What a block has to be to be the one that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// What it is.
    pub kind: Kind,
    /// The file that it belongs to, or the tree.
    pub owner: u64,
    /// Its level in the tree.
    pub level: u8,
    /// Its place among those of its level.
    pub index: u64,
}

impl Place {
    /// Whether such a block stands twice: the leaf of the root directory's inode, and what leads to
    /// it from the superblock.
    pub fn is_twice(&self) -> bool {
        matches!(self.kind, Kind::Inodes | Kind::Pointers) && self.owner == 0 && self.index == 0
    }
}

/// A volume's secret.
pub type Secret = [u8; 16];

/// Writes the head of a block, whose body is there.
pub fn seal(block: &mut [u8], place: Place, birth: u64, secret: &Secret) {
    let head: &mut Head = view_mut(block);
    *head = Head {
        magic: MAGIC.into(),
        version: VERSION.into(),
        kind: (place.kind as u16).into(),
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

/// Writes the head of a block that is of an earlier version.
pub fn seal_as(block: &mut [u8], place: Place, birth: u64, secret: &Secret, version: u16) {
    assert!(is_read(version), "it was read");
    seal(block, place, birth, secret);
    view_mut::<Head>(block).version = version.into();
}

/// The unit of the other copy of the first block to which a block of pointers leads; 0 for none.
pub fn first_twin(block: &[u8]) -> u64 {
    view::<Head>(block).own_sum.get()
}

/// Says where that copy is.
pub fn set_first_twin(block: &mut [u8], unit: u64) {
    view_mut::<Head>(block).own_sum = unit.into();
}

/// Writes its own checksum into a block to which no pointer leads.
pub fn seal_alone(block: &mut [u8]) {
    assert_eq!(block.len(), UNIT, "a block is a unit");
    let own = sum(block);
    view_mut::<Head>(block).own_sum = own.into();
}

/// Whether a block is what it is to be, written by the update `birth`.
pub fn is(block: &[u8], place: Place, birth: u64, secret: &Secret) -> bool {
    let head: &Head = view(block);
    head.magic.get() == MAGIC
        && is_read(head.version.get())
        && head.kind.get() == place.kind as u16
        && head.owner.get() == place.owner
        && head.level.get() == u64::from(place.level)
        && head.index.get() == place.index
        && head.birth.get() == birth
        && head.secret == *secret
}

/// Whether a block fits its own checksum and is of this kind; then who wrote it, and the version of
/// the format, which may be another one.
pub fn alone(block: &[u8], kind: Kind) -> Option<(u64, u16)> {
    let head: &Head = view(block);
    if head.magic.get() != MAGIC || head.kind.get() != kind as u16 {
        return None;
    }
    let mut copy = block.to_vec();
    view_mut::<Head>(&mut copy).own_sum = U64::ZERO;
    (sum(&copy) == head.own_sum.get()).then(|| (head.birth.get(), head.version.get()))
}

/// The bytes of a block to which no pointer leads, as its own checksum is made of them, and that
/// checksum.
pub fn unsealed(block: &[u8]) -> (Vec<u8>, u64) {
    let mut copy = block.to_vec();
    let own = std::mem::take(&mut view_mut::<Head>(&mut copy).own_sum);
    (copy, own.get())
}

/// The number in a head.
pub fn birth(block: &[u8]) -> u64 {
    view::<Head>(block).birth.get()
}

/// Whether a block begins as all do that have a head.
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
