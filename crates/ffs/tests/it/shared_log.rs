//! One log for several volumes.
//!
//! `DURAMEN_RUNS` sets the number of lives.

use crate::common::absent::{full_and_nowhere_to_save, saved_and_absent};
use crate::common::sharing::{large_file_that_goes, large_writes, life, one_that_stops};
use crate::common::strays::{
    alone_before, large_file_repaired_alone, named_with_its_copy, repaired_alone,
    replaced_by_a_copy,
};

#[test]
fn volumes_that_share_a_log_keep_what_they_told_over_many_boots() {
    let lives = std::env::var("DURAMEN_RUNS").map_or(6, |text| text.parse().expect("a number"));
    for seed in 1..=lives {
        life(seed).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn what_is_being_freed_is_known_at_any_moment_of_the_return() {
    for seed in 1..=2 {
        large_file_that_goes(seed).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn a_volume_that_stops_holds_up_nobody_and_comes_back() {
    for seed in 1..=3 {
        one_that_stops(seed).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn one_that_returns_with_what_was_saved_does_no_harm_to_another_that_is_absent() {
    for seed in 1..=2 {
        saved_and_absent(seed).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn one_that_was_brought_home_alone_comes_back_after_the_others_were_served_without_it() {
    repaired_alone().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn one_with_a_large_file_that_goes_is_not_brought_home_alone() {
    for seed in 1..=3 {
        large_file_repaired_alone(seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}

#[test]
fn one_that_had_the_log_alone_comes_back_after_another_was_served_with_it() {
    for seed in 1..=2 {
        alone_before(seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}

#[test]
fn a_volume_and_its_copy_are_both_refused_and_the_volume_comes_back() {
    named_with_its_copy().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn a_copy_that_lacks_what_the_log_has_no_more_is_refused() {
    replaced_by_a_copy().unwrap_or_else(|wrong| panic!("{wrong}"));
    #[cfg(feature = "planted-bugs")]
    assert!(crate::common::quiet::finds(ffs::planted::Bug::OldBearers, replaced_by_a_copy));
}

#[test]
fn a_log_that_is_full_is_begun_anew() {
    full_and_nowhere_to_save(1).unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn entries_that_wait_for_flushes_of_several_volumes_go_out_together() {
    let (entries, batches) = large_writes(1);
    println!("{entries} entries in {batches} batches");
    assert!(entries >= 5 * batches, "{entries} entries in {batches} batches");
}
