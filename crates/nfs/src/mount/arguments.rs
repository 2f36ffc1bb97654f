//! Arguments of the procedures, borrowed from the record.

use super::Procedure;
use crate::xdr::{Decode, DecodeError, Decoder};

/// MNTPATHLEN: the longest path, in bytes.
pub const MAX_PATH: usize = 1024;

/// Arguments of MNT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MntArgs<'a> {
    /// The path of the export, or of a directory below it.
    pub path: &'a [u8],
}

/// Arguments of UMNT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UmntArgs<'a> {
    /// The path that was mounted.
    pub path: &'a [u8],
}

/// The arguments of any procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the RFC's and say it all")]
pub enum Arguments<'a> {
    Null,
    Mnt(MntArgs<'a>),
    Dump,
    Umnt(UmntArgs<'a>),
    Umntall,
    Export,
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
            Procedure::Mnt => Self::Mnt(from.value()?),
            Procedure::Dump => Self::Dump,
            Procedure::Umnt => Self::Umnt(from.value()?),
            Procedure::Umntall => Self::Umntall,
            Procedure::Export => Self::Export,
        };
        from.finish()?;
        Ok(arguments)
    }
}

impl<'a> Decode<'a> for MntArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { path: from.opaque(MAX_PATH)? })
    }
}

impl<'a> Decode<'a> for UmntArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { path: from.opaque(MAX_PATH)? })
    }
}
