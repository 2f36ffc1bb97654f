//! Errors of a log.

use block::IoError;

/// Reason why a log cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Reading or writing it failed.
    #[error("the log cannot be read or written: {0}")]
    Device(#[from] IoError),
    /// The device is too small for a log.
    #[error("a log needs at least {smallest} bytes, and this file or device has {size}")]
    TooSmall {
        /// Size of the device in bytes.
        size: u64,
        /// Minimum size in bytes.
        smallest: u64,
    },
    /// The end of the log is missing.
    #[error(
        "the log has {size} of its {needed} bytes: it was cut off, or not all of it was copied"
    )]
    Short {
        /// Size of the device in bytes.
        size: u64,
        /// Size according to its slot, in bytes.
        needed: u64,
    },
    /// The sectors of its device are too large for its format.
    #[error("a log cannot lie on a device with sectors of {size} bytes")]
    Sector {
        /// Bytes of a sector.
        size: u64,
    },
    /// The saved copy of it cannot be written.
    #[error("what the log holds cannot be saved elsewhere: {0}")]
    Save(IoError),
    /// A later version wrote it.
    #[error("the log has version {0} of its format, which this program does not know")]
    Version(u32),
    /// The middle of the log is damaged.
    #[error("the log is damaged: it breaks off at record {end}, and goes on at record {beyond}")]
    Damaged {
        /// Recno at which the chain of entries ends.
        end: u64,
        /// Recno of an intact entry behind that.
        beyond: u64,
    },
    /// The beginning of the log is missing.
    #[error("the log is damaged: it begins at record {head}, and there is none")]
    Headless {
        /// Recno that is named as the oldest needed entry.
        head: u64,
    },
    /// There is no room to begin another epoch.
    #[error(
        "the log is so full that nothing can be begun in it: bring what it holds to its place \
         first, with 'duramen fsck --repair'"
    )]
    Full,
}
