//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// An interrupted story is taken to hold.
    BelievedBeginnings,
    /// A part of a set is opened whatever the other members may have seen.
    BelievedHalves,
    /// A member that was overwritten is used.
    Remains,
    /// A member comes in while the log has records for the member that it replaces.
    OldRecords,
    /// A copy that is older than the witness is used.
    OldCopies,
    /// A later story is taken to be confirmed by any earlier witness.
    OldWitnesses,
    /// A member that is out is read.
    ReadOutsiders,
    /// A group is written in place before its record is durable.
    DataFirst,
    /// A label is written to its first copy first, whichever is in force.
    SameCopies,
    /// Recovery replays only the first record.
    HalfReturns,
    /// A member is in before its fill is durable.
    HastyMembers,
    /// A missing member is called out before the others have been read.
    HastyVerdicts,
    /// A record counts as durable when its members have taken it.
    HastyRecords,
    /// A record is on one member alone.
    LonelyRecords,
    /// Recovery replays the latest record without writing it to all members.
    LonelyReturns,
    /// A cached block stays as it was when the block is written.
    StaleBlocks,
    /// The parity of a stripe is not changed with its data.
    StaleParity,
    /// The later of two parts that went on apart is used.
    TakenApart,
    /// A call is answered whose record is on a log device that has become untrusted.
    HastyDistrust,
    /// If one of two parts was opened by force, the other is given up without asking.
    GivenUpUnasked,
    /// All stripes have their parity on the same member.
    StandingParity,
    /// The map is written in place before the stripes whose bits it has.
    HastyMaps,
    /// A stripe's bit is not in the record that first writes the stripe.
    UnloggedMaps,
    /// A label is accepted whatever its checksum.
    UnsummedLabels,
    /// The log forgets records before the checksums that follow from them are in place.
    ForgottenSums,
    /// Bits of stripes are logged before the stripes are durable.
    EarlyBits,
    /// A vacated stripe is written in place before the log has its vacation.
    EarlyPlaces,
    /// Recovery replays records of a stripe from before it was vacated.
    OldStripes,
    /// A block of the map is rebuilt from the tables of one member's checksums alone.
    HalfRecalls,
    /// A stripe whose tables are unusable counts as never written.
    ForgottenStripes,
    /// An old block of the map counts as well.
    OldMaps,
    /// A table of checksums is overwritten in its place in force.
    OnePlace,
    /// A member that is out is readmitted, whatever it has missed.
    EarlyPardons,
    /// An out member's own log is ignored when its readmission is judged.
    UnaskedLogs,
    /// A table is written to one of its two places only.
    SinglePlaces,
    /// Missed regions count as unknown until the block has them.
    UnknownAbsences,
    /// A member that comes back lacks checksums that were written without it.
    ForgottenTables,
    /// A rebuilt member gets no checksums of others.
    LostTables,
    /// A member is called out when its replacement begins.
    EarlyDismissals,
    /// A write of a slot that is being replaced misses the old disk.
    MissedLeavers,
    /// The new disk of a replacement is in before its fill is durable.
    HastyReplacements,
    /// A start looks for a record on a log device that was left.
    SoughtInVain,
    /// A start asks no disk that is out for a record that the members lack.
    UnaskedHoles,
    /// A set whose log lacks a record is refused, though a person says that it is to start.
    RefusedHoles,
    /// A disk comes back though a person took it out while its label was read.
    HastyReturns,
    /// A write to a member that is out is acknowledged though the others cannot give its data.
    WrittenNowhere,
    /// A rewritten block is not read back.
    UnreadMends,
    /// Read errors never make a member failing.
    UncountedErrors,
    /// A member that alone refuses an allocated range is waited for forever.
    EndlessRefusals,
    /// A member whose label finds no space is out at once.
    HastyLabels,
    /// The disk of an out member stops being a source when another one takes its place.
    ClosedSources,
    /// The disk that has left a slot is closed though no member of the slot is in.
    HastyReleases,
    /// A call waits for its disk even after that is out.
    PatientCalls,
    /// Long work goes on though it is paused.
    UnheardPauses,
    /// Bytes that disks agree on count as right though they fit no checksum.
    AgreedLosses,
    /// A write that misses a member leaves that member's checksums as they were.
    OldSums,
    /// A block that is lost on a rebuilt member gets the checksum of the bytes there.
    ReplacedSums,
    /// A returning disk is not asked for blocks that the others cannot give, and loses its
    /// contents.
    UnaskedReturns,
    /// A disk whose place another one has taken is not asked for blocks that the members cannot
    /// give.
    UnaskedStrangers,
    /// A mirror's block counts as lost if its own table does not know it, though others do.
    LonelyTables,
    /// Bytes that do not fit their checksum are not used to reconstruct other blocks.
    ForgottenRot,
    /// Data that is unreadable at the moment counts as absent.
    HastyReads,
    /// A member that could not be filled completely is reported as up to date.
    UntoldFills,
    /// A block that no disk gives when a member is filled is not retried.
    GivenUpFills,
    /// A write counts bytes as lost as soon as a disk does not give them.
    HastyLosses,
    /// The parity between the parts of a write is changed with theirs.
    WideColumns,
    /// Parity over lost blocks counts as valid.
    MadeOfLost,
    /// A member's bytes count as right whatever their checksum.
    UnjudgedReads,
    /// Missed regions are written down once, and not again.
    OldMisses,
    /// A member that went long ago gets only the regions that were missed last.
    OldReturns,
    /// A member that catches up lacks stripes that are written without the log.
    UntouchedStripes,
    /// Among different records with one number, that of the first member counts.
    FirstRecords,
    /// A record of which a block behind the first cannot be read counts as torn.
    TornBodies,
    /// A table that nobody could read counts as empty, and its next change replaces it.
    ReplacedTables,
    /// A replacement copies damaged tables, and nothing writes them anew.
    CopiedDamage,
    /// No disk but the members that are in is asked for a table.
    UnlentTables,
    /// A disk lends a table whatever it has missed.
    OldTables,
    /// Tables that reads have changed stay in memory until the log needs room.
    UnpressedTables,
    /// A block of the map that was rebuilt is durable before the losses that it shows.
    LateLosses,
    /// A record is accepted whatever its checksum.
    UnsummedRecords,
    /// The first write of a stripe leaves the rest of the stripe as it was.
    UnzeroedStripes,
    /// A log device keeps its earlier contents when it begins to get records.
    OldLogDevices,
    /// A log device gets records, and the labels do not say so.
    UnsaidLogDevices,
    /// The labels say that no record on the log device is needed before its changes are in place.
    HastyLeaves,
    /// A log device is read though the labels say that nothing on it is needed.
    BelievedLogDevices,
    /// Records of the members count before those of the log device, whatever their numbers.
    MembersFirst,
    /// Checksums are made anew though data and parity do not agree.
    RenewedUnasked,
    /// A write that a member has missed is acknowledged before the labels say that the member is
    /// out.
    UntoldLosses,
}
