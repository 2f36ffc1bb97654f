//! A broken rule of the engine is detected: each planted bug is found by some cut of a few runs, or
//! of a scenario of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ffs::PolicyKind;
use ffs::planted::Bug;
use sim::Honesty;
use vnode::planted::Bug as VnodeBug;

use crate::check_odd::is_where_it_was;
use crate::common::behind::{POLICIES, rewrites, survives};
use crate::common::bugs::{Planted, plant, unplant};
use crate::common::cutting::sizes;
use crate::common::fill::round::Rounds;
use crate::common::growth::inside_the_last_fragment;
use crate::common::looks::{
    a_change_that_waits_is_told, names_lead_to_their_files, what_is_told_is_never_stale,
};
use crate::common::tree::{Setting, record};
use crate::common::volume::under;

/// Looks for `bug`, first in a run that shows it soon.
fn is_found(bug: impl Into<Planted>, first: u64) {
    let bug = bug.into();
    let setting = Setting {
        options: sizes(4096, 512),
        size: 16 << 20,
        steps: 40,
        honesty: Honesty::Honest,
        log: 0,
    };
    for seed in first..first + 20 {
        plant(bug);
        let run = record(seed, &setting);
        unplant();
        if let Some(wrong) = run.first_wrong(seed, 150, false) {
            println!("{bug:?} in run {seed}: {wrong}");
            return;
        }
    }
    panic!("{bug:?} is not found");
}

/// Whether a scenario fails with `bug`.
fn is_seen(bug: impl Into<Planted>, scenario: fn() -> Result<(), String>) -> bool {
    let bug = bug.into();
    plant(bug);
    let outcome = scenario();
    unplant();
    if let Err(wrong) = &outcome {
        println!("{bug:?}: {wrong}");
    }
    outcome.is_err()
}

#[test]
fn names_of_one_hash_are_found_and_told_apart() {
    assert!(!is_seen(VnodeBug::OneHash, names_lead_to_their_files));
    assert!(is_seen(VnodeBug::UncomparedNames, names_lead_to_their_files));
}

#[test]
fn attributes_that_only_a_file_in_memory_knows_are_missed() {
    assert!(is_seen(VnodeBug::UnaskedNodes, what_is_told_is_never_stale));
}

#[test]
fn attributes_that_are_not_at_home_yet_are_missed() {
    assert!(is_seen(Bug::PassedBuffers, a_change_that_waits_is_told));
}

#[test]
fn a_repair_that_moves_a_directory_is_found() {
    fsck::planted::plant(Some(fsck::planted::Bug::StrayNames));
    let is_right = is_where_it_was();
    fsck::planted::plant(None);
    assert!(!is_right);
}

/// The same under soft updates.
fn is_found_in_soft_updates(bug: impl Into<Planted>, first: u64) {
    under(PolicyKind::SoftUpdates, || is_found(bug, first));
}

#[test]
#[should_panic(expected = "a round brings something home")]
fn what_is_pushed_alone_is_noticed() {
    is_found_in_soft_updates(Bug::LonelyPushes, 1);
}

#[test]
fn names_that_do_not_hang_are_found() {
    is_found_in_soft_updates(Bug::LooseNames, 1);
}

#[test]
fn directories_that_go_before_what_was_moved_out_of_them_are_found() {
    is_found_in_soft_updates(Bug::EmptiedEarly, 1);
}

#[test]
fn soft_drops_that_come_early_are_found() {
    is_found_in_soft_updates(Bug::EarlyDrops, 1);
}

#[test]
fn runs_of_directories_that_move_early_are_found() {
    is_found_in_soft_updates(Bug::LooseRuns, 21);
}

#[test]
fn soft_clears_that_come_early_are_found() {
    is_found_in_soft_updates(Bug::EarlyInodeClears, 1);
}

#[test]
fn equal_ranks_are_found() {
    is_found(Bug::EqualRanks, 1);
}

#[test]
fn names_that_go_early_are_found() {
    is_found(Bug::EarlyDrops, 1);
}

#[test]
fn fragments_that_are_reused_early_are_found() {
    is_found(Bug::EarlyReuse, 1);
}

#[test]
fn receipts_before_the_flush_are_found() {
    is_found(Bug::EarlyReceipts, 1);
}

#[test]
fn fields_that_land_out_of_order_are_found() {
    is_found(Bug::UnorderedFields, 1);
}

#[test]
fn names_that_stand_twice_are_found() {
    is_found(VnodeBug::WanderingNames, 1);
}

/// A write that allocates nothing: hardly any random run has one with a cut in the right place.
#[test]
fn payload_that_is_not_flushed_is_found() {
    assert_eq!(inside_the_last_fragment(), Ok(()), "without the bug");
    plant(Bug::UnflushedPayload);
    let found = inside_the_last_fragment();
    unplant();
    let wrong = found.expect_err("the bug is not found");
    println!("{wrong}");
    assert!(wrong.contains("which nobody wrote"), "it is found in another way: {wrong}");
}

/// Looks for `bug` in rounds of filling and emptying, which it must end with the text `said`.
fn is_found_when_full(bug: Bug, said: &str) {
    plant(bug);
    let options = sizes(4096, 512);
    let found = catch_unwind(AssertUnwindSafe(|| {
        let mut volume = Rounds::new(&format!("{bug:?}"), 1, 1 << 20, &options);
        (0..14).for_each(|_| volume.next());
    }));
    unplant();
    let wrong = found.expect_err("the bug is not found");
    let text = wrong.downcast_ref::<String>().expect("an assertion with a text");
    assert!(text.contains(said), "{bug:?} is found in another way: {text}");
}

#[test]
fn leaked_fragments_are_found() {
    is_found_when_full(Bug::LeakedFragments, "what was removed counts as free at once");
}

#[test]
fn refusals_that_come_early_are_found() {
    is_found_when_full(Bug::EarlyRefusals, "was refused");
}

#[test]
fn a_reserve_that_is_too_small_is_found() {
    is_found_when_full(Bug::SmallReserve, "to be kept");
}

#[test]
fn blocks_that_are_promised_twice_are_found() {
    is_found_when_full(Bug::BrokenPromises, "to be kept"); // then UNSTABLE data is lost
}

#[test]
fn pages_that_go_though_they_were_written_anew_are_found() {
    for has_log in POLICIES {
        plant(VnodeBug::ForgottenRewrites);
        let found = (0..40).find_map(|seed| rewrites(seed, has_log).err());
        unplant();
        println!("log: {has_log}: {}", found.expect("the bug is not found"));
    }
}

#[test]
fn a_commit_that_does_not_wait_for_what_landed_before_is_found() {
    for has_log in POLICIES {
        plant(VnodeBug::UnwaitedLandings);
        let found = (0..40).find_map(|seed| survives(seed, has_log).err());
        unplant();
        println!("log: {has_log}: {}", found.expect("the bug is not found"));
    }
}
