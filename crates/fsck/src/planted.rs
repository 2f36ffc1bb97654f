//! Bugs that tests plant, to show that they would be found: see the crate `planted`.

planted::bugs! {
    /// A volume says that it is repaired before the repairs are durable.
    HastyRepairs,
    /// A volume that needs a log which is not at hand is repaired without it, unasked.
    UnaskedRepairs,
    /// A directory may go to where only a stray chunk names it.
    StrayNames,
}
