//! A broken rule of the log is detected: each planted bug is found by some cut of a few runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ffs::planted::Bug;
use sim::Honesty;

use crate::common::behind::landings_that_wait;
use crate::common::bugs::{Planted, plant, unplant};
use crate::common::calls;
use crate::common::chains::{repair_without_a_log, repairs_that_are_cut, stop_in_the_middle};
use crate::common::cutting::sizes;
use crate::common::extremes::{chain_that_begins_anew, filled_again_and_again};
use crate::common::returns::{
    answers_at_the_end_of_the_circle, clean_stop_that_is_cut, kill_and_then_a_cut,
    replay_that_nobody_goes_on_from, two_answers_of_a_call,
};
use crate::common::reuse::{
    delays_over_new_directories, landing_over_new_data, replay_over_new_data,
};
use crate::common::sharing;
use crate::common::together::{
    large_file_that_goes, large_file_that_goes_slowly, large_write_over_a_delayed_one,
    large_write_over_a_small_one, large_writes_side_by_side,
};
use crate::common::tree::{Setting, record};

/// The smallest log: it wraps around many times.
const LOG: u64 = journal::format::SMALLEST;

/// Looks for a bug in recording with it, and in recovering with it.
fn is_found(planted: Planted, runs: u64) -> bool {
    let setting = Setting {
        options: sizes(4096, 512),
        size: 16 << 20,
        steps: 40,
        honesty: Honesty::Honest,
        log: LOG,
    };
    for seed in 1..=runs {
        plant(planted);
        let wrong = catch_unwind(AssertUnwindSafe(|| {
            let run = record(seed, &setting);
            run.first_wrong(seed, 150, false)
        }));
        unplant();
        match wrong {
            Ok(None) => {}
            Ok(Some(wrong)) => {
                println!("{planted:?} in run {seed}: {wrong}");
                return true;
            }
            Err(_) => {
                println!("{planted:?} in run {seed}: an assertion of the engine");
                return true;
            }
        }
    }
    false
}

#[test]
fn broken_rules_of_the_policy_are_found() {
    let bugs = [
        Bug::UnloggedBits,
        Bug::EarlyEntries,
        Bug::EarlyHolds,
        Bug::UnloggedHome,
        Bug::ReplayBackwards,
        Bug::EarlyEpoch,
        Bug::EagerHead,
        Bug::StaleRows,
        Bug::EarlyReuse,
        Bug::UnlandedDelays,
    ];
    for bug in bugs {
        assert!(is_found(Planted::Ffs(bug), 12), "{bug:?} is not found");
    }
}

#[test]
fn broken_rules_of_the_log_are_found() {
    use journal::Bug;
    let bugs = [
        Bug::UncheckedEntries,
        Bug::SameEpoch,
        Bug::CrossedSegments,
        Bug::EarlyAnswers,
        Bug::PlainWrites,
    ];
    for bug in bugs {
        assert!(is_found(Planted::Journal(bug), 12), "{bug:?} is not found");
    }
}

#[test]
fn broken_rules_of_bookkeeping_are_found() {
    let bugs =
        [Bug::LeftRows, Bug::FlippedInodeBits, Bug::NoZeros, Bug::EagerReceipts, Bug::KeptDeltas];
    for bug in bugs {
        assert!(is_found(Planted::Ffs(bug), 12), "{bug:?} is not found");
    }
}

#[test]
fn broken_rules_of_what_is_remembered_are_found() {
    type Scenario = fn() -> Result<(), String>;
    let calls: Scenario = || (1..=4).try_for_each(|seed| calls::record(seed).first_wrong(60));
    let chain: Scenario = || (1..=2).try_for_each(calls::long_file_cut_short);
    for (bug, scenario) in [
        (Bug::UnkeptAnswers, calls),
        (Bug::PassedAnswers, calls),
        (Bug::UntoldAnswers, calls),
        (Bug::UninheritedAnswers, calls),
        (Bug::LateInheritance, calls),
        (Bug::RestlessAnswers, calls),
        (Bug::FirstAnswers, chain),
        (Bug::UnwantedAnswers, calls::forgotten_calls),
    ] {
        find(bug, scenario);
    }
    find_planted(Planted::Vnode(vnode::planted::Bug::HalfAnswers), calls);
}

#[test]
fn broken_rules_of_a_return_are_found() {
    type Scenario = fn() -> Result<(), String>;
    let answers: Scenario = || answers_at_the_end_of_the_circle(60).map(|_| ());
    let scenarios: [(Planted, Scenario); 7] = [
        (Planted::Ffs(Bug::ReplayedRest), clean_stop_that_is_cut),
        (Planted::Ffs(Bug::ReplayedRest), replay_that_nobody_goes_on_from),
        (Planted::Ffs(Bug::BelievedCaches), || (1..=8).try_for_each(kill_and_then_a_cut)),
        (Planted::Ffs(Bug::RetoldFirsts), two_answers_of_a_call),
        (Planted::Ffs(Bug::ReplacedChains), || chain_that_begins_anew(12).map(|_| ())),
        (Planted::Ffs(Bug::NothingKeptBack), || filled_again_and_again(4).map(|_| ())),
        (Planted::Journal(journal::Bug::NearAnchor), answers),
    ];
    for (planted, scenario) in scenarios {
        let wrong = wrong_with(planted, scenario);
        println!("{planted:?}: {wrong:?}");
        assert!(wrong.is_some(), "{planted:?} is not found");
    }
}

#[test]
fn broken_rules_of_a_shared_log_are_found() {
    let lives: fn() -> Result<(), String> = || (1..=12).try_for_each(sharing::life);
    for bug in [Bug::UnsavedAbsent, Bug::EverybodysEntries, Bug::FirstHead] {
        find(bug, lives);
    }
    find(Bug::HeldUp, || sharing::one_that_stops(1));
    find(Bug::EarlyFounding, || (1..=2).try_for_each(sharing::large_file_that_goes));
}

#[test]
fn broken_rules_that_need_a_scenario_are_found() {
    type Scenario = fn() -> Result<(), String>;
    let scenarios: [(Planted, Scenario); 8] = [
        (Planted::Vnode(vnode::planted::Bug::ForgottenChains), || {
            (1..=6).try_for_each(large_file_that_goes)
        }),
        (Planted::Ffs(Bug::PassedChains), || (1..=2).try_for_each(large_file_that_goes_slowly)),
        (Planted::Ffs(Bug::NoRevokes), || (1..=6).try_for_each(large_write_over_a_small_one)),
        (Planted::Ffs(Bug::NoFreeingRevokes), replay_over_new_data),
        (Planted::Ffs(Bug::LateLandings), landing_over_new_data),
        (Planted::Ffs(Bug::EndlessPatience), || (1..=2).try_for_each(landings_that_wait)),
        (Planted::Ffs(Bug::DeafPatience), || (1..=2).try_for_each(landings_that_wait)),
        (Planted::Ffs(Bug::LateCover), || (1..=6).try_for_each(large_writes_side_by_side)),
    ];
    for (bug, scenario) in scenarios {
        assert_eq!(scenario(), Ok(()), "without {bug:?}");
        find_planted(bug, scenario);
    }
}

#[test]
fn broken_rules_of_delayed_data_are_found() {
    use cache::planted::Bug;
    type Scenario = fn() -> Result<(), String>;
    let delayed: Scenario = || (1..=2).try_for_each(large_write_over_a_delayed_one);
    let scenarios: [(Bug, Scenario); 3] = [
        (Bug::UnseenDelays, delayed),
        (Bug::OvertakenDelays, delayed),
        (Bug::KeptDelays, delays_over_new_directories),
    ];
    for (bug, scenario) in scenarios {
        assert_eq!(scenario(), Ok(()), "without {bug:?}");
        find_planted(Planted::Cache(bug), scenario);
    }
}

/// A scenario goes wrong with a bug of the engine.
fn find(bug: Bug, scenario: fn() -> Result<(), String>) {
    find_planted(Planted::Ffs(bug), scenario);
}

fn find_planted(planted: Planted, scenario: fn() -> Result<(), String>) {
    let wrong = wrong_with(planted, scenario);
    println!("{planted:?}: {wrong:?}");
    assert!(wrong.is_some(), "{planted:?} is not found");
}

#[test]
fn a_repair_that_drops_what_was_cut_is_found() {
    plant(Bug::DroppedChains);
    let wrong = repairs_that_are_cut(1);
    unplant();
    wrong.expect_err("it is found");
}

#[test]
fn a_stop_that_drops_what_was_cut_is_found() {
    plant(vnode::planted::Bug::UnwaitedChains);
    let wrong = stop_in_the_middle(1);
    unplant();
    wrong.expect_err("it is found");
}

#[test]
fn a_repair_that_nobody_asked_for_is_found() {
    fsck::planted::plant(Some(fsck::planted::Bug::UnaskedRepairs));
    let wrong = repair_without_a_log(1);
    fsck::planted::plant(None);
    wrong.expect_err("it is found");
}

fn wrong_with(planted: Planted, scenario: fn() -> Result<(), String>) -> Option<String> {
    plant(planted);
    let result = catch_unwind(AssertUnwindSafe(scenario));
    unplant();
    result.unwrap_or_else(|_| Err("an assertion".into())).err()
}
