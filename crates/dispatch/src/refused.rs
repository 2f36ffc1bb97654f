//! From a file system's refusal to a protocol's: the one table.

use nfs::nfs3::Status;
use vfs::{FsError, Lost};

/// A call that is refused with a status and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Before a file system was asked.
    Unasked(Status),
    /// Its answer was lost, and what is known of its files may never have been.
    Lost,
}

impl Refused {
    pub(crate) fn status(self) -> Status {
        match self {
            Self::Unasked(status) => status,
            Self::Lost => Status::Io,
        }
    }
}

impl From<FsError> for Refused {
    fn from(error: FsError) -> Self {
        Self::Unasked(status(error))
    }
}

impl From<Lost> for Refused {
    fn from(_: Lost) -> Self {
        Self::Lost
    }
}

/// The status that tells a client of `error`.
pub(crate) fn status(error: FsError) -> Status {
    match error {
        FsError::NotOwner => Status::NotOwner,
        FsError::Access => Status::Access,
        FsError::NoEntry => Status::NoEntry,
        FsError::Io => Status::Io,
        FsError::Exists => Status::Exists,
        FsError::CrossDevice => Status::CrossDevice,
        FsError::NotDirectory => Status::NotDirectory,
        FsError::IsDirectory => Status::IsDirectory,
        FsError::Invalid => Status::Invalid,
        FsError::FileTooLarge => Status::FileTooLarge,
        FsError::NoSpace => Status::NoSpace,
        FsError::ReadOnly => Status::ReadOnly,
        FsError::TooManyLinks => Status::TooManyLinks,
        FsError::NameTooLong => Status::NameTooLong,
        FsError::NotEmpty => Status::NotEmpty,
        FsError::Stale => Status::Stale,
        FsError::BadHandle => Status::BadHandle,
        FsError::NotSync => Status::NotSync,
        FsError::BadCookie => Status::BadCookie,
        FsError::NotSupported => Status::NotSupported,
        FsError::TooSmall => Status::TooSmall,
        FsError::BadType => Status::BadType,
        // The protocol has no word for damage. The log of the server has one.
        FsError::Corrupt => Status::Io,
    }
}
