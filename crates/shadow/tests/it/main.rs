//! Tests of the engine on simulated disks.

mod answers;
mod bench;
mod costs;
mod faults;
mod held;
mod kit;
mod overwrites;
#[cfg(feature = "planted-bugs")]
mod planted;
mod rest;
mod snapshots;
mod steps;
