//! The client's side of remote procedure calls: the header of a call that we make, and that of its
//! reply.
//!
//! A server's reply is trusted as little as a client's call: every field is checked.

use super::credential::AUTH_NONE;
use super::reply::{AuthStatus, Refusal};
use super::{AUTH_SYS, CALL, MAX_AUTH_BODY, MAX_GIDS, MAX_MACHINE_NAME, REPLY, VERSION};
use crate::xdr::{DecodeError, Decoder, Encoder, UNIT};

/// The usual size of a call, in bytes, so that its buffer does not grow: the header with a
/// credential of a few groups, two handles and two names.
const USUAL_CALL: usize = 320;

/// The caller, encoded once for all calls: credential and verifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller(Vec<u8>);

impl Caller {
    /// No user in particular.
    pub fn none() -> Self {
        Self(words(&[AUTH_NONE, 0, AUTH_NONE, 0]))
    }

    /// A user of a UNIX machine. Names that are too long are cut, and excess groups are left out,
    /// as the protocol has no room for them.
    pub fn sys(machine_name: &[u8], uid: u32, gid: u32, gids: &[u32]) -> Self {
        let machine_name = &machine_name[..machine_name.len().min(MAX_MACHINE_NAME)];
        let gids = &gids[..gids.len().min(MAX_GIDS)];
        let mut body = Encoder::with_capacity(MAX_AUTH_BODY);
        body.u32(0); // stamp
        body.opaque(machine_name);
        body.u32(uid);
        body.u32(gid);
        body.u32(gids.len() as u32);
        gids.iter().for_each(|&gid| body.u32(gid));
        let body = body.finish().concat();
        let body = &body[UNIT..]; // without the mark of a record
        let mut caller = words(&[AUTH_SYS, body.len() as u32]);
        caller.extend_from_slice(body);
        caller.extend(words(&[AUTH_NONE, 0]));
        Self(caller)
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Begins a call: its arguments follow.
pub fn call(xid: u32, program: u32, version: u32, procedure: u32, caller: &Caller) -> Encoder {
    let mut to = Encoder::with_capacity(USUAL_CALL);
    for word in [xid, CALL, VERSION, program, version, procedure] {
        to.u32(word);
    }
    to.encoded(&caller.0);
    to
}

/// A reply with a valid header. It borrows from its record.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The number of the call that it answers.
    pub xid: u32,
    /// The results, not decoded yet, or the refusal.
    pub results: Result<Decoder<'a>, Refusal>,
}

impl<'a> Reply<'a> {
    /// Reads the header of a reply.
    ///
    /// # Errors
    /// [`DecodeError`] when the record is no reply: the connection is of no further use.
    pub fn decode(mut from: Decoder<'a>) -> Result<Self, DecodeError> {
        let xid = from.u32()?;
        match from.u32()? {
            REPLY => {}
            value => return Err(DecodeError::BadValue { of: "msg_type REPLY", value }),
        }
        let refusal = match from.u32()? {
            0 => match accepted(&mut from)? {
                None => return Ok(Self { xid, results: Ok(from) }),
                Some(refusal) => refusal,
            },
            1 => denied(&mut from)?,
            value => return Err(DecodeError::BadValue { of: "reply_stat", value }),
        };
        from.finish()?;
        Ok(Self { xid, results: Err(refusal) })
    }
}

fn accepted(from: &mut Decoder<'_>) -> Result<Option<Refusal>, DecodeError> {
    from.u32()?;
    from.opaque(MAX_AUTH_BODY)?; // the server's verifier proves nothing
    Ok(Some(match from.u32()? {
        0 => return Ok(None),
        1 => Refusal::ProgramUnavailable,
        2 => Refusal::ProgramMismatch { low: from.u32()?, high: from.u32()? },
        3 => Refusal::ProcedureUnavailable,
        4 => Refusal::GarbageArguments,
        5 => Refusal::SystemError,
        value => return Err(DecodeError::BadValue { of: "accept_stat", value }),
    }))
}

fn denied(from: &mut Decoder<'_>) -> Result<Refusal, DecodeError> {
    match from.u32()? {
        0 => Ok(Refusal::RpcMismatch { low: from.u32()?, high: from.u32()? }),
        1 => Ok(Refusal::Authentication(match from.u32()? {
            1 => AuthStatus::BadCredential,
            2 => AuthStatus::RejectedCredential,
            3 => AuthStatus::BadVerifier,
            4 => AuthStatus::RejectedVerifier,
            5 => AuthStatus::TooWeak,
            6 => AuthStatus::InvalidResponse,
            _ => AuthStatus::Failed, // flavors that we do not use have more of them
        })),
        value => Err(DecodeError::BadValue { of: "reject_stat", value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::rpc::{Call, Credential, refuse, success};

    #[test]
    fn a_call_is_read_by_the_server_as_it_was_meant() {
        let caller = Caller::sys(b"tester", 7, 8, &[9, 10]);
        let mut call = call(77, 100_003, 3, 1, &caller);
        call.u32(5);
        let head = call.finish().concat();
        let record = Record::whole(head[UNIT..].to_vec());
        let mut read = Call::decode(&record).expect("a call");
        assert_eq!((read.xid, read.program, read.version, read.procedure), (77, 100_003, 3, 1));
        let Credential::Sys(sys) = read.credential else { panic!("AUTH_SYS") };
        assert_eq!((sys.machine_name, sys.uid, sys.gid), (&b"tester"[..], 7, 8));
        assert_eq!(sys.gids.as_slice(), [9, 10]);
        assert_eq!(read.arguments.u32(), Ok(5));
        assert_eq!(read.arguments.finish(), Ok(()));
    }

    #[test]
    fn every_refusal_comes_back_as_it_was_sent() {
        let all = [
            Refusal::ProgramUnavailable,
            Refusal::ProgramMismatch { low: 3, high: 4 },
            Refusal::ProcedureUnavailable,
            Refusal::GarbageArguments,
            Refusal::SystemError,
            Refusal::RpcMismatch { low: 2, high: 2 },
            Refusal::Authentication(AuthStatus::TooWeak),
        ];
        for refusal in all {
            let record = refuse(9, refusal).concat();
            let reply = Reply::decode(Decoder::new(&record[UNIT..])).expect("a reply");
            assert_eq!((reply.xid, reply.results.err()), (9, Some(refusal)));
        }
    }

    #[test]
    fn results_follow_the_header_of_a_success() {
        let mut to = success(3);
        to.u32(11);
        let record = to.finish().concat();
        let reply = Reply::decode(Decoder::new(&record[UNIT..])).expect("a reply");
        assert_eq!(reply.results.expect("a success").u32(), Ok(11));
        let call = call(3, 1, 1, 1, &Caller::none()).finish().concat();
        assert!(Reply::decode(Decoder::new(&call[UNIT..])).is_err(), "a call is no reply");
    }
}
