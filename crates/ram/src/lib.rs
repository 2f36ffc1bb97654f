//! An engine over memory, which shows what every engine needs and nothing else.
//!
//! It has no format. What a cut leaves is a [`Platter`]: files as the Updates that are durable made
//! them. An Update becomes durable after a while of its own, and not before those that it rests on:
//! out of order, where nothing depends. So it is the harshest judge of which reply waits for what,
//! and the model that the next engine starts from.
//!
//! Layers, from the bottom:
//!
//! * `inode`: what is known of a file. `record`: what an Update leaves of one. `held`: what
//!   snapshots hold.
//! * [`disk`]: the platter, the Updates that are on their way to it, and what rests on what.
//! * `body`: files as every reader sees them. `update`: what one operation changes.
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
