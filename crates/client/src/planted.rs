//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// A COMMIT covers what it finds, whatever the verifiers say.
    BelievedCommits,
    /// An UNSTABLE answer is taken for a durable one.
    BelievedAnswers,
    /// A COMMIT covers what was answered while it was under way.
    LateCoverage,
    /// The error of a piece is noted nowhere.
    SwallowedErrors,
    /// The error of a COMMIT is noted nowhere.
    SwallowedCommits,
    /// The rest of a short write is forgotten.
    ForgottenRests,
    /// A piece goes out beside an earlier one that it covers.
    RacingPieces,
    /// What was written over is sent again with the rest.
    RevivedBytes,
    /// A writer waits neither for daemons nor for room.
    BoundlessWriters,
    /// A server that says "later" is taken at its word once.
    HastyRetries,
    /// An error that was told is kept.
    ToldTwice,
    /// A write leaves what was read ahead.
    StaleAhead,
    /// A read does not wait for what was written.
    OvertakingReads,
    /// A short read ends the file.
    ShortFiles,
    /// A call that is made again is another call.
    NewNumbers,
}
