//! Arbitrary input, split in arbitrary ways.

use bytes::Bytes;
use nfs::mount;
use nfs::nfs3::{Arguments, Procedure};
use nfs::reader::{Limits, Progress, RecordReader};
use nfs::record::{HEADER_ROOM, Record};
use nfs::rpc::{Call, CallError, Credential};
use nfs::xdr::{Decoder, Encoder};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::{fragmented, joined, other, payload, write};

/// Small sizes, so that small inputs reach every state.
const LIMITS: Limits = Limits { record: 20_000, staging: 4096, placement: 4096 - HEADER_ROOM };

/// Feeds `stream` in pieces of these lengths, over and over; a grant comes after the number of
/// further polls given by `patience`. Returns the records up to the end or the first error, and
/// checks that no more memory is requested than a record may have.
fn run(stream: &[u8], reads: &[usize], patience: &[usize]) -> Vec<Record> {
    let mut reader = RecordReader::new(LIMITS).with_checksums();
    let (mut records, mut rest) = (Vec::new(), stream);
    let (mut reads, mut patience) = (reads.iter().cycle(), patience.iter().cycle());
    let mut granted = 0;
    loop {
        match reader.poll() {
            Err(_) => return records,
            Ok(Progress::NeedsMemory(length)) => {
                assert!(length <= LIMITS.record);
                for _ in 0..*patience.next().expect("a cycle has no end") {
                    assert!(matches!(reader.poll(), Ok(Progress::NeedsMemory(_))));
                }
                reader.grant();
                granted = length;
            }
            Ok(Progress::Record(record)) => {
                assert_eq!(record.memory(), granted);
                records.push(record);
            }
            Ok(Progress::NeedsBytes) if rest.is_empty() => return records,
            Ok(Progress::NeedsBytes) => {
                let read = *reads.next().expect("a cycle has no end");
                rest = &rest[reader.feed(&rest[..read.min(rest.len())])..];
            }
        }
    }
}

fn reads() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![1..8_usize, 1..5000_usize], 1..8)
}

fn patience() -> impl Strategy<Value = Vec<usize>> {
    vec(0..3_usize, 1..4)
}

/// A record that a client may send, and the lengths of its fragments.
fn record() -> impl Strategy<Value = (Vec<u8>, Vec<usize>)> {
    let record = prop_oneof![
        (0..4000_usize).prop_map(other),
        (0..3000_usize).prop_map(|length| write(&payload(length))),
        (3000..18_000_usize).prop_map(|length| write(&payload(length))),
    ];
    let lengths = prop_oneof![
        3 => Just(Vec::new()),
        1 => vec(1..20_usize, 1..8),
        1 => vec(1..6000_usize, 1..8),
    ];
    (record, lengths)
}

/// Words, many of them small numbers, as lengths and enumerations are.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![4 => 0..9_u32, 1 => 0..500_u32, 1 => any::<u32>()];
    vec(word, 0..60).prop_map(|words| words.into_iter().flat_map(u32::to_be_bytes).collect())
}

proptest! {
    #[test]
    fn records_come_out_as_they_went_in(
        sent in vec(record(), 0..6),
        reads in reads(),
        patience in patience(),
    ) {
        let stream: Vec<u8> =
            sent.iter().flat_map(|(record, lengths)| fragmented(record, lengths)).collect();
        let records = run(&stream, &reads, &patience);
        prop_assert_eq!(records.len(), sent.len());
        for (record, (sent, _)) in records.iter().zip(&sent) {
            let mut sent = sent.clone();
            sent.resize(sent.len().next_multiple_of(4), 0);
            prop_assert!(joined(record) == sent);
            prop_assert_eq!(record.checksum.is_some(), !record.payload.is_empty());
            let later = Record { checksum: None, ..record.clone() };
            let [one, other] = [record, &later].map(|record| {
                Call::decode(record).map(|call| call.checksum()).ok()
            });
            prop_assert_eq!(one, other, "as it arrived, and from the record");
        }
    }

    #[test]
    fn any_bytes_end_in_records_or_an_error(
        stream in vec(any::<u8>(), 0..10_000),
        reads in reads(),
        patience in patience(),
    ) {
        run(&stream, &reads, &patience);
    }

    #[test]
    fn damaged_records_end_in_records_or_an_error(
        sent in vec(record(), 1..4),
        damage in vec((any::<Index>(), any::<u8>()), 1..6),
        reads in reads(),
        patience in patience(),
    ) {
        let mut stream: Vec<u8> =
            sent.iter().flat_map(|(record, lengths)| fragmented(record, lengths)).collect();
        for (at, byte) in damage {
            let at = at.index(stream.len().min(200)); // headers are the critical part
            stream[at] = byte;
        }
        for record in run(&stream, &reads, &patience) {
            if let Ok(call) = Call::decode(&record) {
                let _ = Arguments::decode(Procedure::Write, call.arguments);
            }
        }
    }

    #[test]
    fn any_words_are_arguments_or_garbage(words in words(), cut in 0..4_usize) {
        let words = &words[..words.len().saturating_sub(cut)];
        for procedure in Procedure::ALL {
            let _ = Arguments::decode(procedure, Decoder::new(words));
        }
        for procedure in mount::Procedure::ALL {
            let _ = mount::Arguments::decode(procedure, Decoder::new(words));
        }
    }

    #[test]
    fn any_words_are_a_call_or_none(words in words(), cut in 0..4_usize) {
        let head = words[..words.len().saturating_sub(cut)].to_vec();
        let record = Record::whole(head);
        match Call::decode(&record) {
            Ok(call) => {
                prop_assert_eq!(Call::target(&record), Some((call.program, call.procedure)));
            }
            Err(CallError::Rejected(rejection)) => {
                prop_assert!(record.head.starts_with(&rejection.xid.to_be_bytes()));
            }
            Err(CallError::Unanswerable(_)) => prop_assert_eq!(Call::target(&record), None),
        }
    }

    #[test]
    fn any_words_behind_a_placed_payload_head_are_a_write_or_garbage(
        words in words(),
        payload in vec(any::<u8>(), 0..64),
    ) {
        let payload = payload.chunks(5).map(Bytes::copy_from_slice).collect::<Vec<_>>();
        let head = words.into();
        let _ = Arguments::decode(Procedure::Write, Decoder::of_parts(&head, &payload));
    }

    #[test]
    fn a_call_header_is_read_as_it_was_written(
        [xid, program, version, procedure, stamp, uid, gid] in any::<[u32; 7]>(),
        machine_name in vec(any::<u8>(), 0..=255),
        gids in vec(any::<u32>(), 0..=16),
        arguments in words(),
    ) {
        let mut body = Encoder::with_capacity(0);
        body.u32(stamp);
        body.opaque(&machine_name);
        for word in [uid, gid, gids.len() as u32].iter().chain(&gids) {
            body.u32(*word);
        }
        let mut header = Encoder::with_capacity(0);
        for word in [xid, 0, 2, program, version, procedure, 1] {
            header.u32(word);
        }
        header.opaque(&crate::bytes(body));
        header.u32(0);
        header.opaque(b"verifier");
        let head = [crate::bytes(header), arguments.clone()].concat();
        let record = Record::whole(head);
        let call = Call::decode(&record).expect("a call");
        let numbers = [call.xid, call.program, call.version, call.procedure];
        prop_assert_eq!(numbers, [xid, program, version, procedure]);
        prop_assert_eq!(Call::target(&record), Some((program, procedure)));
        let Credential::Sys(user) = call.credential else { panic!("not {:?}", call.credential) };
        prop_assert_eq!([user.stamp, user.uid, user.gid], [stamp, uid, gid]);
        prop_assert_eq!(user.machine_name, machine_name);
        prop_assert_eq!(user.gids.as_slice(), gids);
        prop_assert_eq!(call.arguments.remaining().0, arguments);
    }
}
