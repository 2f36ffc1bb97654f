//! The client's side of the protocol: writes arguments, reads results.
//!
//! [`Request`] ties the arguments of each procedure to its results. Everything here mirrors the
//! decoders of [`arguments`](super::arguments) and the encoders of [`results`](super::results), and
//! the tests compare it with both.

mod arguments;
mod attributes;
mod replace;
mod results;

use super::{Outcome, Procedure, arguments as args, results as given};
use crate::xdr::{Decode, DecodeError, Decoder, Encode};

/// The arguments of a procedure, and its results.
pub trait Request: Encode {
    /// The results with NFS3_OK.
    type Ok: for<'a> Decode<'a>;
    /// The attributes that go along with a refusal.
    type About: for<'a> Decode<'a>;
    /// The procedure.
    const PROCEDURE: Procedure;

    /// Reads the results, all of them and nothing more.
    ///
    /// # Errors
    /// [`DecodeError`] when they are not of this procedure.
    fn results(mut from: Decoder<'_>) -> Result<Outcome<Self::Ok, Self::About>, DecodeError> {
        let outcome = from.value()?;
        from.finish()?;
        Ok(outcome)
    }
}

/// The table of procedures. NULL is not in it: it has neither arguments nor a status.
macro_rules! requests {
    ($($procedure:ident: $arguments:ty => $ok:ty, $about:ty;)+) => {$(
        impl Request for $arguments {
            type Ok = $ok;
            type About = $about;
            const PROCEDURE: Procedure = Procedure::$procedure;
        }
    )+};
}

requests! {
    Getattr: args::GetattrArgs<'_> => super::Attributes, ();
    Setattr: args::SetattrArgs<'_> => super::Wcc, super::Wcc;
    Lookup: args::LookupArgs<'_> => given::LookupOk, super::PostOp;
    Access: args::AccessArgs<'_> => given::AccessOk, super::PostOp;
    Readlink: args::ReadlinkArgs<'_> => given::ReadlinkOk, super::PostOp;
    Read: args::ReadArgs<'_> => given::ReadOk, super::PostOp;
    Write: args::WriteArgs<'_> => given::WriteOk, super::Wcc;
    Create: args::CreateArgs<'_> => given::CreateOk, super::Wcc;
    Mkdir: args::MkdirArgs<'_> => given::CreateOk, super::Wcc;
    Symlink: args::SymlinkArgs<'_> => given::CreateOk, super::Wcc;
    Mknod: args::MknodArgs<'_> => given::CreateOk, super::Wcc;
    Remove: args::RemoveArgs<'_> => super::Wcc, super::Wcc;
    Rmdir: args::RmdirArgs<'_> => super::Wcc, super::Wcc;
    Rename: args::RenameArgs<'_> => given::RenameWcc, given::RenameWcc;
    Link: args::LinkArgs<'_> => given::LinkWcc, given::LinkWcc;
    Readdir: args::ReaddirArgs<'_> => given::ReaddirOk, super::PostOp;
    Readdirplus: args::ReaddirplusArgs<'_> => given::ReaddirplusOk, super::PostOp;
    Fsstat: args::FsstatArgs<'_> => given::FsstatOk, super::PostOp;
    Fsinfo: args::FsinfoArgs<'_> => given::FsinfoOk, super::PostOp;
    Pathconf: args::PathconfArgs<'_> => given::PathconfOk, super::PostOp;
    Commit: args::CommitArgs<'_> => given::CommitOk, super::Wcc;
}
