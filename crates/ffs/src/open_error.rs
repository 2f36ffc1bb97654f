//! Reasons why a volume cannot be opened, or opens read-only.

use journal::JournalError;
use ufs2::layout::BadSuperblock;
use vfs::FsError;

use crate::replay::ReplayError;

/// Reason why a volume was not opened. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The superblock is invalid.
    #[error("{}", .0.sentence())]
    Superblock(#[from] BadSuperblock),
    /// The disk failed.
    #[error("the disk cannot be read or written: {0}")]
    Device(#[from] block::IoError),
    /// Not stopped cleanly by another system.
    #[error(
        "the volume was not stopped cleanly, and not by this server: let the system that used it \
         last mount and unmount it, or repair it with 'duramen fsck --repair'"
    )]
    UncleanForeign,
    /// A check was interrupted during its repairs.
    #[error(
        "a repair of the volume was cut off; run 'duramen fsck --repair' again before it is served"
    )]
    UnfinishedCheck,
    /// Not stopped cleanly by a policy of ours that is not built in.
    #[error(
        "the volume was not stopped cleanly under policy '{0}', which this version cannot recover: \
         serve it with the version that served it last"
    )]
    UncleanPolicy(String),
    /// Crashed under policy `log`, and opened without a log.
    #[error(
        "the volume was not stopped cleanly, and what it did last stands in its log: open it \
         together with its log; if that is lost, 'duramen fsck --repair --without-log' saves what \
         the volume itself has"
    )]
    LogMissing,
    /// Asked to open under policy `log` without a log, though it needs nothing in one.
    #[error(
        "policy log was asked for, and no log: give the volume a log, or open it under policy sync"
    )]
    LogAbsent,
    /// Asked to open under policy `sync`, with a log.
    #[error(
        "policy sync was asked for, which has no log, and a log was named: leave the log away, or \
         open the volume under policy log"
    )]
    LogUnwanted,
    /// Crashed under policy `log`, and asked to open without changing anything.
    #[error(
        "the volume was not stopped cleanly, and what it did last stands in its log: serve it, or \
         check it with 'duramen fsck --repair', before it is looked at"
    )]
    NotReplayed,
    /// The log has no entries of this volume's last epoch.
    #[error(
        "the log is not that with which the volume was used last, or another volume has used it \
         since, which it does only when nothing in it is needed any more: if there is another log \
         with which the volume may have been used, open it together with that one; if there is \
         none, 'duramen fsck --repair --without-log' brings the volume back with what it has \
         itself, and leaves what the log holds of others"
    )]
    LogForeign,
    /// The log holds changes, and the volume was used without it since.
    #[error(
        "the log holds changes that were not brought to the volume, and the volume was used \
         without it since, or is another one; put the log away, for another volume may need it. If \
         none does, 'duramen fsck --repair --without-log' gives the changes up"
    )]
    LogLeft,
    /// The log holds changes of another volume, while this one needs none.
    #[error(
        "the log is another volume's, which needs the changes that it holds: put it back there; \
         this volume needs nothing of it, and gets a new log where there is none. If that volume \
         is no more, remove the log, or overwrite the first MiB of a device"
    )]
    LogAnothers,
    /// Several volumes share the log, and only a server can finish its chains.
    #[error(
        "the log, which other volumes share, holds a change of a large file that was cut off in \
         its middle: serve the volume once with its log, and stop it, before it is repaired"
    )]
    LogChains,
    /// The superblock that identifies the log's volume is invalid.
    #[error(
        "the superblock is none, so that nobody knows whether the volume needs the changes that \
         the log holds: 'duramen fsck --repair --without-log' repairs it without them, and leaves \
         them in the log"
    )]
    LogUnknown,
    /// Several volumes share the log.
    #[error(
        "the log is shared by several volumes, of which this would be the only one: serve them \
         together"
    )]
    LogShared,
    /// The volume is to share a log, but cannot be written to.
    #[error("the volume can only be read, so it cannot share a log: serve it by itself")]
    LogReadOnly,
    /// The log holds changes of another volume, and there is no place to save them.
    #[error(
        "the log holds what a volume needs that is not named here, and that cannot be saved beside \
         the log: {0}; name all volumes of the log"
    )]
    LogUnsaved(#[source] std::io::Error),
    /// Another volume that is to share the log has the same number.
    #[error(
        "the volume has the same identity as another one that is to share its log: one of them is \
         a copy; serve it without a log, or with one of its own"
    )]
    LogTwin,
    /// More volumes than may share a log.
    #[error("at most {0} volumes can share a log")]
    LogCrowded(usize),
    /// The log cannot be replayed.
    #[error("the log cannot be replayed: {}{}", .0, advice(.0))]
    Replay(#[from] ReplayError),
    /// The ring of intents cannot be used.
    #[error(
        "the ring of intents cannot be used: {0}; if its place is broken, remove 'intents.img': \
         the server makes a new one, and a call that a client repeats may run twice"
    )]
    Intents(#[source] journal::JournalError),
    /// The disk has an impossible state.
    #[error("the volume is damaged: {0}; repair it with 'duramen fsck --repair'")]
    Damaged(String),
    /// Reading or writing the volume's metadata failed.
    #[error("the volume cannot be opened: {0}")]
    File(#[from] FsError),
}

/// Reason why a volume opened read-only that was asked to be writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnlyReason {
    /// The device refuses writes.
    Device,
    /// The file system is big-endian.
    ByteOrder,
    /// The file system has a soft updates journal.
    Journal,
    /// The disk is journalled below the file system.
    GeomJournal,
    /// The file system has snapshots.
    Snapshots,
    /// The file system uses access control lists or labels.
    AccessControlLists,
}

impl std::fmt::Display for ReadOnlyReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Device => "the disk is write-protected",
            Self::ByteOrder => {
                "it is big-endian, written on a machine of the other byte order; to write to its \
                 files, copy them to a volume of this server"
            }
            Self::Journal => {
                "it has a soft-updates journal, which would go stale; switch it off with \
                 'tunefs -j disable' to serve the volume for writing"
            }
            Self::GeomJournal => {
                "it is journalled by gjournal; switch that off with 'tunefs -J disable' to serve \
                 the volume for writing"
            }
            Self::Snapshots => {
                "it has snapshots, which writing would break; remove them on FreeBSD to serve the \
                 volume for writing"
            }
            Self::AccessControlLists => {
                "it uses access control lists or labels, which this server does not enforce; \
                 switch them off with tunefs to serve the volume for writing"
            }
        })
    }
}

/// Advice for a log that cannot be replayed, as the end of a sentence.
fn advice(error: &ReplayError) -> &'static str {
    match error {
        ReplayError::Journal(
            JournalError::TooSmall { .. }
            | JournalError::Short { .. }
            | JournalError::Damaged { .. }
            | JournalError::Headless { .. },
        )
        | ReplayError::Impossible { .. } => {
            "; if there is no whole copy of it, 'duramen fsck --repair --without-log' brings the \
             volume back with what it has itself"
        }
        // The log error has its own advice, or the log is not at fault.
        ReplayError::Journal(_) | ReplayError::Device(_) | ReplayError::Group { .. } => "",
    }
}

impl From<fsck::RecoverError> for OpenError {
    fn from(error: fsck::RecoverError) -> Self {
        match error {
            fsck::RecoverError::Device(error) => Self::Device(error),
            fsck::RecoverError::Damaged(damage) => Self::Damaged(damage),
        }
    }
}
