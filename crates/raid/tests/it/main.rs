//! Tests of sets as a whole.

mod copies;
mod costs;
mod failed_starts;
mod failing;
mod full;
mod hiccups;
mod interrupted;
mod lent;
mod log_device;
mod losses;
mod offline;
mod recalled;
mod records;
mod remains;
mod replaced;
mod returns;
mod rot;
mod shares;
mod sources;
mod tables;
mod unread;
mod vacated;
#[cfg(feature = "planted-bugs")]
mod versions;

/// Result of work while a bug is planted.
#[cfg(feature = "planted-bugs")]
fn with<T>(bug: raid::planted::Bug, work: impl FnOnce() -> T) -> T {
    raid::planted::plant(Some(bug));
    let done = work();
    raid::planted::plant(None);
    done
}
