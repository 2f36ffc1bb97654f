//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

use std::cell::Cell;

planted::bugs! {
    /// A call is known on its own connection only, as if its key held the port.
    ConnectionInKey,
    /// A call is identified by its number and its caller alone, whatever its procedure.
    XidAlone,
    /// A client that reconnects starts with an empty reply cache.
    ForgottenConnections,
    /// A call is remembered when it is answered, and not while it runs.
    UnnotedRunning,
    /// Refusals are not remembered.
    ForgottenRefusals,
    /// A refusal that no file system has given is remembered like an answer.
    RememberedStrangers,
    /// A call that runs or is remembered asks for admission like a new one.
    AdmittedRepetitions,
    /// When there are too many answers the oldest of all clients is evicted.
    OldestOfAll,
    /// Each address of an IPv6 network counts as a client of its own.
    EveryAddress,
    /// A reply holds all of the memory that was reserved for it, however short it is.
    WholeReservations,
    /// LINK is not among the procedures that are remembered.
    ForgottenLinks,
    /// Calls with the same number are one call, whatever their arguments are.
    AnyArguments,
    /// Every WRITE is answered as FILE_SYNC.
    OverstatedStability,
    /// Every caller acts as the user that it claims to be, whatever the rule of the export is.
    Unsquashed,
    /// A caller is identified by machine and user alone, whatever its groups are.
    UserAlone,
    /// A caller is identified by machine, user and first group.
    FirstGroupAlone,
    /// The verifiers of WRITE and COMMIT are never set.
    UnsetVerifier,
    /// COMMIT and stable WRITEs of a volume that is declared delayed are answered at once, too.
    AcceptedCommits,
    /// When a volume is no longer declared delayed, no reply waits for earlier acknowledged
    /// changes.
    UnsettledReturn,
}

thread_local! {
    static CONNECTIONS: Cell<u64> = const { Cell::new(0) };
}

/// The value that [`Bug::ConnectionInKey`] adds to the keys of a connection; 0 where it is not
/// planted.
pub(crate) fn connection_key() -> u64 {
    if !is_planted(Bug::ConnectionInKey) {
        return 0;
    }
    CONNECTIONS.set(CONNECTIONS.get() + 1);
    CONNECTIONS.get()
}
