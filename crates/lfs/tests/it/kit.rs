//! The engine kit's tests, at cuts of a simulated disk.

use enginekit::{names, snapshots, told, tree};

use crate::bench::settings;

/// The first failure in this many runs of the tree.
pub(crate) fn first_wrong(runs: u64) -> Option<String> {
    (1..=runs).find_map(|seed| {
        let setting = &settings()[seed as usize % 3];
        let run = tree::record(setting, seed, 40);
        let wrong = run.first_wrong(seed, 40, true)?;
        Some(format!("run {seed}: {wrong}"))
    })
}

/// `DURAMEN_RUNS` sets the number of runs.
#[test]
fn a_tree_survives() {
    let runs = std::env::var("DURAMEN_RUNS").ok().and_then(|text| text.parse().ok());
    assert_eq!(first_wrong(runs.unwrap_or(6)), None);
}

#[test]
fn what_a_listing_told_stays() {
    for seed in 1..=3 {
        assert_eq!(told::told_names_stay(&settings()[seed as usize % 3], seed), Ok(()));
    }
}

#[test]
fn names_lead_where_they_should() {
    for setting in settings() {
        assert_eq!(names::names_lead_to_their_files(&setting), Ok(()));
    }
}

#[test]
fn a_file_has_no_more_names_than_it_may() {
    assert_eq!(names::a_file_has_no_more_names_than_it_may(&settings()[0]), Ok(()));
}

#[test]
fn snapshots_hold_what_was_there() {
    for seed in 1..=6 {
        let setting = &settings()[seed as usize % 3];
        assert_eq!(snapshots::snapshots_hold(setting, seed), Ok(()), "run {seed}");
    }
}

#[test]
fn snapshots_that_were_told_survive() {
    for seed in 1..=6 {
        let setting = &settings()[seed as usize % 3];
        let stay = snapshots::told_snapshots_stay(setting, seed, 30);
        assert_eq!(stay, Ok(()), "run {seed}");
    }
}

#[test]
fn snapshots_hold_no_change_in_its_middle() {
    for seed in 1..=3 {
        let whole = snapshots::steps_are_held_whole(&settings()[seed as usize % 3], seed);
        assert_eq!(whole, Ok(()), "run {seed}");
    }
}
