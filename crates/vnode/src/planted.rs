//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// A name that comes back takes any slot, so that it may appear twice.
    WanderingNames,
    /// A directory may be longer than the volume on which it is.
    BoundlessDirectories,
    /// A truncation in steps reports its first step to the witness, and not its last.
    FirstStepTold,
    /// A page that is rewritten while its older content is written back is dropped with it.
    ForgottenRewrites,
    /// Every boot has the same verifier.
    ConstantVerifier,
    /// A task that finds no space abandons the write-back of others halfway.
    AbandonedLandings,
    /// Data that was overwritten in place by a write for which the log had no room is believed.
    UndoubtedRefusals,
    /// A handle names whatever file has its inode.
    AnyGeneration,
    /// DATA_SYNC is taken for UNSTABLE.
    LazyDataSync,
    /// A COMMIT of 0 bytes commits nothing, and not all.
    EmptyCommit,
    /// A COMMIT of a range leaves out its last block if it covers that in part.
    ShortCommits,
    /// The space reserved for an old last block is released with the first page of a write.
    EarlyTails,
    /// UNSTABLE data of a file that was removed is kept.
    LandsAfterRemoval,
    /// UNSTABLE data of a file that is cut short is kept.
    KeepsPages,
    /// A COMMIT does not wait for UNSTABLE data that landed before it.
    UnwaitedLandings,
    /// Where UNSTABLE data was lost in the background, the file shows what the disk has there.
    RottenLosses,
    /// A reply that shows a directory waits for its newest change alone.
    NewestAlone,
    /// A handle is called stale before the removal is durable.
    UnwaitedRemovals,
    /// A call that fails after its first step is remembered with the reply of that step.
    UntoldFailures,
    /// Chains begin however many cannot go on.
    ManyStuck,
    /// A chain stays unfinished where a block is another.
    EndlessChains,
    /// A chain that was cut is not finished.
    ForgottenChains,
    /// A file whose change in steps could not go on is used as if the change had ended.
    LooseChains,
    /// A COMMIT says nothing of data whose write failed, though readers see it.
    ForgottenDoubts,
    /// The write verifier stays when data is lost.
    KeptVerifier,
    /// A volume that has stopped goes on answering.
    ServingOn,
    /// A write leaves the change time as it was.
    StaleChangeTimes,
    /// All names have one hash. That alone is no fault: finding one takes longer.
    OneHash,
    /// All names have one hash, and the first of them is taken for any.
    UncomparedNames,
    /// Attributes always come from the inode, whatever vnode is in memory.
    UnaskedNodes,
    /// A clean stop does not wait for chains that were cut off and go on.
    UnwaitedChains,
    /// A second name of a directory that a crash left is listed.
    SecondNames,
    /// A directory moves or ends while another name of it may be left.
    HastyMoves,
    /// A handle names a directory to which no name leads any more.
    LostDirectories,
    /// An answer about a snapshot does not wait until the snapshot is durable.
    UnwaitedPins,
    /// A snapshot holds a truncation in its middle.
    PinsAmidSteps,
    /// A snapshot waits for large files that are being freed.
    PinsAwaitOrphans,
    /// A large file that a roll-back discarded is freed when its disk works again.
    SurvivingOrphans,
    /// The removal of a large file waits for a place among the chains under its locks.
    LockedWaits,
    /// A snapshot lacks UNSTABLE data that was answered before.
    UnwrittenPins,
    /// A snapshot that was deleted is still found.
    LastingSnapshots,
    /// A client is promised that a file stays before the file is known to have a name.
    HastyPromises,
    /// A stored reply keeps only the facts about the first file.
    HalfAnswers,
    /// A stop waits until all large files are freed.
    PatientStops,
    /// A stop waits for the engine's background task however long there is no room below.
    EndlessBackground,
}
