//! The tests of this crate as one program: shared helpers are compiled and linked once.

#![cfg_attr(
    not(feature = "planted-bugs"),
    allow(dead_code, reason = "some scenarios are there for what is planted")
)]

mod answers;
mod check;
mod check_hard;
mod check_kept;
mod check_log;
mod check_odd;
mod churn;
mod climbs;
mod common;
mod cuts;
mod damage;
mod damaged;
mod disk_fuzz;
mod doubts;
mod ends;
mod faults;
mod freebsd_disk;
mod freebsd_tree;
mod full;
mod given_up;
mod golden_log;

mod goals;
mod intents;
mod label;
mod log_costs;
mod log_cuts;
mod log_entries;
mod log_reuse;
mod log_room;
mod log_scale;
mod looks;
mod many_chains;
mod memory;
mod misfit;
mod mkfs;
mod mutations;
mod overtaking;
mod pins;
#[cfg(feature = "planted-bugs")]
mod planted;
#[cfg(feature = "planted-bugs")]
mod planted_log;
mod protection;
mod readers;
mod reclaim;
mod reclaim_beside;
mod refused;
mod refused_steps;
mod rename;
mod returns;
mod ring_damage;
mod rounds;
mod rule_five;
mod scale;
mod settling;
mod shared_log;
mod soft_costs;
mod soft_stories;
mod soft_updates;
mod softdep;
mod softdep_counts;
mod steps;
mod stuck;
mod superblock;
mod tails;
mod tree_cuts;
mod unreadable;
mod write_behind;
mod writes;
mod zeros;
