//! The table of designs: what there is to make a volume of.
//!
//! A *design* is an engine, the policy by which it orders its writes, and the disks that it needs.
//! [`DESIGNS`] has an entry for each that a volume can have. An entry says what the design is
//! called, what its disks are, how a volume of it is made, opened, brought back and checked, what a
//! crash may leave of it, and what a call is told that is repeated over a crash.
//!
//! Commands, tests and experiments look there, and ask an entry for what they have to know. A new
//! design is a new entry, and the crate of its engine.
//!
//! Layers, from the bottom: `design` is what an entry consists of, `table` looks entries up by the
//! words of a command line, `entries` are those that exist.
//!
//! Architecture invariant: code that has an entry never asks for its name to decide what to do. An
//! engine that no volume can have, that over memory for one, is not here: a crate that tries it
//! makes an entry, and a [`Table`], of its own.

mod design;
mod entries;
mod table;

pub use design::{Check, Design, DiskRole, Make, Open, Prepare, SetLabel, Work};
pub use entries::{DESIGNS, FFS_LOG, FFS_SOFTDEP, FFS_SYNC};
pub use ffs::check_log::{LogUse, Prepared};
pub use ffs::policy::SoftUpdatesCounts;
pub use ffs::policy::softdep::SoftUpdatesOptions;
pub use ffs::soft_flag;
pub use ffs::{Disks, Files, OpenError, OpenOptions, Opened, ReclaimState, Reclaimed};
pub use table::{Table, Unknown};
