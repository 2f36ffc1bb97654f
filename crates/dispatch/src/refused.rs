//! The one table from a file system's refusals to the protocol's.

use nfs::nfs3::Status;
use vfs::{FsError, Lost};

/// A call that is refused with a status and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Refused before any file system was called.
    Unasked(Status),
    /// Refused by a file system before it was asked for a change. The client may retry it as
    /// another call.
    Asked(Status),
    /// The answer was lost, and the changes that it shows may never have happened.
    Lost,
}

impl Refused {
    pub(crate) fn status(self) -> Status {
        match self {
            Self::Unasked(status) | Self::Asked(status) => status,
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

/// The protocol's status for `error`.
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
        FsError::Jukebox => Status::Jukebox,
        // The protocol has no status for damage. The server's log reports it.
        FsError::Corrupt => Status::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of RFC 1813, section 2.6.
    #[test]
    fn every_refusal_has_its_number_in_the_protocol() {
        for (error, number) in [
            (FsError::NotOwner, 1),
            (FsError::Access, 13),
            (FsError::NoEntry, 2),
            (FsError::Io, 5),
            (FsError::Exists, 17),
            (FsError::CrossDevice, 18),
            (FsError::NotDirectory, 20),
            (FsError::IsDirectory, 21),
            (FsError::Invalid, 22),
            (FsError::FileTooLarge, 27),
            (FsError::NoSpace, 28),
            (FsError::ReadOnly, 30),
            (FsError::TooManyLinks, 31),
            (FsError::NameTooLong, 63),
            (FsError::NotEmpty, 66),
            (FsError::Stale, 70),
            (FsError::BadHandle, 10_001),
            (FsError::NotSync, 10_002),
            (FsError::BadCookie, 10_003),
            (FsError::NotSupported, 10_004),
            (FsError::TooSmall, 10_005),
            (FsError::BadType, 10_007),
            (FsError::Jukebox, 10_008),
            (FsError::Corrupt, 5),
        ] {
            assert_eq!(status(error) as u32, number, "{error}");
            assert_eq!(Refused::from(error), Refused::Unasked(status(error)), "{error}");
            assert_eq!(Refused::from(error).status(), status(error));
        }
        assert_eq!(Refused::from(Lost).status(), Status::Io);
    }
}
