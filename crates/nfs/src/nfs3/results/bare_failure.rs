//! A refusal that is the same for every procedure, before any file was accessed.

use crate::nfs3::{Procedure, Status};
use crate::xdr::{Encode, Encoder};

/// The failure arm of any procedure, with none of its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BareFailure {
    /// The procedure that refuses. NULL cannot, and is not encoded.
    pub procedure: Procedure,
    /// The reason.
    pub status: Status,
}

impl Encode for BareFailure {
    fn encode(&self, to: &mut Encoder) {
        let absent = match self.procedure {
            Procedure::Null => return,
            Procedure::Getattr => 0,
            Procedure::Lookup
            | Procedure::Access
            | Procedure::Readlink
            | Procedure::Read
            | Procedure::Readdir
            | Procedure::Readdirplus
            | Procedure::Fsstat
            | Procedure::Fsinfo
            | Procedure::Pathconf => 1, // post_op_attr
            Procedure::Setattr
            | Procedure::Write
            | Procedure::Create
            | Procedure::Mkdir
            | Procedure::Symlink
            | Procedure::Mknod
            | Procedure::Remove
            | Procedure::Rmdir
            | Procedure::Commit => 2, // wcc_data
            Procedure::Link => 3,   // post_op_attr, wcc_data
            Procedure::Rename => 4, // wcc_data, wcc_data
        };
        to.value(&self.status);
        for _ in 0..absent {
            to.bool(false);
        }
    }
}
