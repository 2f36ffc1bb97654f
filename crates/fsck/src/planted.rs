//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// A volume says that it is repaired before the repairs are durable.
    HastyRepairs,
    /// A volume that needs an unavailable log is repaired without it, without permission.
    UnaskedRepairs,
    /// A directory may be kept at a name that only a stray chunk has.
    StrayNames,
    /// A bit that makes a check hash fit is put back, however implausible the result is.
    BitsWithoutSense,
    /// A directory ends at its first hole.
    CutDirectories,
    /// Where an entry and its inode differ in type, the inode is right, damaged or not.
    EntriesYield,
}
