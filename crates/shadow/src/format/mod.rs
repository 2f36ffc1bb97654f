//! The format of a volume, as bytes, apart from the blocks of trees ([`cow::format`]).
//!
//! The disk is an array of units. The first two units and the last two hold anchors. Zeros follow
//! the first two up to unit 32: other formats identify a disk by these bytes, so no bytes of a
//! client may be there. The space between is cut into zones, and the last two units of each zone
//! are slots for superblocks.
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

pub mod anchor;
pub mod kind;
pub mod log;
pub mod record;
pub mod superblock;

use cow::BODY;

/// Slots for superblocks at the end of a zone.
pub const SLOTS: u64 = 2;
/// Units with anchors at either end of the disk.
pub const ANCHORS: u64 = 2;
/// Units in front of the first zone.
pub const FRONT: u64 = 32;
/// Units that a block of the map covers.
pub const MAPPED: u64 = 8 * BODY as u64;

const _: () = assert!(ANCHORS < FRONT);
