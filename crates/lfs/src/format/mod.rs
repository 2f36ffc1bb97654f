//! The format of a volume, as bytes, apart from the blocks of trees ([`cow::format`]).
//!
//! The disk is an array of units of 4 KiB.
//!
//! ```text
//!  unit 0    1, 2      3      32 ...
//!  [ head ][regions][zeros][ table ][ segment 0 ][ segment 1 ] ... [ table ][regions][ head ]
//! ```
//!
//! A *head* describes the volume and never changes, apart from its label. A *region* is the root of
//! one checkpoint; there are two, written by turns, each at both ends of the disk. The *table* has
//! a line for each row, in two copies. A *segment* is where log is written: blocks of files, blocks
//! of metadata, and summaries.
//!
//! The address of a block is the number of a *row*, and its index there. A row names at most 256
//! units that are side by side in one segment. The table says where: so a block that the cleaner
//! moves keeps its address, and nothing that points to it changes.
//!
//! ```text
//!  region --> inode tree --> inode blocks --> files' trees --> data, names
//!         \-> ring of replies
//!         \-> the next summary --> the one after it --> ...     (the chain, after a cut)
//! ```

pub mod alone;
pub mod bits;
pub mod codec;
pub mod head;
pub mod region;
pub mod shape;
pub mod summary;
pub mod table;

use cow::Kind;

/// The version of the format.
pub const VERSION: u16 = 1;
/// Units in front of the first table: other formats identify a disk by these bytes, so no bytes of
/// a client may be there.
pub const FRONT: u64 = 32;
/// Units behind the last table: two regions and a head.
pub const BACK: u64 = 3;
/// Bits of an address for the index in a row.
pub const INDEX_BITS: u32 = 8;
/// Units that a row may have.
pub const ROW: usize = 1 << INDEX_BITS;

/// Kinds of blocks, besides those of trees.
pub mod kind {
    use super::Kind;

    /// The description of the volume.
    pub const HEAD: Kind = Kind(40);
    /// The root of a checkpoint.
    pub const REGION: Kind = Kind(41);
    /// A block of the table.
    pub const TABLE: Kind = Kind(42);
    /// A summary.
    pub const SUMMARY: Kind = Kind(43);
}
