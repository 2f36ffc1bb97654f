//! An engine that never overwrites a block that is still needed.
//!
//! The whole volume is a tree of blocks below a superblock. A change is new blocks, from the leaves
//! up, and a superblock in the zone where they were written; the old blocks stay until that
//! superblock is durable. So all waiting calls become one update, with one barrier and no log, and
//! an update is there as a whole or not at all. The idea is that of the Acacia file server (Broom,
//! 1992).
//!
//! Blocks of metadata, in memory as trees, snapshots, and files over them are in [`cow`]. Layers
//! over that, from the bottom:
//!
//! * [`format`]: the bytes of a volume, apart from blocks of trees. `units`: addresses. `space`:
//!   free units; `space_log`: changes of the space map that are not in the map yet; `placement`,
//!   `in_order`: choice of free units on a disk whose arm position is known.
//! * `work`: the work of one operation on snapshots. `layout`: this engine's part in files.
//! * `commit`, `fold`, `room`, `slots`, `discards`: from memory to the disk. `books`:
//!   reading the space map and the replies back.
//! * `engine`: the parts of an open volume. `snapshots`, `rollback`: planning and applying changes
//!   of snapshots. `verbs`: the engine's interface.
//! * [`mod@mkfs`], [`mod@open`], [`mod@look`], [`mod@check`]: making a volume, opening it, probing
//!   it, and checking all of it. `anchors`: finding where it begins; `lost`: opening a volume
//!   without anchors.
//! * [`mod@repair`]: one update that repairs what it can; `new_root`: a root directory where the
//!   old one is lost.
//! * `copies`: places for blocks with two copies; `mend`: mending the newest update.
//!   [`mod@scrub`], `scrub_again`, `scrub_names`, `twins`: reading every block, trying again,
//!   naming damaged files, and mending; `scrubbing`, `callers`: how a scrub gives way. `status`:
//!   statistics of an open volume.
//! * `compact`: emptying zones; `zones`, `emptying`: choosing them; `owners`: the owners of their
//!   blocks; `pace`, `compaction`: its throttle and its progress.
//!
//! Commit point: `Commits::durable`, after the flush that follows an update's superblock.
//!
//! Architecture invariant: no protocol and no other engine; the device is bytes.

mod anchors;
mod belief;
mod books;
mod callers;
pub mod check;
mod commit;
mod compact;
mod compaction;
mod copies;
mod discards;
mod emptying;
mod engine;
mod error;
mod fold;
pub mod format;
mod fullness;
mod in_order;
mod layout;
pub mod look;
mod lost;
mod mend;
pub mod mkfs;
mod new_root;
pub mod open;
mod owners;
mod pace;
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
mod scrub_again;
mod scrub_names;
mod scrubbing;
mod slots;
mod snapshots;
mod space;
mod space_log;
mod status;
mod twins;
mod units;
mod verbs;
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
