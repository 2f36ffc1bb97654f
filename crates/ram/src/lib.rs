//! An engine over memory, which shows what every engine needs and nothing else.
//!
//! It has no format. A cut leaves a [`Platter`]: files as the durable Updates made them. An Update
//! becomes durable after a random delay, and not before those that it depends on: out of order,
//! where there is no dependency. So it is the strictest test of which reply waits for which Update,
//! and the model that the next engine starts from.
//!
//! Layers, from the bottom:
//!
//! * `inode`: metadata of a file. `record`: changes of an Update on the platter. `held`: contents
//!   of snapshots.
//! * [`disk`]: the platter, the pending Updates, and their dependencies.
//! * `body`: files as every reader sees them. `update`: the changes of one operation.
//! * `engine`: the verbs.
//!
//! Commit point: `Disk::pass`, where the records of an Update reach the platter and the horizon
//! passes it.
//!
//! Architecture invariant: no device, no format and no clock that was not handed in.

mod body;
mod check;
pub mod disk;
mod engine;
mod held;
mod inode;
#[doc(hidden)]
pub mod planted;
mod record;
mod update;

pub use disk::{Cut, Disk, Platter};
pub use engine::{Ram, RamOptions, open};
