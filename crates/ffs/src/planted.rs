//! Bugs that tests plant, to show that they would be found.
//!
//! Without the feature `planted-bugs` none can be planted, and nothing of this remains.

use std::cell::Cell;

/// A rule of the engine that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Everything of an Update lands in one round.
    EqualRanks,
    /// Names go, or are taken over, without a look at earlier Updates.
    EarlyDrops,
    /// Fragments that file data has left are taken again at once.
    EarlyReuse,
    /// Pointers may land in the same round as the data behind them.
    UnflushedPayload,
    /// Receipts come when everything is written, and not yet flushed.
    EarlyReceipts,
    /// Deltas of one field land in any order.
    UnorderedFields,
    /// A name that comes back takes any slot, so that it may stand twice.
    WanderingNames,
    /// Of each run of fragments that is given back, the last one stays taken.
    LeakedFragments,
    /// A user is refused the last fragment above the reserve.
    EarlyRefusals,
    /// A user may take one fragment of the reserve.
    SmallReserve,
    /// Blocks that are set aside for UNSTABLE data are taken by others.
    BrokenPromises,
    /// The log does not say that fragments are taken.
    UnloggedBits,
    /// What is overwritten in place may be overwritten by what an older entry holds of it.
    NoRevokes,
    /// What is freed may be overwritten by what an older entry holds of it.
    NoFreeingRevokes,
    /// An entry is submitted before the payload that it reveals was flushed.
    EarlyEntries,
    /// A hold drops when the in-place write is done, before the flush.
    EarlyHolds,
    /// In-place writes carry what is not in the log yet.
    UnloggedHome,
    /// Entries are replayed in the wrong order.
    ReplayBackwards,
    /// A new epoch begins before what was replayed is flushed.
    EarlyEpoch,
    /// The head in an entry is too new.
    EagerHead,
    /// A chain that was cut is not finished.
    ForgottenChains,
    /// What was on its way to a block lands after the block was given to another file.
    LateLandings,
    /// A replay leaves the summary rows as they were.
    StaleRows,
    /// A flush that fails counts as one that succeeds.
    IgnoredFlushErrors,
    /// Data whose write fails counts as written.
    ForgottenPayloadErrors,
    /// The write verifier stays when data is lost.
    KeptVerifier,
    /// A volume that has stopped goes on answering.
    ServingOn,
    /// A write leaves the change time as it was.
    StaleChangeTimes,
    /// The write verifier is the same after every start.
    ConstantVerifier,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a bug in all engines of this thread, or removes it.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

pub(crate) fn is_planted(bug: Bug) -> bool {
    cfg!(feature = "planted-bugs") && PLANTED.get() == Some(bug)
}
