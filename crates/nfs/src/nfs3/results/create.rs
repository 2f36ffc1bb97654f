//! CREATE, MKDIR, SYMLINK, MKNOD: four procedures with the same results.

use crate::nfs3::{Handle, Outcome, PostOp, Wcc};
use crate::xdr::{Encode, Encoder};

/// Results of CREATE (RFC 1813, section 3.3.8); a failure has the directory's attributes.
pub type CreateResult = Outcome<CreateOk, Wcc>;

/// Results of MKDIR (section 3.3.9).
pub type MkdirResult = CreateResult;

/// Results of SYMLINK (section 3.3.10).
pub type SymlinkResult = CreateResult;

/// Results of MKNOD (section 3.3.11).
pub type MknodResult = CreateResult;

/// `CREATE3resok`, `MKDIR3resok`, `SYMLINK3resok`, `MKNOD3resok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateOk {
    /// The handle of the new file.
    pub object: Option<Handle>,
    /// Its attributes.
    pub attributes: PostOp,
    /// The directory.
    pub directory: Wcc,
}

impl Encode for CreateOk {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.object);
        to.value(&self.attributes);
        to.value(&self.directory);
    }
}
