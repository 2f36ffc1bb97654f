//! Bugs that tests plant to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// An entry is believed without its checksum (invariant 3).
    UncheckedEntries,
    /// Bytes behind the end of the chain are not checked.
    SilentDamage,
    /// An entry says that everything before itself was durable, rather than before its batch.
    LoneEntries,
    /// An entry follows another one regardless of its `previous` checksum (invariant 3).
    BrokenChain,
    /// Entries of an earlier epoch are entries (invariant 4).
    AnyEpoch,
    /// A new epoch has the number of the previous one (invariant 4).
    SameEpoch,
    /// A new epoch begins over entries of the previous one that are still needed (invariant 6).
    BeginningAtZero,
    /// Entries of the previous epoch count as free when a new epoch has begun (invariant 6).
    UnkeptHead,
    /// A head counts as durably named when its slot is being written (invariant 6).
    EarlyOverwrite,
    /// Batches end where their last entry ends, in the middle of a sector (invariant 1).
    SharedSectors,
    /// An entry may cross the end of a segment (invariant 2).
    CrossedSegments,
    /// The tail is at the end of the search, and not at the end of the chain.
    TrustedHint,
    /// A batch is answered when it is handed to the device.
    EarlyAnswers,
    /// A batch is a plain write, and nothing makes it durable.
    PlainWrites,
    /// There is only one slot, though the volume bears the epoch that it names (invariant 5).
    OneSlot,
    /// If an epoch has two slots, the older one counts.
    OlderSlot,
    /// An epoch whose beginning was overwritten counts as empty.
    NearAnchor,
    /// A slot that names a head without an entry counts as that of an empty log.
    AssumedEmptiness,
    /// A slot names the tail, which has no entry, as the head (invariant 7).
    BareHead,
    /// A slot names a head that becomes one only with a batch in flight (invariant 7).
    HastyHead,
    /// A batch has no size limit (invariant 8).
    LongBatches,
    /// A slot of a log at rest is written once (invariant 9).
    SingleRest,
    /// Entries at rest are overwritten when the log has grown (invariant 6).
    GrownOver,
}
