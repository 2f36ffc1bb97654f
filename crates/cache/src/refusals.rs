//! Writes that found no room below: the storage that holds the disk is full.
//!
//! A device reports such a write as full, and reports nothing else that way. The write has not
//! failed: its data waits, and is written when there is room.

use std::cell::Cell;

use block::IoError;

/// Counts refused writes, and whether one waits.
#[derive(Debug, Default)]
pub struct Refusals {
    count: Cell<u64>,
    is_waiting: Cell<bool>,
}

impl Refusals {
    /// Notes a failed write: it counts if it was refused.
    pub fn note(&self, error: &IoError) {
        self.count.set(self.count.get() + u64::from(error.is_full()));
    }

    /// Refused writes so far.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// Sets whether data to be written in place waits for room below.
    pub fn set_waiting(&self, is_waiting: bool) {
        self.is_waiting.set(is_waiting);
    }

    /// Whether data to be written in place waits for room below.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting.get()
    }
}

/// The result of writes that went out together: a failure that is no refusal takes precedence over
/// refusals.
///
/// # Errors
/// That failure.
pub fn all_written(results: Vec<Result<(), IoError>>) -> Result<(), IoError> {
    let failures = results.into_iter().filter_map(Result::err);
    failures.min_by_key(IoError::is_full).map_or(Ok(()), Err)
}
