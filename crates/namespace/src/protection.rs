//! Protection of files by flags, for any caller: the rules that FreeBSD's kernel keeps for its
//! inodes, over NFS as locally.
//!
//! An *immutable* file (`schg`, `uchg`) keeps content, attributes and names; an immutable directory
//! keeps its entries. An *append-only* file (`sappnd`, `uappnd`) takes writes that begin at its
//! end, counting UNSTABLE data, and keeps its attributes and names; in an append-only directory
//! names are added and never removed. A file that is *not to be unlinked* (`sunlnk`, `uunlnk`)
//! keeps its names. The superuser is refused as well: flags are cleared on the system that set
//! them.
//!
//! Absent: the server's own work. Accepted data is written back, files without names are freed, and
//! access times are noted, whatever flags a file has.

use vfs::FsError;

/// See the module's prose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Nothing of the file changes.
    pub immutable: bool,
    /// Its content, or its entries, can only be added to.
    pub append_only: bool,
    /// Its names cannot be removed.
    pub no_unlink: bool,
}

/// Refuses every caller alike.
fn unless(refused: bool) -> Result<(), FsError> {
    if refused { Err(FsError::NotOwner) } else { Ok(()) }
}

impl Protection {
    /// A WRITE from `offset` on, to a file that is `size` bytes long.
    pub(crate) fn check_write(self, offset: u64, size: u64) -> Result<(), FsError> {
        unless(self.immutable || self.append_only && offset != size)
    }

    /// A change of attributes, including the size.
    pub(crate) fn check_attributes(self) -> Result<(), FsError> {
        unless(self.immutable || self.append_only)
    }

    /// Adding an entry to this directory.
    pub(crate) fn check_entry_added(self) -> Result<(), FsError> {
        unless(self.immutable)
    }

    /// Removing an entry of this directory, or making it name another file.
    pub(crate) fn check_entry_taken(self) -> Result<(), FsError> {
        unless(self.immutable || self.append_only)
    }

    /// Removing a name of this file, or moving it to another name.
    pub(crate) fn check_name_taken(self) -> Result<(), FsError> {
        unless(self.immutable || self.append_only || self.no_unlink)
    }

    /// Adding a name to this file.
    pub(crate) fn check_name_added(self) -> Result<(), FsError> {
        unless(self.immutable || self.append_only)
    }
}
