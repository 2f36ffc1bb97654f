//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

use std::cell::Cell;

planted::bugs! {
    /// A place that becomes free is given to nobody who waits at the door.
    UnofferedPlaces,
    /// A client that has something to ask is passed over once.
    SkippedTurns,
    /// A connection goes on for as long as its peer has calls, and others wait meanwhile.
    EndlessTurns,
    /// Calls that wait for their answer do not count, only replies that are not taken.
    UncountedCalls,
    /// A peer that does nothing is given up a beat too late.
    LatePatience,
    /// Nobody hurries a peer that takes no replies for the memory of the calls behind them.
    UnhurriedCalls,
    /// A client that no export admits waits at the door like one that is admitted.
    AdmittedStrangers,
}

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// Whether a connection whose turn it is lets it go by, for [`Bug::SkippedTurns`]: every second one
/// does.
pub(crate) fn is_skipped() -> bool {
    if !is_planted(Bug::SkippedTurns) {
        return false;
    }
    LOOKS.set(LOOKS.get() + 1);
    LOOKS.get().is_multiple_of(2)
}
