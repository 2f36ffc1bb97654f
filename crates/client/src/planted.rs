//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// A COMMIT covers all answered pieces, whatever the verifiers say.
    BelievedCommits,
    /// An UNSTABLE reply is taken for a durable one.
    BelievedAnswers,
    /// A COMMIT covers pieces that were answered while it was in flight.
    LateCoverage,
    /// The error of a piece is dropped.
    SwallowedErrors,
    /// The error of a COMMIT is dropped.
    SwallowedCommits,
    /// The rest of a short write is forgotten.
    ForgottenRests,
    /// A piece is sent beside an earlier one that it covers.
    RacingPieces,
    /// Overwritten bytes are sent again with the rest.
    RevivedBytes,
    /// A writer waits neither for daemons nor for room.
    BoundlessWriters,
    /// A "try again later" of the server is obeyed only once.
    HastyRetries,
    /// An error is kept after it was reported.
    ToldTwice,
    /// A write leaves data that was read ahead.
    StaleAhead,
    /// A read does not wait for written data.
    OvertakingReads,
    /// A short read ends the file.
    ShortFiles,
    /// A repeated call gets a new number.
    NewNumbers,
}
