//! File descriptors: the limit of the process, and the share that connections may take.
//!
//! Most systems let a process have 1,024 unless it asks for more, and allow hundreds of thousands
//! if it does. The server asks once, when it begins to listen. A limit on connections is reported
//! then, and not when a client is turned away.

use std::io;

use door::MAX_AT_DOOR;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything but connections: disks, logs, listeners, the reactor, and files that
/// are opened for a moment; and for clients that wait for a place, which take at most half of them.
const BESIDE: u64 = 64;
const _: () = assert!(MAX_AT_DOOR as u64 <= BESIDE / 2, "the rest has descriptors, too");

/// Maximum number of connections, up to `wanted`: raises the limit of the process as far as
/// possible, and reports if that is not enough.
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

/// Raises the limit of the process on descriptors as far as possible, and returns it.
fn raised() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => most,
        Err(_) => limit.current.unwrap_or(most),
    }
}

/// Whether an accept failed for lack of descriptors, of the process or of the system.
pub(crate) fn are_short(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE];
    error.raw_os_error().is_some_and(|code| short.contains(&Errno::from_raw_os_error(code)))
}
