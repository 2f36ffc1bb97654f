//! The format of a volume, as bytes.
//!
//! The disk is an array of *units* of 4 KiB. A block of metadata is one unit, a block of a file
//! several. The first two units and the last two hold anchors. Zeros follow the first two up to
//! unit 32: other formats identify a disk by these bytes, so no bytes of a client may be there. The
//! space between is cut into zones, and the last two units of each zone are slots for superblocks.
//!
//! ```text
//!  unit 0   1      2      32 ...                                     ... n-2   n-1
//!  [anchor][anchor][zeros][ zone 0 ....... slot slot ][ zone 1 ... ] ... [anchor][anchor]
//!
//!  superblock --> inode tree --> inode blocks --> files' trees --> data, names
//!             \-> map of space, and a log of changes that are not in the map yet
//!             \-> ring of replies
//!             \-> records: units that this update and those since the last fold took and freed
//! ```
//!
//! Everything but the place of a data block is little-endian, and every block except data begins
//! with a [`Head`](head::Head).

pub mod anchor;
pub mod head;
pub mod inode;
pub mod log;
pub mod pointer;
pub mod record;
pub mod snapshot;
pub mod superblock;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a unit.
pub const UNIT: usize = 4096;
/// The version of the format.
pub const VERSION: u16 = 4;
/// The oldest version that is read. It has no second copies of blocks of inodes or pointers.
pub const OLDEST: u16 = 3;
/// Numbers of updates and anchors are below this: no volume gets that far, and sums of a few of
/// them do not overflow.
pub const END: u64 = 1 << 62;
/// Slots for superblocks at the end of a zone.
pub const SLOTS: u64 = 2;
/// Units with anchors at either end of the disk.
pub const ANCHORS: u64 = 2;
/// Units in front of the first zone.
pub const FRONT: u64 = 32;
/// Pointers in a block of them.
pub const FAN: u64 = (BODY / size_of::<pointer::Pointer>()) as u64;
/// Bytes of a block of metadata behind its head.
pub const BODY: usize = UNIT - size_of::<head::Head>();
/// Inodes in a block of them.
pub const INODES: u64 = (BODY / size_of::<inode::Record>()) as u64;
/// Chunks of a directory in a block of them.
pub const CHUNKS: u64 = (BODY / directory::entry::CHUNK_SIZE) as u64;
/// Units that a block of the map covers.
pub const MAPPED: u64 = 8 * BODY as u64;

/// The number of the root directory.
pub const ROOT: u64 = 2;
/// The first number of another file: the inode block of the root has no others.
pub const FIRST: u64 = INODES;

const _: () = {
    assert!(ANCHORS < FRONT);
    assert!(BODY == 4032);
    assert!(FAN == 168);
    assert!(INODES == 16);
    assert!(CHUNKS == 7);
    assert!(ROOT < FIRST);
};

/// The value at the beginning of a unit.
pub(crate) fn view<T: FromBytes + KnownLayout + Immutable>(bytes: &[u8]) -> &T {
    T::ref_from_prefix(bytes).map_err(|_| ()).expect("it fits, and has no alignment").0
}

/// The same, mutable.
pub(crate) fn view_mut<T: FromBytes + IntoBytes + KnownLayout>(bytes: &mut [u8]) -> &mut T {
    T::mut_from_prefix(bytes).map_err(|_| ()).expect("it fits, and has no alignment").0
}

/// CRC-64 of a block, or of the checksums of several.
pub fn sum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}
