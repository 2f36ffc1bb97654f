//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// What a cut has interrupted is believed.
    BelievedBeginnings,
    /// A part of a set is opened whatever the others may have seen.
    BelievedHalves,
    /// A witness is believed that knows of an earlier story.
    OldWitnesses,
    /// A member that is out is read.
    ReadOutsiders,
    /// Of two parts that went on apart the later one is taken.
    TakenApart,
    /// Parity stands on the same member in each stripe.
    StandingParity,
    /// A label holds whatever its checksum.
    UnsummedLabels,
}
