//! Headers of calls and replies (RFC 5531).

use nfs::record::Record;
use nfs::rpc::{
    self, AuthStatus, Call, CallError, Credential, Refusal, Rejection, refuse, success,
};
use nfs::xdr::DecodeError;

use crate::{sent, wire};

/// A GETATTR, up to the credential.
const START: &str = "
    12345678    # xid
    00000000    # CALL
    00000002    # RPC version
    000186a3    # NFS
    00000003    # version
    00000001    # GETATTR
";

const NO_VERIFIER: &str = "00000000 00000000 # AUTH_NONE, no body\n";

fn record(text: &str) -> Record {
    Record::whole(wire(text))
}

/// An AUTH_SYS credential with `count` groups, 2 and up.
fn sys(count: u32) -> String {
    let gids: String = (2..2 + count).map(|gid| format!(" {gid:08x}")).collect();
    let length = 4 + 8 + 4 + 4 + 4 + 4 * count;
    format!(
        "
        00000001 {length:08x}   # AUTH_SYS
        deadbeef                # stamp
        00000003 626f78 00      # machine name 'box'
        000003e8                # uid
        00000001                # gid
        {count:08x} {gids}
        "
    )
}

#[track_caller]
fn assert_rejected(text: &str, refusal: Refusal) {
    let rejection = Rejection { xid: 0x1234_5678, refusal };
    assert_eq!(Call::decode(&record(text)).err(), Some(CallError::Rejected(rejection)));
    assert_eq!(rejection.reply(), refuse(0x1234_5678, refusal));
}

#[test]
fn a_call_of_nobody() {
    let record = record(&format!("{START} {NO_VERIFIER} {NO_VERIFIER} 00000001 61000000"));
    let call = Call::decode(&record).expect("a call");
    assert_eq!(call.xid, 0x1234_5678);
    assert_eq!((call.program, call.version, call.procedure), (rpc::PROGRAM_NFS, 3, 1));
    assert_eq!(call.credential, Credential::None);
    assert_eq!(call.arguments.remaining().0, wire("00000001 61000000"));
}

#[test]
fn a_call_of_a_user_with_all_the_groups_that_there_can_be() {
    let record = record(&format!("{START} {} {NO_VERIFIER}", sys(16)));
    let call = Call::decode(&record).expect("a call");
    let Credential::Sys(user) = call.credential else { panic!("not {:?}", call.credential) };
    assert_eq!((user.stamp, user.machine_name), (0xdead_beef, &b"box"[..]));
    assert_eq!((user.uid, user.gid), (1000, 1));
    assert_eq!(user.gids.as_slice(), Vec::from_iter(2..18));
    assert!(call.arguments.finish().is_ok());
}

#[test]
fn a_seventeenth_group_is_a_bad_credential() {
    let text = format!("{START} {} {NO_VERIFIER}", sys(17));
    assert_rejected(&text, Refusal::Authentication(AuthStatus::BadCredential));
}

#[test]
fn a_credential_that_ends_early_or_goes_on_is_bad() {
    let bad = Refusal::Authentication(AuthStatus::BadCredential);
    assert_rejected(&format!("{START} 00000001 00000004 deadbeef {NO_VERIFIER}"), bad);
    let user = "deadbeef 00000003 626f7800 000003e8 00000001 00000000"; // 24 bytes
    assert_rejected(&format!("{START} 00000001 0000001c {user} 00000000 {NO_VERIFIER}"), bad);
}

#[test]
fn a_credential_over_400_bytes_is_bad() {
    let body = "00".repeat(404);
    let text = format!("{START} 00000000 00000194 {body} {NO_VERIFIER}");
    assert_rejected(&text, Refusal::Authentication(AuthStatus::BadCredential));
}

#[test]
fn a_verifier_over_400_bytes_is_bad() {
    let body = "00".repeat(404);
    let text = format!("{START} {NO_VERIFIER} 00000000 00000194 {body}");
    assert_rejected(&text, Refusal::Authentication(AuthStatus::BadVerifier));
}

#[test]
fn an_unknown_flavor_is_left_to_the_server() {
    let record = record(&format!("{START} 00000006 00000004 01020304 {NO_VERIFIER}"));
    let call = Call::decode(&record).expect("a call");
    assert_eq!(call.credential, Credential::Other { flavor: 6 });
}

#[test]
fn another_rpc_version_is_refused() {
    let text = START.replace("00000002    # RPC", "00000003    # RPC");
    assert_rejected(&text, Refusal::RpcMismatch { low: 2, high: 2 });
}

#[test]
fn what_is_no_call_has_no_answer() {
    let reply = CallError::Unanswerable(DecodeError::BadValue { of: "msg_type CALL", value: 1 });
    assert_eq!(Call::decode(&record("12345678 00000001")).err(), Some(reply));
    let short = CallError::Unanswerable(DecodeError::Short);
    assert_eq!(Call::decode(&record("12345678 00000000")).err(), Some(short));
    assert_eq!(Call::decode(&record("")).err(), Some(short));
}

#[test]
fn a_successful_reply_starts_with_its_xid_and_an_empty_verifier() {
    let expected = wire(
        "
        80000018            # the last fragment, 24 bytes
        12345678            # xid
        00000001            # REPLY
        00000000            # MSG_ACCEPTED
        00000000 00000000   # verifier AUTH_NONE, no body
        00000000            # SUCCESS
        ",
    );
    assert_eq!(sent(&success(0x1234_5678).finish()), expected);
}

#[test]
fn each_refusal_of_an_accepted_call() {
    let refusals = [
        (Refusal::ProgramUnavailable, "00000001"),
        (Refusal::ProgramMismatch { low: 3, high: 4 }, "00000002 00000003 00000004"),
        (Refusal::ProcedureUnavailable, "00000003"),
        (Refusal::GarbageArguments, "00000004"),
        (Refusal::SystemError, "00000005"),
    ];
    for (refusal, text) in refusals {
        let text = format!("12345678 00000001 00000000 00000000 00000000 {text}");
        assert_eq!(sent(&refuse(0x1234_5678, refusal))[4..], wire(&text));
    }
}

#[test]
fn each_refusal_of_a_denied_call() {
    let refusals = [
        (Refusal::RpcMismatch { low: 2, high: 2 }, "00000000 00000002 00000002"),
        (Refusal::Authentication(AuthStatus::BadCredential), "00000001 00000001"),
        (Refusal::Authentication(AuthStatus::RejectedCredential), "00000001 00000002"),
        (Refusal::Authentication(AuthStatus::BadVerifier), "00000001 00000003"),
        (Refusal::Authentication(AuthStatus::RejectedVerifier), "00000001 00000004"),
        (Refusal::Authentication(AuthStatus::TooWeak), "00000001 00000005"),
        (Refusal::Authentication(AuthStatus::InvalidResponse), "00000001 00000006"),
        (Refusal::Authentication(AuthStatus::Failed), "00000001 00000007"),
    ];
    for (refusal, text) in refusals {
        let text = format!("12345678 00000001 00000001 {text}");
        assert_eq!(sent(&refuse(0x1234_5678, refusal))[4..], wire(&text));
    }
}
