//! Reasons why a volume is not made, opened or probed.

use block::IoError;
use vfs::FsError;

use crate::format::VERSION;
use crate::format::head::LABEL;
use crate::format::shape::LEAST_SEGMENTS;

/// Reason why a volume is not opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no volume.
    #[error("there is no volume of engine lfs")]
    NoVolume,
    /// The volume was never finished.
    #[error("a volume was begun here and never finished: 'duramen mkfs' makes it anew")]
    Unfinished,
    /// The volume has another version.
    #[error(
        "the volume has version {0} of the format of engine lfs, and this program knows version \
         {VERSION} alone"
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
    /// Neither region is whole.
    #[error(
        "the volume is damaged: no copy of the root of a checkpoint is whole; bring the disk back \
         from a backup"
    )]
    NoRegion,
    /// A part of the log that was on stable storage is damaged.
    #[error(
        "the log is damaged at summary {0}, and later summaries are there: acknowledged changes \
         would be lost; 'duramen fsck' lists the files, and 'duramen fsck --repair' gives these \
         changes up"
    )]
    Log(u64),
    /// Something makes no sense.
    #[error(
        "the volume is damaged: {0}; 'duramen fsck' names what is lost, and 'duramen fsck \
         --repair' gives it up"
    )]
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
    /// The reserve is no percentage that makes sense, or there is no room for it.
    #[error(
        "a reserve of {0} percent is not possible: 50 at most, and the files there leave less free"
    )]
    Reserve(u64),
    /// A block cannot be read now.
    #[error(
        "the disk cannot read a part of it, which a repair would give up: repeat this when the \
         disk reads it again, or copy the volume to another disk first"
    )]
    Unread,
    /// A request to the disk failed.
    #[error("{0}")]
    Io(IoError),
    /// A verb of the engine failed.
    #[error("{0}")]
    Failed(#[from] FsError),
}

impl From<IoError> for OpenError {
    fn from(error: IoError) -> Self {
        if error.is_full() { Self::Full } else { Self::Io(error) }
    }
}

impl OpenError {
    /// From the error of the first checkpoint.
    pub(crate) fn of_checkpoint(error: FsError) -> Self {
        if error == FsError::NoSpace { Self::Full } else { Self::Failed(error) }
    }
}

/// Reason why a volume is not made.
#[derive(Debug, thiserror::Error)]
pub enum MkfsError {
    /// Segments and blocks cannot have these sizes.
    #[error(
        "there are no blocks of {block_size} bytes in segments of {segment_size}: a block has 4096 \
         to 65536 bytes and is a power of two; a segment is of whole blocks, at least two, and has \
         256 MiB at most"
    )]
    Sizes {
        /// Bytes of a block.
        block_size: u64,
        /// Bytes of a segment.
        segment_size: u64,
    },
    /// Segments are not whole stripes.
    #[error("a segment of {segment_size} bytes is not a multiple of a stripe, which has {stripe}")]
    Stripe {
        /// Bytes of a segment.
        segment_size: u64,
        /// Bytes of data in a stripe.
        stripe: u64,
    },
    /// The disk is too small.
    #[error(
        "{size} bytes are too few for segments of {segment_size}: a volume has {LEAST_SEGMENTS} \
         segments at least, and room for files beside what the cleaner and checkpoints need"
    )]
    Small {
        /// Bytes of the disk.
        size: u64,
        /// Bytes of a segment.
        segment_size: u64,
    },
    /// The disk is too large.
    #[error("{0} bytes are more than a volume of engine lfs may have: 4 PiB")]
    Large(u64),
    /// The reserve is no percentage that makes sense.
    #[error("a reserve of {0} percent makes no sense: 50 at most")]
    Reserve(u64),
    /// The label is too long.
    #[error("a label has {LABEL} bytes at most")]
    Label,
    /// A request to the disk failed.
    #[error(transparent)]
    Io(#[from] IoError),
}
