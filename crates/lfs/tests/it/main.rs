//! Tests of the engine on simulated disks.

mod bench;
mod kit;
