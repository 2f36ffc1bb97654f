//! The table of designs of volumes.
//!
//! A *design* is an engine, the policy by which it orders its writes, and the disks that it needs.
//! [`DESIGNS`] has an entry for each design that a volume can have. An entry names the design and
//! its disks, has the functions that create, open, recover and check a volume, and describes the
//! possible results of a crash and the reply to a call that is repeated after a crash.
//!
//! Commands, tests and experiments take from an entry whatever depends on the design. A new design
//! is a new entry, and the crate of its engine.
//!
//! The types of an entry are the same for every engine: `Opened` is an open volume, `Found`
//! describes an inspected one, `Report` is the result of a check, `OpenError` says why a volume is
//! not open. A part that only one engine has, such as the counts of soft updates, is absent for
//! another.
//!
//! Layers, from the bottom: `errors`, `found`, `made`, `options` and `report` are the data types,
//! `opened` is an open volume, `design` has the parts of an entry, `table` finds entries by the
//! words of a command line, `of_ffs`,
//! `of_shadow` and `of_lfs` adapt these engines to the table, `entries`
//! has the existing entries.
//!
//! Architecture invariant: code that has an entry never asks for its name to decide what to do. An
//! engine that no volume can have, such as the one over memory, is not here: a crate that tests it
//! makes an entry, and a [`Table`], of its own.

mod design;
mod entries;
mod errors;
mod found;
mod made;
mod of_ffs;
mod of_lfs;
mod of_shadow;
mod opened;
mod options;
mod report;
mod table;

pub use design::{
    Check, Design, DiskRole, FindLost, HEAD_SIZE, IsBegun, Look, Make, NotePolicy, Open, Plan,
    Prepare, Recognise, Scrub, SetLabel, SetReserve, Work,
};
pub use entries::{DESIGNS, FFS_LOG, FFS_SOFTDEP, FFS_SYNC, LFS, SHADOW};
pub use errors::{CheckError, LookError, MkfsError, OpenError};
pub use ffs::check_log::LogUse;
pub use ffs::intents::RING_SIZE as INTENTS_SIZE;
pub use found::{Found, FoundUfs2};
pub use made::{Made, MkfsOptions};
pub use opened::{
    LfsStatus, LogStatistics, OpenEngine, Opened, Prepared, ReclaimState, Reclaimed, Renewed,
    Replayed, Scrubbing, ShadowStatus, SoftUpdatesCounts, Told,
};
pub use options::{CheckOptions, Disks, LogOptions, LogState, OpenOptions, SoftUpdatesOptions};
pub use report::{DataPlace, Finding, Findings, Place, Progress, Report, Rule, Severity};
pub use table::{Table, Unknown};
pub use vnode::scrub::{Lost, ScrubError, Scrubbed, Watch};
