//! Options for a new volume, and its description.

use vfs::RootDirectory;

/// Options for a new volume. The engine chooses a missing option, and refuses one that it has no
/// use for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Size of a block, in bytes.
    pub block_size: Option<u64>,
    /// Size of a zone, a part of the disk that is filled before the next, in bytes.
    pub zone_size: Option<u64>,
    /// Size of a segment, a part of the disk that a log fills as a whole, in bytes.
    pub segment_size: Option<u64>,
    /// Size of the smallest piece of a file, in bytes.
    pub fragment_size: Option<u64>,
    /// Bytes of space for each file that the volume has room for.
    pub bytes_per_inode: Option<u64>,
    /// Percent of the space that only root may fill.
    pub reserve_percent: Option<u64>,
    /// Label of the volume, or none.
    pub label: String,
    /// Owner and permissions of the root directory.
    pub root: RootDirectory,
}

/// Description of a new volume. Features that its format lacks are absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Name of the format.
    pub format: &'static str,
    /// Size of the file system, in bytes.
    pub size: u64,
    /// Size of a block, in bytes.
    pub block_size: u64,
    /// Size of the smallest piece of a file, in bytes.
    pub fragment_size: Option<u64>,
    /// Number of groups.
    pub groups: Option<u64>,
    /// Maximum number of files, if that is fixed.
    pub most_files: Option<u64>,
}
