//! The header of a reply.

use bytes::Bytes;

use super::REPLY;
use super::credential::AUTH_NONE;
use crate::xdr::{Encode, Encoder};

/// The usual size of a reply, in bytes, so that its buffer does not grow: the header (24), and
/// results with two full sets of attributes.
const USUAL_REPLY: usize = 320;

/// `reply_stat` and, below it, `accept_stat` and `reject_stat`.
const ACCEPTED: u32 = 0;
const DENIED: u32 = 1;
const SUCCESS: u32 = 0;

/// The refusal of a call, without results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// PROG_UNAVAIL: no such program here.
    ProgramUnavailable,
    /// PROG_MISMATCH: the program, but not this version of it.
    ProgramMismatch {
        /// The lowest version that is served.
        low: u32,
        /// The highest version that is served.
        high: u32,
    },
    /// PROC_UNAVAIL: no such procedure.
    ProcedureUnavailable,
    /// GARBAGE_ARGS: the arguments cannot be decoded.
    GarbageArguments,
    /// SYSTEM_ERR: the server is at fault.
    SystemError,
    /// RPC_MISMATCH: another version of the RPC protocol itself.
    RpcMismatch {
        /// The lowest version that is understood.
        low: u32,
        /// The highest version that is understood.
        high: u32,
    },
    /// AUTH_ERROR: the caller is not acceptable.
    Authentication(AuthStatus),
}

/// `auth_stat`: the reason for which a caller is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthStatus {
    /// AUTH_BADCRED: the credential cannot be decoded.
    BadCredential = 1,
    /// AUTH_REJECTEDCRED: the client must begin a new session.
    RejectedCredential = 2,
    /// AUTH_BADVERF: the verifier cannot be decoded.
    BadVerifier = 3,
    /// AUTH_REJECTEDVERF: the verifier is expired or was seen before.
    RejectedVerifier = 4,
    /// AUTH_TOOWEAK: a stronger flavor is required.
    TooWeak = 5,
    /// AUTH_INVALIDRESP: a bad verifier in a response.
    InvalidResponse = 6,
    /// AUTH_FAILED: for an unspecified reason.
    Failed = 7,
}

/// Begins the reply to an executed call: the results follow.
pub fn success(xid: u32) -> Encoder {
    let mut to = accepted(xid);
    to.u32(SUCCESS);
    to
}

/// The whole reply to a refused call.
pub fn refuse(xid: u32, refusal: Refusal) -> Vec<Bytes> {
    let mut to = match refusal {
        Refusal::RpcMismatch { .. } | Refusal::Authentication(_) => reply(xid, DENIED),
        _ => accepted(xid),
    };
    to.value(&refusal);
    to.finish()
}

fn accepted(xid: u32) -> Encoder {
    let mut to = reply(xid, ACCEPTED);
    to.u32(AUTH_NONE);
    to.opaque(&[]); // the empty verifier of a server that proves nothing
    to
}

fn reply(xid: u32, status: u32) -> Encoder {
    let mut to = Encoder::with_capacity(USUAL_REPLY);
    to.u32(xid);
    to.u32(REPLY);
    to.u32(status);
    to
}

impl Encode for Refusal {
    fn encode(&self, to: &mut Encoder) {
        let mut words = |words: &[u32]| words.iter().for_each(|&word| to.u32(word));
        match *self {
            Self::ProgramUnavailable => words(&[1]),
            Self::ProgramMismatch { low, high } => words(&[2, low, high]),
            Self::ProcedureUnavailable => words(&[3]),
            Self::GarbageArguments => words(&[4]),
            Self::SystemError => words(&[5]),
            Self::RpcMismatch { low, high } => words(&[0, low, high]),
            Self::Authentication(status) => words(&[1, status as u32]),
        }
    }
}
