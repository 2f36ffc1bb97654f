//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// An Update is seen on the disk before its intent is durable.
    LateIntents,
    /// Updates that change the same name land side by side.
    OverlappingEvidence,
    /// An intent is believed although those that it waits for are not done.
    IgnoredIntentOrder,
    /// Intents are believed although the volume does not bear the number of their epoch.
    AnyMark,
    /// An intent is believed without a look at the disk.
    BelievedIntents,
    /// What has begun is remembered and not finished.
    UnfinishedIntents,
    /// A repair forgets the intents of a volume.
    RepairedIntents,
    /// Intents that were judged are not written to the new epoch.
    ForgottenVerdicts,
    /// Everything of an Update lands in one round.
    EqualRanks,
    /// Names go, or are taken over, without a look at earlier Updates.
    EarlyDrops,
    /// Fragments that file data has left are taken again at once.
    EarlyReuse,
    /// Pointers may land in the same round as the data behind them.
    UnflushedPayload,
    /// Receipts come when everything is written, and not yet flushed.
    EarlyReceipts,
    /// Deltas of one field land in any order.
    UnorderedFields,
    /// Of each run of fragments that is given back, the last one stays taken.
    LeakedFragments,
    /// A user is refused the last fragment above the reserve.
    EarlyRefusals,
    /// A user may take one fragment of the reserve.
    SmallReserve,
    /// Blocks that are set aside for UNSTABLE data are taken by others.
    BrokenPromises,
    /// Who settles a volume waits until nothing is dirty, however much becomes so meanwhile.
    EndlessSettling,
    /// A round ends without a flush.
    DroppedFlush,
    /// What is wanted is pushed without what it depends on.
    LonelyPushes,
    /// A name is durable although that of its directory is not.
    LooseNames,
    /// A link that goes with a name that was cancelled goes before the one that came with it.
    UncountedCancels,
    /// A block is used again while a write of it is on its way.
    HastyReuse,
    /// A round does not know what hangs of that which was staged since the last one.
    StaleHangs,
    /// A file that comes and goes leaves no trace although a name of it may be on the disk.
    NamedVoids,
    /// A file that comes and goes is forgotten although a write has taken something of it along.
    WrittenVoids,
    /// The old name of a file whose new one was cancelled waits for nothing.
    LooseCancels,
    /// Blocks go although the directory does not show yet that the name has gone.
    UnseenDrops,
    /// A run of a directory moves before what was changed in it is durable.
    LooseRuns,
    /// A removal is answered when the name is gone, and before the file is.
    HastyTelling,
    /// A link goes before the directory shows that its name has gone.
    UnshownDrops,
    /// The name of a directory goes before what was moved out of it has another.
    EmptiedEarly,
    /// An Update lands before those on which it rests.
    LooseUpdates,
    /// Each rank lands one round too early.
    RankTooEarly,
    /// Names land with the inodes that they name, or before them.
    EarlyNames,
    /// Blocks and chunks are initialised after what points at them.
    LateBlocks,
    /// The maps say *used* after something points there.
    LateBits,
    /// Link counts rise after the name is there.
    LateLinks,
    /// Link counts fall along with the name.
    EarlyLinkDrops,
    /// Sizes and pointers of inodes land before pointers in indirect blocks.
    SizesFirst,
    /// Sizes and pointers of inodes land along with the data.
    EarlySizes,
    /// Inodes are cleared along with the name.
    EarlyInodeClears,
    /// The maps say *free* while something points there.
    EarlyBits,
    /// The old name of a file that moves goes before the new one is there.
    DropsFirst,
    /// A name names another file before that has the link.
    EarlyRetargets,
    /// Directory chunks and pointer blocks are initialised along with inodes that point at them.
    BlocksWithInodes,
    /// A name leads to a new directory before the parent counts that.
    EarlyLinks,
    /// '..' of a directory that moves names its new parent before that names it.
    EarlyParents,
    /// '..' of a directory that moves changes along with the name that names it instead of another.
    ParentsWithNames,
    /// '..' of a directory that moves names its old parent when that does not name it any more.
    LateParents,
    /// Pointers go while the size still covers them.
    EarlyPointerClears,
    /// Pointers behind the end go along with the bits of what they point at.
    LatePointerClears,
    /// What may not land yet is undone in the order in which it was done.
    OldestFirst,
    /// What was undone in a write is not part of the next one.
    ForgottenUndoes,
    /// A file that grows keeps what stands on the disk behind its old end.
    RaggedTail,
    /// The same, but of the fragment in which it ends.
    FragmentTails,
    /// What is behind a new end is zeroed before the new end is durable.
    EarlyZeros,
    /// A long file may end in a hole.
    HollowEnd,
    /// No room is set aside for the blocks that lead to UNSTABLE data.
    UnpaidWays,
    /// No blocks are kept for files that become shorter and end in a hole.
    UnkeptBlocks,
    /// A home write for which there is no room below stops the volume.
    StoppedByRefusals,
    /// A change waits for room in the log, with its locks, while what holds the disk is full.
    PatientChanges,
    /// A volume takes its log back although another one has changes in it by now.
    OverwrittenOthers,
    /// Who waits for a change that finds no room below waits on.
    PatientAnswers,
    /// Of the verifier of an exclusive creation only the first half is kept.
    HalfVerifier,
    /// A new file has the next generation, which a file may have had that a crash took.
    RaisedGenerations,
    /// Any number of entries of a volume may wait for the writer of the log.
    EndlessQueue,
    /// What undoes changes may take any amount of memory.
    EndlessDeltas,
    /// Changes come however many blocks pending ones pin.
    UnboundedPins,
    /// A new file has the generation of the one that had its inode before.
    SameGeneration,
    /// The log does not say that fragments are taken.
    UnloggedBits,
    /// What is overwritten in place may be overwritten by what an older entry holds of it.
    NoRevokes,
    /// The same, if what the entry holds begins before what is written.
    LaterRuns,
    /// Of two runs of data in the log that begin at one place only the newer counts.
    ShorterRuns,
    /// Room is set aside for zeros that ride in an entry as for data.
    HeavyZeros,
    /// The entry at the head counts as one that will not be replayed.
    ForgottenAtTheHead,
    /// What is freed may be overwritten by what an older entry holds of it.
    NoFreeingRevokes,
    /// An entry is submitted before the payload that it reveals was flushed.
    EarlyEntries,
    /// A hold drops when the in-place write is done, before the flush.
    EarlyHolds,
    /// In-place writes carry what is not in the log yet.
    UnloggedHome,
    /// Entries are replayed in the wrong order.
    ReplayBackwards,
    /// A new epoch begins before what was replayed is flushed.
    EarlyEpoch,
    /// The head in an entry is too new.
    EagerHead,
    /// A log that is at rest is replayed, without a survey.
    ReplayedRest,
    /// What is read of a log, which may be in a cache alone, is believed without a flush.
    BelievedCaches,
    /// A chain that begins anew lets go of its old place at once.
    ReplacedChains,
    /// The first answer of a long call is told again after its last.
    RetoldFirsts,
    /// Updates may take all of the log, and leave nothing for the return.
    NothingKeptBack,
    /// A writer that finds nothing due wakes nobody.
    SilentWriter,
    /// The head passes chains that have not ended.
    PassedChains,
    /// Of calls that give something back no answer is kept.
    UnkeptAnswers,
    /// The head passes answers that are to be remembered.
    PassedAnswers,
    /// Answers that lie far behind are taken for told again, and are not.
    UntoldAnswers,
    /// Answers of the epoch before are not told again in the next.
    UninheritedAnswers,
    /// The volume bears an epoch before that has the answers of the one before.
    LateInheritance,
    /// A clean stop leaves no answers in the log.
    RestlessAnswers,
    /// A volume says that it was stopped cleanly before what that takes is durable.
    HastyStop,
    /// A volume whose mark is torn forgets the answers in its log.
    TornMemory,
    /// Of two answers of a call the first holds.
    FirstAnswers,
    /// Answers are told again, whether somebody wants them or not.
    UnwantedAnswers,
    /// What a shared log has of volumes that are not there is not saved.
    UnsavedAbsent,
    /// A volume takes the entries of all that share its log for its own.
    EverybodysEntries,
    /// The head of a shared log is that of its first volume.
    FirstHead,
    /// What a shared log has of a volume that has stopped stays where it is.
    HeldUp,
    /// The epoch of a shared log is there before it has taken over what volumes need.
    EarlyFounding,
    /// What was on its way to a block lands after the block was given to another file.
    LateLandings,
    /// A replay leaves the summary rows as they were.
    StaleRows,
    /// The sync leaves the summary rows as they were.
    LeftRows,
    /// A replay sets the bits of inodes that end, and clears those of inodes that begin.
    FlippedInodeBits,
    /// The log does not say that an indirect block that begins is zero elsewhere.
    NoZeros,
    /// What was staged while a batch was written is answered with it.
    EagerReceipts,
    /// A flush counts for payload that was written while it was under way.
    LateCover,
    /// A buffer keeps its deltas when its block is given back.
    KeptDeltas,
    /// A write of the log that fails counts as one that succeeds.
    IgnoredLogErrors,
    /// A flush that fails counts as one that succeeds.
    IgnoredFlushErrors,
    /// What waits for others waits until somebody asks for it.
    EndlessPatience,
    /// What waits for others does so whoever asks for it.
    DeafPatience,
    /// The sync leaves delayed data where it is, and the log forgets it.
    UnlandedDelays,
    /// A write before the old end of a file that grows takes nothing along of what is between.
    TornTails,
    /// Of data that is written over nothing is needed meanwhile.
    VacatedData,
    /// Data whose write fails counts as written.
    ForgottenPayloadErrors,
    /// A block of inodes is looked at on the disk though it has a buffer.
    PassedBuffers,
    /// A log that volumes share goes on believing those that bear the epoch before.
    OldBearers,
    /// A repair closes a log with chains in it that have not ended.
    DroppedChains,
    /// What a caller gives back while reclaim runs may be reclaimed once more.
    KeptCandidates,
    /// Candidates are given back while a file is still being freed that leads to some.
    HastyCandidates,
    /// Links that change behind the scan of reclaim are not followed.
    UnfollowedLinks,
    /// Directories in inodes that there were not at the opening are not followed.
    UnfollowedNewcomers,
    /// What stands behind the end of a file is cleared as its inode was a while ago.
    StaleEnds,
    /// Pointers behind the end of a file stay when it comes to memory after a cut.
    UnsettledEnds,
    /// A group that was torn is used at once.
    OpenTornGroups,
    /// A stop in the middle of reclaim leaves the volume clean.
    CleanReclaim,
    /// A plan that is dropped wakes the tasks that wait for space, though it frees nothing.
    CircularWaits,
    /// A round of soft updates looks at every Update that is pending.
    WholeRounds,
}
