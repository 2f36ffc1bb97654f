//! FFS on disks in the UFS2 format of FreeBSD.
//!
//! Layers, from the bottom:
//!
//! * `edit`, `buffer` and `home`: metadata blocks in memory, each the current image plus the deltas
//!   that are not durable yet, and the device below them.
//! * [`policy`]: when a delta may reach the platter. The one thing in which the crash-consistency
//!   designs differ.
//! * `alloc`, `map`, `pages`: fragments and inodes, block pointers, data on its way.
//! * `update` and `engine`: everything that one operation changes, gathered, then applied at once.
//! * `nodes`: the files in memory, and which of them go when memory is short. `glimpse`: what is
//!   told of a file that nobody keeps.
//! * `data`, `size`, `directory`, `store`: the verbs that the namespace asks for.
//! * [`mount`] and [`replay`]: opening, stopping, and coming back after a cut. [`check_log`]: what
//!   becomes of the log of a volume that is checked.
//!
//! The format is the crate `ufs2`, its checker `fsck`, names in chunks are `directory`, and what is
//! kept of the disk, with the way of data to it and back, `cache`.
//!
//! The contract is that of [`namespace::Store`]: the verbs plan, `commit` applies, a receipt tells
//! when it is on stable storage. The commit point is the policy's; see [`policy::sync`] and
//! [`policy::log`].
//!
//! Architecture invariant: no clock, randomness, task or device that was not handed in.

mod alloc;
mod buffer;
pub mod check_log;
mod data;
mod directory;
mod edit;
mod engine;
mod glimpse;
mod home;
mod inode;
pub mod label;
pub mod logged;
mod map;
pub mod mount;
mod nodes;
mod pages;
#[doc(hidden)]
pub mod planted;
pub mod policy;
pub mod replay;
mod revoked;
mod size;
mod span;
mod store;
mod update;

pub use engine::Ffs;
pub use logged::{LogUse, open_sharing, replay_log};
pub use mount::{OpenError, OpenOptions, Opened, ReadOnlyReason, open, open_with_log};
