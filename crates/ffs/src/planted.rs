//! Bugs that tests plant to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// An Update shows on the disk before its intent is durable.
    LateIntents,
    /// Updates that change the same name land side by side.
    OverlappingEvidence,
    /// Of an Update that changes an inode which is evidence, counts of links and sizes land early.
    EarlyLinkCounts,
    /// An intent is believed although the intents that it waits for are not done.
    IgnoredIntentOrder,
    /// Intents are believed although the volume does not bear the number of their epoch.
    AnyMark,
    /// An intent is believed without a look at the disk.
    BelievedIntents,
    /// Operations that have begun are remembered but not finished.
    UnfinishedIntents,
    /// The intent of a truncation that goes on is given up with its batch.
    PrunedChains,
    /// A truncation that had come to its end goes on at each start.
    EndlessGoals,
    /// Intents in front of a gap of the ring are judged by the disk, and a ring at rest without its
    /// end is whole.
    TrustedGaps,
    /// A ring at rest is believed when the mark is torn, whatever the time of the volume.
    TimelessMarks,
    /// A sector of the ring that cannot be read refuses the start.
    UnforgivenSectors,
    /// A repair gives the intents up if the host is full.
    GivenUpIntents,
    /// A repair forgets the intents of a volume.
    RepairedIntents,
    /// Verdicts by inodes are written when other intents are finished.
    LateVerdicts,
    /// Judged intents are not written to the new epoch.
    ForgottenVerdicts,
    /// All items of an Update land in one round.
    EqualRanks,
    /// Names are dropped or retargeted without regard to earlier Updates.
    EarlyDrops,
    /// Fragments freed by file data are reused at once.
    EarlyReuse,
    /// Pointers may land in the same round as the data behind them.
    UnflushedPayload,
    /// Receipts come when everything is written, but not flushed.
    EarlyReceipts,
    /// Deltas of one field land in any order.
    UnorderedFields,
    /// The last fragment of each freed run stays taken.
    LeakedFragments,
    /// A user is refused the last fragment above the reserve.
    EarlyRefusals,
    /// A user may take one fragment of the reserve.
    SmallReserve,
    /// Blocks reserved for UNSTABLE data are taken by others.
    BrokenPromises,
    /// A settle waits until nothing is dirty, including what becomes dirty meanwhile.
    EndlessSettling,
    /// A round ends without a flush.
    DroppedFlush,
    /// A wanted Update is pushed without its dependencies.
    LonelyPushes,
    /// A name is durable although its directory's name is not.
    LooseNames,
    /// The link that goes with a cancelled name goes before the link that came with it.
    UncountedCancels,
    /// A block is reused while a write of it is in flight.
    HastyReuse,
    /// A round does not know the dependents of Updates that were staged since the last round.
    StaleHangs,
    /// A file that comes and goes leaves no trace although a name of it may be on the disk.
    NamedVoids,
    /// A file that comes and goes is forgotten although a write has included part of it.
    WrittenVoids,
    /// The old name of a file whose new one was cancelled waits for nothing.
    LooseCancels,
    /// Blocks are freed before the directory shows that the name has gone.
    UnseenDrops,
    /// A directory run moves before the changes in it are durable.
    LooseRuns,
    /// A removal is answered when the name is gone but the file is not.
    HastyTelling,
    /// A link goes before the directory shows that its name has gone.
    UnshownDrops,
    /// The name of a directory goes before an entry that was moved out of it has its new name.
    EmptiedEarly,
    /// An Update lands before the Updates that it rests on.
    LooseUpdates,
    /// Each rank lands one round too early.
    RankTooEarly,
    /// Names land together with the inodes that they name, or before them.
    EarlyNames,
    /// Blocks and chunks are initialised after the pointers to them.
    LateBlocks,
    /// Fragments and inodes are marked *used* after they are pointed at.
    LateBits,
    /// Link counts rise after the name appears.
    LateLinks,
    /// Link counts fall along with the name.
    EarlyLinkDrops,
    /// Sizes and pointers of inodes land before pointers in indirect blocks.
    SizesFirst,
    /// Sizes and pointers of inodes land along with the data.
    EarlySizes,
    /// Inodes are cleared along with the name.
    EarlyInodeClears,
    /// Fragments and inodes are marked *free* while they are still pointed at.
    EarlyBits,
    /// The old name of a moved file goes before the new one appears.
    DropsFirst,
    /// A name names another file before that file has the link.
    EarlyRetargets,
    /// Directory chunks and pointer blocks are initialised together with the inodes that point at
    /// them.
    BlocksWithInodes,
    /// A name leads to a new directory before the parent counts the link.
    EarlyLinks,
    /// '..' of a moved directory names its new parent before the parent names the directory.
    EarlyParents,
    /// '..' of a moved directory changes together with an entry that is retargeted to the
    /// directory.
    ParentsWithNames,
    /// '..' of a moved directory names its old parent when that no longer names the directory.
    LateParents,
    /// Pointers go while the size still covers them.
    EarlyPointerClears,
    /// Pointers behind the end go together with the bits of their blocks.
    LatePointerClears,
    /// Changes that may not land yet are undone oldest first.
    OldestFirst,
    /// Changes that were undone in one write are missing from the next.
    ForgottenUndoes,
    /// A file that grows keeps the old bytes on the disk behind its old end.
    RaggedTail,
    /// The same, but only within the fragment in which the file ends.
    FragmentTails,
    /// The tail behind a new end is zeroed before the new end is durable.
    EarlyZeros,
    /// A long file may end in a hole.
    HollowEnd,
    /// No space is reserved for the indirect blocks that lead to UNSTABLE data.
    UnpaidWays,
    /// No blocks are kept for files that become shorter and end in a hole.
    UnkeptBlocks,
    /// An in-place write that finds the device below full stops the volume.
    StoppedByRefusals,
    /// A change waits for room in the log, holding its locks, while the filesystem below is full.
    PatientChanges,
    /// A volume takes back its log although another volume has changes in it by now.
    OverwrittenOthers,
    /// A caller that waits for a change waits on when the device below is full.
    PatientAnswers,
    /// Only the first half of an exclusive creation's verifier is kept.
    HalfVerifier,
    /// A new file has the next generation, which a file taken by a crash may have had.
    RaisedGenerations,
    /// Any number of a volume's entries may wait for the writer of the log.
    EndlessQueue,
    /// Undo records may take any amount of memory.
    EndlessDeltas,
    /// Changes are admitted no matter how many blocks pending ones pin.
    UnboundedPins,
    /// A new file has the generation of the previous file in its inode.
    SameGeneration,
    /// The log does not record that fragments are taken.
    UnloggedBits,
    /// Data overwritten in place may be overwritten by the copy in an older entry.
    NoRevokes,
    /// The same, if the copy in the entry begins before the data.
    LaterRuns,
    /// If two data runs in the log begin at the same place, only the newer counts.
    ShorterRuns,
    /// Room is reserved for zeros in an entry as if they were data.
    HeavyZeros,
    /// The entry at the head counts as one that will not be replayed.
    ForgottenAtTheHead,
    /// Freed space may be overwritten by the copy in an older entry.
    NoFreeingRevokes,
    /// An entry is submitted before the payload that it reveals is flushed.
    EarlyEntries,
    /// A hold drops when the in-place write completes, before the flush.
    EarlyHolds,
    /// In-place writes include changes that are not in the log yet.
    UnloggedHome,
    /// Entries are replayed in the wrong order.
    ReplayBackwards,
    /// A new epoch begins before the replayed changes are flushed.
    EarlyEpoch,
    /// The head in an entry is too new.
    EagerHead,
    /// A log at rest is replayed, without a survey.
    ReplayedRest,
    /// Log contents that may be in a cache alone are believed without a flush.
    BelievedCaches,
    /// A chain that is recorded anew gives up its old place at once.
    ReplacedChains,
    /// The first answer of a long call is rewritten after its last one.
    RetoldFirsts,
    /// Updates may take the whole log, and leave nothing for recovery.
    NothingKeptBack,
    /// A writer that finds nothing due wakes no waiter.
    SilentWriter,
    /// The head passes chains that have not ended.
    PassedChains,
    /// Calls that free space leave no answer in the log.
    UnkeptAnswers,
    /// The head passes answers that must be remembered.
    PassedAnswers,
    /// Answers far behind the tail are considered rewritten, but are not.
    UntoldAnswers,
    /// Answers of the previous epoch are not rewritten in the next.
    UninheritedAnswers,
    /// The volume bears an epoch before that has the answers of the previous one.
    LateInheritance,
    /// A clean stop leaves no answers in the log.
    RestlessAnswers,
    /// A volume is marked clean before its clean stop is durable.
    HastyStop,
    /// A volume with a torn mark forgets the answers in its log.
    TornMemory,
    /// If a call has two answers, the first one counts.
    FirstAnswers,
    /// Answers are rewritten even if no caller wants them.
    UnwantedAnswers,
    /// A shared log does not save the entries of absent volumes.
    UnsavedAbsent,
    /// A volume takes all entries of a shared log for its own.
    EverybodysEntries,
    /// The head of a shared log is that of its first volume.
    FirstHead,
    /// The entries of a stopped volume stay in the shared log.
    HeldUp,
    /// The epoch of a shared log is founded before it has taken over what volumes need.
    EarlyFounding,
    /// A write to a block lands after the block was given to another file.
    LateLandings,
    /// A replay does not update the summary rows.
    StaleRows,
    /// The sync does not update the summary rows.
    LeftRows,
    /// A replay sets the bits of inodes that end, and clears those of inodes that begin.
    FlippedInodeBits,
    /// The log does not record that the rest of a new indirect block is zero.
    NoZeros,
    /// A file with a damaged pointer is never freed to its end.
    EndlessFrees,
    /// A repair gives up where the freeing of a file cannot go on.
    StuckRepairs,
    /// Updates staged while a batch was being written are answered with it.
    EagerReceipts,
    /// A flush counts for payload that was written while the flush was in flight.
    LateCover,
    /// A buffer keeps its deltas when its block is freed.
    KeptDeltas,
    /// A failed write of the log counts as successful.
    IgnoredLogErrors,
    /// A failed flush counts as successful.
    IgnoredFlushErrors,
    /// A patient Update waits until a caller asks for it.
    EndlessPatience,
    /// A patient Update waits no matter who asks for it.
    DeafPatience,
    /// The sync does not write delayed data in place, and the log forgets it.
    UnlandedDelays,
    /// A write before the old end of a growing file does not include the bytes in between.
    TornTails,
    /// The old data counts as unneeded while it is being overwritten.
    VacatedData,
    /// Data counts as written although its write failed.
    ForgottenPayloadErrors,
    /// A block of inodes is read from the disk although it has a buffer.
    PassedBuffers,
    /// A shared log still believes volumes that bear the previous epoch.
    OldBearers,
    /// A repair closes a log that has chains which have not ended.
    DroppedChains,
    /// Space that a caller frees while reclaim runs may be reclaimed once more.
    KeptCandidates,
    /// Candidates are freed while a file that leads to some of them is still being freed.
    HastyCandidates,
    /// Link changes behind the scan of reclaim are not followed.
    UnfollowedLinks,
    /// Directories in inodes that were initialised after the opening are not followed.
    UnfollowedNewcomers,
    /// The tail of a file is cleared according to an outdated copy of its inode.
    StaleEnds,
    /// Pointers behind the end of a file stay when it is loaded after a crash.
    UnsettledEnds,
    /// A torn group is used at once.
    OpenTornGroups,
    /// A stop in the middle of reclaim leaves the volume clean.
    CleanReclaim,
    /// A dropped plan wakes the tasks that wait for space, though it frees nothing.
    CircularWaits,
    /// A round of soft updates looks at every Update that is pending.
    WholeRounds,
}
