//! Tests of the engine on simulated disks.

mod answers;
mod bench;
mod faults;
mod kit;
#[cfg(feature = "planted-bugs")]
mod planted;
mod steps;
