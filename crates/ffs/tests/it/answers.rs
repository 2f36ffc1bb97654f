//! Under policy `log` a call is remembered together with its changes: after a cut, both are there
//! or neither.

use crate::common::calls::{forgotten_calls, long_file_cut_short, record, repetitions};

#[test]
fn what_was_carried_out_is_remembered_and_nothing_else() {
    for seed in 1..=3 {
        record(seed).first_wrong(150).unwrap_or_else(|wrong| panic!("run {seed}: {wrong}"));
    }
}

#[test]
fn a_call_that_takes_many_steps_is_remembered_from_the_first() {
    long_file_cut_short(1).unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn what_its_caller_forgets_the_log_forgets() {
    forgotten_calls().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn repetitions_are_counted_for_good() {
    repetitions().unwrap_or_else(|wrong| panic!("{wrong}"));
}
