//! The blocks of trees, as bytes.
//!
//! A block of metadata is one *unit* of 4 KiB, a block of a file several.
//!
//! ```text
//!  root --> inode tree --> inode blocks --> files' trees --> data, names
//!      \-> lines of snapshots, lines of dead lists, dead lists, replies
//!      \-> trees of the engine's own
//! ```
//!
//! Everything but the address of a data block is little-endian, and every block except data begins
//! with a [`Head`](head::Head).

pub mod answers;
pub mod head;
pub mod inode;
pub mod pointer;
pub mod run;
pub mod snapshot;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a unit.
pub const UNIT: usize = 4096;
/// The version of the format.
pub const VERSION: u16 = 4;
/// The oldest version that is read. It has no second copies of blocks of inodes or pointers.
pub const OLDEST: u16 = 3;
/// Numbers of updates are below this: no volume gets that far, and sums of a few of them do not
/// overflow.
pub const END: u64 = 1 << 62;
/// Pointers in a block of them.
pub const FAN: u64 = (BODY / size_of::<pointer::Pointer>()) as u64;
/// Bytes of a block of metadata behind its head.
pub const BODY: usize = UNIT - size_of::<head::Head>();
/// Inodes in a block of them.
pub const INODES: u64 = (BODY / size_of::<inode::Record>()) as u64;
/// Chunks of a directory in a block of them.
pub const CHUNKS: u64 = (BODY / directory::entry::CHUNK_SIZE) as u64;

/// The number of the root directory.
pub const ROOT: u64 = 2;
/// The first number of another file: the inode block of the root has no others.
pub const FIRST: u64 = INODES;
/// Numbers of files are below this: a directory entry has 32 bits for one.
pub const NUMBERS: u64 = 1 << 32;

const _: () = {
    assert!(BODY == 4032);
    assert!(FAN == 168);
    assert!(INODES == 16);
    assert!(CHUNKS == 7);
    assert!(ROOT < FIRST);
};

/// The value at the beginning of a unit.
pub fn view<T: FromBytes + KnownLayout + Immutable>(bytes: &[u8]) -> &T {
    T::ref_from_prefix(bytes).map_err(|_| ()).expect("it fits, and has no alignment").0
}

/// The same, mutable.
pub fn view_mut<T: FromBytes + IntoBytes + KnownLayout>(bytes: &mut [u8]) -> &mut T {
    T::mut_from_prefix(bytes).map_err(|_| ()).expect("it fits, and has no alignment").0
}

/// CRC-64 of a block, or of the checksums of several.
pub fn sum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

/// The checksum of checksums.
pub fn sum_of_sums(sums: &[u64]) -> u64 {
    let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    sum(&bytes)
}

/// Whether a file may have this number.
pub fn is_number(ino: u64) -> bool {
    ino == ROOT || (FIRST..NUMBERS).contains(&ino)
}
