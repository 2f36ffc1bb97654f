//! LOOKUP, REMOVE, RMDIR, RENAME, LINK.

use crate::nfs3::{Handle, Outcome, PostOp, Wcc};
use crate::xdr::{Encode, Encoder};

/// Results of LOOKUP (RFC 1813, section 3.3.3); a failure has the directory's attributes.
pub type LookupResult = Outcome<LookupOk, PostOp>;

/// Results of REMOVE (section 3.3.12): the directory.
pub type RemoveResult = Outcome<Wcc, Wcc>;

/// Results of RMDIR (section 3.3.13): the directory.
pub type RmdirResult = Outcome<Wcc, Wcc>;

/// Results of RENAME (section 3.3.14).
pub type RenameResult = Outcome<RenameWcc, RenameWcc>;

/// Results of LINK (section 3.3.15).
pub type LinkResult = Outcome<LinkWcc, LinkWcc>;

/// `LOOKUP3resok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupOk {
    /// The file that the name leads to.
    pub object: Handle,
    /// Its attributes.
    pub attributes: PostOp,
    /// The directory's attributes.
    pub directory: PostOp,
}

/// Both arms of RENAME.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenameWcc {
    /// The directory of the old name.
    pub from: Wcc,
    /// The directory of the new name.
    pub to: Wcc,
}

/// Both arms of LINK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkWcc {
    /// The file.
    pub file: PostOp,
    /// The directory of the new name.
    pub directory: Wcc,
}

impl Encode for LookupOk {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.object);
        to.value(&self.attributes);
        to.value(&self.directory);
    }
}

impl Encode for RenameWcc {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.from);
        to.value(&self.to);
    }
}

impl Encode for LinkWcc {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.file);
        to.value(&self.directory);
    }
}
