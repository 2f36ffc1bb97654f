//! GETATTR, SETATTR, ACCESS.

use crate::nfs3::handle::decode_handle;
use crate::nfs3::{SetAttributes, Time};
use crate::xdr::{Decode, DecodeError, Decoder};

/// Arguments of GETATTR (RFC 1813, section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetattrArgs<'a> {
    /// The file.
    pub object: &'a [u8],
}

/// Arguments of SETATTR (section 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetattrArgs<'a> {
    /// The file.
    pub object: &'a [u8],
    /// The attributes to set.
    pub attributes: SetAttributes,
    /// Set them only if the file's change time is still this.
    pub guard: Option<Time>,
}

/// Arguments of ACCESS (section 3.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessArgs<'a> {
    /// The file.
    pub object: &'a [u8],
    /// The requested rights: the ACCESS3 bits, and perhaps others to be ignored.
    pub access: u32,
}

impl<'a> Decode<'a> for GetattrArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { object: decode_handle(from)? })
    }
}

impl<'a> Decode<'a> for SetattrArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { object: decode_handle(from)?, attributes: from.value()?, guard: from.value()? })
    }
}

impl<'a> Decode<'a> for AccessArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { object: decode_handle(from)?, access: from.u32()? })
    }
}
