//! The file of a recorded load.

use bytes::Bytes;
use nfs::record::Record;
use nfs::rpc;
use nfs::xdr::UNIT;
use sim::Prng;
use trace::{BadTrace, Begun, Entry, MAGIC, read};

use super::Target;
use crate::wire;

pub(super) const TARGET: Target =
    Target { name: "trace", check, generate, longest: 4 << 10, memory: 256 << 10 };

fn check(bytes: &[u8]) {
    let file = Bytes::copy_from_slice(bytes);
    match read(&file) {
        Ok(entries) => check_entries(&file, &entries),
        Err(BadTrace::Magic) => assert!(!bytes.starts_with(MAGIC)),
        Err(BadTrace::Cut { entry, at } | BadTrace::Damaged { entry, at, .. }) => {
            // The entries before it are valid.
            let before = read(&file.slice(..at)).expect("the entries before");
            assert_eq!(before.len() + 1, entry);
            check_entries(&file.slice(..at), &before);
        }
    }
}

/// Decoded entries are encoded to the same length, and decode to the same.
fn check_entries(file: &Bytes, entries: &[Entry]) {
    let mut again = MAGIC.to_vec();
    for entry in entries {
        assert!(entry.begun_ns <= entry.ended_ns);
        again.extend(entry.encode());
    }
    assert_eq!(again.len(), file.len());
    assert_eq!(read(&again.into()).as_deref(), Ok(entries));
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    for number in 0..prng.below(4) {
        let procedure = prng.below(22) as u32;
        let arguments = wire::any_nfs_arguments(prng, procedure, 100);
        let caller = rpc::Caller::none();
        let mut call = rpc::call(1, rpc::PROGRAM_NFS, 3, procedure, &caller).finish().concat();
        call.extend(arguments);
        let record = Record::whole(call.split_off(UNIT));
        let Some(begun) = Begun::seen(&record) else { continue };
        let mut reply = rpc::success(1);
        reply.u32(prng.below(3) as u32);
        let times = (number, number + prng.below(100));
        file.extend(Entry::seen(begun, times, prng.below(3), &reply.finish()).encode());
    }
    file
}
