//! Streams that are no sequence of records, or consist of one endless record.

use std::io::{ErrorKind, Write};

use nfs3_types::nfs3::*;

use crate::hostile::fixture::{Load, Neighbour, Server, made_file, write_args};
use crate::hostile::wire::{Peer, nfs};

const LAST: u32 = 1 << 31;

/// Asserts that each of many peers that send this is disconnected, and that nobody else is
/// affected.
fn assert_refused(server: &Server, neighbour: &mut Neighbour, stream: &[u8]) {
    let mut peers: Vec<Peer> = (0..50).map(|_| server.peer()).collect();
    for peer in &mut peers {
        peer.send_what_goes(stream);
    }
    neighbour.is_served();
    assert!(peers.iter_mut().all(Peer::is_closed));
}

#[test]
fn records_of_two_gigabytes_are_refused_at_their_mark() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    for mark in [LAST - 1, u32::MAX, LAST | ((1 << 20) + 1025), (1 << 20) + 1025] {
        assert_refused(&server, &mut neighbour, &mark.to_be_bytes());
    }
    server.assert_bounded(Load { connections: 53, calls: 4, tokens: 0 });
    server.stop(neighbour);
}

#[test]
fn records_whose_fragments_add_up_to_two_gigabytes_are_refused() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (mut peer, root) = server.mounted();
    let file = made_file(&mut peer, &root, b"file");
    // Fragments of a call that must be short, and of a WRITE, which may be long.
    let (_, getattr) =
        peer.record(nfs(NFS_PROGRAM::NFSPROC3_GETATTR), &GETATTR3args { object: root });
    let args = write_args(&file, 0, &[7; 1 << 20]);
    let (_, write) = peer.record(nfs(NFS_PROGRAM::NFSPROC3_WRITE), &args);
    for call in [&getattr[4..], &write[4..]] {
        let fragment = [&(call.len() as u32).to_be_bytes()[..], call].concat();
        // More of them than any record may have; a kernel may accept fewer before the refusal.
        let mut stream = fragment;
        for _ in 0..40 {
            stream.extend([&(60_000u32).to_be_bytes()[..], &[7; 60_000]].concat());
        }
        assert_refused(&server, &mut neighbour, &stream);
    }
    let huge = [&(100u32).to_be_bytes()[..], &[7; 100], &(LAST - 1).to_be_bytes()].concat();
    assert_refused(&server, &mut neighbour, &huge);
    server.assert_bounded(Load { connections: 54, calls: 4, tokens: 50 << 20 });
    server.stop(neighbour);
}

#[test]
fn empty_fragments_without_end_come_to_one() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let mut endless: Vec<Peer> = (0..4).map(|_| server.peer()).collect();
    let marks = vec![0; 64 << 10];
    let mut rounds = 0;
    while !endless.is_empty() {
        rounds += 1;
        assert!(rounds < 200, "the server has read millions of marks and does not end it");
        endless.retain_mut(|peer| match peer.stream.write_all(&marks) {
            Ok(()) => true,
            Err(error) => {
                let kinds = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
                assert!(
                    kinds.contains(&error.kind()),
                    "the server neither reads nor ends: {error}"
                );
                false
            }
        });
        neighbour.is_served();
    }
    server.assert_bounded(Load { connections: 7, calls: 4, tokens: 0 });
    server.stop(neighbour);
}
