//! CREATE, MKDIR, SYMLINK, MKNOD.

use super::{DirectoryName, decode_string};
use crate::nfs3::{Device, FileKind, SetAttributes, Verifier};
use crate::xdr::{Decode, DecodeError, Decoder};

/// Arguments of CREATE (RFC 1813, section 3.3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateArgs<'a> {
    /// The directory and the name.
    pub location: DirectoryName<'a>,
    /// The handling of a name that exists.
    pub how: CreateHow,
}

/// `createhow3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateHow {
    /// UNCHECKED: an existing file is fine.
    Unchecked(SetAttributes),
    /// GUARDED: an existing file is an error.
    Guarded(SetAttributes),
    /// EXCLUSIVE: an existing file is fine if it was made with the same verifier.
    Exclusive(Verifier),
}

/// Arguments of MKDIR (section 3.3.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MkdirArgs<'a> {
    /// The directory and the name.
    pub location: DirectoryName<'a>,
    /// Its initial attributes.
    pub attributes: SetAttributes,
}

/// Arguments of SYMLINK (section 3.3.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymlinkArgs<'a> {
    /// The directory and the name.
    pub location: DirectoryName<'a>,
    /// Its initial attributes.
    pub attributes: SetAttributes,
    /// The target path.
    pub target: &'a [u8],
}

/// Arguments of MKNOD (section 3.3.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MknodArgs<'a> {
    /// The directory and the name.
    pub location: DirectoryName<'a>,
    /// The kind of file, with its attributes.
    pub what: MknodWhat,
}

/// `mknoddata3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MknodWhat {
    /// NF3CHR.
    CharacterDevice(SetAttributes, Device),
    /// NF3BLK.
    BlockDevice(SetAttributes, Device),
    /// NF3SOCK.
    Socket(SetAttributes),
    /// NF3FIFO.
    Fifo(SetAttributes),
    /// A kind that MKNOD does not make: [`Status::BadType`](crate::nfs3::Status::BadType).
    Other(FileKind),
}

impl<'a> Decode<'a> for CreateArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { location: from.value()?, how: from.value()? })
    }
}

impl Decode<'_> for CreateHow {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match from.u32()? {
            0 => from.value().map(Self::Unchecked),
            1 => from.value().map(Self::Guarded),
            2 => from.value().map(Self::Exclusive),
            value => Err(DecodeError::BadValue { of: "createmode3", value }),
        }
    }
}

impl<'a> Decode<'a> for MkdirArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { location: from.value()?, attributes: from.value()? })
    }
}

impl<'a> Decode<'a> for SymlinkArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            location: from.value()?,
            attributes: from.value()?,
            target: decode_string(from)?,
        })
    }
}

impl<'a> Decode<'a> for MknodArgs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self { location: from.value()?, what: from.value()? })
    }
}

impl Decode<'_> for MknodWhat {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match from.value()? {
            FileKind::CharacterDevice => Self::CharacterDevice(from.value()?, from.value()?),
            FileKind::BlockDevice => Self::BlockDevice(from.value()?, from.value()?),
            FileKind::Socket => Self::Socket(from.value()?),
            FileKind::Fifo => Self::Fifo(from.value()?),
            other => Self::Other(other),
        })
    }
}
