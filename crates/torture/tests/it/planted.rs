//! Every planted bug is in a table: the campaign `planted` has a row that finds it, or the tests of
//! the crate whose rule it breaks do. And a violation is shrunk.
//!
//! `duramen-torture planted BUG` searches the campaigns seq1 and seq2 for a workload that exposes a
//! bug. The bugs in the lists below are beyond that: `EarlyRefusals`, `SmallReserve` and
//! `BrokenPromises` need a full volume, `EarlyDrops` a directory that moves into a new one,
//! `UnflushedPayload` a file that grows inside its last fragment, `UnwaitedLandings` and
//! `ForgottenRewrites` much UNSTABLE data, `OneHash` and `UncomparedNames` names with one hash, and
//! `UnaskedNodes` and `PassedBuffers` little memory. Only the judge of raw disks sees others, or
//! only a damaged disk shows them (`soft_updates`, `climbs`, `steps`, `settling`), and the tests of
//! `dispatch` find bugs of groups and of rules of exports.

use std::collections::BTreeSet;

use torture::campaign::planted::{names, workloads};
use torture::explore::case::Case;
use torture::explore::design::Design;
use torture::explore::nested::Further;
use torture::explore::op::{Op, operations};
use torture::explore::{Explorer, Style};
use torture::planted::{all, plant};

/// Bugs that the tests of `ffs` find.
const OF_THE_TESTS_OF_FFS: &[&str] = &[
    "EndlessFrees",
    "ManyStuck",
    "StuckRepairs",
    "OverlappingEvidence",
    "EarlyLinkCounts",
    "IgnoredIntentOrder",
    "AnyMark",
    "ForgottenVerdicts",
    "EndlessGoals",
    "PrunedChains",
    "LateVerdicts",
    "TrustedGaps",
    "TimelessMarks",
    "UnforgivenSectors",
    "GivenUpIntents",
    "RepairedIntents",
    "SizesFirst",
    "CircularWaits",
    "WholeRounds",
    "KeptCandidates",
    "UnfollowedNewcomers",
    "StaleEnds",
    "HastyTelling",
    "LooseRuns",
    "HastyMoves",
    "HastyPromises",
    "LostDirectories",
    "NamedVoids",
    "HastyReuse",
    "StaleHangs",
    "WrittenVoids",
    "UnfollowedLinks",
    "UnsettledEnds",
    "OpenTornGroups",
    "CleanReclaim",
    "SecondNames",
    "LonelyPushes",
    "LooseNames",
    "UncountedCancels",
    "LooseCancels",
    "UnshownDrops",
    "UnseenDrops",
    "OldBearers",
    "StoppedByRefusals",
    "PatientChanges",
    "PatientAnswers",
    "AbandonedLandings",
    "OverwrittenOthers",
    "UndoubtedRefusals",
    "EarlyRefusals",
    "SmallReserve",
    "BrokenPromises",
    "EarlyDrops",
    "LooseUpdates",
    "UnflushedPayload",
    "UnwaitedLandings",
    "OneHash",
    "UncomparedNames",
    "UnaskedNodes",
    "PassedBuffers",
    "ForgottenRewrites",
    "WanderingNames",
    "EndlessSettling",
    "BlocksWithInodes",
    "EarlyLinks",
    "EarlyParents",
    "ParentsWithNames",
    "LateParents",
    "EarlyPointerClears",
    "LatePointerClears",
    "BoundlessDirectories",
    "FirstStepTold",
    "EndlessClimb",
    "AnyParent",
    "ShortSighted",
    "LateBefore",
    "FragmentTails",
    "UnpaidWays",
    "EarlyTails",
    "UnkeptBlocks",
    "ForgottenDoubts",
    "LaterRuns",
    "ShorterRuns",
    "HeavyZeros",
    "ForgottenAtTheHead",
    "EndlessDeltas",
    "UnboundedPins",
    "EndlessQueue",
];

/// Bugs that the tests of `shadow` find (`shadow/tests/it/planted.rs`).
const OF_THE_TESTS_OF_SHADOW: &[&str] = &[
    "EndlessChains",
    "UntoldFailures",
    "EndlessBackground",
    "ForgottenPlaces",
    "LastPlaceFree",
    "FreeBehindDamage",
    "ForgottenLoose",
    "RefusedHoles",
    "WrongFrees",
    "UnpassedPlaces",
    "SkippedSubtrees",
    "ScrubbedBooks",
    "FirstReaders",
    "AwaitedBooks",
    "DoubtedRest",
    "SurvivingOrphans",
    "ForgottenHomeless",
    "ForgottenTwins",
    "UnmendedTwins",
    "StuckChains",
    "LateLosses",
    "RefusedRollBacks",
    "LeftOrphans",
    "LateOrphans",
    "PatientStops",
    "MendsAhead",
    "LateMends",
    "UnmendedSuperblocks",
    "UnmendedRuns",
    "LostLines",
    "JoinedSuccessors",
    "AwaitedLists",
    "BlockedLists",
    "KeptLeaves",
    "RecordedPlans",
    "EatenClaims",
    "UnlistedBlocks",
    "ListedFrees",
    "EarlyFrees",
    "NoBarrier",
    "SameSlot",
    "BelievedHighest",
    "UnwrittenBelief",
    "LateAnchors",
    "UnfoldedFrees",
    "DroppedLines",
    "UnmarkedFolds",
    "UnreadLog",
    "KeptRecords",
    "StaleSums",
    "LateAnswers",
    "UnfoldedAnswers",
    "UnwrittenChains",
    "ForgottenRest",
    "UnsummedReads",
    "FailedByRefusals",
    "HalfBelief",
    "LoneAnchors",
    "NewestAnchor",
    "LeftAnchors",
    "ReusedPlaces",
    "EndlessFolds",
    "PassedOver",
    "OneTwice",
    "StaleParents",
    "UnheldNodes",
    "PassedReads",
    "BoundlessTrees",
    "UnseenRiders",
    "ForgottenPins",
    "UnfoldedDeaths",
    "GreedyDeletions",
    "UnkeptRoom",
    "BelievedGathering",
    "BelievedVersions",
    "OverwrittenRepairs",
    "EarlyCopies",
    "ScrubbedWrites",
    "EarlyMending",
    "KeptPlans",
    "HollowClaims",
    "WrongBirths",
    "FoldedTwice",
    "EarlyCover",
    "UnheardFailures",
    "ForgottenZones",
    "RaggedTails",
    "KeptLists",
    "KeptDeaths",
    "EarlyDiscards",
    "MovedOverWrites",
    "MovedPins",
    "UncountedTransfers",
    "UnpassedNumbers",
    "UncountedTears",
    "ThawedUpdates",
];

/// Bugs that the tests of `dispatch` find.
const OF_THE_TESTS_OF_DISPATCH: &[&str] = &[
    "Unsquashed",
    "UserAlone",
    "FirstGroupAlone",
    "RememberedStrangers",
    "AdmittedRepetitions",
    "OldestOfAll",
    "EveryAddress",
    "WholeReservations",
    "UnsettledReturn",
];

/// Bugs of what engines have in common that the tests of lfs find.
const OF_THE_TESTS_OF_LFS: &[&str] = &["KeptPointers"];

/// Bugs that show when Updates become durable out of order: on the engine over memory
/// (`tests/it/memory.rs`, `ram/tests/seam.rs` and `kit.rs`).
const OF_MEMORY: &[&str] = &[
    "NewestAlone",
    "NoOrder",
    "StagedReceipts",
    "ReusedSlots",
    "ForgottenAnswers",
    "LoneAnswers",
    "LooseMoves",
    "OvertakenClimbs",
    "ForgottenGoals",
    "LiveSnapshots",
    "UnwaitedPins",
    "PinsAmidSteps",
    "PinsAwaitOrphans",
    "LockedWaits",
    "UnwrittenPins",
    "LastingSnapshots",
    "WritableSnapshots",
];

/// Bugs of policy `log`, which the tests of `ffs` find as well.
const OF_THE_LOG: &[&str] = &[
    "NothingKeptBack",
    "LooseChains",
    "UnloggedBits",
    "NoRevokes",
    "NoFreeingRevokes",
    "EarlyEntries",
    "EarlyHolds",
    "UnloggedHome",
    "ReplayBackwards",
    "EarlyEpoch",
    "EagerHead",
    "ForgottenChains",
    "LateLandings",
    "StaleRows",
    "LeftRows",
    "FlippedInodeBits",
    "NoZeros",
    "EagerReceipts",
    "KeptDeltas",
    "LateCover",
    "PassedChains",
    "ReplacedChains",
    "SilentWriter",
    "UnaskedRepairs",
    "StrayNames",
    "BitsWithoutSense",
    "CutDirectories",
    "EntriesYield",
    "UnkeptAnswers",
    "HalfAnswers",
    "PassedAnswers",
    "UntoldAnswers",
    "UninheritedAnswers",
    "LateInheritance",
    "RestlessAnswers",
    "FirstAnswers",
    "UnwantedAnswers",
    "UnsavedAbsent",
    "EverybodysEntries",
    "FirstHead",
    "HeldUp",
    "EarlyFounding",
    "EndlessPatience",
    "DeafPatience",
    "UnlandedDelays",
    "UnseenDelays",
    "OvertakenDelays",
    "KeptDelays",
];

fn workload(text: &str) -> Vec<Op> {
    text.split(", ").map(|op| op.parse().expect(text)).collect()
}

#[test]
fn every_bug_has_a_row_or_tests_of_its_crate_that_find_it() {
    let rows: BTreeSet<&str> = names().collect();
    let others = [
        OF_THE_TESTS_OF_FFS,
        OF_THE_TESTS_OF_SHADOW,
        OF_THE_TESTS_OF_LFS,
        OF_THE_TESTS_OF_DISPATCH,
        OF_THE_LOG,
        OF_MEMORY,
    ]
    .concat();
    assert!(rows.len() >= 90, "{}", rows.len());
    for bug in all() {
        let name = bug.to_string();
        assert!(rows.contains(&*name) || others.contains(&&*name), "{name} stands in no table");
    }
}

#[test]
fn the_campaigns_of_sequences_come_by_every_workload_that_is_cut() {
    // Some bugs of delayed soft updates need more than the lists have.
    for (design, ops) in workloads().filter(|(design, _)| !design.is_delayed()) {
        let list = operations(design);
        assert!(ops.len() <= 2 && ops.iter().all(|op| list.contains(op)), "{ops:?}");
    }
}

#[test]
fn a_violation_is_made_small_and_its_line_shows_it_again() {
    let bug = Some("DropsFirst".parse().expect("a bug"));
    let ops = workload("write A/foo extend datasync, chmod A 700, rename foo A/foo, remove bar");
    plant(bug);
    let mut explorer = Explorer::new(Design::SYNC);
    explorer.explore(&ops, Style::OneByOne);
    let first = explorer.violations.first().expect("the bug is found").clone();
    let small = first.clone().shrunk();
    assert_eq!((small.case.ops.len(), small.case.steps.len()), (1, 1), "{small}");
    let case: Case = small.case.to_string().parse().expect("the line of a case");
    assert_eq!(case, small.case);
    assert_eq!(case.replay(), Err(small.reason.clone()));
    assert_eq!(first.case.replay(), Err(first.reason));
    plant(None);
    // Without the bug the writes differ, and the cut may not exist.
    assert_ne!(case.replay(), Err(small.reason), "without the bug");
}

#[test]
fn a_bug_that_a_second_cut_shows_is_made_small_as_well() {
    // The recovery does what the engine's order would have prevented.
    plant(Some("EarlyZeros".parse().expect("a bug")));
    let mut explorer = Explorer::nested(Design::SYNC, 1, Further::All);
    explorer.explore(&workload("chmod foo 600, resize foo 3000"), Style::OneByOne);
    let small = explorer.violations.first().expect("the bug is found").clone().shrunk();
    plant(None);
    assert_eq!(small.case.ops.len(), 1, "{small}");
}

#[test]
fn a_sample_of_returns_after_cut_returns_shows_a_bug_of_the_return() {
    let sampled = |bug: Option<&str>| {
        plant(bug.map(|name| name.parse().expect("a bug")));
        let mut explorer = Explorer::nested(Design::LOG, 2, Further::Sample);
        explorer.explore(&workload("create bar unchecked"), Style::OneByOne);
        plant(None);
        explorer
    };
    let clean = sampled(None);
    assert!(clean.violations.is_empty() && clean.counts.states > 3_000, "{:?}", clean.counts);
    let found = sampled(Some("EarlyEpoch")).violations;
    let found = found.first().expect("the bug is found");
    assert!(found.case.steps.len() > 1, "a return has to be cut: {found}");
}
