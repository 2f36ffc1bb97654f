//! Arguments of the procedures, borrowed from the record.
//!
//! Handles, names and paths are slices of any content; lengths of handles are checked here, those
//! of names where the volume's limits are known. Values that the RFC's types cannot hold, and bytes
//! after the last field, make the arguments undecodable: GARBAGE_ARGS.

mod attributes;
mod create;
mod data;
mod directory;
mod names;
mod volume;

pub use attributes::{AccessArgs, GetattrArgs, SetattrArgs};
pub use create::{CreateArgs, CreateHow, MkdirArgs, MknodArgs, MknodWhat, SymlinkArgs};
pub use data::{CommitArgs, ReadArgs, ReadlinkArgs, WriteArgs};
pub use directory::{ReaddirArgs, ReaddirplusArgs};
pub use names::{LinkArgs, LookupArgs, RemoveArgs, RenameArgs, RmdirArgs};
pub use volume::{FsinfoArgs, FsstatArgs, PathconfArgs};

use super::Procedure;
use super::handle::decode_handle;
use crate::xdr::{Decode, DecodeError, Decoder};

/// `diropargs3`: a name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryName<'a> {
    /// The directory's handle.
    pub directory: &'a [u8],
    /// The name.
    pub name: &'a [u8],
}

impl<'a> Decode<'a> for DirectoryName<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { directory: decode_handle(from)?, name: decode_string(from)? })
    }
}

/// `filename3` and `nfspath3` have no limit of their own: the record bounds them.
fn decode_string<'a>(from: &mut Decoder<'a>) -> Result<&'a [u8], DecodeError> {
    from.opaque(usize::MAX)
}

/// The arguments of any procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the RFC's and say it all")]
pub enum Arguments<'a> {
    Null,
    Getattr(GetattrArgs<'a>),
    Setattr(SetattrArgs<'a>),
    Lookup(LookupArgs<'a>),
    Access(AccessArgs<'a>),
    Readlink(ReadlinkArgs<'a>),
    Read(ReadArgs<'a>),
    Write(WriteArgs<'a>),
    Create(CreateArgs<'a>),
    Mkdir(MkdirArgs<'a>),
    Symlink(SymlinkArgs<'a>),
    Mknod(MknodArgs<'a>),
    Remove(RemoveArgs<'a>),
    Rmdir(RmdirArgs<'a>),
    Rename(RenameArgs<'a>),
    Link(LinkArgs<'a>),
    Readdir(ReaddirArgs<'a>),
    Readdirplus(ReaddirplusArgs<'a>),
    Fsstat(FsstatArgs<'a>),
    Fsinfo(FsinfoArgs<'a>),
    Pathconf(PathconfArgs<'a>),
    Commit(CommitArgs<'a>),
}

impl<'a> Arguments<'a> {
    /// Reads the arguments of `procedure`, all of them and nothing more.
    ///
    /// # Errors
    /// [`DecodeError`]: to be answered with
    /// [`Refusal::GarbageArguments`](crate::rpc::Refusal::GarbageArguments).
    pub fn decode(procedure: Procedure, mut from: Decoder<'a>) -> Result<Self, DecodeError> {
        let arguments = match procedure {
            Procedure::Null => Self::Null,
            Procedure::Getattr => Self::Getattr(from.value()?),
            Procedure::Setattr => Self::Setattr(from.value()?),
            Procedure::Lookup => Self::Lookup(from.value()?),
            Procedure::Access => Self::Access(from.value()?),
            Procedure::Readlink => Self::Readlink(from.value()?),
            Procedure::Read => Self::Read(from.value()?),
            Procedure::Write => Self::Write(from.value()?),
            Procedure::Create => Self::Create(from.value()?),
            Procedure::Mkdir => Self::Mkdir(from.value()?),
            Procedure::Symlink => Self::Symlink(from.value()?),
            Procedure::Mknod => Self::Mknod(from.value()?),
            Procedure::Remove => Self::Remove(from.value()?),
            Procedure::Rmdir => Self::Rmdir(from.value()?),
            Procedure::Rename => Self::Rename(from.value()?),
            Procedure::Link => Self::Link(from.value()?),
            Procedure::Readdir => Self::Readdir(from.value()?),
            Procedure::Readdirplus => Self::Readdirplus(from.value()?),
            Procedure::Fsstat => Self::Fsstat(from.value()?),
            Procedure::Fsinfo => Self::Fsinfo(from.value()?),
            Procedure::Pathconf => Self::Pathconf(from.value()?),
            Procedure::Commit => Self::Commit(from.value()?),
        };
        from.finish()?;
        Ok(arguments)
    }
}
