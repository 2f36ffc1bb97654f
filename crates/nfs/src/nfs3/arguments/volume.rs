//! FSSTAT, FSINFO, PATHCONF.

use crate::nfs3::handle::decode_handle;
use crate::xdr::{Decode, DecodeError, Decoder};

/// Arguments of FSSTAT (RFC 1813, section 3.3.18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsstatArgs<'a> {
    /// Any file of the volume.
    pub root: &'a [u8],
}

/// Arguments of FSINFO (section 3.3.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsinfoArgs<'a> {
    /// Any file of the volume.
    pub root: &'a [u8],
}

/// Arguments of PATHCONF (section 3.3.20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathconfArgs<'a> {
    /// Any file of the volume.
    pub object: &'a [u8],
}

impl<'a> Decode<'a> for FsstatArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { root: decode_handle(from)? })
    }
}

impl<'a> Decode<'a> for FsinfoArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { root: decode_handle(from)? })
    }
}

impl<'a> Decode<'a> for PathconfArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { object: decode_handle(from)? })
    }
}
