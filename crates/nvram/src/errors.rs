//! Why an NVRAM cannot be made or opened.

use block::IoError;

use crate::format::{BadLabel, LEAST_BUFFERS, Layout};
use crate::pairing::Unpaired;

/// The fewest bytes that an NVRAM takes.
const LEAST: u64 = Layout::size_for(LEAST_BUFFERS);

/// Why there is no NVRAM.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It is too small.
    #[error("it has {0} bytes, and an NVRAM takes {LEAST} at least")]
    TooSmall(u64),
    /// Neither of its labels can be read.
    #[error(transparent)]
    Label(#[from] BadLabel),
    /// It belongs to another volume.
    #[error("it is the NVRAM of another volume")]
    Foreign,
    /// It stood before a device of another size.
    #[error("it was made for a volume of {made} bytes, and this one has {found}")]
    OtherSize {
        /// Bytes of the volume for which it was made.
        made: u64,
        /// Bytes of this one.
        found: u64,
    },
    /// Its sectors are larger than those of a buffer's header.
    #[error("it has sectors of {0} bytes, and an NVRAM takes sectors of 512")]
    Sectors(u32),
    /// It does not belong to the volume as this one is.
    #[error(transparent)]
    Unpaired(#[from] Unpaired),
    /// A device failed.
    #[error(transparent)]
    Device(#[from] IoError),
}
