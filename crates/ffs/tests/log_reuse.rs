//! A block that held metadata becomes one of a file's data, while the log still tells of it or a
//! write is still on its way there.

mod common;

use common::reuse::{landing_over_new_data, replay_over_new_data};

#[test]
fn a_replay_does_not_come_over_data_in_freed_blocks() {
    replay_over_new_data().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn a_late_write_does_not_come_over_data_in_freed_blocks() {
    landing_over_new_data().unwrap_or_else(|wrong| panic!("{wrong}"));
}
