//! Peers that do not receive their replies.

use std::net::Ipv4Addr;

use nfs3_types::nfs3::*;

use crate::hostile::fixture::{Load, Neighbour, REPLY_MEMORY, Server, made_file, write_args};
use crate::hostile::onlooker::Onlooker;
use crate::hostile::wire::{Peer, credential, nfs};

/// Prepares a peer with a small socket buffer, and many calls. Their credentials have the maximum
/// length, so that no kernel buffers them all.
fn many_calls(server: &Server, root: &nfs_fh3, count: usize) -> (Peer, Vec<u8>) {
    let mut peer = Peer::connect_from(Ipv4Addr::LOCALHOST.into(), server.address, 32 << 10);
    peer.credential = credential(&[b'm'; 255], 16);
    let args = GETATTR3args { object: root.clone() };
    let mut calls = Vec::new();
    for _ in 0..count {
        calls.extend(peer.record(nfs(NFS_PROGRAM::NFSPROC3_GETATTR), &args).1);
    }
    (peer, calls)
}

/// Sends bytes until the server stops receiving, and meanwhile has the neighbour served. Returns
/// the number of bytes sent.
fn send_until_it_stops(peer: &mut Peer, calls: &[u8], neighbour: &mut Neighbour) -> usize {
    let (mut sent, mut quiet) = (0, 0);
    while quiet < 3 && sent < calls.len() {
        let length = peer.send_what_goes(&calls[sent..]);
        sent += length;
        quiet = if length == 0 { quiet + 1 } else { 0 };
        neighbour.is_served();
    }
    sent
}

#[test]
fn a_flood_of_calls_waits_until_its_replies_are_read() {
    const CALLS: usize = 40_000; // 20 MB: more than kernels buffer
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (_, root) = server.mounted();
    let (mut peer, mut calls) = many_calls(&server, &root, CALLS);
    let sent = send_until_it_stops(&mut peer, &calls, &mut neighbour);
    assert!(sent < calls.len(), "the server reads no more calls than it may hold");
    neighbour.is_served_with_much();
    server.assert_bounded(Load { connections: 4, calls: 256, tokens: 2 << 20 });

    let mut writer = peer.stream.try_clone().expect("a socket");
    let rest = calls.split_off(sent);
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &rest));
    let mut answered = vec![false; CALLS];
    for _ in 0..CALLS {
        let answer = peer.answer().expect("an answer to each call");
        assert_eq!(answer.status(), nfsstat3::NFS3_OK);
        let known = answered.get_mut(answer.xid as usize - 1).expect("a call's number");
        assert!(!std::mem::replace(known, true), "one answer to each call");
    }
    writer.join().expect("it does not panic").expect("the server reads");
    server.assert_bounded(Load { connections: 4, calls: 256, tokens: 2 << 20 });
    drop(peer);
    server.stop(neighbour);
}

/// Proves that the other tests measure something: a server that continues to read, as its
/// configuration here allows, holds more than the usual bound.
#[test]
fn a_server_that_reads_on_without_being_read_is_noticed() {
    let server = Server::start_with("limits.calls_per_connection = 1000000");
    let mut neighbour = server.neighbour();
    let (_, root) = server.mounted();
    let (mut peer, calls) = many_calls(&server, &root, 100_000);
    let usual = Load { connections: 4, calls: 256, tokens: 2 << 20 };
    for calls in calls.chunks(4 << 20) {
        let sent = send_until_it_stops(&mut peer, calls, &mut neighbour);
        assert_eq!(sent, calls.len(), "nothing but the server stops a peer");
        if server.peak() > server.explained(usual) {
            break;
        }
    }
    assert!(server.peak() > server.explained(usual), "{} bytes", server.peak());
    drop(peer);
    server.stop(neighbour);
}

/// Each peer leaves eight replies of maximum length, so that all memory for replies is theirs.
#[test]
fn peers_that_do_not_take_their_data_starve_nobody() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (mut peer, root) = server.mounted();
    let file = made_file(&mut peer, &root, b"file");
    let written = peer.nfs(NFS_PROGRAM::NFSPROC3_WRITE, &write_args(&file, 0, &vec![1; 1 << 20]));
    assert_eq!(written.status(), nfsstat3::NFS3_OK);
    let args = READ3args { file, offset: 0, count: 1 << 20 };
    let mut lazy: Vec<Peer> = (0..4).map(|_| server.peer()).collect();
    let onlooker = Onlooker::at(&server);
    for peer in &mut lazy {
        for _ in 0..100 {
            let (_, record) = peer.record(nfs(NFS_PROGRAM::NFSPROC3_READ), &args);
            peer.send(&record);
        }
    }
    neighbour.is_served_with_much();
    neighbour.is_served();
    onlooker.tell();
    let load = Load { connections: 8, calls: 400, tokens: REPLY_MEMORY + (2 << 20) };
    server.assert_bounded(load);
    drop((peer, lazy));
    server.stop(neighbour);
}
