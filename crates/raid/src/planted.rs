//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// What a cut has interrupted is believed.
    BelievedBeginnings,
    /// A part of a set is opened whatever the others may have seen.
    BelievedHalves,
    /// What is left of a member that was written over is opened.
    Remains,
    /// A member comes in while the log has records for the one that it replaces.
    OldRecords,
    /// What is no longer what it was when the witness was told is opened.
    OldCopies,
    /// A witness is believed that knows of an earlier story.
    OldWitnesses,
    /// A member that is out is read.
    ReadOutsiders,
    /// What a record has goes home before it.
    DataFirst,
    /// A label is written to its first copy first, whichever holds.
    SameCopies,
    /// Of what the log has, a return brings the first alone home.
    HalfReturns,
    /// A member is in before what it was given is durable.
    HastyMembers,
    /// A member that is missing is called out before the others have been read.
    HastyVerdicts,
    /// A record is called durable when its members have taken it.
    HastyRecords,
    /// A record is on one member alone.
    LonelyRecords,
    /// A return brings home what a single member has told it.
    LonelyReturns,
    /// What is known of a block stays as it was when that is written.
    StaleBlocks,
    /// The parity of a stripe is not changed with its data.
    StaleParity,
    /// Of two parts that went on apart the later one is taken.
    TakenApart,
    /// Of two parts of which one was opened by force the other one is given up unasked.
    GivenUpUnasked,
    /// Parity stands on the same member in each stripe.
    StandingParity,
    /// The map goes home before the stripes that it tells of.
    HastyMaps,
    /// That a stripe was written is not in the record that writes it.
    UnloggedMaps,
    /// A label holds whatever its checksum.
    UnsummedLabels,
    /// The log forgets what checksums follow from before they are at home.
    ForgottenSums,
    /// That stripes were written is in a record before they are durable.
    EarlyBits,
    /// A stripe that was vacated is written in its place before the log says so.
    EarlyPlaces,
    /// A return brings home what a stripe had before it was vacated.
    OldStripes,
    /// A block of the map is made again of the tables of one member's checksums alone.
    HalfRecalls,
    /// What the tables cannot tell of the map counts as never written.
    ForgottenStripes,
    /// Of the map of what was written an old block counts as well.
    OldMaps,
    /// A table of checksums is written over what holds.
    OnePlace,
    /// A member that is out is in again at once, whatever it has missed.
    EarlyPardons,
    /// What a member that is out has of the log does not count for whether it lacks something.
    UnaskedLogs,
    /// A table goes home to one of its two places.
    SinglePlaces,
    /// What a member has missed counts as unknown until the block tells of it.
    UnknownAbsences,
    /// A member that comes back lacks checksums that went home without it.
    ForgottenTables,
    /// A member that is made again gets no checksums of others.
    LostTables,
    /// A member is called out when its replacement begins.
    EarlyDismissals,
    /// A write of a slot that is being replaced misses the old disk.
    MissedLeavers,
    /// The new disk of a replacement is in before what it was given is durable.
    HastyReplacements,
    /// What is written to a member that is out is acknowledged though the others cannot tell it.
    WrittenNowhere,
    /// A block that was written anew is not read back.
    UnreadMends,
    /// Read errors make no member failing.
    UncountedErrors,
    /// A member that alone refuses what was allocated is waited for without end.
    EndlessRefusals,
    /// A member whose label finds no room is out at once.
    HastyLabels,
    /// The disk of a member that is out is no source any more when another one takes its place.
    ClosedSources,
    /// What a disk was asked is waited for though it is out.
    PatientCalls,
    /// Long work goes on though it is paused.
    UnheardPauses,
    /// What disks agree upon is right though it fits no checksum.
    AgreedLosses,
    /// A write that misses a member leaves the checksums of that as they were.
    OldSums,
    /// What is lost on a member that is made again gets the checksum of what stands there instead.
    ReplacedSums,
    /// A disk that returns is not asked for what the others cannot tell, and loses what it has.
    UnaskedReturns,
    /// A disk whose place another one has taken is not asked for what the members cannot tell.
    UnaskedStrangers,
    /// Of a mirror a block is lost that its own table does not know, though others do.
    LonelyTables,
    /// What does not fit its checksum is not asked for what it makes of others.
    ForgottenRot,
    /// What cannot be read at the moment is as if nothing stood there.
    HastyReads,
    /// A member that could not be given all is said to be up to date.
    UntoldFills,
    /// A block that no disk gives when a member is filled is not tried again.
    GivenUpFills,
    /// A write takes bytes for lost as soon as a disk does not give them.
    HastyLosses,
    /// The parity between the parts of a write is changed with theirs.
    WideColumns,
    /// Parity over what is lost passes for parity.
    MadeOfLost,
    /// What a member gives is right whatever its checksum.
    UnjudgedReads,
    /// What members have missed is written down once, and not again.
    OldMisses,
    /// A member that went long ago gets only what was missed last.
    OldReturns,
    /// A member that catches up passes over what is written beside the log.
    UntouchedStripes,
    /// Of different records with one number that of the first member counts.
    FirstRecords,
    /// A record holds whatever its checksum.
    UnsummedRecords,
    /// The first write of a stripe leaves the rest of it as it was.
    UnzeroedStripes,
    /// What a member has missed is acknowledged before the labels say that it is out.
    UntoldLosses,
}
