//! What every engine has to pass.
//!
//! An engine shows itself to the kit as a [`Bench`]: how a volume is made and opened, how the power
//! is cut, and what judges what is left. The kit brings actors that work on a volume and know what
//! has to be there afterwards, whatever the engine.
//!
//! Layers, from the bottom:
//!
//! * [`random`]: chance from a seed. [`volume`]: the verbs of a volume in few words, and an actor
//!   with a directory of its own.
//! * [`bench`]: what an engine brings.
//! * [`tree`]: several actors on one tree, cut at random moments. [`names`]: names that lead where
//!   they should. [`told`]: what was told, and stays. [`snapshots`]: what was there, for an engine
//!   that has them.
//!
//! Architecture invariant: it knows no engine, no format and no disk. Only tests need it.

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
