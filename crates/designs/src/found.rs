//! What stands on the disk of a volume that is looked at, and not opened.

/// What is found of a volume. Its counts are true if it was stopped cleanly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The number by which the volume is known, wherever it is.
    pub number: u64,
    /// Its name; an empty one for none.
    pub label: String,
    /// The policy that the disk itself names, as a bare one may.
    pub policy: Option<&'static str>,
    /// Whether it was stopped cleanly.
    pub is_clean: bool,
    /// Whether what says so was cut off while it was written.
    pub is_torn: bool,
    /// Under which policy it was cut off, which this program may not have.
    pub cut_off_under: Option<String>,
    /// Whether it may need what a log holds.
    pub needs_log: bool,
    /// Whether a check is due.
    pub needs_check: bool,
    /// Whether there is nothing in it, and never was.
    pub is_fresh: bool,
    /// What it is that can only be read, if it is that.
    pub only_read: Option<&'static str>,
    /// Whether anchors are left that say where its superblocks stand, if its engine has some.
    pub has_anchors: Option<bool>,
    /// Why not all may be true that it says.
    pub doubt: Option<String>,
    /// Bytes of the file system,
    pub size: u64,
    /// and of these that lie behind the end of the disk: it was cut short, or not all was copied.
    pub missing: u64,
    /// Bytes of it that are free,
    pub free: u64,
    /// and that only root may fill.
    pub reserved: u64,
    /// Bytes in a block.
    pub block_size: u64,
    /// Files, directories among them.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Files for which there is room.
    pub free_files: u64,
    /// When it was written last, in seconds since 1970.
    pub last_written: i64,
    /// What a superblock of UFS2 tells besides.
    pub ufs2: Option<FoundUfs2>,
}

/// What a superblock of UFS2 tells besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundUfs2 {
    /// Bytes in a fragment.
    pub fragment_size: u64,
    /// Groups.
    pub groups: u64,
    /// Its byte order.
    pub byte_order: &'static str,
    /// What bears check hashes.
    pub check_hashes: Vec<&'static str>,
    /// Flags that say how the disk is used.
    pub flags: Vec<&'static str>,
    /// Where it was mounted last.
    pub last_mounted_at: String,
}
