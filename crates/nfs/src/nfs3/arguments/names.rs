//! LOOKUP, REMOVE, RMDIR, RENAME, LINK.

use super::DirectoryName;
use crate::nfs3::handle::decode_handle;
use crate::xdr::{Decode, DecodeError, Decoder};

/// Arguments of LOOKUP (RFC 1813, section 3.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupArgs<'a> {
    /// The name to find.
    pub what: DirectoryName<'a>,
}

/// Arguments of REMOVE (section 3.3.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoveArgs<'a> {
    /// The name to remove.
    pub object: DirectoryName<'a>,
}

/// Arguments of RMDIR (section 3.3.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RmdirArgs<'a> {
    /// The name to remove.
    pub object: DirectoryName<'a>,
}

/// Arguments of RENAME (section 3.3.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenameArgs<'a> {
    /// The old name.
    pub from: DirectoryName<'a>,
    /// The new name.
    pub to: DirectoryName<'a>,
}

/// Arguments of LINK (section 3.3.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkArgs<'a> {
    /// The file.
    pub file: &'a [u8],
    /// The new name.
    pub link: DirectoryName<'a>,
}

impl<'a> Decode<'a> for LookupArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { what: from.value()? })
    }
}

impl<'a> Decode<'a> for RemoveArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { object: from.value()? })
    }
}

impl<'a> Decode<'a> for RmdirArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { object: from.value()? })
    }
}

impl<'a> Decode<'a> for RenameArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { from: from.value()?, to: from.value()? })
    }
}

impl<'a> Decode<'a> for LinkArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { file: decode_handle(from)?, link: from.value()? })
    }
}
