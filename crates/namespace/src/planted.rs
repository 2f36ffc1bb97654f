//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// What only looks is answered without waiting for what it has seen.
    UnwaitedLooks,
    /// What changes something is answered without a receipt.
    UnreceiptedReplies,
    /// GETATTR is answered without a receipt.
    UnreceiptedAttributes,
    /// LOOKUP and READ are answered without a receipt.
    UnreceiptedNames,
    /// COMMIT is answered without a receipt.
    UnreceiptedCommits,
    /// COMMIT does not wait for the moves of directories above the file.
    LooseCommits,
    /// SETATTR lets its file go before the new size is there.
    DroppedLock,
    /// WRITE does without the lock of its file.
    UnlockedWrites,
    /// RENAME does not notice that '..' leads in a circle. So that a test ends, it panics then.
    EndlessClimb,
    /// Whatever '..' names is taken for a directory.
    AnyParent,
    /// Whether a directory would move below itself is looked for in two levels alone.
    ShortSighted,
    /// A directory moves although its new parent got another way up while that was looked for.
    OvertakenClimbs,
    /// RENAME says that a name is missing although the other directory has gone before.
    ForgottenGoals,
    /// A directory moves whether or not the way up from its new parent may be lost.
    LooseMoves,
    /// What a snapshot holds is changed like what is live.
    WritableSnapshots,
    /// What the attributes of a file were before is asked before the last step of a call.
    LateBefore,
}
