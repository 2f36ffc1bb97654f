//! Peers that send slowly, or begin records that they do not finish.

use std::io::ErrorKind;

use nfs3_types::nfs3::*;

use crate::hostile::fixture::{Load, REQUEST_MEMORY, Server, made_file, write_args};
use crate::hostile::wire::{Peer, nfs};

/// A WRITE of maximum length.
fn largest_write(peer: &mut Peer, file: &nfs_fh3) -> Vec<u8> {
    peer.record(nfs(NFS_PROGRAM::NFSPROC3_WRITE), &write_args(file, 0, &vec![1; 1 << 20])).1
}

#[test]
fn peers_that_trickle_keep_nobody_waiting() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (mut peer, root) = server.mounted();
    let file = made_file(&mut peer, &root, b"file");
    let args = GETATTR3args { object: root };
    let (xid, small) = peer.record(nfs(NFS_PROGRAM::NFSPROC3_GETATTR), &args);
    let mut writer = server.peer();
    let large = largest_write(&mut writer, &file);
    // Sends the head of the large call at once, so that the server holds memory for the rest.
    let (head, payload) = large.split_at(200);
    writer.send(head);
    for (index, pair) in small.iter().zip(payload).enumerate() {
        peer.send(&[*pair.0]);
        writer.send(&[*pair.1]);
        if index % 4 == 0 {
            neighbour.is_served(); // takes some time
        }
        if index % 40 == 0 {
            neighbour.is_served_with_much();
        }
    }
    let answer = peer.answer().expect("an answer");
    assert_eq!((answer.xid, answer.status()), (xid, nfsstat3::NFS3_OK));
    writer.send(&payload[small.len()..]);
    assert_eq!(writer.answer().expect("an answer").status(), nfsstat3::NFS3_OK);
    server.assert_bounded(Load { connections: 4, calls: 4, tokens: 4 << 20 });
    drop((peer, writer));
    server.stop(neighbour);
}

/// The peers hold all memory for arriving calls. Small calls do not need it; large ones get some
/// within seconds, since the peers send nothing more.
#[test]
fn two_hundred_peers_that_stall_within_large_records_starve_nobody() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (mut peer, root) = server.mounted();
    let file = made_file(&mut peer, &root, b"file");
    let mut stallers: Vec<Peer> = (0..200).map(|_| server.peer()).collect();
    for (index, staller) in stallers.iter_mut().enumerate() {
        let record = largest_write(staller, &file);
        // Some send only the beginning, some withhold the last byte.
        let length = if index % 2 == 0 { 300 } else { record.len() - 1 };
        staller.send_what_goes(&record[..length]);
    }
    neighbour.is_served();
    neighbour.is_served_with_much();
    neighbour.is_served();
    // Peers that kept others waiting are disconnected. (A few may be left that delayed nobody.)
    let gone = stallers.iter().filter(|staller| is_gone(staller)).count();
    assert!(gone > 100, "{gone} of 200 were disconnected");
    let args = GETATTR3args { object: file };
    let found: GETATTR3res = peer.nfs(NFS_PROGRAM::NFSPROC3_GETATTR, &args).results();
    assert_eq!(found.unwrap().obj_attributes.size, 0, "half a call is no call");
    server.assert_bounded(Load { connections: 203, calls: 4, tokens: REQUEST_MEMORY });
    drop((peer, stallers));
    server.stop(neighbour);
}

fn is_gone(peer: &Peer) -> bool {
    peer.stream.set_nonblocking(true).expect("a socket");
    let peeked = peer.stream.peek(&mut [0]);
    !peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}
