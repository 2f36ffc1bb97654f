//! Calls that are repeated after a crash, under policies that keep intents.

use ffs::PolicyKind;

use crate::common::intents::{Between, all_end, first_wrong, remembered_after};

const STORIES: u64 = 300;

#[test]
fn under_sync_what_is_remembered_is_what_has_happened() {
    first_wrong(PolicyKind::Sync, Between::Nothing, 0..STORIES)
        .unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn under_soft_updates_what_is_remembered_is_what_has_happened() {
    first_wrong(PolicyKind::SoftUpdates, Between::Nothing, 0..STORIES)
        .unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn no_call_waits_for_one_that_waits_for_it() {
    for policy in [PolicyKind::Sync, PolicyKind::SoftUpdates] {
        let hung: Vec<u64> = (0..STORIES).filter(|&seed| !all_end(policy, seed)).collect();
        assert_eq!(hung, [], "{policy:?}");
    }
}

#[test]
fn a_repair_keeps_what_is_remembered() {
    for policy in [PolicyKind::Sync, PolicyKind::SoftUpdates] {
        let wrong = first_wrong(policy, Between::Repairs, 0..STORIES);
        wrong.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn nothing_is_remembered_of_a_disk_that_another_system_had_meanwhile() {
    for policy in [PolicyKind::Sync, PolicyKind::SoftUpdates] {
        for stops in [false, true] {
            assert_eq!(remembered_after(policy, false, stops), 2, "{policy:?}, {stops}");
            assert_eq!(remembered_after(policy, true, stops), 0, "{policy:?}, {stops}");
        }
    }
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use ffs::planted::{Bug, plant};

    use super::*;

    fn is_found(bug: Bug) -> bool {
        is_found_between(bug, Between::Nothing)
    }

    fn is_found_between(bug: Bug, between: Between) -> bool {
        plant(Some(bug));
        let policies = [PolicyKind::Sync, PolicyKind::SoftUpdates];
        let found = policies.map(|policy| first_wrong(policy, between, 0..1000).is_err());
        plant(None);
        found == [true; 2]
    }

    #[test]
    fn marks_that_are_not_looked_at_are_found() {
        plant(Some(Bug::AnyMark));
        let kept = [false, true].map(|stops| remembered_after(PolicyKind::Sync, true, stops));
        plant(None);
        assert_eq!(kept, [2, 2]);
    }

    #[test]
    fn verdicts_that_come_too_late_are_found() {
        plant(Some(Bug::LateVerdicts));
        let found = first_wrong(PolicyKind::SoftUpdates, Between::Nothing, 0..1000).is_err();
        plant(None);
        assert!(found);
    }

    #[test]
    fn repairs_that_forget_intents_are_found() {
        assert!(is_found_between(Bug::RepairedIntents, Between::Repairs));
    }

    #[test]
    fn each_rule_of_intents_that_is_broken_is_found() {
        let bugs = [
            Bug::LateIntents,
            Bug::OverlappingEvidence,
            Bug::EarlyLinkCounts,
            Bug::IgnoredIntentOrder,
            Bug::BelievedIntents,
            Bug::UnfinishedIntents,
            Bug::ForgottenVerdicts,
        ];
        let missed: Vec<Bug> = bugs.into_iter().filter(|&bug| !is_found(bug)).collect();
        assert_eq!(missed, []);
    }
}
