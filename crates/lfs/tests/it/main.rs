//! Tests of the engine on simulated disks.

mod bench;
mod full;
mod kit;
