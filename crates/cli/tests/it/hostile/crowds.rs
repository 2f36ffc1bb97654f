//! Many connections.

use std::net::Ipv4Addr;

use nfs3_types::nfs3::*;
use nfs3_types::xdr_codec::Void;

use crate::hostile::fixture::{Load, Server};
use crate::hostile::onlooker::Onlooker;
use crate::hostile::wire::{Peer, nfs};

/// One of ten addresses of this machine.
fn address(number: u32) -> Ipv4Addr {
    let last = u8::try_from(number % 10).expect("a digit");
    Ipv4Addr::new(127, 0, 0, 2 + last)
}

/// Connects from ten addresses that no rule admits, and returns the connections that were accepted.
fn strangers(server: &Server, count: u32) -> Vec<Peer> {
    let from = |number| Peer::connect_from(address(number).into(), server.address, 64 << 10);
    (0..count).map(from).collect()
}

/// Sends a NULL on each connection; returns the number of replies.
fn ask_nothing(peers: &mut [Peer]) -> usize {
    let mut answered = 0;
    for peer in peers {
        let (_, record) = peer.record(nfs(NFS_PROGRAM::NFSPROC3_NULL), &Void);
        let is_sent = std::io::Write::write_all(&mut peer.stream, &record).is_ok();
        answered += usize::from(is_sent && peer.answer().is_some());
    }
    answered
}

#[test]
fn a_thousand_connections_are_all_served() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (_peer, root) = server.mounted();
    let mut crowd: Vec<Peer> = (0..1_000).map(|_| server.peer()).collect();
    neighbour.is_served();
    let args = GETATTR3args { object: root };
    for _ in 0..2 {
        let sent: Vec<u32> = crowd
            .iter_mut()
            .map(|peer| {
                let (xid, record) = peer.record(nfs(NFS_PROGRAM::NFSPROC3_GETATTR), &args);
                peer.send(&record);
                xid
            })
            .collect();
        neighbour.is_served();
        for (peer, xid) in crowd.iter_mut().zip(sent) {
            let answer = peer.answer().expect("an answer");
            assert_eq!((answer.xid, answer.status()), (xid, nfsstat3::NFS3_OK));
        }
    }
    neighbour.is_served_with_much();
    server.assert_bounded(Load { connections: 1_003, calls: 1_000, tokens: 2 << 20 });
    drop(crowd);
    server.stop(neighbour);
}

/// The peers hold all connections. A new client is let in when they have been quiet for some
/// seconds, and they find their connections closed.
#[test]
fn peers_that_only_connect_shut_nobody_out() {
    let server = Server::start_with("limits.connections = 50");
    let mut crowd: Vec<Peer> = (0..50).map(|_| server.peer()).collect();
    let mut neighbour = server.neighbour();
    neighbour.is_served();
    let args = GETATTR3args { object: server.mounted().1 };
    let mut served = 0;
    for peer in &mut crowd {
        let (_, record) = peer.record(nfs(NFS_PROGRAM::NFSPROC3_GETATTR), &args);
        // A closed connection takes no call.
        if std::io::Write::write_all(&mut peer.stream, &record).is_ok() && peer.answer().is_some() {
            served += 1;
        }
    }
    assert!((40..50).contains(&served), "{served} of 50 were left alone");
    server.assert_bounded(Load { connections: 51, calls: 50, tokens: 2 << 20 });
    drop(crowd);
    server.stop(neighbour);
}

/// The strangers call just often enough never to be quiet for long.
#[test]
fn strangers_that_keep_asking_nothing_shut_nobody_out() {
    let server = Server::start_with("limits.connections = 30");
    let onlooker = Onlooker::at(&server);
    let mut crowd = strangers(&server, 40);
    let mut neighbour = server.neighbour();
    for _ in 0..5 {
        assert!(ask_nothing(&mut crowd) <= 30);
        neighbour.is_served();
    }
    onlooker.tell();
    server.assert_bounded(Load { connections: 31, calls: 30, tokens: 4 << 20 });
    drop(crowd);
    server.stop(neighbour);
}

/// The default limit of a system on open files is below the limit on connections.
#[test]
fn a_system_that_allows_few_files_lets_a_server_serve_all_the_same() {
    let server = Server::start_with_files(128, "limits.connections = 1100");
    let mut crowd = strangers(&server, 300);
    let mut neighbour = server.neighbour();
    neighbour.is_served();
    let admitted: Vec<Peer> = (0..50).map(|_| server.peer()).collect();
    neighbour.is_served();
    ask_nothing(&mut crowd);
    neighbour.is_served_with_much();
    server.assert_bounded(Load { connections: 128, calls: 128, tokens: 2 << 20 });
    drop((crowd, admitted));
    server.stop(neighbour);
}
