//! Writes that found no room below: what holds the disk is full.
//!
//! A device says of such a write that it is full, and means nothing else by it. It has not failed:
//! what was to be written waits, and is written when there is room.

use std::cell::Cell;

use block::IoError;

/// What is known of them.
#[derive(Debug, Default)]
pub struct Refusals {
    count: Cell<u64>,
    is_waiting: Cell<bool>,
}

impl Refusals {
    /// A write has failed: it counts if it was refused.
    pub fn note(&self, error: &IoError) {
        self.count.set(self.count.get() + u64::from(error.is_full()));
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// Says whether what is to come to its place waits for room below.
    pub fn set_waiting(&self, is_waiting: bool) {
        self.is_waiting.set(is_waiting);
    }

    /// Whether what is to come to its place waits for room below.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting.get()
    }
}

/// What comes of writes that went out together: a failure that is no refusal counts before all that
/// are.
///
/// # Errors
/// That failure.
pub fn all_written(results: Vec<Result<(), IoError>>) -> Result<(), IoError> {
    let failures = results.into_iter().filter_map(Result::err);
    failures.min_by_key(IoError::is_full).map_or(Ok(()), Err)
}
