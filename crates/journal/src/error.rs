//! What can go wrong with a log.

use block::IoError;

/// Why a log cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Reading or writing it failed.
    #[error("the log cannot be read or written: {0}")]
    Device(#[from] IoError),
    /// There is no room for entries.
    #[error("a log needs at least {smallest} bytes, and this file or device has {size}")]
    TooSmall {
        /// Bytes that there are.
        size: u64,
        /// Bytes that there must be.
        smallest: u64,
    },
    /// Its end is gone.
    #[error(
        "the log has {size} of its {needed} bytes: it was cut off, or not all of it was copied"
    )]
    Short {
        /// Bytes that there are.
        size: u64,
        /// Bytes that its slot says there are.
        needed: u64,
    },
    /// What is written at once to its device is too large for its format.
    #[error("a log cannot lie on a device with sectors of {size} bytes")]
    Sector {
        /// Bytes of a sector.
        size: u64,
    },
    /// What is saved of it cannot be written.
    #[error("what the log holds cannot be saved elsewhere: {0}")]
    Save(IoError),
    /// A later version wrote it.
    #[error("the log has version {0} of its format, which this program does not know")]
    Version(u32),
    /// Its middle is gone.
    #[error("the log is damaged: it breaks off at record {end}, and goes on at record {beyond}")]
    Damaged {
        /// Where the chain of entries ends.
        end: u64,
        /// A whole entry behind that.
        beyond: u64,
    },
    /// Its beginning is gone.
    #[error("the log is damaged: it begins at record {head}, and there is none")]
    Headless {
        /// What is named as the oldest entry that is needed.
        head: u64,
    },
    /// There is no room in which another epoch could begin.
    #[error(
        "the log is so full that nothing can be begun in it: bring what it holds to its place \
         first, with 'duramen fsck --repair'"
    )]
    Full,
}
