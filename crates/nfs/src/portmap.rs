//! The port mapper, version 2 (RFC 1833, section 3): the calls by which a server registers itself,
//! and a client finds one: builds SET, UNSET and GETPORT, and reads their replies.

use bytes::Bytes;

use crate::record::Record;
use crate::rpc::{CALL, PROGRAM_PORTMAP, REPLY, VERSION as RPC_VERSION};
use crate::xdr::{DecodeError, Decoder, Encoder};

/// The version of the protocol.
pub const VERSION: u32 = 2;

/// The port of the port mapper.
pub const PORT: u16 = 111;

/// The protocol number of TCP.
const TCP: u32 = 6;

/// PMAPPROC_SET.
const SET: u32 = 1;

/// PMAPPROC_UNSET.
const UNSET: u32 = 2;

/// PMAPPROC_GETPORT.
const GETPORT: u32 = 3;

/// A program that is served over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Its port.
    pub port: u16,
}

/// The reasons for which a reply is neither a success nor a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It is not a reply of a port mapper.
    #[error("not an answer of a port mapper: {0}")]
    Malformed(#[from] DecodeError),
    /// It is a reply to another call.
    #[error("an answer to call {0:#x}, which is not ours")]
    OtherCall(u32),
    /// The call was not executed.
    #[error("the port mapper refuses the call itself")]
    Refused,
}

/// The record of a call that registers `mapping`.
pub fn set(xid: u32, mapping: Mapping) -> Vec<Bytes> {
    call(xid, SET, mapping)
}

/// The record of a call that removes the program and version of `mapping`, whatever the port.
pub fn unset(xid: u32, mapping: Mapping) -> Vec<Bytes> {
    call(xid, UNSET, mapping)
}

/// The record of a call for the port of a program.
pub fn getport(xid: u32, program: u32, version: u32) -> Vec<Bytes> {
    call(xid, GETPORT, Mapping { program, version, port: 0 })
}

/// Reads the reply to the call `xid`; returns whether it succeeded.
///
/// # Errors
/// [`AnswerError`].
pub fn answer(record: &Record, xid: u32) -> Result<bool, AnswerError> {
    let mut from = results(record, xid)?;
    let done = from.bool()?;
    from.finish()?;
    Ok(done)
}

/// Reads the reply to GETPORT: the port of the program, if it is served.
///
/// # Errors
/// [`AnswerError`].
pub fn answered_port(record: &Record, xid: u32) -> Result<Option<u16>, AnswerError> {
    let mut from = results(record, xid)?;
    let port = from.u32()?;
    from.finish()?;
    let bad = DecodeError::BadValue { of: "a port", value: port };
    let port = u16::try_from(port).map_err(|_| bad)?;
    Ok((port != 0).then_some(port))
}

fn results(record: &Record, xid: u32) -> Result<Decoder<'_>, AnswerError> {
    let mut from = Decoder::new(&record.head);
    let answered = from.u32()?;
    match from.u32()? {
        REPLY => {}
        value => return Err(DecodeError::BadValue { of: "msg_type REPLY", value }.into()),
    }
    if answered != xid {
        return Err(AnswerError::OtherCall(answered));
    }
    if from.u32()? != 0 {
        return Err(AnswerError::Refused); // MSG_DENIED
    }
    from.u32()?;
    from.opaque(crate::rpc::MAX_AUTH_BODY)?; // verifier
    if from.u32()? != 0 {
        return Err(AnswerError::Refused); // not SUCCESS
    }
    Ok(from)
}

fn call(xid: u32, procedure: u32, mapping: Mapping) -> Vec<Bytes> {
    let mut to = Encoder::with_capacity(56);
    let header = [xid, CALL, RPC_VERSION, PROGRAM_PORTMAP, VERSION, procedure];
    let nobody = [0, 0, 0, 0]; // AUTH_NONE with an empty body, as credential and as verifier
    let Mapping { program, version, port } = mapping;
    for word in header.into_iter().chain(nobody).chain([program, version, TCP, port.into()]) {
        to.u32(word);
    }
    to.finish()
}
