//! File descriptors: how many the process may have, and how many of them connections may take.
//!
//! Most systems let a process have 1,024 unless it asks for more, and allow hundreds of thousands
//! to one that asks. The server asks once, when it begins to listen. What connections cannot have
//! is said then, and not when a client is turned away.

use std::io;

use door::MAX_AT_DOOR;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything but connections: disks, logs, listeners, the reactor, and files that
/// are opened for a moment; and for clients that wait for a place, which are half as many at most.
const BESIDE: u64 = 64;
const _: () = assert!(MAX_AT_DOOR as u64 <= BESIDE / 2, "the rest has descriptors, too");

/// How many connections there may be at once, of the `wanted` ones: raises the limit of the process
/// as far as it may, and says so where that is not enough.
pub(crate) fn places_for(wanted: u64) -> u64 {
    let allowed = raised();
    let places = wanted.min(allowed.saturating_sub(BESIDE).max(1));
    if places < wanted {
        tracing::warn!(
            wanted,
            places,
            descriptors = allowed,
            "the system allows too few open files for limits.connections"
        );
    }
    places
}

/// Descriptors that the process may have, after its limit was raised as far as possible.
fn raised() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => most,
        Err(_) => limit.current.unwrap_or(most),
    }
}

/// Whether a connection was not accepted for want of descriptors, of the process or of the system.
pub(crate) fn are_short(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE];
    error.raw_os_error().is_some_and(|code| short.contains(&Errno::from_raw_os_error(code)))
}
