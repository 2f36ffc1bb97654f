//! Tests of the engine on simulated disks.

mod bench;
mod cuts;
mod full;
mod kit;
#[cfg(feature = "planted-bugs")]
mod planted;
mod rotten;
