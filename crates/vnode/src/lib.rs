//! Files in memory, once for all engines.
//!
//! The namespace has the rules of NFS and asks a [`namespace::Store`] for verbs; an [`Engine`] has
//! disks and a format. Between them stands [`Files`]: it implements the verbs once, over whatever
//! engine there is. It keeps the files that are in use, their UNSTABLE data and their names, and
//! knows which change a reply has to wait for.
//!
//! Layers, from the bottom:
//!
//! * [`horizon`]: how far a volume is durable. [`chain`]: changes that take several Updates.
//!   `pages`, `reading`, `scans`: the state of one file.
//! * `vnode`: a file in memory. `table`: all of them. `held`: those of snapshots. `doubts`: data
//!   whose write failed.
//! * `answer`: the bytes of a reply that is kept with its change.
//! * `engine`: the verbs of an engine. `change`: an Update, and the changes to files that follow.
//! * `scrub`: the result of a scrub.
//! * `files`: the one place where a change is applied.
//! * `data`, `names`, `second_names`, `lost_names`, `resize`, `snapshots`, `housekeeping`: the
//!   verbs. `store`: them in the namespace's words. `repair`, `relocate`: repairs and moves that an
//!   engine makes by itself while it is served.
//!
//! Commit point: the engine's, where it advances its [`Horizon`](horizon::Horizon). A change is
//! applied before, and every reply that shows it waits.
//!
//! Architecture invariant: no format, no device and no policy. Nothing here says how a change
//! becomes durable, or what lies where.

#![expect(async_fn_in_trait, reason = "engines live on one thread; no future here is sent")]

pub mod answer;
pub mod chain;
mod change;
mod data;
mod doubts;
mod engine;
mod files;
mod held;
pub mod horizon;
mod housekeeping;
mod lost_names;
mod names;
mod pages;
#[doc(hidden)]
pub mod planted;
mod reading;
mod relocate;
mod repair;
mod resize;
mod scans;
pub mod scrub;
mod second_names;
mod snapshots;
mod store;
mod table;
mod vnode;

pub use change::{Change, Ready};
pub use engine::{
    Chunk, Engine, EntryChange, File, Limits, Manner, NameChange, Plan, SnapshotChange, Space,
};
pub use files::{Files, FilesOptions};
pub use held::FoundSnapshots;
pub use housekeeping::{REFUSED_LOOK, REFUSED_MOST};
pub use pages::{Content, Place};
pub use repair::Dropped;
pub use vnode::{Facts, Vnode, Volatile};
