//! One log for several volumes.
//!
//! `DURAMEN_LIVES` says how many lives are led.

mod common;

use common::sharing::{large_file_that_goes, life, one_that_stops};

#[test]
fn volumes_that_share_a_log_keep_what_they_told_over_many_boots() {
    let lives = std::env::var("DURAMEN_LIVES").map_or(6, |text| text.parse().expect("a number"));
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
