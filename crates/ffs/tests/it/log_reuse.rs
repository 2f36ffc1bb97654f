//! A metadata block becomes one of a file's data, or the reverse, while the log still has records
//! of it or a write to it is in flight.

use crate::common::reuse::{
    delays_over_new_directories, landing_over_new_data, replay_over_new_data,
};

#[test]
fn a_replay_does_not_come_over_data_in_freed_blocks() {
    replay_over_new_data().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn a_late_write_does_not_come_over_data_in_freed_blocks() {
    landing_over_new_data().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn delayed_data_does_not_come_over_directories_in_freed_blocks() {
    delays_over_new_directories().unwrap_or_else(|wrong| panic!("{wrong}"));
}
