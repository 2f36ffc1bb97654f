//! GETATTR, SETATTR, ACCESS.

use crate::nfs3::{Attributes, Outcome, PostOp, Wcc};
use crate::xdr::{Encode, Encoder};

/// Results of GETATTR (RFC 1813, section 3.3.1).
pub type GetattrResult = Outcome<Attributes, ()>;

/// Results of SETATTR (section 3.3.2).
pub type SetattrResult = Outcome<Wcc, Wcc>;

/// Results of ACCESS (section 3.3.4).
pub type AccessResult = Outcome<AccessOk, PostOp>;

/// `ACCESS3resok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessOk {
    /// The file.
    pub attributes: PostOp,
    /// The requested rights that the caller has.
    pub access: u32,
}

impl Encode for AccessOk {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.attributes);
        to.u32(self.access);
    }
}
