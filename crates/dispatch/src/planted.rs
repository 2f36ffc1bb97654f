//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

use std::cell::Cell;

planted::bugs! {
    /// A call is known on its own connection only, as if its key held the port.
    ConnectionInKey,
    /// A call is known by its number and its caller alone, whatever it asks for.
    XidAlone,
    /// A client that connects anew begins with an empty reply cache.
    ForgottenConnections,
    /// A call is remembered when it is answered, and not while it runs.
    UnnotedRunning,
    /// Refusals are not remembered.
    ForgottenRefusals,
    /// What was refused before a file system was asked is remembered like an answer.
    RememberedStrangers,
    /// A call that runs or is remembered asks for admission like a new one.
    AdmittedRepetitions,
    /// When there are too many answers the oldest of all clients goes.
    OldestOfAll,
    /// Each address of an IPv6 network is a client of its own in the bounds.
    EveryAddress,
    /// A reply holds all of the memory that was reserved for it, however short it is.
    WholeReservations,
    /// LINK is not among the procedures that are remembered.
    ForgottenLinks,
    /// Calls of one number are one call, whatever their arguments are.
    AnyArguments,
    /// Every WRITE is answered as FILE_SYNC.
    OverstatedStability,
    /// Every caller acts as who he says he is, whatever the rule of the export is.
    Unsquashed,
    /// A caller is known by his machine and his user alone, whatever his groups are.
    UserAlone,
    /// A caller is known by his machine, his user and his first group.
    FirstGroupAlone,
    /// The verifiers of WRITE and COMMIT are never set.
    UnsetVerifier,
    /// Of a volume that is declared delayed COMMIT and stable WRITEs are answered at once, too.
    AcceptedCommits,
    /// When a volume is not declared delayed any more, nothing waits for what was told before.
    UnsettledReturn,
}

thread_local! {
    static CONNECTIONS: Cell<u64> = const { Cell::new(0) };
}

/// What [`Bug::ConnectionInKey`] puts into the keys of a connection: nothing where it is not
/// planted.
pub(crate) fn connection_key() -> u64 {
    if !is_planted(Bug::ConnectionInKey) {
        return 0;
    }
    CONNECTIONS.set(CONNECTIONS.get() + 1);
    CONNECTIONS.get()
}
