//! The header of a call.

use crc_fast::{CrcAlgorithm, Digest};

use super::{AuthStatus, CALL, Credential, MAX_AUTH_BODY, Refusal, VERSION};
use crate::record::Record;
use crate::xdr::{DecodeError, Decoder};

/// A call with a valid header. It borrows from its record.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The client's number for the call, repeated in the reply and in retransmissions.
    pub xid: u32,
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure of the program.
    pub procedure: u32,
    /// The calling user.
    pub credential: Credential<'a>,
    /// The arguments, not decoded yet.
    pub arguments: Decoder<'a>,
    /// Their checksum, if the record has it.
    checksum: Option<u64>,
}

/// The digest for a [`Call::checksum`].
pub(crate) fn arguments_digest() -> Digest {
    Digest::new(CrcAlgorithm::Crc64Nvme)
}

/// The reasons for which there is no [`Call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Not a call at all: it has no reply, and the connection is of no further use.
    #[error("not a call: {0}")]
    Unanswerable(#[from] DecodeError),
    /// A call that must be answered with a refusal: see [`Rejection::reply`].
    #[error("a call that is refused: {:?}", .0.refusal)]
    Rejected(Rejection),
}

/// The refusal of a call whose header was not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The call's number.
    pub xid: u32,
    /// The reason.
    pub refusal: Refusal,
}

impl Rejection {
    /// The reply to send.
    pub fn reply(&self) -> Vec<bytes::Bytes> {
        super::refuse(self.xid, self.refusal)
    }
}

impl<'a> Call<'a> {
    /// Reads the header of the call in `record`.
    ///
    /// # Errors
    /// [`CallError`]: either there is no call to answer, or the refusal to answer with.
    pub fn decode(record: &'a Record) -> Result<Self, CallError> {
        let mut from = Decoder::of_parts(&record.head, &record.payload);
        let xid = from.u32()?;
        match from.u32()? {
            CALL => {}
            value => return Err(DecodeError::BadValue { of: "msg_type CALL", value }.into()),
        }
        let reject = |refusal| CallError::Rejected(Rejection { xid, refusal });
        if from.u32()? != VERSION {
            return Err(reject(Refusal::RpcMismatch { low: VERSION, high: VERSION }));
        }
        let (program, version, procedure) = (from.u32()?, from.u32()?, from.u32()?);
        let bad_credential = |_| reject(Refusal::Authentication(AuthStatus::BadCredential));
        let credential = Credential::decode(&mut from).map_err(bad_credential)?;
        let bad_verifier = |_| reject(Refusal::Authentication(AuthStatus::BadVerifier));
        skip_verifier(&mut from).map_err(bad_verifier)?;
        let (arguments, checksum) = (from, record.checksum);
        Ok(Self { xid, program, version, procedure, credential, arguments, checksum })
    }

    /// The program and the procedure of `record`, if it is a call: without checking the rest of its
    /// header, which may be wrong.
    pub fn target(record: &Record) -> Option<(u32, u32)> {
        let mut from = Decoder::new(&record.head);
        let mut word = || from.u32().ok();
        let [_xid, kind, _rpc, program, _version, procedure] =
            [word()?, word()?, word()?, word()?, word()?, word()?];
        (kind == CALL).then_some((program, procedure))
    }

    /// CRC-64/NVME of all bytes of the arguments, and their number. Padding behind placed payload
    /// does not count.
    pub fn checksum(&self) -> (u64, usize) {
        let (head, payload) = self.arguments.remaining();
        let checksum = self.checksum.unwrap_or_else(|| {
            let mut digest = arguments_digest();
            digest.update(head);
            payload.iter().for_each(|piece| digest.update(piece));
            digest.finalize()
        });
        (checksum, head.len() + block::length_of(payload) as usize)
    }
}

/// The verifier proves nothing for the flavors that are served: it must be there, and is ignored.
fn skip_verifier(from: &mut Decoder<'_>) -> Result<(), DecodeError> {
    from.u32()?;
    from.opaque(MAX_AUTH_BODY).map(drop)
}
