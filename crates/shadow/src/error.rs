//! Reasons why a volume is not opened, nor probed.

use block::IoError;
use cow::VERSION;
use vfs::FsError;

use crate::format::anchor::LABEL;

/// Reason why a volume is not opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no volume.
    #[error("there is no volume of engine shadow")]
    NoVolume,
    /// No anchor is left, and superblocks disagree on the volume.
    #[error(
        "the volume is damaged: its anchors are lost, and superblocks tell of zones of several \
         sizes; bring the disk back from a backup"
    )]
    Several,
    /// The volume was never finished.
    #[error("a volume was begun here and never finished: 'duramen mkfs' makes it anew")]
    Unfinished,
    /// The volume has another version.
    #[error(
        "the volume has version {0} of the format of engine shadow, and this program knows \
         version {VERSION} alone"
    )]
    Version(u16),
    /// The disk is smaller than the volume.
    #[error(
        "the volume has {volume} bytes, and its disk only {disk}: a part of it is missing, so \
         bring that back"
    )]
    CutOff {
        /// Bytes of the volume.
        volume: u64,
        /// Bytes of the disk.
        disk: u64,
    },
    /// No superblock is whole.
    #[error(
        "the volume is damaged: no superblock is whole that may be the last (the highest is that \
         of update {highest}); bring the disk back from a backup"
    )]
    NoSuperblock {
        /// Its number; 0 if there is no superblock at all.
        highest: u64,
    },
    /// A block below the superblock makes no sense.
    #[error("the volume is damaged: {0}; 'duramen fsck' tells more")]
    Damaged(&'static str),
    /// The volume was not stopped, and has to be.
    #[error(
        "the volume was not stopped cleanly: serve it for writing once, or have 'duramen fsck \
         --repair' bring it back, before that"
    )]
    NotAtRest,
    /// There is no room for the writes of an opening.
    #[error("what holds the disk is full, and a volume that is opened needs some room: make some")]
    Full,
    /// The label is too long.
    #[error("a label has {LABEL} bytes at most")]
    Label,
    /// A block that has to be repaired cannot be read.
    #[error(
        "the disk cannot read something that may come back: nothing is repaired as long as that is \
         so, or until another disk has what there is"
    )]
    Unread,
    /// A request to the disk failed.
    #[error("{0}")]
    Io(IoError),
    /// A verb of the engine failed.
    #[error("{0}")]
    Failed(#[from] FsError),
}

impl OpenError {
    /// From the error of the first update.
    pub(crate) fn of_commit(error: FsError) -> Self {
        if error == FsError::NoSpace { Self::Full } else { Self::Failed(error) }
    }
}

impl From<IoError> for OpenError {
    fn from(error: IoError) -> Self {
        if error.is_full() { Self::Full } else { Self::Io(error) }
    }
}
