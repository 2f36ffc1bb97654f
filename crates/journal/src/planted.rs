//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// An entry is believed without its checksum (invariant 3).
    UncheckedEntries,
    /// What lies behind the end of the chain is not looked at.
    SilentDamage,
    /// An entry says that everything before it was durable, and not before its batch.
    LoneEntries,
    /// An entry follows another one whatever it says was before it (invariant 3).
    BrokenChain,
    /// Entries of an earlier epoch are entries (invariant 4).
    AnyEpoch,
    /// A new epoch has the number of the one before (invariant 4).
    SameEpoch,
    /// A new epoch begins over what the one before has left, which is still needed (invariant 6).
    BeginningAtZero,
    /// What the one before has left counts as free when a new epoch has begun (invariant 6).
    UnkeptHead,
    /// A head counts as durably named when its slot is being written (invariant 6).
    EarlyOverwrite,
    /// Batches end where their last entry ends, in the middle of a sector (invariant 1).
    SharedSectors,
    /// An entry may cross the end of a segment (invariant 2).
    CrossedSegments,
    /// The tail is where the search ended, and not where the chain does.
    TrustedHint,
    /// A batch is answered when it was handed to the device.
    EarlyAnswers,
    /// A batch is a plain write, which nothing makes durable.
    PlainWrites,
    /// There is but one slot, though the volume bears the epoch that it names (invariant 5).
    OneSlot,
    /// Of two slots of an epoch the older one holds.
    OlderSlot,
    /// Where the epoch began has been overwritten, and so nothing of it is there.
    NearAnchor,
    /// A slot that names a head where there is no entry is that of an empty log.
    AssumedEmptiness,
    /// A slot names the tail as the head, where there is no entry (invariant 7).
    BareHead,
    /// A slot names a head that only a batch under way has made one (invariant 7).
    HastyHead,
    /// A batch becomes as large as it may (invariant 8).
    LongBatches,
    /// A slot that says that nothing is needed stands once (invariant 9).
    SingleRest,
    /// What is at rest is overwritten when the log has grown (invariant 6).
    GrownOver,
}
