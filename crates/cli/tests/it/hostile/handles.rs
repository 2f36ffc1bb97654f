//! Forged handles.
//!
//! The checksum in a handle is against accidents, so the forger computes it, too.

use dispatch::Handle;
use nfs3_types::nfs3::nfsstat3::{NFS3ERR_BADHANDLE, NFS3ERR_STALE, NFS3ERR_XDEV};
use nfs3_types::nfs3::*;
use nfs3_types::rpc::accept_stat_data;
use sim::Prng;
use vfs::{Ino, ObjectId};

use crate::hostile::asking::{all_calls, assert_all, assert_either};
use crate::hostile::fixture::{Load, Server, at, made_file};
use crate::hostile::names::listed;
use crate::hostile::wire::Peer;

fn decoded(handle: &nfs_fh3) -> Handle {
    Handle::decode(&handle.data).expect("the server made it")
}

/// Forges a handle of another file.
fn forged(like: Handle, ino: u64, generation: u32) -> Vec<u8> {
    Handle { id: ObjectId::live(Ino(ino), generation), ..like }.encode().to_vec()
}

#[test]
fn bytes_that_no_server_made_are_a_bad_handle() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (mut peer, root) = server.mounted();
    let good = root.data.to_vec();
    let mut chance = Prng::new(1);
    let mut bad: Vec<Vec<u8>> =
        (0..64).map(|length| (0..length).map(|_| chance.next_u64() as u8).collect()).collect();
    bad.extend([good[..27].to_vec(), [&good[..], &[0]].concat(), vec![0; 28], vec![0xff; 64]]);
    for handle in bad {
        assert_all(&mut peer, &handle, NFS3ERR_BADHANDLE);
        assert_either(&mut peer, &root, &handle, NFS3ERR_BADHANDLE);
    }
    neighbour.is_served();
    server.assert_bounded(Load { connections: 3, calls: 2, tokens: 2 << 20 });
    drop(peer);
    server.stop(neighbour);
}

/// The protocol cannot express such handles: the arguments of the call are invalid.
#[test]
fn handles_of_more_than_sixty_four_bytes_are_garbage() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let mut peer = server.peer();
    for length in [65, 128, 20_000] {
        let handle = nfs_fh3 { data: vec![7; length].into() };
        for (procedure, args) in all_calls(&handle) {
            let answer = peer.nfs(procedure, &args);
            let garbage = matches!(answer.accepted(), accept_stat_data::GARBAGE_ARGS);
            assert!(garbage, "{procedure:?} of {length} bytes: {answer:?}");
        }
    }
    neighbour.is_served();
    server.assert_bounded(Load { connections: 3, calls: 2, tokens: 2 << 20 });
    drop(peer);
    server.stop(neighbour);
}

#[test]
fn handles_of_files_that_are_not_there_are_stale() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (mut peer, root) = server.mounted();
    let file = made_file(&mut peer, &root, b"file");
    let known = decoded(&file);
    let Handle { id: ObjectId { ino: Ino(ino), generation, .. }, .. } = known;
    let top = decoded(&root).id.generation;
    let other = decoded(&peer.mount(b"/other").expect("it is exported"));
    assert_ne!(other.fsid, known.fsid);
    let nowhere = Handle { fsid: dispatch::Fsid(known.fsid.0 ^ other.fsid.0 ^ 1), ..known };

    let elsewhere = forged(other, ino, generation);
    assert_all(&mut peer, &elsewhere, NFS3ERR_STALE);
    assert_either(&mut peer, &root, &elsewhere, NFS3ERR_XDEV);
    let mut stale = vec![nowhere.encode().to_vec()];
    // Inode numbers below the root, of free inodes, and beyond the disk; with every plausible
    // generation.
    for number in [0, 1, ino + 1, ino + 100, 1 << 20, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX] {
        for generation in [0, 1, top, generation, u32::MAX] {
            stale.push(forged(known, number, generation));
        }
    }
    // Existing files with generations that they never had.
    for wrong in [0, generation.wrapping_sub(1), generation.wrapping_add(1), !generation] {
        stale.push(forged(known, ino, wrong));
        stale.push(forged(known, 2, if wrong == top { !wrong } else { wrong }));
    }
    for handle in stale {
        assert_all(&mut peer, &handle, NFS3ERR_STALE);
        assert_either(&mut peer, &root, &handle, NFS3ERR_STALE);
    }
    assert_names(&mut peer, &root, &[b"file"]);
    neighbour.is_served();
    server.assert_bounded(Load { connections: 3, calls: 2, tokens: 2 << 20 });
    drop(peer);
    server.stop(neighbour);
}

#[test]
fn a_handle_of_an_earlier_life_is_stale() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (mut peer, root) = server.mounted();
    let mut lives: Vec<nfs_fh3> = Vec::new();
    while lives.len() < 5 {
        let file = made_file(&mut peer, &root, b"file");
        let number = decoded(&file).id.ino;
        if lives.last().is_none_or(|life| decoded(life).id.ino == number) {
            for life in &lives {
                assert_all(&mut peer, &life.data, NFS3ERR_STALE);
                assert_either(&mut peer, &root, &life.data, NFS3ERR_STALE);
            }
            lives.push(file);
        }
        let args = REMOVE3args { object: at(&root, b"file") };
        let removed = peer.nfs(NFS_PROGRAM::NFSPROC3_REMOVE, &args).status();
        assert_eq!(removed, nfsstat3::NFS3_OK);
    }
    neighbour.is_served();
    server.assert_bounded(Load { connections: 3, calls: 2, tokens: 2 << 20 });
    drop(peer);
    server.stop(neighbour);
}

/// Asserts that a directory holds exactly these names.
#[track_caller]
fn assert_names(peer: &mut Peer, directory: &nfs_fh3, expected: &[&[u8]]) {
    let names = listed(peer, directory);
    assert_eq!(names.iter().map(Vec::as_slice).collect::<Vec<_>>(), expected);
}
