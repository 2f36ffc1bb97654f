//! FFS on disks in the UFS2 format of FreeBSD.
//!
//! Layers, from the bottom:
//!
//! * `edit`, `buffer` and `home`: metadata blocks in memory, each the current image plus the deltas
//!   that are not durable yet, and the device below them.
//! * `item`: one change and its meaning. `alloc`: fragments and inodes, which it promises. `inode`:
//!   the on-disk inode of a file in memory.
//! * `update`: everything that one operation changes, gathered. `map`: block pointers.
//! * [`policy`]: when a delta may reach the platter. The crash-consistency designs differ in this
//!   alone.
//! * `engine`: the parts of the engine, and the one place where an Update is applied.
//! * `inodes`, `chunks`, `content`, `shrink`, `closing`: the parts of a file on the disk. `verbs`:
//!   the implementation of [`vnode::Engine`] on top of them.
//! * `leftovers`: blocks, inodes and links that a crash may have leaked. `reclaim`: the task that
//!   looks for them while the volume is served.
//! * `recovery`, [`replay`], [`logged`] and [`mount`]: opening a volume, and recovery after a
//!   crash. [`check_log`] and [`check_intents`]: the log, and the ring of intents, of a volume that
//!   is being checked.
//!
//! The format is the crate `ufs2`, its checker `fsck`; names in chunks are `directory`. The caches,
//! and the path of data to the disk and back, are `cache`. Files in memory, their pages and names,
//! are `vnode`.
//!
//! The contract is that of [`vnode::Engine`]: the verbs plan, `apply` applies, and a receipt says
//! when the change is on stable storage. The commit point is the policy's; see [`policy::sync`],
//! [`policy::softdep`] and [`policy::log`].
//!
//! Architecture invariant: no clock, randomness, task or device that was not handed in.

mod alloc;
mod buffer;
pub mod check_intents;
pub mod check_log;
mod chunks;
mod closing;
mod content;
mod edit;
mod engine;
mod home;
mod inode;
mod inodes;
pub mod intents;
mod item;
mod judge;
pub mod label;
mod leftovers;
pub mod logged;
mod map;
pub mod mount;
mod open_error;
mod open_superblock;
#[doc(hidden)]
pub mod planted;
pub mod policy;
mod recent_blocks;
mod reclaim;
mod recovery;
pub mod replay;
mod revoked;
mod shrink;
pub mod soft_flag;
mod span;
mod update;
mod verbs;

pub use engine::Ffs;
pub use leftovers::{ReclaimState, Reclaimed};
pub use logged::{LogUse, open_sharing, replay_log};
pub use mount::{Disks, open};
pub use open_error::{OpenError, ReadOnlyReason};
pub use recovery::{Files, OpenOptions, Opened};
pub use ufs2::mark::PolicyKind;
