//! The reasons for which a file system refuses a call.

/// The closed vocabulary of refusals. A protocol maps it in one exhaustive match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FsError {
    /// Only the owner, or the superuser, may do this.
    #[error("not the owner")]
    NotOwner,
    /// Permission bits deny it.
    #[error("permission denied")]
    Access,
    /// No such name.
    #[error("no such file or directory")]
    NoEntry,
    /// The disk failed, or the volume has stopped.
    #[error("input/output error")]
    Io,
    /// The name is taken.
    #[error("file exists")]
    Exists,
    /// A link or rename across volumes.
    #[error("cross-device link")]
    CrossDevice,
    /// A directory was needed.
    #[error("not a directory")]
    NotDirectory,
    /// A directory was given where none may be.
    #[error("is a directory")]
    IsDirectory,
    /// The arguments make no sense together, or a reserved name was given.
    #[error("invalid argument")]
    Invalid,
    /// An offset beyond the largest file.
    #[error("file too large")]
    FileTooLarge,
    /// No free space, or no free inodes.
    #[error("no space left")]
    NoSpace,
    /// The volume or the export is read-only.
    #[error("read-only file system")]
    ReadOnly,
    /// The link count is at its limit.
    #[error("too many links")]
    TooManyLinks,
    /// A name longer than the volume can hold.
    #[error("name too long")]
    NameTooLong,
    /// A directory with entries.
    #[error("directory not empty")]
    NotEmpty,
    /// The file that this handle named is gone.
    #[error("stale file handle")]
    Stale,
    /// Not a handle of this server.
    #[error("bad file handle")]
    BadHandle,
    /// The guard of a SETATTR did not match.
    #[error("update synchronisation mismatch")]
    NotSync,
    /// A directory cookie that cannot be resumed.
    #[error("bad directory cookie")]
    BadCookie,
    /// The volume does not support this.
    #[error("operation not supported")]
    NotSupported,
    /// The reply buffer cannot hold one entry.
    #[error("buffer too small")]
    TooSmall,
    /// A file type that cannot be made.
    #[error("bad type")]
    BadType,
    /// It takes long: the caller should retry later.
    #[error("try again later")]
    Jukebox,
    /// The disk holds an impossible value: reported, never guessed at.
    #[error("the volume is damaged here")]
    Corrupt,
}

impl From<crate::Lost> for FsError {
    fn from(_: crate::Lost) -> Self {
        FsError::Io
    }
}
