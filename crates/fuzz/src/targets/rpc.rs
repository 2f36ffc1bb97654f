//! The header of a call: decoded fields match the bytes, and a refusal can be sent.

use nfs::nfs3::Procedure;
use nfs::record::Record;
use nfs::rpc::{
    Call, CallError, Credential, MAX_GIDS, MAX_MACHINE_NAME, PROGRAM_MOUNT, PROGRAM_NFS, Rejection,
};
use sim::Prng;

use super::{Target, mount, nfs3};
use crate::wire;

pub(super) const TARGET: Target =
    Target { name: "rpc-call", check, generate, longest: 4 << 10, memory: 256 << 10 };

fn check(bytes: &[u8]) {
    let record = Record::whole(bytes.to_vec());
    let call = match Call::decode(&record) {
        Ok(call) => call,
        Err(CallError::Unanswerable(_)) => {
            /// Length up to the procedure's number. Missing bytes after it mean a bad credential.
            const NUMBERS: usize = 24;
            let is_call = bytes.get(4..8) == Some(&[0; 4]);
            return assert!(bytes.len() < NUMBERS || !is_call, "a call must be answered");
        }
        Err(CallError::Rejected(rejection)) => return check_rejection(bytes, &rejection),
    };
    let word = |index: usize| u32::from_be_bytes(bytes[4 * index..][..4].try_into().expect("4"));
    assert_eq!([call.xid, 0, 2], [word(0), word(1), word(2)]);
    assert_eq!([call.program, call.version, call.procedure], [word(3), word(4), word(5)]);
    assert_eq!(Call::target(&record), Some((call.program, call.procedure)));
    let (arguments, payload) = call.arguments.remaining();
    assert!(bytes.ends_with(arguments) && payload.is_empty(), "arguments are the record's end");
    check_again(&call, arguments);
    match call.program {
        PROGRAM_NFS => {
            let procedure = Procedure::from_number(call.procedure);
            procedure.inspect(|procedure| nfs3::check_arguments(*procedure, arguments));
        }
        PROGRAM_MOUNT => {
            let procedure = nfs::mount::Procedure::from_number(call.procedure);
            procedure.inspect(|procedure| mount::check_arguments(*procedure, arguments));
        }
        _ => {}
    }
}

/// A header encoded from the decoded fields decodes to the same.
fn check_again(call: &Call<'_>, arguments: &[u8]) {
    if let Credential::Sys(user) = &call.credential {
        assert!(user.machine_name.len() <= MAX_MACHINE_NAME);
        assert!(user.gids.as_slice().len() <= MAX_GIDS);
    }
    let target = [call.program, call.version, call.procedure];
    let header = wire::bytes_of(|to| wire::call_header(to, call.xid, target, &call.credential));
    let record = Record::whole([&header, arguments].concat());
    let again = Call::decode(&record).expect("our own header");
    assert_eq!(again.xid, call.xid);
    assert_eq!([again.program, again.version, again.procedure], target);
    assert_eq!(again.credential, call.credential);
    assert_eq!(again.arguments.remaining().0, arguments);
}

/// The refusal is a reply to this very call, in one record.
fn check_rejection(bytes: &[u8], rejection: &Rejection) {
    let reply = rejection.reply().concat();
    let word = |index: usize| u32::from_be_bytes(reply[4 * index..][..4].try_into().expect("4"));
    assert_eq!(word(0), 1 << 31 | (reply.len() as u32 - 4), "one fragment");
    assert!(reply[4..].starts_with(&bytes[..4]), "the call's own number");
    assert_eq!(word(2), 1, "a reply");
    assert_eq!(word(3), 1, "that denies");
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    wire::any_call(prng, 2000)
}
