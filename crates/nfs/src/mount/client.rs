//! The client's side: writes arguments, reads results.

use super::results::{Export, ExportList, MntOk, MntResult, Status};
use super::{MAX_NAME, MAX_PATH, MntArgs, UmntArgs};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// The most flavors of authentication that a server may offer. There are a dozen.
const MAX_FLAVORS: usize = 64;

impl Encode for MntArgs<'_> {
    fn encode(&self, to: &mut Encoder) {
        to.opaque(self.path);
    }
}

impl Encode for UmntArgs<'_> {
    fn encode(&self, to: &mut Encoder) {
        to.opaque(self.path);
    }
}

impl Status {
    /// The status of this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::NotOwner,
            2 => Self::NoEntry,
            5 => Self::Io,
            13 => Self::Access,
            20 => Self::NotDirectory,
            22 => Self::Invalid,
            63 => Self::NameTooLong,
            10_004 => Self::NotSupported,
            10_006 => Self::ServerFault,
            _ => return None,
        })
    }
}

impl Decode<'_> for MntResult {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match from.u32()? {
            0 => from.value().map(Ok),
            value => match Status::from_number(value) {
                Some(status) => Ok(Err(status)),
                None => Err(DecodeError::BadValue { of: "mountstat3", value }),
            },
        }
    }
}

impl Decode<'_> for MntOk {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let handle = from.value()?;
        let length = from.u32()? as usize;
        if length > MAX_FLAVORS {
            return Err(DecodeError::TooLong { length, limit: MAX_FLAVORS });
        }
        let flavors = (0..length).map(|_| from.u32()).collect::<Result<_, _>>()?;
        Ok(Self { handle, flavors })
    }
}

impl Decode<'_> for ExportList {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut exports = Vec::new();
        while from.bool()? {
            let path = from.payload(MAX_PATH)?;
            let mut groups = Vec::new();
            while from.bool()? {
                groups.push(from.payload(MAX_NAME)?);
            }
            exports.push(Export { path, groups });
        }
        Ok(Self(exports))
    }
}
