//! Tests of the engine on simulated disks.

mod answers;
mod bench;
mod faults;
mod kit;
mod overwrites;
#[cfg(feature = "planted-bugs")]
mod planted;
mod rest;
mod snapshots;
mod steps;
