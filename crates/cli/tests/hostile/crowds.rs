//! Many connections.

use nfs3_types::nfs3::*;

use crate::house::{Load, Server};
use crate::wire::{Peer, nfs};

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
