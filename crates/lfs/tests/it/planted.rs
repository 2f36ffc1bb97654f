//! Planted bugs are found.

use std::panic::{AssertUnwindSafe, catch_unwind};

use enginekit::snapshots::{self, life};
use lfs::planted::{Bug, plant};

use crate::bench::settings;
use crate::cuts::first_wrong as first_wrong_at_cuts;
use crate::full::filled_and_emptied;
use crate::kit::back_over_shared_segments;

type Scenario = fn() -> Result<(), String>;

fn cuts() -> Result<(), String> {
    (1..=4).find_map(|seed| first_wrong_at_cuts(seed, 200, 60)).map_or(Ok(()), Err)
}

fn full() -> Result<(), String> {
    for (seed, setting) in (1..).zip(settings()) {
        filled_and_emptied(setting, seed);
    }
    Ok(())
}

fn rot() -> Result<(), String> {
    (1..=3).try_for_each(|seed| crate::rotten::first_wrong(seed, 1))
}

fn rot_beside_snapshots() -> Result<(), String> {
    crate::rotten::repaired_with_snapshots()
}

fn lives() -> Result<(), String> {
    (1..=3).try_for_each(|seed| life::they_come_and_go(&settings()[seed as usize % 3], seed, 2))
}

fn told() -> Result<(), String> {
    let stay = |seed| snapshots::told_snapshots_stay(&settings()[seed as usize % 3], seed, 60);
    (1..=6).try_for_each(stay)
}

/// Bugs, each with a scenario that finds it. `LostLink` and `UntaggedRegions` are in tests of their
/// own modules, and `duramen-torture` finds `ForgottenAnswers`.
const FOUND: &[(Bug, Scenario)] = &[
    (Bug::UnheldDeaths, lives),
    (Bug::UnlistedOld, lives),
    (Bug::OpenRows, back_over_shared_segments),
    (Bug::SplitRows, back_over_shared_segments),
    (Bug::EarlyTold, told),
    (Bug::LoneRegions, rot),
    (Bug::EarlierLines, rot),
    (Bug::ForgottenDeaths, rot_beside_snapshots),
    (Bug::WrongRank, full),
    (Bug::EarlyReuse, cuts),
    (Bug::UncomparedBlocks, cuts),
    (Bug::NoBarrier, cuts),
    (Bug::EarlyRegion, cuts),
    (Bug::UnreadEdits, cuts),
    (Bug::UnreadFrees, cuts),
    (Bug::UnheldMoves, full),
];

#[test]
fn planted_bugs_are_found() {
    std::panic::set_hook(Box::new(|_| ())); // a panic is a finding
    let mut missed = Vec::new();
    for &(bug, scenario) in FOUND {
        plant(Some(bug));
        let found = catch_unwind(AssertUnwindSafe(scenario));
        plant(None);
        if matches!(found, Ok(Ok(()))) {
            missed.push(bug);
        }
    }
    cow::planted::plant(Some(cow::planted::Bug::KeptPointers));
    let kept = catch_unwind(AssertUnwindSafe(rot));
    cow::planted::plant(None);
    let _ = std::panic::take_hook();
    assert_eq!(missed, [], "they are not found");
    assert!(!matches!(kept, Ok(Ok(()))), "KeptPointers");
}
