//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// The other copy of a block has a place, and is not written.
    UnwrittenTwins,
    /// The other copy of a block is free as soon as the live tree has another, whoever holds it.
    ForgottenTwins,
    /// A copy that has rotted is passed over, and stays as it is.
    UnmendedTwins,
    /// What is claimed for UNSTABLE data is given to others.
    EatenClaims,
    /// A superblock is durable before what it leads to is: nothing is listed in it.
    UnlistedBlocks,
    /// A superblock lists blocks that went with its own update.
    ListedFrees,
    /// Data that goes with an update is not seen before it is written.
    UnseenRiders,
    /// What an update frees is used again before the update is durable.
    EarlyFrees,
    /// An update counts as durable before the flush.
    NoBarrier,
    /// A superblock goes to the slot of the last durable one.
    SameSlot,
    /// An opening takes the highest superblock, whole or not.
    BelievedHighest,
    /// An opening takes the number that follows that of the superblock which it believes.
    UnpassedNumbers,
    /// An opening takes the number that follows the highest it saw: a torn one may have that.
    UncountedTears,
    /// An update that was sealed is written as its blocks are by then.
    ThawedUpdates,
    /// What an opening believes is not written again.
    UnwrittenBelief,
    /// A superblock goes to a zone that no durable anchor names.
    LateAnchors,
    /// A fold leaves out what was given back.
    UnfoldedFrees,
    /// A block of the space log goes before the map tells what it says.
    DroppedLines,
    /// The space log does not say which blocks of the map tell more than it does.
    UnmarkedFolds,
    /// An opening does not read the space log.
    UnreadLog,
    /// The records that were folded stay in use.
    KeptRecords,
    /// Pointers are written with the checksum of the block before.
    StaleSums,
    /// An answer goes with the update after its change.
    LateAnswers,
    /// Answers are not folded.
    UnfoldedAnswers,
    /// Chains are not in the superblock.
    UnwrittenChains,
    /// An opening does not know how far a volume was that was stopped.
    ForgottenRest,
    /// What is read of a file need not fit its checksum.
    UnsummedReads,
    /// An update that finds no room below stops the volume.
    FailedByRefusals,
    /// A tree becomes higher whether there is room for that or not.
    BoundlessTrees,
    /// An opening takes what it cannot read for what is not there.
    PassedReads,
    /// An opening does not write the superblock again that it believes.
    HalfBelief,
    /// An opening does not write the anchor again that it believes.
    LoneAnchors,
    /// What the live tree loses is free, whatever snapshots hold.
    ForgottenPins,
    /// Lists of what died are not folded.
    UnfoldedDeaths,
    /// A deletion gives back what other snapshots hold.
    GreedyDeletions,
    /// No room is set aside for what snapshots hold.
    UnkeptRoom,
    /// Space of a planned change that comes to nothing stays taken.
    KeptPlans,
    /// A scrub does not look again where a block should be that is wrong.
    BelievedGathering,
    /// Any other version of a block is the right one.
    BelievedVersions,
    /// A check forgets what stood where a snapshot has a block that cannot be read.
    PassedOver,
    /// A repair writes over what the old tree needs.
    OverwrittenRepairs,
    /// A repair writes copies before the superblock is durable that says where there is room.
    EarlyCopies,
    /// A scrub tells that it mended what is not durable yet.
    EarlyMending,
    /// A scrub looks at what is being written.
    ScrubbedWrites,
    /// What is compacted takes the place of what was written meanwhile.
    MovedOverWrites,
    /// What a snapshot holds is compacted, and its old place is free.
    MovedPins,
    /// What is claimed for UNSTABLE data has no room for what leads to it.
    HollowClaims,
    /// A pointer says that its block was written by the next update.
    WrongBirths,
    /// What was folded is in the chain of records still, and is folded again.
    FoldedTwice,
    /// A flush counts for what was written while it was under way.
    EarlyCover,
    /// Data of which the write failed is answered for.
    UnheardFailures,
    /// The newest superblock may be in a zone that no anchor names any more.
    ForgottenZones,
    /// What is behind the end of a file stays in its last block.
    RaggedTails,
    /// A deletion ends before it has given back what it holds.
    KeptLists,
    /// What died since a snapshot stays dead when the volume goes back to it.
    KeptDeaths,
    /// What an update frees is discarded before the update is durable.
    EarlyDiscards,
    /// A repair leaves files without a name that have lost it.
    ForgottenHomeless,
    /// Places are chosen as if data took no time to the disk.
    UncountedTransfers,
    /// The newest anchor is believed, whatever superblocks there are.
    NewestAnchor,
    /// The newest anchor that is left is believed, though none of the other turn is.
    LeftAnchors,
    /// Places of a tree with what is left of a rotten list are given to others.
    ReusedPlaces,
    /// An opening hands out no place of a list again that was free before it.
    ForgottenPlaces,
    /// An opening hands out the last place of a list that is in use.
    LastPlaceFree,
    /// Where a block of the map is derived from trees, what hangs from a damaged block is free.
    FreeBehindDamage,
    /// A file of which a block has rotted cannot go, nor become shorter.
    StuckChains,
    /// A block that has rotted does not go where the file ends with its first byte.
    LateLosses,
    /// Going back leaves the files as they are that the snapshot holds without a name.
    LeftOrphans,
    /// Going back passes over a file that lost its name in the first two updates that may have
    /// taken one.
    LateOrphans,
    /// What a snapshot held is mended, though that is gone, and other data may stand there.
    LateMends,
    /// Going back is refused by rot in the tree that goes.
    RefusedRollBacks,
    /// An opening takes no superblock of which a bit has flipped.
    UnmendedSuperblocks,
    /// No update is followed by one that changes nothing.
    UnfollowedUpdates,
    /// An update did not happen if a bit has flipped in what it wrote.
    UnmendedRuns,
    /// Blocks of lines of snapshots and lists that have rotted stay so, though memory has them.
    LostLines,
    /// A list that cannot be read is in the way of those behind it.
    BlockedLists,
    /// A fold fails for ever if a block of the map has rotted.
    KeptLeaves,
    /// A block of the map that is written anew tells of what planned Updates have taken.
    RecordedPlans,
    /// A snapshot that needs a fold waits for one, also where there is no room below.
    EndlessFolds,
    /// The superblock of an opening counts for two when a zone leaves the anchors.
    OneTwice,
    /// A block that was read hangs from what led to it before it was.
    StaleParents,
    /// Blocks of an update may leave memory before the device has them.
    UnheldNodes,
}
