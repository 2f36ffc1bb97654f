//! FFS on disks in the UFS2 format of FreeBSD.
//!
//! Layers, from the bottom:
//!
//! * [`layout`] alone knows bytes; [`mod@derive`] computes what follows from maps; [`mkfs`] makes
//!   disks.
//! * `edit`, `buffer` and `home`: metadata blocks in memory, each the current image plus the deltas
//!   that are not durable yet, and the device below them.
//! * [`policy`]: when a delta may reach the platter. The one thing in which the crash-consistency
//!   designs differ.
//! * `alloc`, `map`, `dir` and `dir_index`, `slots`, `pages`: fragments and inodes, block pointers,
//!   directory chunks and where names stand in them, data on its way.
//! * `update` and `engine`: everything that one operation changes, gathered, then applied at once.
//! * `nodes`: the files in memory, and which of them go when memory is short. `glimpse`: what is
//!   told of a file that nobody keeps.
//! * `data_cache`: data as it is on the disk, which may be read again. `delayed`: data that the log
//!   has, on its way to its place. `runs`: neighbours, to be written at once.
//! * `data`, `size`, `directory`, `store`: the verbs that the namespace asks for.
//! * [`mount`], [`replay`] and [`check`]: opening, stopping, coming back after a cut, and repairing
//!   damage. [`check_log`]: what becomes of the log of a volume that is checked.
//!
//! The contract is that of [`namespace::Store`]: the verbs plan, `commit` applies, a receipt tells
//! when it is on stable storage. The commit point is the policy's; see [`policy::sync`] and
//! [`policy::log`].
//!
//! Architecture invariant: no clock, randomness, task or device that was not handed in.

mod alloc;
mod buffer;
pub mod check;
pub mod check_log;
mod data;
mod data_cache;
mod delayed;
mod dir;
mod dir_index;
mod directory;
mod edit;
mod engine;
#[doc(hidden)]
pub mod fuzzing;
mod glimpse;
mod home;
mod inode;
pub mod label;
pub mod logged;
mod map;
pub mod mount;
mod nodes;
mod numbers;
mod pages;
#[doc(hidden)]
pub mod planted;
pub mod policy;
pub mod replay;
mod revoked;
mod runs;
mod size;
mod slots;
mod span;
mod store;
mod update;

pub use engine::Ffs;
pub use logged::{LogUse, open_sharing, replay_log};
pub use mount::{OpenError, OpenOptions, Opened, ReadOnlyReason, open, open_with_log};
