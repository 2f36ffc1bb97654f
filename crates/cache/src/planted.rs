//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// Readers do not see delayed data.
    UnseenDelays,
    /// A write where older data is delayed does not wait for that.
    OvertakenDelays,
    /// Read-ahead repairs units, though other data may be there by then.
    MendsAhead,
    /// Data stays delayed when its blocks are freed.
    KeptDelays,
}
