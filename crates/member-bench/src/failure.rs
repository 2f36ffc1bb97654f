//! Reasons why nothing was measured.

use std::io;

use block::IoError;
use block::file;

/// One sentence for a person.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The arguments do not fit the disks.
    #[error("{0}")]
    Usage(String),
    /// The system provides no event queue, or no means to drive disks.
    #[error("the system does not let disks be driven: {0}")]
    Reactor(#[source] io::Error),
    /// A disk cannot be opened.
    #[error(transparent)]
    Disk(#[from] file::OpenError),
    /// A set cannot be made or opened.
    #[error("no set: {0}")]
    Set(#[from] raid::OpenError),
    /// A member was not rebuilt.
    #[error(transparent)]
    Rebuild(#[from] raid::RebuildError),
    /// A request failed.
    #[error(transparent)]
    Request(#[from] IoError),
}
