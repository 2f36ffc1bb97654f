//! Information about a volume that is inspected, but not opened.

/// Findings about a volume. The counts are correct if it was stopped cleanly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Number of the volume, which it keeps on any disk.
    pub number: u64,
    /// Label of the volume; empty if there is none.
    pub label: String,
    /// Policy that the disk itself records, as a bare one may.
    pub policy: Option<&'static str>,
    /// Whether the volume was stopped cleanly.
    pub is_clean: bool,
    /// Whether the record of that is torn by a cut.
    pub is_torn: bool,
    /// Policy under which the volume was cut off, possibly one that this program does not have.
    pub cut_off_under: Option<String>,
    /// Whether it may need the contents of a log.
    pub needs_log: bool,
    /// Whether a check is due.
    pub needs_check: bool,
    /// Whether it is empty and always was.
    pub is_fresh: bool,
    /// Feature because of which it can only be read, if there is one.
    pub only_read: Option<&'static str>,
    /// Whether anchors are left that locate its superblocks, if its engine has anchors.
    pub has_anchors: Option<bool>,
    /// Reason to doubt these findings, if there is one.
    pub doubt: Option<String>,
    /// Size of the file system, in bytes.
    pub size: u64,
    /// Bytes of the file system behind the end of the disk: it was truncated, or not wholly copied.
    pub missing: u64,
    /// Free bytes.
    pub free: u64,
    /// Bytes that only root may fill.
    pub reserved: u64,
    /// Size of a block, in bytes.
    pub block_size: u64,
    /// Number of files, including directories.
    pub files: u64,
    /// Number of directories.
    pub directories: u64,
    /// Number of files that can still be created.
    pub free_files: u64,
    /// Time of the last write, in seconds since 1970.
    pub last_written: i64,
    /// Further information in a UFS2 superblock.
    pub ufs2: Option<FoundUfs2>,
}

/// Further information in a UFS2 superblock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundUfs2 {
    /// Size of a fragment, in bytes.
    pub fragment_size: u64,
    /// Number of groups.
    pub groups: u64,
    /// Byte order of the volume.
    pub byte_order: &'static str,
    /// Structures that have check hashes.
    pub check_hashes: Vec<&'static str>,
    /// Flags about the use of the disk.
    pub flags: Vec<&'static str>,
    /// Last mount point.
    pub last_mounted_at: String,
}
