//! Why nothing was measured.

use std::io;

use block::IoError;
use block::file;

/// One sentence for a person.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What was asked for cannot be.
    #[error("{0}")]
    Usage(String),
    /// The system gives no event queue, or nothing that drives disks.
    #[error("the system does not let disks be driven: {0}")]
    Reactor(#[source] io::Error),
    /// A disk cannot be opened.
    #[error(transparent)]
    Disk(#[from] file::OpenError),
    /// A set cannot be made or opened.
    #[error("no set: {0}")]
    Set(#[from] raid::OpenError),
    /// A member was not made again.
    #[error(transparent)]
    Rebuild(#[from] raid::RebuildError),
    /// A request failed.
    #[error(transparent)]
    Request(#[from] IoError),
}
