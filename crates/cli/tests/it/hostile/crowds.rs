//! Many connections.

use nfs3_types::nfs3::*;

use crate::hostile::house::{Load, Server};
use crate::hostile::wire::{Peer, nfs};

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

/// They hold all places. Who comes later is let in when they have been quiet for some seconds, and
/// they find their connections closed.
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
        // Those that were closed take no call.
        if std::io::Write::write_all(&mut peer.stream, &record).is_ok() && peer.answer().is_some() {
            served += 1;
        }
    }
    assert!((40..50).contains(&served), "{served} of 50 were left alone");
    server.assert_bounded(Load { connections: 51, calls: 50, tokens: 2 << 20 });
    drop(crowd);
    server.stop(neighbour);
}
