//! The only answer that we decode ourselves: a port mapper's.

use nfs::portmap::{self, AnswerError, Mapping};
use nfs::record::Record;
use nfs::rpc::{Call, Credential, PROGRAM_PORTMAP};
use sim::Prng;

use super::{Target, some_bytes};
use crate::input::Input;
use crate::wire;

pub(super) const TARGET: Target =
    Target { name: "portmap", check, generate, longest: 1 << 10, memory: 256 << 10 };

fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let xid = input.u32();
    let program = input.clone().u32();
    let mapping = Mapping { program, version: xid, port: program as u16 };
    for record in [portmap::set(xid, mapping), portmap::unset(xid, mapping)] {
        check_call(xid, mapping, record.concat().split_off(4));
    }
    let answer = input.rest();
    let record = Record::whole(answer.to_vec());
    match portmap::answer(&record, xid) {
        Ok(done) => {
            assert_eq!(answer[..4], xid.to_be_bytes(), "an answer to this call");
            assert_eq!(answer[answer.len() - 4..], u32::from(done).to_be_bytes());
            let longer = Record::whole([answer, &[0; 4]].concat());
            assert!(portmap::answer(&longer, xid).is_err(), "and nothing behind it");
        }
        Err(AnswerError::OtherCall(other)) => {
            assert_eq!(answer[..4], other.to_be_bytes());
            assert_ne!(other, xid);
        }
        Err(AnswerError::Malformed(_) | AnswerError::Refused) => {}
    }
}

/// Our call is one that we could decode ourselves.
fn check_call(xid: u32, mapping: Mapping, call: Vec<u8>) {
    let record = Record::whole(call);
    let call = Call::decode(&record).expect("our own call");
    assert_eq!([call.xid, call.program, call.version], [xid, PROGRAM_PORTMAP, portmap::VERSION]);
    assert_eq!(call.credential, Credential::None);
    let mut arguments = call.arguments;
    let numbers = [(); 4].map(|()| arguments.u32().expect("four numbers"));
    assert_eq!(numbers, [mapping.program, mapping.version, 6, mapping.port.into()]);
    arguments.finish().expect("and no more");
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let xid = prng.next_u64() as u32;
    let mut input = xid.to_le_bytes().to_vec();
    let verifier = some_bytes(prng, 40);
    input.extend(wire::bytes_of(|to| {
        to.u32(xid);
        to.u32(1);
        to.u32(0);
        to.u32(prng.below(3) as u32);
        to.opaque(&verifier);
        to.u32(0);
        to.u32(prng.below(2) as u32);
    }));
    input
}
