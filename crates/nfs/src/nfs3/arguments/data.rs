//! READLINK, READ, WRITE, COMMIT.

use bytes::Bytes;

use crate::nfs3::Stability;
use crate::nfs3::handle::decode_handle;
use crate::xdr::{Decode, DecodeError, Decoder};

/// Arguments of READLINK (RFC 1813, section 3.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadlinkArgs<'a> {
    /// The symbolic link.
    pub symlink: &'a [u8],
}

/// Arguments of READ (section 3.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadArgs<'a> {
    /// The file.
    pub file: &'a [u8],
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub count: u32,
}

/// Arguments of WRITE (section 3.3.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteArgs<'a> {
    /// The file.
    pub file: &'a [u8],
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes. A count that is not the length of `data` is
    /// [`Status::Invalid`](crate::nfs3::Status::Invalid).
    pub count: u32,
    /// The stability required before the reply.
    pub stable: Stability,
    /// The bytes, by reference, one piece after the other. Payload that was placed starts at a page
    /// boundary, and each piece of it has memory of its own.
    pub data: Vec<Bytes>,
}

/// Arguments of COMMIT (section 3.3.21).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitArgs<'a> {
    /// The file.
    pub file: &'a [u8],
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes; 0 means to the end of the file.
    pub count: u32,
}

impl<'a> Decode<'a> for ReadlinkArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { symlink: decode_handle(from)? })
    }
}

impl<'a> Decode<'a> for ReadArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { file: decode_handle(from)?, offset: from.u64()?, count: from.u32()? })
    }
}

impl<'a> Decode<'a> for WriteArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            file: decode_handle(from)?,
            offset: from.u64()?,
            count: from.u32()?,
            stable: from.value()?,
            data: from.pieces(usize::MAX)?, // the record bounds it
        })
    }
}

impl<'a> Decode<'a> for CommitArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { file: decode_handle(from)?, offset: from.u64()?, count: from.u32()? })
    }
}
