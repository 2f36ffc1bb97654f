//! Decoding of a server's attributes; encoding of a client's changes.

use crate::nfs3::{
    Attributes, Failure, Handle, Outcome, SetAttributes, SetTime, Status, Wcc, WccAttributes,
};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

impl<'a, T: Decode<'a>, W: Decode<'a>> Decode<'a> for Outcome<T, W> {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        match from.u32()? {
            0 => Ok(Ok(from.value()?)),
            value => {
                let status = Status::from_number(value)
                    .ok_or(DecodeError::BadValue { of: "nfsstat3", value })?;
                Ok(Err(Failure { status, about: from.value()? }))
            }
        }
    }
}

impl Decode<'_> for Handle {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let bytes = crate::nfs3::handle::decode_handle(from)?;
        Ok(Self::new(bytes).expect("its length was checked when it was read"))
    }
}

impl Decode<'_> for Attributes {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            kind: from.value()?,
            mode: from.u32()?,
            nlink: from.u32()?,
            uid: from.u32()?,
            gid: from.u32()?,
            size: from.u64()?,
            used: from.u64()?,
            device: from.value()?,
            fsid: from.u64()?,
            fileid: from.u64()?,
            atime: from.value()?,
            mtime: from.value()?,
            ctime: from.value()?,
        })
    }
}

impl Decode<'_> for WccAttributes {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { size: from.u64()?, mtime: from.value()?, ctime: from.value()? })
    }
}

impl Decode<'_> for Wcc {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { before: from.value()?, after: from.value()? })
    }
}

impl Encode for SetAttributes {
    fn encode(&self, to: &mut Encoder) {
        to.value(&self.mode);
        to.value(&self.uid);
        to.value(&self.gid);
        to.value(&self.size);
        encode_set_time(self.atime, to);
        encode_set_time(self.mtime, to);
    }
}

fn encode_set_time(time: Option<SetTime>, to: &mut Encoder) {
    match time {
        None => to.u32(0),
        Some(SetTime::Now) => to.u32(1),
        Some(SetTime::To(time)) => {
            to.u32(2);
            to.value(&time);
        }
    }
}
