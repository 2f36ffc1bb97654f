//! A return from the log that is cut itself, whatever came before it: a clean stop that was not
//! finished, a replay that nobody went on from, a kill, another return.

use crate::common::cutting::cuts;
use crate::common::returns::{
    answers_at_the_end_of_the_circle, clean_stop_that_is_cut, kill_and_then_a_cut,
    replay_that_nobody_goes_on_from, two_answers_of_a_call,
};

#[test]
fn a_clean_stop_that_is_cut_keeps_data_and_answers() {
    clean_stop_that_is_cut().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn a_log_that_was_brought_home_is_not_replayed_again() {
    replay_that_nobody_goes_on_from().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn what_a_killed_server_left_in_caches_is_made_durable_before_it_is_believed() {
    for seed in 1..=cuts(6) {
        kill_and_then_a_cut(seed).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn of_two_answers_of_a_long_call_the_last_stays() {
    two_answers_of_a_call().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn all_answers_come_over_a_return_that_is_cut_twice() {
    let answers = answers_at_the_end_of_the_circle(cuts(30));
    assert!(answers.unwrap_or_else(|wrong| panic!("{wrong}")) > 1000);
}
