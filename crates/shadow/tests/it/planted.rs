//! Planted bugs are found.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use enginekit::snapshots::snapshots_hold;
use shadow::planted::Bug;

use crate::again::{a_scrub_renews_books, nothing_is_passed_over};
use crate::anchors::a_turn_may_rot;
use crate::answers::answers_survive;
use crate::bench::Setting;
use crate::books::{
    books_may_be_unread, books_may_rot_in_use, nothing_behind_damage_is_free,
    the_ring_may_get_holes, what_is_to_be_freed_stays_held,
};
use crate::compaction::{callers_write_meanwhile, snapshots_stay};
use crate::copies::{a_copy_may_rot_at_rest, a_read_mends, snapshots_hold_both};
use crate::discards::cuts_leave_one_or_the_other;
use crate::faults::{
    a_return_after_a_failed_flush_may_be_cut, a_write_that_fails_leaves_its_places,
    an_anchor_may_rot_after_a_return, fill_again_and_again, refusals_pass, rot_is_found,
    what_cannot_be_read_is_not_passed, what_is_far_apart_finds_room, what_is_refused_takes_nothing,
    what_is_shown_after_a_failed_flush_stays,
};
use crate::flipped::{
    superblocks_are_mended, what_is_listed_is_mended, what_was_stopped_is_not_doubted,
};
use crate::frees::going_back_frees_what_has_no_name;
use crate::homeless::names_are_given;
use crate::hostile::wrong_frees_are_left_out;
use crate::kit::first_wrong;
use crate::loads::{trees_grow_while_they_are_read, what_is_on_its_way_stays_here};
use crate::lost::{anchors_of_another_are_passed_over, zones_stay_until_two_are_newer};
use crate::numbers::updates_pass_what_a_cut_left;
use crate::overwrites::{overwrites_stay, what_is_on_its_way_is_read};
use crate::places::places_are_handed_out_again;
use crate::quiet::{quiet_updates_stay, updates_beside_a_look_stay};
use crate::repair::a_cut_leaves_the_old_tree_or_the_new;
use crate::rotten::{
    one_list_is_in_no_others_way, rotten_files_become_shorter, rotten_files_go,
    rotten_trees_are_discarded,
};
use crate::scrub::{
    memory_mends, nothing_is_found_beside_callers, the_other_copy_mends,
    what_is_being_written_is_not_judged,
};
use crate::snapshots::{many_files_go_while_a_snapshot_has_them, they_come_and_go};
use crate::stale::{what_a_snapshot_had_is_mended_no_more, what_another_snapshot_has_is_mended};
use crate::steps::steps_are_gone_on_with;
use crate::strays::copies_spare_what_may_come_back;
use crate::turns::appends_follow_the_turns;
use crate::unmade::{
    lists_grow_after_one_has_rotted, lists_grow_behind_a_block_that_is_not_read,
    lists_grow_without_a_block_of_pointers, snapshots_wait_for_no_room_below,
};
use crate::unread::what_others_share_is_held_once;

type Scenario = fn() -> Result<(), String>;

fn tree() -> Result<(), String> {
    first_wrong(9).map_or(Ok(()), Err)
}

/// Whether a scenario shows a bug: by a failure, or by an assertion of the engine. `plant` plants a
/// bug of its crate.
fn is_found<B: Copy + Debug>(bug: B, plant: fn(Option<B>), scenario: Scenario) -> bool {
    plant(Some(bug));
    let wrong = catch_unwind(AssertUnwindSafe(scenario));
    plant(None);
    match wrong {
        Ok(Ok(())) => false,
        Ok(Err(wrong)) => {
            println!("{bug:?}: {wrong:.300}");
            true
        }
        Err(_) => {
            println!("{bug:?}: an assertion of the engine");
            true
        }
    }
}

/// The scenario that finds a bug soonest.
fn that_finds(bug: Bug) -> Scenario {
    match bug {
        Bug::LateAnswers | Bug::UnfoldedAnswers => answers_survive,
        Bug::UnwrittenTwins => a_copy_may_rot_at_rest,
        Bug::ForgottenTwins => snapshots_hold_both,
        Bug::UnwrittenBelief => what_is_shown_after_a_failed_flush_stays,
        Bug::ForgottenRest => rot_is_found,
        Bug::UnfoldedDeaths | Bug::KeptLists => || they_come_and_go(1, 3),
        Bug::KeptDeaths => || snapshots_hold(&Setting::of(8, 256, 16 << 20), 1),
        Bug::UnkeptRoom => many_files_go_while_a_snapshot_has_them,
        Bug::ListedFrees | Bug::EarlyCover => overwrites_stay,
        Bug::KeptPlans => a_write_that_fails_leaves_its_places,
        Bug::UnpassedNumbers | Bug::UncountedTears => updates_pass_what_a_cut_left,
        Bug::PassedReads => what_cannot_be_read_is_not_passed,
        Bug::HalfBelief => a_return_after_a_failed_flush_may_be_cut,
        Bug::LoneAnchors => an_anchor_may_rot_after_a_return,
        Bug::NewestAnchor => anchors_of_another_are_passed_over,
        Bug::LeftAnchors => a_turn_may_rot,
        Bug::LeftOrphans | Bug::LateOrphans => going_back_frees_what_has_no_name,
        Bug::UnfollowedUpdates => quiet_updates_stay,
        Bug::JoinedSuccessors => updates_beside_a_look_stay,
        Bug::EndlessFolds => snapshots_wait_for_no_room_below,
        Bug::OneTwice => zones_stay_until_two_are_newer,
        Bug::FailedByRefusals => refusals_pass,
        Bug::UnheldNodes => what_is_on_its_way_stays_here,
        Bug::PassedOver => what_others_share_is_held_once,
        Bug::ForgottenHomeless => names_are_given,
        Bug::OverwrittenRepairs => a_cut_leaves_the_old_tree_or_the_new,
        Bug::EarlyCopies => copies_spare_what_may_come_back,
        Bug::BelievedGathering => nothing_is_found_beside_callers,
        Bug::MovedOverWrites => callers_write_meanwhile,
        Bug::EarlyDiscards => cuts_leave_one_or_the_other,
        Bug::MovedPins => snapshots_stay,
        Bug::EarlyMending => memory_mends,
        Bug::ScrubbedWrites => what_is_being_written_is_not_judged,
        Bug::UncountedTransfers => appends_follow_the_turns,
        Bug::EatenClaims => || {
            fill_again_and_again();
            Ok(())
        },
        _ => that_finds_with_damage(bug),
    }
}

/// The same for bugs that show when blocks of the disk are damaged.
fn that_finds_with_damage(bug: Bug) -> Scenario {
    match bug {
        Bug::KeptLeaves | Bug::RecordedPlans | Bug::LostLines => books_may_rot_in_use,
        Bug::BlockedLists => one_list_is_in_no_others_way,
        Bug::RefusedRollBacks => rotten_trees_are_discarded,
        Bug::UnmendedSuperblocks => superblocks_are_mended,
        Bug::UnmendedRuns => what_is_listed_is_mended,
        Bug::SkippedSubtrees => nothing_is_passed_over,
        Bug::ScrubbedBooks => a_scrub_renews_books,
        Bug::WrongFrees => wrong_frees_are_left_out,
        Bug::RefusedHoles => the_ring_may_get_holes,
        Bug::DoubtedRest => what_was_stopped_is_not_doubted,
        Bug::ForgottenLoose => what_is_to_be_freed_stays_held,
        Bug::FreeBehindDamage => nothing_behind_damage_is_free,
        Bug::UnpassedPlaces => lists_grow_without_a_block_of_pointers,
        Bug::ReusedPlaces => lists_grow_after_one_has_rotted,
        Bug::AwaitedLists => lists_grow_behind_a_block_that_is_not_read,
        _ => tree,
    }
}

/// The same for bugs of what engines have in common.
fn that_finds_in_common(bug: cow::planted::Bug) -> Scenario {
    use cow::planted::Bug;
    match bug {
        Bug::UnmendedTwins => a_read_mends,
        Bug::UnwrittenChains => steps_are_gone_on_with,
        Bug::ForgottenPins | Bug::GreedyDeletions => || they_come_and_go(1, 3),
        Bug::ForgottenPlaces | Bug::LastPlaceFree => places_are_handed_out_again,
        Bug::StaleParents => trees_grow_while_they_are_read,
        Bug::BelievedVersions => the_other_copy_mends,
        Bug::AwaitedBooks => books_may_be_unread,
        Bug::FirstReaders => what_another_snapshot_has_is_mended,
        Bug::LateMends => what_a_snapshot_had_is_mended_no_more,
        Bug::UnsummedReads => rot_is_found,
        Bug::HollowClaims => what_is_far_apart_finds_room,
        Bug::UnseenRiders => what_is_on_its_way_is_read,
        Bug::UnheardFailures => a_write_that_fails_leaves_its_places,
        Bug::StuckChains => rotten_files_go,
        Bug::LateLosses => rotten_files_become_shorter,
        Bug::BoundlessTrees => || {
            what_is_refused_takes_nothing();
            Ok(())
        },
        Bug::StaleSums | Bug::RaggedTails | Bug::WrongBirths | Bug::KeptPointers => tree,
    }
}

#[test]
fn every_bug_is_found() {
    // The space log's own tests find these: filling its ring takes a large disk.
    let of_log = [Bug::DroppedLines, Bug::UnmarkedFolds];
    let bugs = Bug::ALL.iter().copied().filter(|bug| !of_log.contains(bug));
    let missed: Vec<Bug> =
        bugs.filter(|&bug| !is_found(bug, shadow::planted::plant, that_finds(bug))).collect();
    assert_eq!(missed, [], "these are not found");
}

#[test]
fn every_bug_in_common_is_found() {
    let plant = cow::planted::plant;
    let is_missed = |bug: &cow::planted::Bug| !is_found(*bug, plant, that_finds_in_common(*bug));
    // Engine `lfs`, which replays edits, finds it.
    let is_its = |bug: &&cow::planted::Bug| **bug != cow::planted::Bug::KeptPointers;
    let all = cow::planted::Bug::ALL.iter().filter(is_its);
    let missed: Vec<_> = all.filter(|bug| is_missed(bug)).collect();
    assert!(missed.is_empty(), "these are not found: {missed:?}");
}
