//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// A volume says that it is repaired before the repairs are durable.
    HastyRepairs,
    /// A volume that needs a log which is not at hand is repaired without it, unasked.
    UnaskedRepairs,
    /// A directory may go to where only a stray chunk names it.
    StrayNames,
    /// A bit that would make a check hash fit is put back whatever the structure says then.
    BitsWithoutSense,
    /// A directory ends at its first hole.
    CutDirectories,
    /// Where an entry and its inode differ in type, the inode is right, damaged or not.
    EntriesYield,
}
