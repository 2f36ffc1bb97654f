//! Bugs that the explorer must find, one at a time: what passes with a bug in it proves nothing.
//!
//! Each is planted in the crate whose rule it breaks, and comes with a workload that brings it to
//! light; without the bug nothing is wrong with that. `duramen-torture planted` looks for such
//! workloads in the lists of the campaigns seq1 and seq2, all of which are there; a test compares.
//!
//! Some bugs are not found, and others find them (`ffs/tests/it/planted.rs`). `EarlyRefusals`,
//! `SmallReserve` and `BrokenPromises` need a volume that is full, `EarlyDrops` a directory that
//! moves into a new one, `UnflushedPayload` a file that grows inside its last fragment,
//! `UnwaitedLandings` and `ForgottenRewrites` much UNSTABLE data, `OneHash` and `UncomparedNames`
//! names of one hash, and `UnaskedNodes` and `PassedBuffers` short memory: no operation of the
//! lists does any of it. What only the judge of raw disks sees, or a damaged disk shows, stands
//! there too (`soft_updates`, `climbs`, `steps`, `settling`), and what only groups and rules of
//! exports show is found by the tests of `dispatch`. The bugs of policy `log` are found by
//! `ffs/tests/it/planted_log.rs`. What only a faulty disk, several clients or a reference show is
//! planted by the campaigns `faults`, `concurrent`, `retry` and `conformance` (`tests/` of the same
//! names).

use std::collections::BTreeSet;

use torture::campaign::{Options, data};
use torture::explore::case::Case;
use torture::explore::design::Design;
use torture::explore::nested::Further;
use torture::explore::op::{Op, operations};
use torture::explore::ways::scene::Scene;
use torture::explore::ways::way::Way;
use torture::explore::ways::{self, Effort, Ways};
use torture::explore::{Explorer, Style};
use torture::planted::{Bug, all, plant};

/// Bugs of the order in which changes reach the disk.
const OF_ORDER: &[(&str, &str)] = &[
    ("EqualRanks", "create bar unchecked"),
    ("DroppedFlush", "create bar unchecked"),
    ("EarlyReceipts", "create bar unchecked"),
    ("RankTooEarly", "rmdir B"),
    ("EarlyNames", "create bar unchecked"),
    ("LateBlocks", "mkdir A/C"),
    ("LateBits", "create bar unchecked"),
    ("LateLinks", "mkdir A/C"),
    ("EarlyLinkDrops", "rmdir B"),
    ("EarlySizes", "write foo append filesync"),
    ("EarlyInodeClears", "remove foo"),
    ("EarlyBits", "rmdir B"),
    ("DropsFirst", "rename foo bar"),
    ("EarlyRetargets", "rename foo A/foo"),
    ("OldestFirst", "rename foo A/foo"),
    ("ForgottenUndoes", "rename foo A/foo"),
    ("UnorderedFields", "mkdir A/C, symlink A/bar 200"),
];

/// Bugs of what files hold, and of what is reused.
const OF_FILES: &[(&str, &str)] = &[
    ("EarlyReuse", "write foo append filesync, resize foo 0"),
    ("LeakedFragments", "create bar unchecked"),
    ("RaggedTail", "write A/foo append filesync"),
    ("EarlyZeros", "resize foo 3000"),
    ("HollowEnd", "resize A/foo 60000"),
    ("LazyDataSync", "write foo append datasync"),
    ("EmptyCommit", "write foo append commit"),
    ("LandsAfterRemoval", "write foo append unstable, rename A/foo foo"),
    ("KeepsPages", "write foo append unstable, resize foo 0"),
    ("UnlockedWrites", "write foo append filesync, write foo extend filesync"),
    ("SameGeneration", "rmdir B"),
    ("AnyGeneration", "create bar unchecked"),
];

/// Bugs of what clients are told.
const OF_ANSWERS: &[(&str, &str)] = &[
    ("UnreceiptedReplies", "create bar unchecked"),
    ("UnreceiptedAttributes", "rmdir B"),
    ("UnreceiptedNames", "create bar unchecked"),
    ("UnreceiptedCommits", "write foo append commit"),
    ("UnwaitedRemovals", "rmdir B"),
    ("DroppedLock", "write A/foo append filesync, resize A/foo 60000"),
    ("ForgottenConnections", "create bar unchecked"),
    ("UnnotedRunning", "create bar unchecked"),
    ("ForgottenRefusals", "link foo A/foo"),
    ("ForgottenLinks", "link foo bar"),
    ("AnyArguments", "create bar unchecked"),
    ("OverstatedStability", "write foo append unstable"),
    ("UnsetVerifier", "write foo append filesync"),
    ("ConstantVerifier", "write foo append filesync"),
    ("KeptVerifier", "write foo append commit"),
    ("HalfVerifier", "create bar exclusive"),
];

/// Bugs of what a client of a delayed volume asks to be made durable, and of what a cut leaves of
/// the rest, with the policy under which they show.
const OF_DELAYED: &[(&str, Design, &str)] = &[
    ("AcceptedCommits", Design::SYNC, "create bar unchecked, write foo append filesync"),
    ("AcceptedCommits", Design::LOG, "create bar unchecked, write foo append commit"),
    ("RaisedGenerations", Design::SYNC, "create bar unchecked"),
    ("RaisedGenerations", Design::LOG, "mkdir A/C"),
    ("EqualRanks", Design::SYNC, "create bar unchecked"),
];

/// Soft updates whose answers do not wait for them.
const DELAYED: Design = Design::SOFTDEP.delayed();

/// Bugs of the order in which soft updates land.
const OF_SOFT_UPDATES: &[(&str, Design, &str)] = &[
    ("EmptiedEarly", DELAYED, "rename A/foo bar, rmdir A"),
    ("EarlyDrops", Design::SOFTDEP, "link foo A/bar, remove foo"),
    ("EarlyDrops", DELAYED, "link foo bar, remove foo, write bar append commit"),
    ("EarlyInodeClears", DELAYED, "link foo bar, remove foo, remove bar"),
    ("UnorderedFields", DELAYED, "write foo append unstable, resize foo 0"),
    ("UnorderedFields", DELAYED, "rename A/foo foo, rename foo bar"),
    ("OldestFirst", DELAYED, "rename foo A/foo"),
    ("ForgottenUndoes", DELAYED, "rename foo A/foo"),
    ("EarlyReuse", DELAYED, "write foo append filesync, resize foo 0"),
    ("EarlyReceipts", Design::SOFTDEP, "create bar unchecked"),
    ("DroppedFlush", Design::SOFTDEP, "create bar unchecked"),
    ("UnreceiptedReplies", Design::SOFTDEP, "create bar unchecked"),
    ("LooseCommits", DELAYED, "rename A B, write B/foo append filesync"),
    ("LooseCommits", DELAYED, "rename A B, write B/foo append commit"),
    ("AcceptedCommits", DELAYED, "create bar unchecked, write foo append filesync"),
    ("RaisedGenerations", DELAYED, "create bar unchecked"),
];

/// Bugs of snapshots, of which the tests of `shadow` find more.
const OF_SNAPSHOTS: &[(&str, &str)] =
    &[("ForgottenPins", "write foo overlap filesync"), ("KeptDeaths", "resize foo 0")];

#[test]
fn bugs_of_snapshots_are_found() {
    let design = Design::find(Some("shadow"), None).expect("there is one");
    let with = |&(name, text)| (name, design, text);
    all_of_designs_are_found(OF_SNAPSHOTS.iter().map(with));
}

#[test]
fn bugs_of_soft_updates_are_found() {
    all_of_designs_are_found(OF_SOFT_UPDATES.iter().copied());
}

fn all_of_designs_are_found<'a>(bugs: impl Iterator<Item = (&'a str, Design, &'a str)>) {
    let mut missed = Vec::new();
    for (name, design, text) in bugs {
        let (bug, ops) = (name.parse().expect("a bug"), workload(text));
        assert_eq!(found(None, design, &ops), None, "without {bug}");
        if found(Some(bug), design, &ops).is_none() {
            missed.push((name, text, design.is_delayed()));
        }
    }
    assert_eq!(missed, []);
}

/// Bugs of what writes, the log and COMMIT do with bytes, and the policy under which the campaign
/// `data` finds them: each in one of the first stories of its short form.
const OF_BYTES: &[(&str, Design)] = &[
    ("ShortCommits", Design::SYNC),
    ("ShortCommits", Design::LOG),
    ("EmptyCommit", Design::SYNC),
    ("TornTails", Design::SYNC),
    ("TornTails", Design::LOG),
    ("NoRevokes", Design::LOG),
    ("NoFreeingRevokes", Design::LOG),
    ("EarlyEntries", Design::LOG),
    ("LateCover", Design::LOG),
    ("EagerHead", Design::LOG),
    ("UnlandedDelays", Design::LOG),
    ("UnseenDelays", Design::LOG),
    ("OvertakenDelays", Design::LOG),
    ("LaterRuns", Design::LOG),
    ("ShorterRuns", Design::LOG),
    ("FragmentTails", Design::LOG),
    ("ReplayedRest", Design::LOG),
];

/// So many stories are told at most to find one of those.
const STORIES: u64 = 60;

/// Bugs of the ways in and out of a volume, the scene and the way that show them, and how much of
/// that has to be tried.
const OF_WAYS: &[(&str, Design, &str, Way, Effort)] = &[
    ("HastyStop", Design::SYNC, "used", Way::Stop, Effort::FIRST),
    ("HastyRepairs", Design::SYNC, "used", Way::Repair, Effort::FIRST),
    ("TornMemory", Design::LOG, "rest", Way::Serve, Effort::FIRST),
    ("ReplayedRest", Design::LOG, "used", Way::Stop, Effort::FIRST),
    ("ReplayedRest", Design::LOG, "used", Way::Repair, Effort::FIRST),
    ("DroppedChains", Design::LOG, "chain", Way::Repair, Effort::FIRST),
    ("UnwaitedChains", Design::LOG, "chain", Way::Stop, Effort::FIRST),
    ("RetoldFirsts", Design::LOG, "long", Way::Shorten, Effort::FIRST),
    ("BelievedCaches", Design::LOG, "used", Way::Work, Effort::SHORT),
];

/// Bugs that the tests of `ffs` find.
const OF_THE_TESTS_OF_FFS: &[&str] = &[
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
    "EndlessQueue",
];

/// Bugs that the tests of `shadow` find (`shadow/tests/it/planted.rs`).
const OF_THE_TESTS_OF_SHADOW: &[&str] = &[
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

/// Bugs that other campaigns find.
const OF_OTHER_CAMPAIGNS: &[&str] = &[
    "ConnectionInKey",
    "XidAlone",
    "UnwaitedLooks",
    "IgnoredFlushErrors",
    "ForgottenPayloadErrors",
    "ServingOn",
    "StaleChangeTimes",
    "IgnoredLogErrors",
    "RottenLosses",
    "HastyCandidates",
    "VacatedData",
];

/// Bugs that show where Updates become durable out of order: on the engine over memory
/// (`tests/it/memory.rs`, `ram/tests/seam.rs` and `kit.rs`).
const OF_MEMORY: &[&str] = &[
    "NewestAlone",
    "NoOrder",
    "StagedReceipts",
    "ReusedSlots",
    "ForgottenAnswers",
    "LoneAnswers",
    "LooseMoves",
    "LiveSnapshots",
    "UnwaitedPins",
    "PinsAmidSteps",
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

/// What exploring a workload finds.
fn found(bug: Option<Bug>, design: Design, ops: &[Op]) -> Option<String> {
    plant(bug);
    let mut explorer = Explorer::new(design);
    for &style in Style::ALL {
        explorer.explore(ops, style);
        if !explorer.violations.is_empty() {
            break;
        }
    }
    plant(None);
    explorer.violations.first().map(ToString::to_string)
}

fn all_are_found(bugs: &[(&str, &str)]) {
    let mut clean = BTreeSet::new();
    for (name, text) in bugs {
        let (bug, ops) = (name.parse().expect("a bug"), workload(text));
        if clean.insert(text) {
            assert_eq!(found(None, Design::SYNC, &ops), None, "without {bug}");
        }
        let found = found(Some(bug), Design::SYNC, &ops);
        assert!(found.is_some(), "{bug} was not found by '{text}'");
    }
}

#[test]
fn bugs_of_delayed_volumes_are_found_and_their_lines_show_them_again() {
    for &(name, design, text) in OF_DELAYED {
        let (bug, ops, design) = (name.parse().expect("a bug"), workload(text), design.delayed());
        assert_eq!(found(None, design, &ops), None, "without {bug}");
        let found = found(Some(bug), design, &ops);
        let found = found.unwrap_or_else(|| panic!("{bug} was not found by '{text}'"));
        let (reason, line) = found.split_once("\n  cargo xtask torture replay '").expect("a line");
        let case: Case = line.trim_end_matches('\'').parse().expect(line);
        plant(Some(bug));
        let again = case.replay();
        plant(None);
        assert_eq!(again, Err(reason.to_owned()), "{bug}: {line}");
    }
}

#[test]
fn bugs_of_order_are_found() {
    all_are_found(OF_ORDER);
}

#[test]
fn bugs_of_files_are_found() {
    all_are_found(OF_FILES);
}

#[test]
fn bugs_of_answers_are_found() {
    all_are_found(OF_ANSWERS);
}

/// What ending a way finds.
fn found_on_way(bug: Option<Bug>, scene: &Scene, way: Way, effort: Effort) -> Option<String> {
    plant(bug);
    let mut ways = Ways::new(effort, 1);
    ways.explore(scene, way);
    plant(None);
    ways.violations.first().map(ToString::to_string)
}

#[test]
fn bugs_of_ways_in_and_out_are_found_and_their_lines_show_them_again() {
    for &(name, design, scene, way, effort) in OF_WAYS {
        let bug: Bug = name.parse().expect("a bug");
        let scene = Scene::new(design, scene).expect("a scene");
        assert_eq!(found_on_way(None, &scene, way, effort), None, "without {bug}");
        let found = found_on_way(Some(bug), &scene, way, effort);
        let found = found.unwrap_or_else(|| panic!("{bug} was not found by '{}'", way.name()));
        let (reason, line) = found.split_once("\n  cargo xtask torture replay '").expect("a line");
        let case: ways::case::Case = line.trim_end_matches('\'').parse().expect(line);
        plant(Some(bug));
        let again = case.replay();
        plant(None);
        assert_eq!(again, Err(reason.to_owned()), "{bug}: {line}");
        // Without it there may be no such end.
        assert_ne!(case.replay(), Err(reason.to_owned()), "without {bug}: {line}");
    }
}

#[test]
fn bugs_of_bytes_are_found() {
    for &(name, design) in OF_BYTES {
        let bug: Bug = name.parse().expect("a bug");
        plant(Some(bug));
        let options = Options::short(design, 1);
        let outcome = data::first(&options, STORIES);
        plant(None);
        let told = outcome.counts.workloads;
        let Some(first) = outcome.violations.first() else {
            panic!("none of {told} stories shows {name} under {design:?}");
        };
        println!("{name}, {design:?}, after {told} stories: {first}");
    }
}

#[test]
fn there_are_as_many_as_were_asked_for_and_the_campaigns_come_by_all_of_them() {
    let rows = || [OF_ORDER, OF_FILES, OF_ANSWERS].concat();
    let mut names: BTreeSet<&str> = rows().into_iter().map(|(name, _)| name).collect();
    assert!(names.len() >= 30 && names.len() == rows().len(), "{}", names.len());
    names.extend(OF_WAYS.iter().map(|(name, ..)| *name));
    // Of delayed volumes.
    names.extend(["AcceptedCommits", "RaisedGenerations", "EmptiedEarly", "LooseCommits"]);
    for bug in all() {
        let name = bug.to_string();
        let others = [
            OF_THE_TESTS_OF_FFS,
            OF_THE_TESTS_OF_SHADOW,
            OF_THE_TESTS_OF_DISPATCH,
            OF_OTHER_CAMPAIGNS,
            OF_THE_LOG,
            OF_MEMORY,
        ]
        .concat();
        let of_bytes = OF_BYTES.iter().any(|(other, _)| *other == name);
        let is_left_to_others = of_bytes && !names.contains(&*name) || others.contains(&&*name);
        assert!(names.contains(name.as_str()) != is_left_to_others, "{name} stands in no table");
    }
    let list = operations(Design::SYNC);
    for (name, text) in rows() {
        let ops = workload(text);
        assert!(ops.len() <= 2 && ops.iter().all(|op| list.contains(op)), "{name}: '{text}'");
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
    let (_, line) = small.to_string().split_once("replay '").map(own).expect("a command");
    let case: Case = line.trim_end_matches('\'').parse().expect("the line of a case");
    assert_eq!(case, small.case);
    assert_eq!(case.replay(), Err(small.reason.clone()));
    assert_eq!(first.case.replay(), Err(first.reason));
    plant(None);
    // Without it there are other writes, and the cut may be none.
    assert_ne!(case.replay(), Err(small.reason), "without the bug");
}

#[test]
fn a_bug_that_a_second_cut_shows_is_made_small_as_well() {
    // The return does what the engine's order would have kept from happening.
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

fn own((before, line): (&str, &str)) -> (String, String) {
    (before.to_owned(), line.to_owned())
}
