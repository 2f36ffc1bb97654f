//! Tests that every engine must pass.
//!
//! An engine implements [`Bench`] for the kit: how a volume is made and opened, how the power is
//! cut, and how the result is judged. The kit has actors that work on a volume and know its
//! expected state, whatever the engine.
//!
//! Layers, from the bottom:
//!
//! * [`random`]: random numbers from a seed. [`volume`]: compact verbs of a volume, and an actor
//!   with a directory of its own.
//! * [`bench`]: the interface that an engine implements.
//! * [`tree`]: several actors on one tree, cut at random moments. [`names`]: lookups of names.
//!   [`told`]: answers about the state of files, which must stay true. [`snapshots`]: contents of
//!   snapshots, for an engine that has them.
//!
//! Architecture invariant: it knows no engine, no format and no disk. Only tests use it.

#![expect(async_fn_in_trait, reason = "engines live on one thread; no future here is sent")]

pub mod bench;
pub mod names;
pub mod random;
pub mod snapshots;
pub mod told;
pub mod tree;
pub mod volume;

pub use bench::Bench;
pub use volume::Volume;
