//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// The other copy of a block has a place, and is not written.
    UnwrittenTwins,
    /// The other copy of a block is free as soon as the live tree has another, even if a snapshot
    /// holds it.
    ForgottenTwins,
    /// Space claimed for UNSTABLE data is given to others.
    EatenClaims,
    /// A superblock is durable before the blocks it leads to: it lists nothing.
    UnlistedBlocks,
    /// An update frees units that are not in use, since a pointer to them was wrong.
    WrongFrees,
    /// A superblock lists blocks that went with its own update.
    ListedFrees,
    /// Units that an update frees are reused before the update is durable.
    EarlyFrees,
    /// An update counts as durable before the flush.
    NoBarrier,
    /// A superblock goes to the slot of the last durable one.
    SameSlot,
    /// An opening takes the highest superblock, even if it is torn.
    BelievedHighest,
    /// An opening takes the number after that of the superblock it believes.
    UnpassedNumbers,
    /// An opening takes the number after the highest it saw: a torn superblock may have it.
    UncountedTears,
    /// A sealed update is written with the contents that its blocks have at the time of the write.
    ThawedUpdates,
    /// An opening does not rewrite the update that it believes.
    UnwrittenBelief,
    /// A superblock goes to a zone that no durable anchor names.
    LateAnchors,
    /// A fold leaves out freed units.
    UnfoldedFrees,
    /// A block of the space log goes before the map has its lines.
    DroppedLines,
    /// The space log does not mark the blocks of the map that have all of its lines.
    UnmarkedFolds,
    /// An opening does not read the space log.
    UnreadLog,
    /// The records that were folded stay in use.
    KeptRecords,
    /// A reply goes with the update after that of its change.
    LateAnswers,
    /// Replies are not folded.
    UnfoldedAnswers,
    /// An opening does not know the last update of a volume that was stopped.
    ForgottenRest,
    /// An opening doubts the last update of a volume that was stopped if a block of it has rotted.
    DoubtedRest,
    /// An update that finds no room below stops the volume.
    FailedByRefusals,
    /// An opening treats a block that it cannot read as missing.
    PassedReads,
    /// An opening does not rewrite the superblock that it believes.
    HalfBelief,
    /// An opening does not rewrite the anchor that it believes.
    LoneAnchors,
    /// Lists of dead blocks are not folded.
    UnfoldedDeaths,
    /// No room is reserved for the blocks that snapshots hold.
    UnkeptRoom,
    /// Space of a cancelled plan stays taken.
    KeptPlans,
    /// A scrub does not look a wrong block up again to see whether it has moved.
    BelievedGathering,
    /// A check forgets the earlier block at the place of a snapshot's unreadable one.
    PassedOver,
    /// A repair overwrites blocks that the old tree needs.
    OverwrittenRepairs,
    /// A repair writes copies before the superblock that says where there is room is durable.
    EarlyCopies,
    /// A scrub passes over everything below a block that it could not read on its walk.
    SkippedSubtrees,
    /// A scrub leaves a rotten block of the map or the records where it is.
    ScrubbedBooks,
    /// A scrub reports a block as mended before that is durable.
    EarlyMending,
    /// A scrub reads blocks that are being written.
    ScrubbedWrites,
    /// A moved block replaces data that was written meanwhile.
    MovedOverWrites,
    /// A compaction moves a block that a snapshot holds, and frees its old place.
    MovedPins,
    /// Folded records stay in the chain of records, and are folded again.
    FoldedTwice,
    /// A flush counts for data that was written while it was under way.
    EarlyCover,
    /// A zone leaves the anchors although it may have the newest superblock.
    ForgottenZones,
    /// A deletion ends before it has freed all of its blocks.
    KeptLists,
    /// Blocks that died since a snapshot stay dead when the volume goes back to it.
    KeptDeaths,
    /// Units that an update frees are discarded before the update is durable.
    EarlyDiscards,
    /// A repair gives no names to files that have lost theirs.
    ForgottenHomeless,
    /// Places are chosen as if the transfer of data took no time.
    UncountedTransfers,
    /// The newest anchor is believed, whatever superblocks there are.
    NewestAnchor,
    /// The newest remaining anchor is believed, though both copies of the other turn are lost.
    LeftAnchors,
    /// Places of a tree that has remains of a rotten list are given to others.
    ReusedPlaces,
    /// A fold needs a place of a list that is below a rotten block of pointers.
    UnpassedPlaces,
    /// An opening refuses a ring of replies that has lost a block of pointers under the server.
    RefusedHoles,
    /// If a block of the map is derived from trees, units below a damaged block are free.
    FreeBehindDamage,
    /// If a block of the map is derived from trees, units that a deletion has still to free are
    /// free.
    ForgottenLoose,
    /// Going back leaves alone the files without a name that the snapshot holds.
    LeftOrphans,
    /// Going back misses a file that lost its name in the first two updates in which one may have.
    LateOrphans,
    /// Going back is refused because of rot in the tree that is to go.
    RefusedRollBacks,
    /// An opening rejects a superblock with one flipped bit.
    UnmendedSuperblocks,
    /// No update is followed by one that changes nothing.
    UnfollowedUpdates,
    /// A change that joins the successor of an update counts as followed, too.
    JoinedSuccessors,
    /// No fold goes on while the last block of a list cannot be read.
    AwaitedLists,
    /// An update with a bit flipped in one of its runs counts as not written.
    UnmendedRuns,
    /// Rotten blocks of lines of snapshots and lists are not rewritten, though memory has their
    /// contents.
    LostLines,
    /// An unreadable list blocks the lists behind it.
    BlockedLists,
    /// A fold fails forever if a block of the map has rotted.
    KeptLeaves,
    /// A rewritten block of the map includes units that planned Updates have taken.
    RecordedPlans,
    /// A snapshot that needs a fold waits for one even if there is no room below.
    EndlessFolds,
    /// The superblock of an opening counts for two when a zone leaves the anchors.
    OneTwice,
    /// Blocks of an update may be evicted before the device has them.
    UnheldNodes,
}
