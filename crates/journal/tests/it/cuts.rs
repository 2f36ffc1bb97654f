//! The power is cut at every event, in every interesting way; the entries found then are a prefix
//! of those placed and contain everything that was acknowledged.

use journal::format::UNIT;

use crate::common::script::{Script, scripts};

fn explore(script: &Script) {
    let disks = script.explore().unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{disks} different disks");
    assert!(disks > 20, "cuts leave different disks");
}

#[test]
fn batches_are_there_or_not() {
    explore(&scripts::batches());
}

#[test]
fn a_closing_circle_loses_nothing() {
    explore(&scripts::closing_circle());
}

#[test]
fn a_head_that_is_noted_holds_nothing_back() {
    explore(&scripts::noted_heads());
}

#[test]
fn a_head_is_noted_while_entries_are_written() {
    explore(&scripts::heads_beside_batches());
}

#[test]
fn the_epoch_changes_at_one_moment() {
    explore(&scripts::changing_epoch());
}

#[test]
fn a_return_may_be_cut_again_and_again() {
    explore(&scripts::many_returns());
}

#[test]
fn a_new_epoch_may_begin_where_the_old_one_did() {
    explore(&scripts::return_at_the_start());
}

#[test]
fn an_epoch_whose_beginning_was_overwritten_is_found() {
    explore(&scripts::return_over_the_start());
}

#[test]
fn a_head_that_a_batch_moves_is_named_when_the_batch_is_durable() {
    explore(&scripts::moved_heads());
}

#[test]
fn where_nothing_is_needed_the_head_is_an_entry() {
    explore(&scripts::nothing_needed());
}

#[test]
fn a_full_log_is_kept_until_the_volume_bears_the_next_epoch() {
    let script = scripts::return_to_a_full_log();
    explore(&script);
    let room = script.journal.capacity() - script.journal.room_for(60_000);
    assert!(script.journal.tail() * UNIT > room, "all of it was written");
}

#[test]
fn a_clean_stop_leaves_nothing() {
    explore(&scripts::clean_stops());
}
