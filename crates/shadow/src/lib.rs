//! An engine that never overwrites what is needed.
//!
//! The whole volume is a tree of blocks that hangs from a superblock. A change is new blocks, from
//! the leaves up, and a superblock in the zone where they were written; the old ones stay until
//! that is durable. So all calls that wait become one update, with one barrier and no log, and an
//! update is there as a whole or not at all. The idea is that of the Acacia file server (Broom,
//! 1992).
//!
//! Layers, from the bottom:
//!
//! * [`format`]: the bytes of a volume. `space`: which units are free; `space_log`: what the map on
//!   the disk does not tell of that; `placement`, `in_order`: which of them are next where the arm
//!   of a disk can be followed. `nodes`: blocks of metadata in memory, as trees. `pins`: which
//!   snapshots there are, and what they hold; `numbers`: places of their lines and lists.
//! * `inode`, `update`, `work`: what is known of a file, and what one operation changes.
//! * `commit`, `chains`, `fold`, `room`, `slots`, `discards`: from memory to the disk. `books`:
//!   reading what these write of space and answers.
//! * `engine`, `waiting`, `content`, `apply`: room, planning and applying; `snapshots`, `rollback`:
//!   the same, of snapshots. `verbs`: the engine's face.
//! * [`mod@mkfs`], [`mod@open`], [`mod@look`], [`mod@check`]: making a volume, bringing it back,
//!   looking at what it says of itself, and at all of it. `anchors`: where it begins; `lost`: a
//!   volume without them.
//! * [`mod@repair`]: one update that makes right what can be; `new_root`: where the old is lost;
//!   `homeless`: names for what has lost its own; `dropped`: what leads to other blocks than it
//!   says.
//! * `copies`: blocks that stand twice; `mend`: other versions of a block; `held_trees`: whether a
//!   snapshot still holds it; `bits`: finding one that has flipped. [`mod@scrub`], `scrub_names`,
//!   `twins`: reading every block, naming what is lost, and mending; `seen`: what it has met;
//!   `scrubbing`, `callers`: how it gives way. `status`: what an open volume tells of itself.
//! * `compact`: emptying zones; `zones`, `emptying`: which; `owners`: whose what is in them is;
//!   `pace`, `compaction`: how fast, and what has been done.
//!
//! Commit point: `Commits::durable`, after the flush that follows an update's superblock.
//!
//! Architecture invariant: no protocol and no other engine; the device is bytes.

mod anchors;
mod apply;
mod belief;
mod bits;
mod books;
mod callers;
mod chains;
pub mod check;
mod commit;
mod compact;
mod compaction;
mod content;
mod copies;
mod discards;
mod dropped;
mod emptying;
mod engine;
mod error;
mod fold;
pub mod format;
mod fullness;
mod held_trees;
mod homeless;
mod in_order;
mod inode;
pub mod look;
mod lost;
mod mend;
pub mod mkfs;
mod new_root;
mod node;
mod nodes;
mod numbers;
pub mod open;
mod owners;
mod pace;
mod pieces;
mod pins;
mod placement;
#[doc(hidden)]
pub mod planted;
pub mod renew;
mod renewed;
mod repair;
mod rollback;
mod room;
mod runs;
pub mod scrub;
mod scrub_names;
mod scrubbing;
mod seen;
mod slots;
mod snapshots;
mod space;
mod space_log;
mod status;
mod twins;
mod update;
mod verbs;
mod waiting;
mod work;
mod zones;

pub use check::{Findings, Law, Wrong, check};
pub use commit::Counts;
pub use engine::Shadow;
pub use error::OpenError;
pub use look::{Seen, look, set_label, set_reserve};
pub use mkfs::{MkfsError, MkfsOptions, mkfs, plan};
pub use open::{OpenOptions, open};
pub use renewed::Renewed;
pub use repair::repair;
pub use scrub::scrub;
pub use status::Status;
