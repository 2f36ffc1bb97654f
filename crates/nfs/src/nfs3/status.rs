//! The reasons for which a procedure refuses.

use crate::xdr::{Encode, Encoder};

/// `nfsstat3` (RFC 1813, section 2.6) without NFS3_OK, which only an `Ok` [`Outcome`] can express.
///
/// [`Outcome`]: super::Outcome
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// NFS3ERR_PERM: not the owner.
    NotOwner = 1,
    /// NFS3ERR_NOENT: no such name.
    NoEntry = 2,
    /// NFS3ERR_IO: a hard error.
    Io = 5,
    /// NFS3ERR_NXIO: no such device or address.
    NoSuchAddress = 6,
    /// NFS3ERR_ACCES: permission denied.
    Access = 13,
    /// NFS3ERR_EXIST: the name is taken.
    Exists = 17,
    /// NFS3ERR_XDEV: a link or rename across volumes.
    CrossDevice = 18,
    /// NFS3ERR_NODEV: no such device.
    NoDevice = 19,
    /// NFS3ERR_NOTDIR: a directory was needed.
    NotDirectory = 20,
    /// NFS3ERR_ISDIR: a directory was given where none may be.
    IsDirectory = 21,
    /// NFS3ERR_INVAL: the arguments make no sense.
    Invalid = 22,
    /// NFS3ERR_FBIG: beyond the largest file.
    FileTooLarge = 27,
    /// NFS3ERR_NOSPC: no space left.
    NoSpace = 28,
    /// NFS3ERR_ROFS: the volume is read-only.
    ReadOnly = 30,
    /// NFS3ERR_MLINK: too many links.
    TooManyLinks = 31,
    /// NFS3ERR_NAMETOOLONG: a name too long.
    NameTooLong = 63,
    /// NFS3ERR_NOTEMPTY: a directory with entries.
    NotEmpty = 66,
    /// NFS3ERR_DQUOT: the quota is used up.
    Quota = 69,
    /// NFS3ERR_STALE: the file of this handle is gone.
    Stale = 70,
    /// NFS3ERR_REMOTE: too many levels of remote in path.
    Remote = 71,
    /// NFS3ERR_BADHANDLE: not a handle of this server.
    BadHandle = 10001,
    /// NFS3ERR_NOT_SYNC: the guard of a SETATTR did not match.
    NotSync = 10002,
    /// NFS3ERR_BAD_COOKIE: a directory cookie that cannot be resumed.
    BadCookie = 10003,
    /// NFS3ERR_NOTSUPP: not supported.
    NotSupported = 10004,
    /// NFS3ERR_TOOSMALL: the client's buffer is too small.
    TooSmall = 10005,
    /// NFS3ERR_SERVERFAULT: an error that has no other name.
    ServerFault = 10006,
    /// NFS3ERR_BADTYPE: a file type that cannot be made.
    BadType = 10007,
    /// NFS3ERR_JUKEBOX: it takes long; try again later.
    Jukebox = 10008,
}

impl Encode for Status {
    fn encode(&self, to: &mut Encoder) {
        to.u32(*self as u32);
    }
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 28] = [
        Self::NotOwner,
        Self::NoEntry,
        Self::Io,
        Self::NoSuchAddress,
        Self::Access,
        Self::Exists,
        Self::CrossDevice,
        Self::NoDevice,
        Self::NotDirectory,
        Self::IsDirectory,
        Self::Invalid,
        Self::FileTooLarge,
        Self::NoSpace,
        Self::ReadOnly,
        Self::TooManyLinks,
        Self::NameTooLong,
        Self::NotEmpty,
        Self::Quota,
        Self::Stale,
        Self::Remote,
        Self::BadHandle,
        Self::NotSync,
        Self::BadCookie,
        Self::NotSupported,
        Self::TooSmall,
        Self::ServerFault,
        Self::BadType,
        Self::Jukebox,
    ];

    /// The status of this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|status| *status as u32 == number)
    }

    /// Its name, as the RFC writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotOwner => "NFS3ERR_PERM",
            Self::NoEntry => "NFS3ERR_NOENT",
            Self::Io => "NFS3ERR_IO",
            Self::NoSuchAddress => "NFS3ERR_NXIO",
            Self::Access => "NFS3ERR_ACCES",
            Self::Exists => "NFS3ERR_EXIST",
            Self::CrossDevice => "NFS3ERR_XDEV",
            Self::NoDevice => "NFS3ERR_NODEV",
            Self::NotDirectory => "NFS3ERR_NOTDIR",
            Self::IsDirectory => "NFS3ERR_ISDIR",
            Self::Invalid => "NFS3ERR_INVAL",
            Self::FileTooLarge => "NFS3ERR_FBIG",
            Self::NoSpace => "NFS3ERR_NOSPC",
            Self::ReadOnly => "NFS3ERR_ROFS",
            Self::TooManyLinks => "NFS3ERR_MLINK",
            Self::NameTooLong => "NFS3ERR_NAMETOOLONG",
            Self::NotEmpty => "NFS3ERR_NOTEMPTY",
            Self::Quota => "NFS3ERR_DQUOT",
            Self::Stale => "NFS3ERR_STALE",
            Self::Remote => "NFS3ERR_REMOTE",
            Self::BadHandle => "NFS3ERR_BADHANDLE",
            Self::NotSync => "NFS3ERR_NOT_SYNC",
            Self::BadCookie => "NFS3ERR_BAD_COOKIE",
            Self::NotSupported => "NFS3ERR_NOTSUPP",
            Self::TooSmall => "NFS3ERR_TOOSMALL",
            Self::ServerFault => "NFS3ERR_SERVERFAULT",
            Self::BadType => "NFS3ERR_BADTYPE",
            Self::Jukebox => "NFS3ERR_JUKEBOX",
        }
    }
}
