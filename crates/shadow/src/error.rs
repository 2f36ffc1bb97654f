//! Why a volume is not opened, nor looked at.

use block::IoError;
use vfs::FsError;

use crate::format::VERSION;
use crate::format::anchor::LABEL;

/// Why a volume is not opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is none.
    #[error("there is no volume of engine shadow")]
    NoVolume,
    /// No anchor is left, and what is there may be of one volume or another.
    #[error(
        "the volume is damaged: its anchors are lost, and superblocks tell of zones of several \
         sizes; bring the disk back from a backup"
    )]
    Several,
    /// It was never there.
    #[error("a volume was begun here and never finished: 'duramen mkfs' makes it anew")]
    Unfinished,
    /// It is of another version.
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
        /// Its number; 0 if there is none at all.
        highest: u64,
    },
    /// What the superblock leads to makes no sense.
    #[error("the volume is damaged: {0}; 'duramen fsck' tells more")]
    Damaged(&'static str),
    /// It was not stopped, and has to be.
    #[error(
        "the volume was not stopped cleanly: serve it for writing once, or have 'duramen fsck \
         --repair' bring it back, before that"
    )]
    NotAtRest,
    /// There is no room for what an opening writes.
    #[error("what holds the disk is full, and a volume that is opened needs some room: make some")]
    Full,
    /// The label is too long.
    #[error("a label has {LABEL} bytes at most")]
    Label,
    /// Something that is to be repaired cannot be read.
    #[error(
        "the disk cannot read something that may come back: nothing is repaired as long as that is \
         so, or until another disk has what there is"
    )]
    Unread,
    /// The disk does not do what it is asked.
    #[error("{0}")]
    Io(IoError),
    /// A verb of the engine failed.
    #[error("{0}")]
    Failed(#[from] FsError),
}

impl OpenError {
    /// Why the first update is not durable.
    pub(crate) fn of_commit(error: FsError) -> Self {
        if error == FsError::NoSpace { Self::Full } else { Self::Failed(error) }
    }
}

impl From<IoError> for OpenError {
    fn from(error: IoError) -> Self {
        if error.is_full() { Self::Full } else { Self::Io(error) }
    }
}
