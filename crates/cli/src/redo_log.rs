//! The redo log of `ffs`, as far as this program uses it. No other engine has one, so the table of
//! designs cannot offer it; features that every engine has are used through the table.

pub(crate) use ffs::check_log::holds_changes;
pub(crate) use ffs::logged::{Sharer, is_idle_of_another, is_needed, open_sharing, saved_under};
pub(crate) use ffs::policy::log::Survived;
pub(crate) use ffs::replay::Answers;
pub(crate) use ffs::{OpenError as LogError, OpenOptions};

use ffs::replay::ReplayError;
use journal::JournalError;

/// The version of a log that cannot be read because another version of the program wrote it.
pub(crate) fn other_version(error: &LogError) -> Option<u32> {
    match error {
        LogError::Replay(ReplayError::Journal(JournalError::Version(version))) => Some(*version),
        _ => None,
    }
}
