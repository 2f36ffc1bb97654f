//! Calls that a client repeats after its server was killed: under every policy and engine, on a
//! plain disk and on a set, they get the same replies as before.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nfs3_types::nfs3::{
    CREATE3args, MKDIR3args, NFS_PROGRAM, REMOVE3args, RENAME3args, createhow3, diropargs3,
    filename3, nfs_fh3, nfsstat3, sattr3,
};
use nfs3_types::xdr_codec::Opaque;

use crate::common::serving::Serving;
use crate::common::{Folder, on};
use crate::hostile::wire::{Peer, nfs};

fn named<'a>(dir: &nfs_fh3, name: &'a str) -> diropargs3<'a> {
    diropargs3 { dir: dir.clone(), name: filename3(Opaque::borrowed(name.as_bytes())) }
}

/// Creates files, renames one and removes one. Returns the records of the calls.
fn calls(peer: &mut Peer) -> Vec<Vec<u8>> {
    let root = peer.mount(b"/data").expect("it is exported");
    let create = |name| CREATE3args {
        where_: named(&root, name),
        how: createhow3::GUARDED(sattr3::default()),
    };
    let folder = MKDIR3args { where_: named(&root, "folder"), attributes: sattr3::default() };
    let rename = RENAME3args { from: named(&root, "old"), to: named(&root, "new") };
    let remove = REMOVE3args { object: named(&root, "gone") };
    let calls = [
        peer.record(nfs(NFS_PROGRAM::NFSPROC3_CREATE), &create("old")),
        peer.record(nfs(NFS_PROGRAM::NFSPROC3_CREATE), &create("gone")),
        peer.record(nfs(NFS_PROGRAM::NFSPROC3_MKDIR), &folder),
        peer.record(nfs(NFS_PROGRAM::NFSPROC3_RENAME), &rename),
        peer.record(nfs(NFS_PROGRAM::NFSPROC3_REMOVE), &remove),
    ];
    calls.map(|(_, record)| record).into()
}

/// Sends calls, one after the other, and returns the status of each.
fn answers(peer: &mut Peer, calls: &[Vec<u8>]) -> Vec<nfsstat3> {
    let answer = |record: &Vec<u8>| {
        peer.send(record);
        peer.answer().expect("an answer").status()
    };
    calls.iter().map(answer).collect()
}

/// Asserts that all calls get the same replies again, after each of two kills, and that the volume
/// has the result of one execution. With `is_repaired`, it is repaired after the first kill.
fn assert_repeated(volume: &Path, what: &str, is_repaired: bool) {
    let connect = |serving: &Serving| -> Peer {
        let address: SocketAddr = serving.address();
        Peer::connect(address)
    };
    let serving = Serving::start(&[volume], &[]);
    let mut peer = connect(&serving);
    let calls = calls(&mut peer);
    assert_eq!(answers(&mut peer, &calls), [nfsstat3::NFS3_OK; 5], "{what}");
    serving.kill();
    if is_repaired {
        let repaired = on("fsck", volume, &["--repair"]);
        assert!(repaired.code <= 1, "{what}: {repaired:?}");
        let looked = on("fsck", volume, &[]);
        assert_eq!(looked.code, 0, "{what}: {looked:?}");
    }
    for turn in 0..2 {
        let serving = Serving::start(&[volume], &[]);
        let again = answers(&mut connect(&serving), &calls);
        assert_eq!(again, [nfsstat3::NFS3_OK; 5], "{what}: after kill {turn}");
        serving.kill();
    }
    assert!(Serving::start(&[volume], &[]).stop().success(), "{what}");
    let listed = on("ls", volume, &["/"]).good();
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["folder", "new"], "{what}");
    // A stop does not wait for the reclaim of soft updates.
    let checked = on("fsck", volume, &["--repair"]);
    assert!(checked.code <= 1, "{what}: {checked:?}");
    let told = on("info", volume, &[]).good();
    assert!(!told.contains("none that survive a crash"), "{what}: {told}");
}

const DESIGNS: [[&str; 2]; 4] =
    [["--policy", "log"], ["--policy", "sync"], ["--policy", "softdep"], ["--engine", "shadow"]];

fn assert_repeated_on_a_disk(is_repaired: bool) {
    for design in DESIGNS {
        let folder = Folder::new();
        let volume = folder.path("data");
        on("mkfs", &volume, &[&["--size", "32M"], &design[..]].concat()).good();
        assert_repeated(&volume, design[1], is_repaired);
    }
}

#[test]
fn repeated_calls_get_their_replies_after_a_kill() {
    assert_repeated_on_a_disk(false);
}

#[test]
fn repeated_calls_get_their_replies_after_a_kill_and_a_repair() {
    assert_repeated_on_a_disk(true);
}

#[test]
fn repeated_calls_get_their_replies_after_a_kill_on_a_mirror() {
    assert_repeated_on_a_mirror(false);
}

#[test]
fn repeated_calls_get_their_replies_after_a_kill_and_a_repair_on_a_mirror() {
    assert_repeated_on_a_mirror(true);
}

fn assert_repeated_on_a_mirror(is_repaired: bool) {
    for design in DESIGNS {
        let folder = Folder::new();
        let disks = ["one", "two"].map(|name| folder.path(name));
        for disk in &disks {
            let file = File::create(disk).expect("a new file");
            file.set_len(32 << 20).expect("it is sparse");
        }
        let volume = folder.path("data");
        let [one, two] = disks.each_ref().map(|disk| disk.to_str().expect("a plain name"));
        on("mkfs", &volume, &[&["--raid1", one, two, "--sparse"], &design[..]].concat()).good();
        assert_repeated(&volume, &format!("{} on a mirror", design[1]), is_repaired);
    }
}

/// Bytes at which a log, or a ring of intents, has its two slots.
const SLOTS: [u64; 2] = [0, 32 << 10];

#[test]
fn a_damaged_slot_of_a_log_at_rest_costs_nothing() {
    for [design, log] in [["log", "log.img"], ["sync", "intents.img"], ["softdep", "intents.img"]] {
        let folder = Folder::new();
        let volume = folder.path("data");
        on("mkfs", &volume, &["--size", "32M", "--policy", design]).good();
        let serving = Serving::start(&[&*volume], &[]);
        let mut peer = Peer::connect(serving.address());
        let calls = calls(&mut peer);
        assert_eq!(answers(&mut peer, &calls), [nfsstat3::NFS3_OK; 5], "{design}");
        drop(peer);
        assert!(serving.stop().success(), "{design}");
        for slot in SLOTS {
            let file = File::options().write(true).open(volume.join(log)).expect("it is there");
            file.write_all_at(&[0x5a; 512], slot).expect("inside of the file");
            assert_eq!(on("fsck", &volume, &[]).code, 0, "{design}, slot at {slot}");
            let serving = Serving::start(&[&*volume], &[]);
            let again = answers(&mut Peer::connect(serving.address()), &calls);
            assert_eq!(again, [nfsstat3::NFS3_OK; 5], "{design}, slot at {slot}");
            assert!(serving.stop().success(), "{design}");
        }
    }
}
