//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// An Update may become durable before those that it rests on.
    NoOrder,
    /// A receipt comes when an Update is staged.
    StagedReceipts,
    /// Where a name was is given to another while its removal may be lost.
    ReusedSlots,
    /// An answer is remembered without what it shows.
    LoneAnswers,
    /// A snapshot shows what is live.
    LiveSnapshots,
    /// The answers of what is durable are forgotten.
    ForgottenAnswers,
}
