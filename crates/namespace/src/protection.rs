//! What flags protect a file from, for any caller: the rules that FreeBSD's kernel keeps for its
//! inodes, over NFS as at home.
//!
//! An *immutable* file (`schg`, `uchg`) keeps content, attributes and names; an immutable directory
//! keeps its entries. An *append-only* file (`sappnd`, `uappnd`) takes writes that begin at its
//! end, UNSTABLE data counted in, and keeps its attributes and names; in an append-only directory
//! names appear and never go. A file that is *not to be unlinked* (`sunlnk`, `uunlnk`) keeps its
//! names. The superuser is refused as well: flags are taken away on the system that set them.
//!
//! Absent: the server's own work. Data that was accepted is written back, files without names are
//! freed, and access times are noted, whatever flags a file has.

use vfs::FsError;

/// See the module's prose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Nothing of it changes.
    pub immutable: bool,
    /// Its content, or its entries, only become more.
    pub append_only: bool,
    /// Its names stay.
    pub no_unlink: bool,
}

/// What is refused is refused to every caller.
fn unless(refused: bool) -> Result<(), FsError> {
    if refused { Err(FsError::NotOwner) } else { Ok(()) }
}

impl Protection {
    /// A WRITE from `offset` on, of a file that is `size` bytes long.
    pub(crate) fn check_write(self, offset: u64, size: u64) -> Result<(), FsError> {
        unless(self.immutable || self.append_only && offset != size)
    }

    /// A change of attributes, its size among them.
    pub(crate) fn check_attributes(self) -> Result<(), FsError> {
        unless(self.immutable || self.append_only)
    }

    /// Of a directory: an entry appears.
    pub(crate) fn check_entry_added(self) -> Result<(), FsError> {
        unless(self.immutable)
    }

    /// Of a directory: an entry goes, or names another file.
    pub(crate) fn check_entry_taken(self) -> Result<(), FsError> {
        unless(self.immutable || self.append_only)
    }

    /// A name of it goes, or it moves to another one.
    pub(crate) fn check_name_taken(self) -> Result<(), FsError> {
        unless(self.immutable || self.append_only || self.no_unlink)
    }

    /// It gets one name more.
    pub(crate) fn check_name_added(self) -> Result<(), FsError> {
        unless(self.immutable || self.append_only)
    }
}
