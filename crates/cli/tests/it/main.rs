//! The tests of this crate as one program, so that their common code is compiled and linked once.

mod bench;
mod browse;
mod common;
mod conformance;
mod control;
mod fsck;
mod hostile;
mod info;
mod kills;
mod leftovers;
mod logged;
mod lost_log;
mod lost_starts;
mod mkfs;
mod modes;
mod partitions;
mod repair;
mod repeated;
mod saved;
mod scrub;
mod serve;
mod sets;
mod shadow;
mod simulated;
mod snapshots;
mod words;
