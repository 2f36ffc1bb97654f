//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

use std::cell::Cell;

planted::bugs! {
    /// A place that becomes free is offered to no client at the door.
    UnofferedPlaces,
    /// A connection with calls to answer is passed over once.
    SkippedTurns,
    /// A connection goes on for as long as its peer sends calls, and others wait meanwhile.
    EndlessTurns,
    /// Calls that wait for their reply do not count, only replies that are not taken.
    UncountedCalls,
    /// An idle peer is given up a beat too late.
    LatePatience,
    /// A peer that takes no replies is not hurried for the memory of the calls behind them.
    UnhurriedCalls,
    /// A peer that takes no replies is not hurried for its place, which a client at the door waits
    /// for.
    UnhurriedOccupants,
    /// A client that no export admits waits at the door like one that is admitted.
    AdmittedStrangers,
    /// A backlog is accepted in one go, and occupants that are about to leave make no room at the
    /// door.
    HurriedAccept,
}

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// Whether a connection skips its turn, for [`Bug::SkippedTurns`]: every second one does.
pub(crate) fn is_skipped() -> bool {
    if !is_planted(Bug::SkippedTurns) {
        return false;
    }
    LOOKS.set(LOOKS.get() + 1);
    LOOKS.get().is_multiple_of(2)
}
