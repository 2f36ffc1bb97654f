//! Reasons why a volume cannot be created, inspected, opened or checked: the message of its engine,
//! and the cases that a caller handles.

use std::error::Error;

use block::IoError;

/// Message of an engine.
type Sentence = Box<dyn Error + Send + Sync>;

/// Reason why a volume was not opened. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A check was interrupted during its repairs: another check has to continue.
    #[error(transparent)]
    UnfinishedCheck(Sentence),
    /// The latest changes are in a log, which is missing.
    #[error(transparent)]
    LogMissing(Sentence),
    /// The log at hand has none of the latest changes.
    #[error(transparent)]
    LogForeign(Sentence),
    /// Anything else.
    #[error(transparent)]
    Other(Sentence),
}

impl OpenError {
    /// An error that needs no special handling.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Other(error.into())
    }
}

/// Reason why the contents of a disk are unknown.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The disk failed.
    #[error(transparent)]
    Device(#[from] IoError),
    /// There is no usable volume.
    #[error("{why}")]
    NoVolume {
        /// The actual contents of the disk.
        why: Sentence,
        /// Whether a check would look for a copy of the missing part.
        has_copies: bool,
    },
}

/// Reason why no volume was created.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct MkfsError(Sentence);

impl MkfsError {
    /// Wraps the message of an engine.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(error.into())
    }
}

/// Reason why a check did not complete. Nothing was written, unless the disk failed in the middle
/// of the repairs; then a new check continues.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CheckError(Sentence);

impl CheckError {
    /// Wraps the message of a checker.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(error.into())
    }
}
