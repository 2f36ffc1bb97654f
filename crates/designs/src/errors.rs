//! Why a volume is not made, looked at, opened or checked: the sentence of its engine, and what a
//! caller does something about.

use std::error::Error;

use block::IoError;

/// What an engine says.
type Sentence = Box<dyn Error + Send + Sync>;

/// Why a volume was not opened. Each sentence says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A check was cut off while it repaired: another one has to go on.
    #[error(transparent)]
    UnfinishedCheck(Sentence),
    /// What it did last stands in a log, and none is at hand.
    #[error(transparent)]
    LogMissing(Sentence),
    /// The log at hand has nothing of what it did last.
    #[error(transparent)]
    LogForeign(Sentence),
    /// Anything else.
    #[error(transparent)]
    Other(Sentence),
}

impl OpenError {
    /// One that is told, and nothing else.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Other(error.into())
    }
}

/// Why there is no telling what stands on a disk.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The disk failed.
    #[error(transparent)]
    Device(#[from] IoError),
    /// There is no volume that can be used.
    #[error("{why}")]
    NoVolume {
        /// What is there instead.
        why: Sentence,
        /// Whether a check would look for a copy of what is missing.
        has_copies: bool,
    },
}

/// Why no volume was made.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct MkfsError(Sentence);

impl MkfsError {
    /// As an engine tells it.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(error.into())
    }
}

/// Why a check did not come to its end. Nothing was written, unless the disk failed in the middle
/// of the repairs; a new check goes on then.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CheckError(Sentence);

impl CheckError {
    /// As a checker tells it.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(error.into())
    }
}
