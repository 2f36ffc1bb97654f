//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// A buffer is clean before a flush below covers its write.
    EarlyClean,
    /// A buffer is used again before its void mark is durable.
    HastyReuse,
    /// The latest entry of a place becomes void while an older one is on the medium.
    YoungestFirst,
    /// A superseded buffer becomes void before its successor is durable.
    HastySuccessor,
    /// A newer write during a destage counts as written below.
    OverwrittenClean,
    /// A large write passes by although buffers of its blocks are held.
    BlindBypass,
    /// A flush covers only what the NVRAM holds, not what passed by.
    HalfFlush,
    /// An overwrite of a part of a block forgets the other dirty sectors.
    ForgottenSectors,
    /// A rotten buffer is taken for a torn one, and an older version is read.
    RotIsTorn,
    /// A buffer that cannot be read is taken for a torn one, and an older version is read.
    UnreadIsTorn,
    /// A buffer that cannot be read, and may be torn, counts as durable.
    UnreadIsDurable,
    /// A flush counts though another one failed beside it.
    FlushesBeside,
    /// A start leaves what it believes as a call that failed has left it.
    StrandedEntries,
    /// A write that one of two memories has torn, and the other one cannot read, is lost.
    TornInOne,
    /// A start passes over a buffer of which one header cannot be read.
    UnreadHeader,
    /// A start passes over buffers and marks that it cannot read.
    UnreadIsVoid,
    /// A torn buffer is taken for a rotten one.
    TornIsRot,
    /// Recovery takes the first entry of a block that it meets.
    FirstFound,
    /// The NVRAM is called empty before the last flush below.
    HastyDown,
    /// The buffers of another volume are believed.
    AnyVolume,
    /// A sequence of before the crash is given away again.
    OldSequences,
    /// An older NVRAM is believed, of a volume that has gone on without it.
    AnyGeneration,
    /// A start does not record that the NVRAM may hold something.
    UnsaidDirt,
    /// A stop says that the NVRAM is not needed although something is not below.
    HastyWord,
    /// The volume goes on without its memory, and does not record that the memory is void.
    UnsaidRetirement,
    /// A stop forgets what is lost, and older bytes stand in for it.
    SettledLoss,
    /// A block goes below again while an entry of it is on its way there.
    TwoDestages,
    /// Both copies of a sector of the void map are written at once.
    TwinMarks,
    /// A block that was not tried counts as one for which there is no room below.
    AnyRefusal,
    /// There was no room below once, and nobody tries it again.
    OldRefusal,
    /// What is durable is said while a torn entry is unknown.
    HastyMarks,
    /// The first label is written first though the second one is damaged.
    FirstLabelFirst,
    /// A copy is called out on a label that another task is writing.
    CrossedLabels,
    /// A copy is called out, or filled, on the label of before the one that was just written.
    StaleLabels,
    /// Pinned blocks go below as all others do.
    LoosePins,
    /// Pinned blocks stay when everything is to go below.
    ForgottenPins,
    /// Writes are held although the battery is bad.
    IgnoredBattery,
    /// A write passes while the medium has an older entry of its block.
    HastyPass,
    /// A flush covers only what the NVRAM holds, although the battery is bad.
    TrustingFlush,
    /// A flush counts for writes that callers heard of while it was under way.
    PaidAhead,
    /// Writes are held again after a bad battery before the volume's record says so.
    UnsaidReturn,
    /// After a record that failed, the volume is taken to say what it said before.
    SureAfterFailure,
    /// Lost sectors of a block are forgotten when another part of it is written.
    ForgottenLoss,
    /// Bytes that two memories have alike are believed, whatever their checksum.
    AlikeIsRight,
    /// A change is answered before the volume calls out the memory that missed it.
    HastyCallOut,
    /// A memory that is called out is believed.
    BelievedTwin,
    /// A memory that hangs is waited for.
    EndlessPatience,
    /// A memory that does not count is not asked for what has rotted in the other one.
    UnaskedTwin,
    /// A memory that comes back counts before it is filled.
    UnfilledTwin,
    /// An entry that one of two memories alone has after a cut stays there alone.
    UnequalTwins,
}
