//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// A row that was moved is one unit beside its blocks.
    WrongRank,
    /// A segment is used again before the checkpoint that freed it is durable.
    EarlyReuse,
    /// A start believes the last summary without its blocks.
    UncomparedBlocks,
    /// A write counts as durable before the flush.
    NoBarrier,
    /// A checkpoint's root is written before its blocks are flushed.
    EarlyRegion,
    /// A checkpoint forgets the replies since the one before.
    ForgottenAnswers,
    /// A start does not apply edits of the log.
    UnreadEdits,
    /// A start does not free what the log freed.
    UnreadFrees,
    /// A checkpoint frees the segment in which the next summary is to be.
    LostLink,
    /// A segment counts as empty while rows are on their way to it.
    UnheldMoves,
    /// A block that a snapshot holds is free when the live tree has lost it.
    UnheldDeaths,
    /// The blocks of metadata that a checkpoint replaces are on no list.
    UnlistedOld,
    /// A snapshot does not wait for plans that have places.
    SplitRows,
    /// A snapshot leaves rows open.
    OpenRows,
    /// A change of snapshots is acknowledged before its checkpoint.
    EarlyTold,
    /// A start takes an earlier version of a block of the table.
    EarlierLines,
    /// A checkpoint counts when its region is at one end of the disk.
    LoneRegions,
    /// A repair forgets the blocks that snapshots alone hold.
    ForgottenDeaths,
    /// A region is believed whatever the tags of its sectors are.
    UntaggedRegions,
}
