//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// A reply that only reads does not wait for the changes that it shows.
    UnwaitedLooks,
    /// A reply to a change has no receipt.
    UnreceiptedReplies,
    /// A reply to GETATTR has no receipt.
    UnreceiptedAttributes,
    /// A reply to LOOKUP or READ has no receipt.
    UnreceiptedNames,
    /// A reply to COMMIT has no receipt.
    UnreceiptedCommits,
    /// COMMIT does not wait for the moves of directories above the file.
    LooseCommits,
    /// SETATTR releases the lock of its file before the new size is there.
    DroppedLock,
    /// WRITE does without the lock of its file.
    UnlockedWrites,
    /// RENAME does not notice a cycle of '..' entries. It panics then, so that a test ends.
    EndlessClimb,
    /// Any target of '..' is taken for a directory.
    AnyParent,
    /// Whether a directory would move below itself is checked on two levels alone.
    ShortSighted,
    /// A directory moves although its new parent got another way up during that check.
    OvertakenClimbs,
    /// RENAME reports a missing name although the other directory was removed before.
    ForgottenGoals,
    /// A directory moves whether or not the way up from its new parent may be lost.
    LooseMoves,
    /// Objects of a snapshot can be changed like live ones.
    WritableSnapshots,
    /// The old attributes of a file are taken before the last step of a call.
    LateBefore,
}
