//! The port mapper, version 2 (RFC 1833, section 3).

use nfs::portmap::{AnswerError, Mapping, answer, set, unset};
use nfs::record::Record;
use nfs::rpc::PROGRAM_NFS;
use nfs::xdr::DecodeError;

use crate::{sent, wire};

const MAPPING: Mapping = Mapping { program: PROGRAM_NFS, version: 3, port: 2049 };

fn call(procedure: &str) -> Vec<u8> {
    wire(&format!(
        "
        80000038                            # the last fragment, 56 bytes
        00000007 00000000 00000002          # xid, CALL, RPC version
        000186a0 00000002 {procedure}       # port mapper, version, procedure
        00000000 00000000 00000000 00000000 # credential and verifier AUTH_NONE
        000186a3 00000003 00000006 00000801 # program, version, TCP, port
        "
    ))
}

fn answered(text: &str) -> Result<bool, AnswerError> {
    answer(&Record::whole(wire(text)), 7)
}

#[test]
fn set_and_unset() {
    assert_eq!(sent(&set(7, MAPPING)), call("00000001"));
    assert_eq!(sent(&unset(7, MAPPING)), call("00000002"));
}

#[test]
fn yes_and_no() {
    let start = "00000007 00000001 00000000 00000000 00000000 00000000";
    assert_eq!(answered(&format!("{start} 00000001")), Ok(true));
    assert_eq!(answered(&format!("{start} 00000000")), Ok(false));
}

#[test]
fn a_call_that_is_refused_is_told_from_a_no() {
    let unavailable = "00000007 00000001 00000000 00000000 00000000 00000001";
    assert_eq!(answered(unavailable), Err(AnswerError::Refused));
    let denied = "00000007 00000001 00000001 00000001 00000005";
    assert_eq!(answered(denied), Err(AnswerError::Refused));
}

#[test]
fn an_answer_to_another_call_is_none_of_ours() {
    let other = "00000008 00000001 00000000 00000000 00000000 00000000 00000001";
    assert_eq!(answered(other), Err(AnswerError::OtherCall(8)));
}

#[test]
fn what_is_no_answer_is_malformed() {
    assert_eq!(answered("00000007"), Err(AnswerError::Malformed(DecodeError::Short)));
    let call = DecodeError::BadValue { of: "msg_type REPLY", value: 0 };
    assert_eq!(answered("00000007 00000000"), Err(AnswerError::Malformed(call)));
}
