//! FFS on disks in the UFS2 format of FreeBSD.
//!
//! Layers, from the bottom:
//!
//! * `edit`, `buffer` and `home`: metadata blocks in memory, each the current image plus the deltas
//!   that are not durable yet, and the device below them.
//! * `item`: one change, and what it means. `alloc`: fragments and inodes, which it promises.
//!   `inode`: what the disk says of a file in memory.
//! * `update`: everything that one operation changes, gathered. `map`: block pointers.
//! * [`policy`]: when a delta may reach the platter. The one thing in which the crash-consistency
//!   designs differ.
//! * `engine`: what the engine is made of, and the one place where an Update is applied.
//! * `inodes`, `chunks`, `content`, `shrink`, `closing`: what a file has on the disk. `verbs`: them
//!   in the words of [`vnode::Engine`].
//! * `leftovers`: what a cut may have left, and `reclaim`, which looks for it while the volume is
//!   served.
//! * `recovery`, [`replay`], [`logged`] and [`mount`]: opening, and coming back after a cut.
//!   [`check_log`] and [`check_intents`]: what becomes of the log, or of the ring of intents, of a
//!   volume that is checked.
//!
//! The format is the crate `ufs2`, its checker `fsck`, names in chunks are `directory`, and what is
//! kept of the disk, with the way of data to it and back, `cache`. Files in memory, their pages and
//! names, are `vnode`.
//!
//! The contract is that of [`vnode::Engine`]: the verbs plan, `apply` applies, a receipt tells when
//! it is on stable storage. The commit point is the policy's; see [`policy::sync`],
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
