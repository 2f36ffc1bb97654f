//! READDIR, READDIRPLUS.

use crate::nfs3::Verifier;
use crate::nfs3::handle::decode_handle;
use crate::xdr::{Decode, DecodeError, Decoder};

/// Arguments of READDIR (RFC 1813, section 3.3.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaddirArgs<'a> {
    /// The directory.
    pub directory: &'a [u8],
    /// Cookie to resume at; 0 is the start.
    pub cookie: u64,
    /// The verifier that the reply returned with the cookie; zeros at the start.
    pub cookie_verifier: Verifier,
    /// The most bytes of results: see [`ReaddirBudget`](crate::nfs3::ReaddirBudget).
    pub count: u32,
}

/// Arguments of READDIRPLUS (section 3.3.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaddirplusArgs<'a> {
    /// The directory.
    pub directory: &'a [u8],
    /// Cookie to resume at; 0 is the start.
    pub cookie: u64,
    /// The verifier that the reply returned with the cookie; zeros at the start.
    pub cookie_verifier: Verifier,
    /// The most bytes of names: see [`ReaddirplusBudget`](crate::nfs3::ReaddirplusBudget).
    pub dircount: u32,
    /// The most bytes of results.
    pub maxcount: u32,
}

impl<'a> Decode<'a> for ReaddirArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            directory: decode_handle(from)?,
            cookie: from.u64()?,
            cookie_verifier: from.value()?,
            count: from.u32()?,
        })
    }
}

impl<'a> Decode<'a> for ReaddirplusArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            directory: decode_handle(from)?,
            cookie: from.u64()?,
            cookie_verifier: from.value()?,
            dircount: from.u32()?,
            maxcount: from.u32()?,
        })
    }
}
