//! A broken rule of the log is detected: each bug has a scenario that passes without it, and fails
//! with it.

use std::panic::catch_unwind;

use journal::{Bug, plant};

use crate::common::batches_are_aligned;
use crate::common::bounds::{grown_log, long_batches};
use crate::common::damage::{Sample, damaged_rest, lost_head, mixed_copies};
use crate::common::script::{Script, scripts};

type Scenario = fn() -> Result<(), String>;

fn cut(script: fn() -> Script) -> Result<(), String> {
    script().explore().map(|_| ())
}

fn damage() -> Result<(), String> {
    let sample = Sample::new(150);
    sample.first_wrong(&sample.places()).map(|_| ())
}

/// The scenario that detects a bug.
fn scenario(bug: Bug) -> Scenario {
    match bug {
        Bug::UncheckedEntries => || cut(scripts::batches),
        Bug::SilentDamage => damage,
        Bug::LoneEntries => || cut(scripts::batches),
        Bug::BrokenChain => || mixed_copies().map(|_| ()),
        Bug::AnyEpoch => || cut(scripts::clean_stops),
        Bug::SameEpoch => || cut(scripts::clean_stops),
        Bug::BeginningAtZero => || cut(scripts::many_returns),
        Bug::UnkeptHead => || cut(scripts::return_to_a_full_log),
        Bug::EarlyOverwrite => || cut(scripts::heads_beside_batches),
        Bug::SharedSectors => || batches_are_aligned(4096, 4096),
        Bug::CrossedSegments => || cut(scripts::batches),
        Bug::TrustedHint => || cut(scripts::closing_circle),
        Bug::EarlyAnswers => || cut(scripts::batches),
        Bug::PlainWrites => || cut(scripts::batches),
        Bug::OneSlot => || cut(scripts::changing_epoch),
        Bug::OlderSlot => || cut(scripts::heads_beside_batches),
        Bug::NearAnchor => || cut(scripts::return_over_the_start),
        Bug::AssumedEmptiness => lost_head,
        Bug::BareHead => || cut(scripts::nothing_needed),
        Bug::HastyHead => || cut(scripts::moved_heads),
        Bug::LongBatches => long_batches,
        Bug::SingleRest => damaged_rest,
        Bug::GrownOver => grown_log,
    }
}

/// The error of a scenario with a bug, or without one; a failed assertion counts too.
fn wrong_with(bug: Option<Bug>, scenario: Scenario) -> Option<String> {
    plant(bug);
    let result = catch_unwind(scenario);
    plant(None);
    result.unwrap_or_else(|_| Err("an assertion".into())).err()
}

#[test]
fn every_broken_rule_is_noticed() {
    for &bug in Bug::ALL {
        let scenario = scenario(bug);
        assert_eq!(wrong_with(None, scenario), None, "the scenario of {bug:?}, without it");
        let wrong = wrong_with(Some(bug), scenario);
        println!("{bug:?}: {}", wrong.as_deref().unwrap_or("NOT NOTICED"));
        assert!(wrong.is_some(), "{bug:?} is not noticed");
    }
}
