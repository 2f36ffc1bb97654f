//! Invalid calls, and calls of other programs.

use nfs3_types::nfs3::{self, GETATTR3args, NFS_PROGRAM, nfs_fh3, nfsstat3};
use nfs3_types::rpc::{accept_stat_data, auth_stat, rejected_reply};
use nfs3_types::xdr_codec::Void;

use crate::hostile::asking::all_calls;
use crate::hostile::fixture::{Load, Server};
use crate::hostile::names::listed;
use crate::hostile::wire::{Answer, Peer, Raw, credential, marked, mount, nfs};

const MOUNT: u32 = nfs3_types::mount::PROGRAM;

/// Sends a call whose words after the mark are these.
fn sent(peer: &mut Peer, words: &[u32]) -> Answer {
    peer.send(&marked(&bytes(words)));
    let answer = peer.answer().expect("an answer");
    assert_eq!(answer.xid, words[0]);
    answer
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[track_caller]
fn assert_denied(answer: &Answer, expected: auth_stat) {
    let denied = answer.denied();
    let same = matches!(denied, rejected_reply::AUTH_ERROR(status) if *status == expected);
    assert!(same, "{denied:?}, not {expected:?}");
}

#[test]
fn what_is_not_served_is_told_apart() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let mut peer = server.peer();
    for version in [0, 1, 3, u32::MAX] {
        let answer = sent(&mut peer, &[9, 0, version, nfs3::PROGRAM, 3, 0, 0, 0, 0, 0]);
        let refused = matches!(answer.denied(), rejected_reply::RPC_MISMATCH { low: 2, high: 2 });
        assert!(refused, "{version}: {answer:?}");
    }
    for program in [0, 100_000, 100_021, 100_227, u32::MAX] {
        let answer = peer.call((program, 3, 0), &Void);
        assert!(matches!(answer.accepted(), accept_stat_data::PROG_UNAVAIL), "{program}");
    }
    for program in [nfs3::PROGRAM, MOUNT] {
        for version in [0, 1, 2, 4, u32::MAX] {
            let answer = peer.call((program, version, 0), &Void);
            let accepted = answer.accepted();
            let told = matches!(accepted, accept_stat_data::PROG_MISMATCH { low: 3, high: 3 });
            assert!(told, "{program} {version}: {accepted:?}");
        }
        for procedure in [22, 23, 1 << 31, u32::MAX] {
            let answer = peer.call((program, 3, procedure), &Void);
            assert!(matches!(answer.accepted(), accept_stat_data::PROC_UNAVAIL), "{procedure}");
        }
    }
    neighbour.is_served();
    server.assert_bounded(Load { connections: 3, calls: 2, tokens: 2 << 20 });
    drop(peer);
    server.stop(neighbour);
}

#[test]
fn credentials_that_are_none_are_refused() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let mut peer = server.peer();
    // GETATTR with this credential and this verifier.
    let call = |auth: &[u32]| [&[9, 0, 2, nfs3::PROGRAM, 3, 1][..], auth].concat();
    let body = |length: u32| vec![0; length.div_ceil(4) as usize];
    for flavor in [2, 3, 4, 6, 7, 390_003, u32::MAX] {
        let answer = sent(&mut peer, &call(&[flavor, 0, 0, 0]));
        let short = auth_stat::AUTH_REJECTEDCRED;
        assert_denied(&answer, if flavor == 2 { short } else { auth_stat::AUTH_TOOWEAK });
    }
    // NULL needs no permission, but with RPCSEC_GSS it would begin a context.
    let null = |flavor: u32| [9, 0, 2, nfs3::PROGRAM, 3, 0, flavor, 0, 0, 0];
    assert_denied(&sent(&mut peer, &null(6)), auth_stat::AUTH_TOOWEAK);
    let answer = sent(&mut peer, &null(7));
    assert!(matches!(answer.accepted(), accept_stat_data::SUCCESS));
    for flavor in [0, 1, 6] {
        for length in [401, 4096, 60_000] {
            let long = [&[flavor, length][..], &body(length)].concat();
            let answer = sent(&mut peer, &call(&[&long[..], &[0, 0]].concat()));
            assert_denied(&answer, auth_stat::AUTH_BADCRED);
            let answer = sent(&mut peer, &call(&[&[0, 0][..], &long].concat()));
            assert_denied(&answer, auth_stat::AUTH_BADVERF);
        }
        // A length without that many bytes behind it.
        for length in [1, 400, 1 << 31, u32::MAX] {
            let answer = sent(&mut peer, &call(&[flavor, length]));
            assert_denied(&answer, auth_stat::AUTH_BADCRED);
        }
    }
    for (machine, groups, expected) in [(255, 16, true), (256, 0, false), (10, 17, false)] {
        peer.credential = credential(&vec![b'm'; machine], groups);
        let answer = peer.call(nfs(NFS_PROGRAM::NFSPROC3_NULL), &Void);
        if expected {
            assert!(matches!(answer.accepted(), accept_stat_data::SUCCESS));
        } else {
            assert_denied(&answer, auth_stat::AUTH_BADCRED);
        }
    }
    neighbour.is_served();
    server.assert_bounded(Load { connections: 3, calls: 2, tokens: 2 << 20 });
    drop(peer);
    server.stop(neighbour);
}

#[test]
fn arguments_that_end_early_or_go_on_are_garbage_for_every_procedure() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (mut peer, root) = server.mounted();
    let garbage = |answer: Answer| matches!(answer.accepted(), accept_stat_data::GARBAGE_ARGS);
    for (procedure, Raw(args)) in all_calls(&root) {
        for length in (0..args.len()).step_by(4) {
            let short = Raw(args[..length].to_vec());
            assert!(garbage(peer.nfs(procedure, &short)), "{procedure:?} of {length} bytes");
        }
        for more in [1, 4, 60_000] {
            let long = Raw([&args[..], &vec![0; more]].concat());
            assert!(garbage(peer.nfs(procedure, &long)), "{procedure:?} and {more} bytes");
        }
    }
    assert!(garbage(peer.nfs(NFS_PROGRAM::NFSPROC3_NULL, &Raw(vec![0; 4]))));
    for procedure in [0, 2, 4, 5] {
        assert!(garbage(peer.call(mount(procedure), &Raw(vec![0; 4]))), "MOUNT {procedure}");
    }
    for procedure in [1, 3] {
        assert!(garbage(peer.call(mount(procedure), &Void)), "MOUNT {procedure}");
    }
    assert!(listed(&mut peer, &root).is_empty(), "nothing was done");
    neighbour.is_served();
    server.assert_bounded(Load { connections: 3, calls: 2, tokens: 2 << 20 });
    drop(peer);
    server.stop(neighbour);
}

/// Such messages deserve no reply and no memory: their sender is no client.
#[test]
fn who_sends_replies_or_rubbish_in_place_of_calls_is_hung_up_on() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (_, root) = server.mounted();
    let args = GETATTR3args { object: nfs_fh3 { data: root.data.to_vec().into() } };
    let reply = bytes(&[7, 1, 0, 0, 0, 0]);
    for record in
        [&reply[..], &bytes(&[7, 1, 1, 1, 5]), &bytes(&[7, 2]), b"", b"GET / HTTP/1.1\r\n"]
    {
        let mut peer = server.peer();
        let answer = peer.nfs(NFS_PROGRAM::NFSPROC3_GETATTR, &args);
        assert_eq!(answer.status(), nfsstat3::NFS3_OK);
        peer.send_what_goes(&marked(record).repeat(200));
        assert!(peer.is_closed(), "{record:?}");
        neighbour.is_served();
    }
    server.assert_bounded(Load { connections: 3, calls: 256, tokens: 2 << 20 });
    server.stop(neighbour);
}
