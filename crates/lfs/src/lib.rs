//! The engine `lfs`: the log is the disk.
//!
//! Everything is written at the end of a log, in segments, and nothing in place. A change that a
//! client waits for is one summary, side by side with its data: one write. Blocks of metadata stay
//! in memory, and a *checkpoint* writes them from time to time; a start after a cut takes the last
//! checkpoint and applies the summaries since. A *cleaner* gathers what is in use of old segments,
//! so that there are always empty ones.
//!
//! Blocks have *names*, not places: an address is a row of a table, and an index there. The cleaner
//! moves a row and changes its line: no inode, no pointer and no checksum changes.
//!
//! Layers, from the bottom:
//!
//! * [`format`]: the bytes of a volume.
//! * `rows`: the table and the segments in memory. `logical`: the device by addresses.
//! * [`found`](look): the root of a volume. `recover`: the chain of summaries.
//! * `log`: batches of changes. `room`: who may take how much. `deaths`, `lists`: the blocks that
//!   snapshots alone hold. `checkpoint`, `cleaner`.
//! * `engine`, `snapshots`, `work`: the verbs. `mkfs`, `open`, `look`, `check`, `repair`.
//!
//! Invariants:
//! 1. A reply waits until the summary with its change is on stable storage, and all before it.
//! 2. A block to which the last durable checkpoint leads, or the chain behind it, is not
//!    overwritten.
//! 3. After a cut, a start serves all changes up to some summary, and none behind it.
//!
//! Not asserted: 1, which the horizon decides; 2, which `rows` asserts for segments; 3, which cuts
//! test.
//!
//! Commit point: the end of the write, or of the flush, of a batch: `Log::durable`.
//!
//! Architecture invariant: nothing of other engines; what it shares with them is in `cow`.

mod check;

mod checkpoint;
mod cleaner;
mod deaths;
mod engine;
mod error;
pub mod format;
mod found;
mod lists;
mod log;
mod logical;
mod look;
mod mkfs;
mod open;
#[doc(hidden)]
pub mod planted;
mod recover;
mod repair;
mod room;
mod rows;
mod snapshots;
mod work;

pub use check::{Checked, Law, Wrong, check};

pub use engine::{Lfs, RolledForward, Status};
pub use error::{MkfsError, OpenError};
pub use log::Totals;
pub use look::{Seen, look, set_label, set_reserve};
pub use mkfs::{MkfsOptions, mkfs, plan};
pub use open::{OpenOptions, open};
pub use repair::repair;
