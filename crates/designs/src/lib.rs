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
//! What an entry takes and gives is the same for every engine: `Opened` is a volume that is open,
//! `Found` one that is looked at, `Report` what a check tells, `OpenError` why nothing is open. A
//! part that only one engine has, counts of soft updates for one, is absent where another tells.
//!
//! Layers, from the bottom: `errors`, `found`, `made`, `options` and `report` are told and tell,
//! `opened` is what is open, `design` is what an entry consists of, `table` looks entries up by the
//! words of a command line, `of_ffs` and `of_shadow` put these engines into the words of the table,
//! `entries` are those that exist.
//!
//! Architecture invariant: code that has an entry never asks for its name to decide what to do. An
//! engine that no volume can have, that over memory for one, is not here: a crate that tries it
//! makes an entry, and a [`Table`], of its own.

mod design;
mod entries;
mod errors;
mod found;
mod made;
mod of_ffs;
mod of_shadow;
mod opened;
mod options;
mod report;
mod table;

pub use design::{
    Check, Design, DiskRole, FindLost, HEAD_SIZE, IsBegun, Look, Make, NotePolicy, Open, Plan,
    Prepare, Recognise, Scrub, SetLabel, SetReserve, Work,
};
pub use entries::{DESIGNS, FFS_LOG, FFS_SOFTDEP, FFS_SYNC, SHADOW};
pub use errors::{CheckError, LookError, MkfsError, OpenError};
pub use ffs::check_log::LogUse;
pub use ffs::intents::RING_SIZE as INTENTS_SIZE;
pub use found::{Found, FoundUfs2};
pub use made::{Made, MkfsOptions};
pub use opened::{
    LogStatistics, OpenEngine, Opened, Prepared, ReclaimState, Reclaimed, Renewed, Replayed,
    Scrubbing, ShadowStatus, SoftUpdatesCounts, Told,
};
pub use options::{CheckOptions, Disks, LogOptions, LogState, OpenOptions, SoftUpdatesOptions};
pub use report::{DataPlace, Finding, Findings, Place, Progress, Report, Rule, Severity};
pub use table::{Table, Unknown};
pub use vnode::scrub::{Lost, ScrubError, Scrubbed, Watch};
