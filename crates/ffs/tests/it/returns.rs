//! Interrupted recoveries from the log, after: an unfinished clean stop, a replay without a
//! subsequent start, a kill, another recovery.

use journal::format::SEGMENT;

use crate::common::cutting::cuts;
use crate::common::extremes::{chain_that_begins_anew, filled_again_and_again, large_removal};
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

#[test]
fn a_chain_that_begins_anew_in_a_torn_batch_goes_on() {
    let torn = chain_that_begins_anew(cuts(12)).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(torn > 0, "no such batch was torn");
}

#[test]
fn a_log_at_its_fullest_is_opened_again_and_again() {
    let live = filled_again_and_again(5).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(live > 9 * SEGMENT, "{live} bytes are no full log");
}

#[test]
fn what_a_removal_gives_back_is_kept_by_runs() {
    let replayed = large_removal(128 << 20).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(replayed.revoked_runs > 0 && replayed.revoked_runs <= replayed.records, "{replayed:?}");
    assert!(replayed.revoked_runs < 1000, "of 262,144 fragments: {replayed:?}");
}
