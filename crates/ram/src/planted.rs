//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// An Update may become durable before those that it depends on.
    NoOrder,
    /// A receipt comes when an Update is staged.
    StagedReceipts,
    /// A name takes the place of another whose removal may be lost.
    ReusedSlots,
    /// An answer is remembered without the changes that it shows.
    LoneAnswers,
    /// A snapshot shows the live files.
    LiveSnapshots,
    /// Answers of durable Updates are forgotten.
    ForgottenAnswers,
}
