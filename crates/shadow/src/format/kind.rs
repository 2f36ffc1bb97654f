//! Kinds of blocks that this engine has, in addition to those of [`cow`].

use cow::Kind;

/// The volume's parameters, and the zones in which its superblocks may be.
pub const ANCHOR: Kind = Kind(1);
/// The root of everything else.
pub const SUPERBLOCK: Kind = Kind(2);
/// Units that an update took and freed, and its replies.
pub const RECORD: Kind = Kind(3);
/// The units in use.
pub const MAP: Kind = Kind(7);
/// A volume is being made: the disk has none yet.
pub const BEGUN: Kind = Kind(9);
/// Changes of units that are not in the map yet.
pub const LOG: Kind = Kind(13);
