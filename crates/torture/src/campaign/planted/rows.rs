//! Every planted bug that a campaign finds, with the design and the workload that expose it.

use super::{How, Row};
use crate::campaign::retry::Expectation;
use crate::explore::design::Design;
use crate::explore::device::Device;
use crate::explore::ways::Effort;
use crate::explore::ways::way::Way;

/// UFS2 with soft updates, with answers that do not wait for them.
const DELAYED: Design = Design::SOFTDEP.delayed();
const MIRRORS: Design = Design::SYNC.on(Device::Raid1);
const PARITY: Design = Design::SYNC.on(Device::Raid5);
const MEMORY: Design = Design::SYNC.on(Device::Nvram);

const fn cut(bug: &'static str, design: Design, workload: &'static str) -> Row {
    row(bug, design, How::Cut(workload))
}

const fn ways(
    bug: &'static str,
    design: Design,
    scene: &'static str,
    way: Way,
    effort: Effort,
) -> Row {
    row(bug, design, How::Way(scene, way, effort))
}

const fn row(bug: &'static str, design: Design, how: How) -> Row {
    Row { bug, design, how }
}

/// Rows that take seconds.
pub(super) const ROWS: &[Row] = &[
    // The order in which changes reach the disk.
    cut("EqualRanks", Design::SYNC, "create bar unchecked"),
    cut("DroppedFlush", Design::SYNC, "create bar unchecked"),
    cut("EarlyReceipts", Design::SYNC, "create bar unchecked"),
    cut("RankTooEarly", Design::SYNC, "rmdir B"),
    cut("EarlyNames", Design::SYNC, "create bar unchecked"),
    cut("LateBlocks", Design::SYNC, "mkdir A/C"),
    cut("LateBits", Design::SYNC, "create bar unchecked"),
    cut("LateLinks", Design::SYNC, "mkdir A/C"),
    cut("EarlyLinkDrops", Design::SYNC, "rmdir B"),
    cut("EarlySizes", Design::SYNC, "write foo append filesync"),
    cut("EarlyInodeClears", Design::SYNC, "remove foo"),
    cut("EarlyBits", Design::SYNC, "rmdir B"),
    cut("DropsFirst", Design::SYNC, "rename foo bar"),
    cut("EarlyRetargets", Design::SYNC, "rename foo A/foo"),
    cut("OldestFirst", Design::SYNC, "rename foo A/foo"),
    cut("ForgottenUndoes", Design::SYNC, "rename foo A/foo"),
    cut("UnorderedFields", Design::SYNC, "mkdir A/C, symlink A/bar 200"),
    // Contents of files, and reused space.
    cut("EarlyReuse", Design::SYNC, "write foo append filesync, resize foo 0"),
    cut("LeakedFragments", Design::SYNC, "create bar unchecked"),
    cut("RaggedTail", Design::SYNC, "write A/foo append filesync"),
    cut("EarlyZeros", Design::SYNC, "resize foo 3000"),
    cut("HollowEnd", Design::SYNC, "resize A/foo 60000"),
    cut("LazyDataSync", Design::SYNC, "write foo append datasync"),
    cut("EmptyCommit", Design::SYNC, "write foo append commit"),
    cut("LandsAfterRemoval", Design::SYNC, "write foo append unstable, rename A/foo foo"),
    cut("KeepsPages", Design::SYNC, "write foo append unstable, resize foo 0"),
    cut("UnlockedWrites", Design::SYNC, "write foo append filesync, write foo extend filesync"),
    cut("SameGeneration", Design::SYNC, "rmdir B"),
    cut("AnyGeneration", Design::SYNC, "create bar unchecked"),
    // Replies.
    cut("UnreceiptedReplies", Design::SYNC, "create bar unchecked"),
    cut("UnreceiptedAttributes", Design::SYNC, "rmdir B"),
    cut("UnreceiptedNames", Design::SYNC, "create bar unchecked"),
    cut("UnreceiptedCommits", Design::SYNC, "write foo append commit"),
    cut("UnwaitedRemovals", Design::SYNC, "rmdir B"),
    cut("DroppedLock", Design::SYNC, "write A/foo append filesync, resize A/foo 60000"),
    cut("ForgottenConnections", Design::SYNC, "create bar unchecked"),
    cut("UnnotedRunning", Design::SYNC, "create bar unchecked"),
    cut("ForgottenRefusals", Design::SYNC, "link foo A/foo"),
    cut("ForgottenLinks", Design::SYNC, "link foo bar"),
    cut("AnyArguments", Design::SYNC, "create bar unchecked"),
    cut("OverstatedStability", Design::SYNC, "write foo append unstable"),
    cut("UnsetVerifier", Design::SYNC, "write foo append filesync"),
    cut("ConstantVerifier", Design::SYNC, "write foo append filesync"),
    cut("KeptVerifier", Design::SYNC, "write foo append commit"),
    cut("HalfVerifier", Design::SYNC, "create bar exclusive"),
    // Delayed volumes: requests for durability, and the state after a cut.
    cut(
        "AcceptedCommits",
        Design::SYNC.delayed(),
        "create bar unchecked, write foo append filesync",
    ),
    cut("AcceptedCommits", Design::LOG.delayed(), "create bar unchecked, write foo append commit"),
    cut("RaisedGenerations", Design::SYNC.delayed(), "create bar unchecked"),
    cut("RaisedGenerations", Design::LOG.delayed(), "mkdir A/C"),
    cut("EqualRanks", Design::SYNC.delayed(), "create bar unchecked"),
    // The order in which soft updates land.
    cut("EmptiedEarly", DELAYED, "rename A/foo bar, rmdir A"),
    cut("EarlyDrops", Design::SOFTDEP, "link foo A/bar, remove foo"),
    cut("EarlyDrops", DELAYED, "link foo bar, remove foo, write bar append commit"),
    cut("EarlyInodeClears", DELAYED, "link foo bar, remove foo, remove bar"),
    cut("UnorderedFields", DELAYED, "write foo append unstable, resize foo 0"),
    cut("UnorderedFields", DELAYED, "rename A/foo foo, rename foo bar"),
    cut("OldestFirst", DELAYED, "rename foo A/foo"),
    cut("ForgottenUndoes", DELAYED, "rename foo A/foo"),
    cut("EarlyReuse", DELAYED, "write foo append filesync, resize foo 0"),
    cut("EarlyReceipts", Design::SOFTDEP, "create bar unchecked"),
    cut("DroppedFlush", Design::SOFTDEP, "create bar unchecked"),
    cut("UnreceiptedReplies", Design::SOFTDEP, "create bar unchecked"),
    cut("LooseCommits", DELAYED, "rename A B, write B/foo append filesync"),
    cut("LooseCommits", DELAYED, "rename A B, write B/foo append commit"),
    cut("AcceptedCommits", DELAYED, "create bar unchecked, write foo append filesync"),
    cut("RaisedGenerations", DELAYED, "create bar unchecked"),
    // Snapshots; the tests of `shadow` find more of these bugs.
    cut("ForgottenPins", Design::SHADOW, "write foo overlap filesync"),
    cut("KeptDeaths", Design::SHADOW, "resize foo 0"),
    // Ways in and out of a volume.
    ways("HastyStop", Design::SYNC, "used", Way::Stop, Effort::FIRST),
    ways("HastyRepairs", Design::SYNC, "used", Way::Repair, Effort::FIRST),
    ways("TornMemory", Design::LOG, "rest", Way::Serve, Effort::FIRST),
    ways("ReplayedRest", Design::LOG, "used", Way::Stop, Effort::FIRST),
    ways("ReplayedRest", Design::LOG, "used", Way::Repair, Effort::FIRST),
    ways("DroppedChains", Design::LOG, "chain", Way::Repair, Effort::FIRST),
    ways("UnwaitedChains", Design::LOG, "chain", Way::Stop, Effort::FIRST),
    ways("RetoldFirsts", Design::LOG, "long", Way::Shorten, Effort::FIRST),
    ways("BelievedCaches", Design::LOG, "used", Way::Work, Effort::SHORT),
    // Bytes of WRITE, the log and COMMIT.
    row("ShortCommits", Design::SYNC, How::Stories(1)),
    row("ShortCommits", Design::LOG, How::Stories(1)),
    row("EmptyCommit", Design::SYNC, How::Stories(1)),
    row("TornTails", Design::SYNC, How::Stories(1)),
    row("TornTails", Design::LOG, How::Stories(1)),
    row("NoRevokes", Design::LOG, How::Stories(1)),
    row("NoFreeingRevokes", Design::LOG, How::Stories(1)),
    row("EarlyEntries", Design::LOG, How::Stories(1)),
    row("LateCover", Design::LOG, How::Stories(1)),
    row("EagerHead", Design::LOG, How::Stories(1)),
    row("UnlandedDelays", Design::LOG, How::Stories(1)),
    row("UnseenDelays", Design::LOG, How::Stories(1)),
    row("OvertakenDelays", Design::LOG, How::Stories(1)),
    row("LaterRuns", Design::LOG, How::Stories(1)),
    row("ShorterRuns", Design::LOG, How::Stories(4)),
    row("FragmentTails", Design::LOG, How::Stories(1)),
    row("ReplayedRest", Design::LOG, How::Stories(1)),
    row("VacatedData", Design::SYNC, How::Stories(1)),
    row("VacatedData", Design::LOG, How::Stories(1)),
    row("HastyCandidates", Design::SOFTDEP, How::Case("data softdep: 1004728 full")),
    row("HastyCandidates", Design::SOFTDEP, How::Case("data softdep: 1003194 full")),
    // Histories of several clients.
    row("EarlyReceipts", Design::SYNC, How::Histories),
    row("EqualRanks", Design::SYNC, How::Histories),
    row("ConstantVerifier", Design::SYNC, How::Histories),
    row("UnwaitedLooks", Design::SYNC, How::Histories),
    row("ConnectionInKey", Design::SYNC, How::Histories),
    row("UnnotedRunning", Design::SYNC, How::Histories),
    row("PassedAnswers", Design::LOG, How::Histories),
    row("UnkeptAnswers", Design::LOG, How::Histories),
    row("UninheritedAnswers", Design::LOG, How::Histories),
    row("UntoldAnswers", Design::LOG, How::Histories),
    row("NoOrder", Design::RAM, How::Histories),
    row("StagedReceipts", Design::RAM, How::Histories),
    row("ForgottenAnswers", Design::RAM, How::Histories),
    // Repeated calls.
    row("ConnectionInKey", Design::SYNC, How::Calls(Expectation::Documented)),
    row("UnnotedRunning", Design::SYNC, How::Calls(Expectation::Documented)),
    row("XidAlone", Design::SYNC, How::Calls(Expectation::Documented)),
    row("EarlyReceipts", Design::SYNC, How::Calls(Expectation::Documented)),
    row("journal/EarlyAnswers", Design::LOG, How::Calls(Expectation::Documented)),
    row("UnkeptAnswers", Design::LOG, How::Calls(Expectation::Original)),
    row("lfs/ForgottenAnswers", Design::LFS, How::Calls(Expectation::Original)),
    row("LateIntents", Design::SYNC, How::Calls(Expectation::Original)),
    row("BelievedIntents", Design::SYNC, How::Calls(Expectation::Original)),
    row("UnfinishedIntents", Design::SYNC, How::Calls(Expectation::Original)),
    row("LateIntents", Design::SOFTDEP, How::Calls(Expectation::Original)),
    row("UnfinishedIntents", Design::SOFTDEP, How::Calls(Expectation::Original)),
    row("HalfAnswers", Design::LOG, How::Calls(Expectation::Original)),
    // Errors of disks.
    row("IgnoredFlushErrors", Design::SYNC, How::Faults(1)),
    row("ForgottenPayloadErrors", Design::SYNC, How::Faults(1)),
    row("KeptVerifier", Design::SYNC, How::Faults(1)),
    row("ServingOn", Design::SYNC, How::Faults(1)),
    row("IgnoredLogErrors", Design::LOG, How::Faults(1)),
    row("RottenLosses", Design::LOG, How::Case("faults log: 3 469")),
    // Full volumes.
    row("KeptPlans", Design::SHADOW, How::Worlds),
    row("KeptRecords", Design::SHADOW, How::Worlds),
    row("UnfoldedFrees", Design::SHADOW, How::Worlds),
    // Crowds.
    row("door/UnofferedPlaces", Design::LOG, How::Crowds),
    row("door/SkippedTurns", Design::RAM, How::Crowds),
    row("door/EndlessTurns", Design::RAM, How::Crowds),
    row("door/UncountedCalls", Design::SYNC, How::Crowds),
    row("door/LatePatience", Design::RAM, How::Crowds),
    row("door/UnhurriedCalls", Design::RAM, How::Crowds),
    row("door/UnhurriedOccupants", Design::RAM, How::Crowds),
    row("door/AdmittedStrangers", Design::SHADOW, How::Crowds),
    row("door/HurriedAccept", Design::RAM, How::Crowds),
    // Replies that differ from the reference's.
    row("LeakedFragments", Design::SYNC, How::Reference(3)),
    row("StaleChangeTimes", Design::SYNC, How::Reference(3)),
    // Sets of disks.
    row("raid/DataFirst", PARITY, How::Contract("raid5-3-Apart-0+512-3584+1024")),
    row("raid/DataFirst", MIRRORS, How::Contract("raid1-2-Apart-0+512-3072+1536")),
    row("raid/EarlyBits", PARITY, How::Contract("raid5-3-Flushed-0+512-0+512-fresh")),
    row("raid/EarlyBits", MIRRORS, How::Contract("raid1-2-Flushed-0+512-0+512-fresh")),
    row(
        "raid/EarlyDismissals",
        PARITY,
        How::Case("two-faults sync raid5: 3 4096 replaced rot-data 71308540518931"),
    ),
    row(
        "raid/EarlyDismissals",
        MIRRORS,
        How::Case("two-faults sync raid1: 2 16384 replaced all-label 69878144227266"),
    ),
    row("raid/EarlyPlaces", PARITY, How::Contract("raid5-3-Vacated-0+512-0+8192")),
    row("raid/EarlyPlaces", MIRRORS, How::Contract("raid1-2-Vacated-0+512-0+8192")),
    row(
        "raid/ForgottenRot",
        PARITY,
        How::Case("two-faults sync raid5: 4 4096 back all-data 127772787150824"),
    ),
    row("raid/ForgottenSums", PARITY, How::Contract("raid5-3-Through-0+512-0+4096-fresh")),
    row("raid/HalfReturns", PARITY, How::Contract("raid5-3-Through-0+512-0+512-0w2")),
    row("raid/HastyMembers", MIRRORS, How::Contract("raid1-2-Rebuilt-0+512-0+512")),
    row("raid/HastyRecords", PARITY, How::Contract("raid5-3-Through-0+512-0+4096-fresh")),
    row(
        "raid/HastyLosses",
        PARITY,
        How::Case("two-faults sync raid5: 3 8192 spare unread 50814496935952"),
    ),
    row(
        "raid/CopiedDamage",
        PARITY,
        How::Case("two-faults sync raid5: 5 4096 replaced rot-table 237"),
    ),
    row(
        "raid/HastyReplacements",
        MIRRORS,
        How::Case("two-faults sync raid1: 2 16384 replaced rot-label 151847872779990"),
    ),
    row("raid/LonelyRecords", PARITY, How::Contract("raid5-3-Through-0+512-0+4096-fresh")),
    row("raid/LonelyReturns", PARITY, How::Contract("raid5-3-Through-0+512-0+4096-fresh")),
    row(
        "raid/MissedLeavers",
        MIRRORS,
        How::Case("two-faults sync raid1: 2 16384 replaced rot-label 151847872779990"),
    ),
    row("raid/OldRecords", MIRRORS, How::Contract("raid1-2-Rebuilt-0+512-0+512")),
    row("raid/OldStripes", MIRRORS, How::Contract("raid1-2-Vacated-0+512-0+8192")),
    row(
        "raid/ReplacedTables",
        PARITY,
        How::Case("two-faults sync raid5: 4 8192 failed-start tables 22609979740694"),
    ),
    row(
        "raid/SinglePlaces",
        MIRRORS,
        How::Case("two-faults sync raid1: 2 4096 back all-table 256264911104452"),
    ),
    row(
        "raid/SinglePlaces",
        PARITY,
        How::Case("two-faults sync raid5: 4 8192 back all-table 208306774407189"),
    ),
    row("raid/StaleBlocks", PARITY, How::Contract("raid5-4-Together-0+4096-3584+1024")),
    row("raid/StaleParity", PARITY, How::Contract("raid5-3-Apart-0+512-4096+16384-0w1")),
    row("raid/UnjudgedReads", MIRRORS, How::Contract("raid1-2-Flushed-0+512-3584+1024")),
    row("raid/UnjudgedReads", PARITY, How::Contract("raid5-3-Flushed-0+8192-3584+1024")),
    row(
        "raid/UnaskedLogs",
        PARITY,
        How::Case("two-faults sync raid5: 5 4096 away all-label 51534071429155"),
    ),
    row(
        "raid/UnknownAbsences",
        PARITY,
        How::Near("two-faults sync raid5: 3 8192 away all-data 88603110360336"),
    ),
    row("raid/UnloggedMaps", PARITY, How::Contract("raid5-3-Through-0+512-0+4096-fresh")),
    row("raid/UnsummedRecords", PARITY, How::Contract("raid5-3-Through-0+512-0+512")),
    row("raid/UntoldLosses", PARITY, How::Contract("raid5-3-Apart-0+512-4096+16384-0w1")),
    row("raid/UnzeroedStripes", PARITY, How::Contract("raid5-3-Flushed-0+512-0+512-fresh")),
    row(
        "raid/WideColumns",
        PARITY,
        How::Case("two-faults sync raid5: 3 8192 spare unread 50814496935952"),
    ),
    // NVRAM.
    row("nvram/EarlyClean", MEMORY, How::Near("contract sync nvram: none none 1")),
    row("nvram/HastyReuse", MEMORY, How::Near("contract sync nvram: none none 1")),
    row("nvram/OverwrittenClean", MEMORY, How::Near("contract sync nvram: none none 12")),
    row("nvram/BlindBypass", MEMORY, How::Near("contract sync nvram: none none 1")),
    row("nvram/HalfFlush", MEMORY, How::Near("contract sync nvram: none none 1")),
    row("nvram/ForgottenSectors", MEMORY, How::Near("contract sync nvram: none none 738004665048")),
    row("nvram/RotIsTorn", MEMORY, How::Near("contract sync nvram: none rot-data 1")),
    row("nvram/UnreadIsTorn", MEMORY, How::Near("contract sync nvram: none unread 6")),
    row("nvram/UnreadIsVoid", MEMORY, How::Near("contract sync nvram: none unread 1")),
    row("nvram/TornIsRot", MEMORY, How::Near("contract sync nvram: none none 1")),
    row("nvram/FirstFound", MEMORY, How::Near("contract sync nvram: none none 1")),
    row("nvram/HastyDown", MEMORY, How::Near("contract sync nvram: none none 2")),
    row("nvram/AnyVolume", MEMORY, How::Near("contract sync nvram: none none 1")),
    row("nvram/OldSequences", MEMORY, How::Near("contract sync nvram: none none 815343007250")),
    row("nvram/AnyGeneration", MEMORY, How::Near("contract sync nvram: none none 738004665048")),
    row("nvram/UnsaidDirt", MEMORY, How::Near("contract sync nvram: none none 1")),
    row("nvram/HastyWord", MEMORY, How::Near("contract sync nvram: full none 18")),
    row(
        "nvram/UnsaidRetirement",
        MEMORY,
        How::Near("contract sync nvram: memory-flush none 332828754606"),
    ),
    row("nvram/SettledLoss", MEMORY, How::Near("contract sync nvram: none rot-data 327094131070")),
    row("nvram/ForgottenLoss", MEMORY, How::Near("contract sync nvram: none rot-data 95")),
    row("nvram/HastySuccessor", MEMORY, How::Near("contract sync nvram: none none 22")),
    row("nvram/StrandedEntries", MEMORY, How::Near("contract sync nvram: memory-flush none 16")),
    row(
        "nvram/FirstLabelFirst",
        MEMORY,
        How::Near("contract sync nvram: none rot-label 1036934517348"),
    ),
    row("nvram/UnreadIsDurable", MEMORY, How::Near("contract sync nvram: none unread 22")),
    row("nvram/IgnoredBattery", MEMORY, How::Near("contract sync nvram: battery none 0")),
    row("nvram/HastyPass", MEMORY, How::Near("contract sync nvram: battery none 14")),
    row("nvram/TrustingFlush", MEMORY, How::Near("contract sync nvram: battery none 128")),
    row("nvram/UnsaidReturn", MEMORY, How::Near("contract sync nvram: battery none 24")),
    // Two of them.
    row("nvram/AlikeIsRight", MEMORY, How::Near("contract sync nvram: none rot-data 81 two")),
    row("nvram/BelievedTwin", MEMORY, How::Near("contract sync nvram: none none 11 two")),
    row("nvram/UnequalTwins", MEMORY, How::Near("contract sync nvram: none none 71511077722 two")),
    row("nvram/UnfilledTwin", MEMORY, How::Near("contract sync nvram: memory-write none 57 two")),
    // Damage that stays local.
    row("UnsummedReads", Design::SHADOW, How::Rot),
    row("UnwrittenTwins", Design::SHADOW, How::Rot),
    row("LostLines", Design::SHADOW, How::Rot),
    row("UnfollowedUpdates", Design::SHADOW, How::Rot),
    row("StuckChains", Design::SHADOW, How::Rot),
    row("KeptLeaves", Design::SHADOW, How::Rot),
    row("UnmendedTwins", Design::SHADOW, How::Rot),
    row("RefusedRollBacks", Design::SHADOW, How::Rot),
    row("FreeBehindDamage", Design::SHADOW, How::Rot),
    row("ForgottenHomeless", Design::SHADOW, How::Rot),
    row("BlockedLists", Design::SHADOW, How::Rot),
];

/// Rows that take minutes, each for a bug that another row finds in seconds.
pub(super) const SLOW_ROWS: &[Row] = &[
    row("raid/HalfReturns", PARITY, How::Contract("raid5-3-Through-0+512-0+4096-fresh")),
    row("raid/HastyMembers", PARITY, How::Contract("raid5-3-Rebuilt-0+8192-3584+1024")),
    row("raid/OldRecords", PARITY, How::Contract("raid5-3-Returned-0+8192-4096+16384")),
    row("raid/OldStripes", PARITY, How::Contract("raid5-3-Vacated-0+16896-0+8192")),
];
