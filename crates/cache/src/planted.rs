//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// Readers do not see delayed data.
    UnseenDelays,
    /// Who writes where older data is delayed does not wait for that.
    OvertakenDelays,
    /// What is read ahead is mended, though other data may stand there by then.
    MendsAhead,
    /// Data stays delayed when its place is given back.
    KeptDelays,
}
