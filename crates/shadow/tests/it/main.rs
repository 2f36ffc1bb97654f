//! Tests of the engine on simulated disks.

mod answers;
mod bench;
mod compaction;
mod costs;
mod discards;
mod faults;
mod forge;
mod held;
mod judged;
mod kit;
mod mended;
mod overwrites;
mod pacing;
#[cfg(feature = "planted-bugs")]
mod planted;
mod repair;
mod rest;
mod scrub;
mod snapshots;
mod steps;
mod turns;
