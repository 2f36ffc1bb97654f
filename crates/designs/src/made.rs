//! How a volume is to be made, and what was made.

/// How a volume is to be made. What is not said its engine chooses, and what it has no use for it
/// refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Bytes in a block.
    pub block_size: Option<u64>,
    /// Bytes in a zone, a part of the disk that is filled before the next.
    pub zone_size: Option<u64>,
    /// Bytes in the smallest piece of a file.
    pub fragment_size: Option<u64>,
    /// Room for one file for each so many bytes.
    pub bytes_per_inode: Option<u64>,
    /// Percent of the space that only root may fill.
    pub reserve_percent: Option<u64>,
    /// A name for the volume, or none.
    pub label: String,
}

/// What was made. What its format does not have is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The name of the format.
    pub format: &'static str,
    /// Bytes of the file system.
    pub size: u64,
    /// Bytes in a block.
    pub block_size: u64,
    /// Bytes in the smallest piece of a file.
    pub fragment_size: Option<u64>,
    /// Groups.
    pub groups: Option<u64>,
    /// Files for which there is room, where that is fixed.
    pub most_files: Option<u64>,
}
