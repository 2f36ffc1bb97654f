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
mod repair;
mod rest;
mod scrub;
mod snapshots;
mod steps;
mod turns;
