//! Peeks at the start of a record that is still arriving.

use crate::nfs3::{self, MAX_HANDLE, Procedure};
use crate::rpc::{self, MAX_AUTH_BODY};
use crate::xdr::{DecodeError, Decoder, padded};

/// The facts in the first bytes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peek {
    /// Not enough yet.
    Undecided,
    /// Not a WRITE call of NFS version 3, or none that can be decoded.
    Other,
    /// A WRITE call.
    Write(WriteShape),
}

/// The position of the payload of a WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteShape {
    /// Bytes of the record in front of the payload.
    pub(super) head: usize,
    /// Offset among them at which the arguments begin.
    pub(super) arguments: usize,
    /// Bytes of payload.
    pub(super) payload: usize,
}

impl WriteShape {
    /// The length that the record must have.
    pub(super) fn record(self) -> usize {
        self.head + padded(self.payload)
    }

    /// Bytes of padding behind the payload.
    pub(super) fn padding(self) -> usize {
        padded(self.payload) - self.payload
    }
}

/// Peeks at `start`, the first bytes of a record. Every field in front of a payload has a limit, so
/// that the first [`HEADER_ROOM`](crate::record::HEADER_ROOM) bytes always decide.
pub(super) fn peek(start: &[u8]) -> Peek {
    match write_shape(start) {
        Ok(shape) => Peek::Write(shape),
        Err(DecodeError::Short) => Peek::Undecided,
        Err(_) => Peek::Other,
    }
}

fn write_shape(start: &[u8]) -> Result<WriteShape, DecodeError> {
    let mut from = Decoder::new(start);
    from.u32()?; // xid
    let write = Procedure::Write as u32;
    for wanted in [rpc::CALL, rpc::VERSION, rpc::PROGRAM_NFS, nfs3::VERSION, write] {
        let value = from.u32()?;
        if value != wanted {
            return Err(DecodeError::BadValue { of: "a WRITE call", value });
        }
    }
    for _ in ["credential", "verifier"] {
        from.u32()?;
        from.opaque(MAX_AUTH_BODY)?;
    }
    let arguments = start.len() - from.remaining().0.len();
    from.opaque(MAX_HANDLE)?;
    from.array::<16>()?; // offset, count, stability
    let payload = from.u32()? as usize;
    Ok(WriteShape { head: start.len() - from.remaining().0.len(), arguments, payload })
}
