//! Bugs that tests of engines plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// A copy that has rotted is skipped, and not rewritten.
    UnmendedTwins,
    /// Pointers are written with the checksum of the block before.
    StaleSums,
    /// Chains are not written.
    UnwrittenChains,
    /// The pointer to a block that is lost with its edits stays as it is.
    KeptPointers,
    /// Any other version of a block is the right one.
    BelievedVersions,
    /// An opening never reuses a place of a list that was free before it.
    ForgottenPlaces,
    /// An opening gives out the last place of a list that is in use.
    LastPlaceFree,
    /// A block that snapshots share is not mended once the one that read it first is deleted.
    FirstReaders,
    /// A block of a deleted snapshot is mended, though its place may have other data.
    LateMends,
    /// A block that was read gets the parent from before the read, which may be stale.
    StaleParents,
    /// A block of the books that the disk does not read is awaited.
    AwaitedBooks,
    /// Blocks that the live tree loses are free, even if snapshots hold them.
    ForgottenPins,
    /// A deletion frees blocks that other snapshots hold.
    GreedyDeletions,
    /// A rotten block is not freed if the file now ends at its first byte.
    LateLosses,
    /// A file with a rotten block cannot be removed or truncated.
    StuckChains,
    /// A claim for UNSTABLE data has no room for the metadata that leads to it.
    HollowClaims,
    /// A tree grows even if there is no room for it.
    BoundlessTrees,
    /// Bytes behind the end of a file stay in its last block.
    RaggedTails,
    /// A reply is sent although the write of its data failed.
    UnheardFailures,
    /// Data that goes with an update is invisible to readers until it is written.
    UnseenRiders,
    /// A pointer has the number of the next update as its birth.
    WrongBirths,
    /// Data of a file is not compared with its checksum.
    UnsummedReads,
}
