//! Writes that overwrite most of each other: only a small part of each call's data remains, and
//! only that part may occupy memory.
//!
//! `DURAMEN_RUNS` is the number of repetitions.

use std::ops::Range;

use nfs3_types::nfs3::*;

use crate::hostile::fixture::{Load, Server, at, write_args};
use crate::hostile::onlooker::Onlooker;
use crate::hostile::wire::Peer;

const BLOCK: u64 = 32 << 10;
const MIB: u64 = 1 << 20;
/// A few peers, each with one call at a time; and memory of buffers that the process keeps for
/// reuse.
const LOAD: Load = Load { connections: 4, calls: 4, tokens: 24 * MIB };

fn rounds() -> Range<u32> {
    0..std::env::var("DURAMEN_RUNS").map_or(1, |text| text.parse().expect("a number"))
}

/// Opens or creates a file of this name.
fn file(peer: &mut Peer, root: &nfs_fh3, name: &str) -> nfs_fh3 {
    let how = createhow3::UNCHECKED(sattr3::default());
    let args = CREATE3args { where_: at(root, name.as_bytes()), how };
    let made: CREATE3res = peer.nfs(NFS_PROGRAM::NFSPROC3_CREATE, &args).results();
    made.unwrap().obj.unwrap()
}

fn write(peer: &mut Peer, file: &nfs_fh3, offset: u64, length: u64, stable: stable_how) {
    let data = vec![offset as u8; length as usize];
    let args = WRITE3args { stable, ..write_args(file, offset, &data) };
    let answer = peer.nfs(NFS_PROGRAM::NFSPROC3_WRITE, &args);
    assert_eq!(answer.status(), nfsstat3::NFS3_OK);
}

/// Each WRITE of a staircase but the last keeps one block, or in the later files a piece that is no
/// whole block.
#[test]
fn stairs_of_unstable_writes_take_the_memory_that_is_left_of_them() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let onlooker = Onlooker::at(&server);
    let (mut peer, root) = server.mounted();
    let steps = [BLOCK, BLOCK - 4096, 3 * BLOCK + 512];
    for (number, step) in rounds().flat_map(|_| steps.into_iter().enumerate()) {
        let file = file(&mut peer, &root, &format!("file-{number}"));
        for stair in 0..12 {
            let (mut at, end) = (stair * MIB, (stair + 1) * MIB - BLOCK);
            while at < end {
                write(&mut peer, &file, at, end - at, stable_how::UNSTABLE);
                at += step;
            }
        }
        neighbour.is_served_with_much();
    }
    onlooker.tell();
    server.assert_bounded(LOAD);
    drop(peer);
    server.stop(neighbour);
}

#[test]
fn stable_writes_that_overlap_take_the_memory_that_is_left_of_them() {
    let server = Server::start();
    let mut neighbour = server.neighbour();
    let (mut peer, root) = server.mounted();
    let file = file(&mut peer, &root, "file");
    for step in rounds().flat_map(|_| 0..256) {
        write(&mut peer, &file, step * BLOCK, MIB, stable_how::FILE_SYNC);
    }
    neighbour.is_served_with_much();
    server.assert_bounded(LOAD);
    drop(peer);
    server.stop(neighbour);
}
