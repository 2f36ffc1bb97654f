//! The checker on undamaged disks, and on disks with one defect each.

use std::collections::BTreeMap;
use std::rc::Rc;

use fsck::{CheckOptions, Findings, Invariant, Report, check};
use runtime::Random;
use ufs2::layout::{Dinode, Geometry, SUPERBLOCK_ADDRESS};
use ufs2::mkfs::MkfsOptions;
use vfs::{FileSystem, Stability};

use crate::common::edit::{change_inode, geometry_of, group_byte, inode_at};
use crate::common::volume::{Actor, fresh, reopen};
use crate::common::{MemoryDisk, Seeded, World, findings, freebsd_disk};

async fn look(world: &World, disk: &MemoryDisk) -> Report {
    let options = CheckOptions::default();
    let report = check(disk, &world.runtime(), &options, &mut |_| ()).await;
    report.unwrap_or_else(|error| panic!("{error}"))
}

fn lines(findings: &Findings) -> String {
    findings.list.iter().map(|finding| format!("{finding}\n")).collect()
}

#[test]
fn a_volume_that_was_used_and_stopped_is_well() {
    for (block_size, fragment_size) in [(32_768, 4096), (4096, 512), (16_384, 16_384)] {
        let world = World::new(1);
        let disk = world.run(async {
            let options = MkfsOptions { block_size, fragment_size, ..MkfsOptions::default() };
            let (disk, volume) = fresh(&world, 64 << 20, &options).await;
            let root = volume.files.root();
            let directory = volume.mkdir(root, "churned").await.expect("new");
            let chance = Seeded::new(3);
            let files = BTreeMap::new();
            let mut actor = Actor { volume: &volume, directory, chance, files, stable: false };
            for _ in 0..200 {
                actor.step(600_000).await;
            }
            volume.files.shutdown().await.expect("it stops");
            disk
        });
        let report = world.run(look(&world, &disk));
        assert_eq!(lines(&report.findings), "");
        assert!(report.files > 3 && report.directories == 2, "{report:?}");
    }
}

#[test]
fn disks_of_freebsd_are_well() {
    for endian in ["little", "big"] {
        let Some(image) = freebsd_disk(endian) else { return };
        let disk = MemoryDisk::new(image.len() as u64);
        disk.put(0, &image);
        let world = World::new(1);
        let report = world.run(look(&world, &disk));
        assert_eq!(lines(&report.findings), "", "{endian}");
    }
}

/// A small volume: files in the root and in a directory, a link, a symbolic link.
fn sample(world: &World) -> (Rc<MemoryDisk>, Geometry) {
    let options = MkfsOptions { block_size: 4096, fragment_size: 512, ..MkfsOptions::default() };
    let disk = world.run(async {
        let (disk, volume) = fresh(world, 8 << 20, &options).await;
        let root = volume.files.root();
        let directory = volume.mkdir(root, "d").await.expect("new");
        let below = volume.mkdir(directory, "below").await.expect("new");
        for (parent, name, size) in
            [(root, "a", 100), (root, "b", 70_000), (directory, "c", 5000), (below, "e", 1)]
        {
            let file = volume.create(parent, name).await.expect("new");
            let data = vec![name.as_bytes()[0]; size];
            volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
        }
        volume.files.shutdown().await.expect("it stops");
        disk
    });
    let geometry = geometry_of(&disk);
    (disk, geometry)
}

/// Repairs a disk and returns the report. Afterwards neither our checker nor another judge finds
/// anything.
fn repaired(world: &World, disk: &MemoryDisk, name: &str) -> Report {
    let options = CheckOptions { repair: true, ..CheckOptions::default() };
    let report = world.run(check(disk, &world.runtime(), &options, &mut |_| ()));
    let report = report.unwrap_or_else(|error| panic!("{name}: {error}"));
    let again = world.run(look(world, disk));
    let found = lines(&report.findings);
    assert_eq!(lines(&again.findings), "", "{name}: after the repair of\n{found}");
    if let Some(judged) = findings(disk, name) {
        assert_eq!(judged, "", "{name}: after the repair of\n{found}");
    }
    report
}

fn ino_of(world: &World, disk: &Rc<MemoryDisk>, path: &[&str]) -> u64 {
    world.run(async {
        let volume = reopen(world, disk).await;
        let mut id = volume.files.root();
        for name in path {
            id = volume.lookup(id, name).await.unwrap_or_else(|error| panic!("{path:?}: {error}"));
        }
        volume.files.shutdown().await.expect("it stops");
        id.ino.0
    })
}

fn content(world: &World, disk: &Rc<MemoryDisk>, path: &[&str]) -> Vec<u8> {
    world.run(async {
        let volume = reopen(world, disk).await;
        let mut id = volume.files.root();
        for name in path {
            id = volume.lookup(id, name).await.unwrap_or_else(|error| panic!("{path:?}: {error}"));
        }
        let bytes = volume.read(id).await.expect("it is a file");
        volume.files.shutdown().await.expect("it stops");
        bytes
    })
}

#[test]
fn a_lost_root_comes_back_with_everything_in_lost_and_found() {
    let world = World::new(1);
    let (disk, geometry) = sample(&world);
    let c = ino_of(&world, &disk, &["d", "c"]);
    let b = ino_of(&world, &disk, &["b"]);
    let d = ino_of(&world, &disk, &["d"]);
    change_inode(&disk, &geometry, 2, |dinode| *dinode = Dinode::zeroed());
    let report = repaired(&world, &disk, "root");
    assert_eq!(report.findings.count(Invariant::Root), 1);
    assert_eq!(report.reconnected, 3);
    assert_eq!(ino_of(&world, &disk, &["lost+found", &format!("#{d}"), "c"]), c);
    assert_eq!(content(&world, &disk, &["lost+found", &format!("#{b}")]), vec![b'b'; 70_000]);
}

#[test]
fn a_block_that_two_files_claim_stays_with_the_better_claim() {
    let world = World::new(1);
    let (disk, geometry) = sample(&world);
    let (a, b) = (ino_of(&world, &disk, &["a"]), ino_of(&world, &disk, &["b"]));
    let stolen = inode_at(&disk, &geometry, b).direct[3];
    change_inode(&disk, &geometry, a, |dinode| dinode.direct[0] = stolen);
    let report = repaired(&world, &disk, "twice");
    assert_eq!(report.findings.count(Invariant::Duplicate), 1, "{}", lines(&report.findings));
    assert_eq!(content(&world, &disk, &["b"]), vec![b'b'; 70_000]);
}

#[test]
fn a_directory_block_is_never_lost_to_a_file() {
    let world = World::new(1);
    let (disk, geometry) = sample(&world);
    let (a, d) = (ino_of(&world, &disk, &["a"]), ino_of(&world, &disk, &["d"]));
    let stolen = inode_at(&disk, &geometry, d).direct[0];
    change_inode(&disk, &geometry, a, |dinode| dinode.direct[0] = stolen);
    repaired(&world, &disk, "directory-block");
    assert_eq!(content(&world, &disk, &["d", "c"]), vec![b'c'; 5000]);
}

#[test]
fn a_circle_of_directories_is_taken_apart() {
    let world = World::new(1);
    let (disk, geometry) = sample(&world);
    let (d, below) = (ino_of(&world, &disk, &["d"]), ino_of(&world, &disk, &["d", "below"]));
    // The entry of "e" in "below" becomes one of "d", and "d" loses its name in the root.
    let block =
        |ino: u64| geometry.byte_address(inode_at(&disk, &geometry, ino).direct[0].get() as u64);
    let swap = |directory: u64, name: &[u8], ino: u64, kind: u8| {
        let byte = block(directory);
        let chunk = disk.bytes(byte, 512);
        let at = chunk.windows(name.len()).position(|bytes| bytes == name).expect("it is there");
        let mut header = chunk[at - 8..at].to_vec();
        header[..4].copy_from_slice(&(ino as u32).to_le_bytes());
        header[6] = kind;
        disk.put(byte + at as u64 - 8, &header);
    };
    swap(below, b"e\0", d, 4);
    swap(2, b"d\0", 0, 0);
    let report = repaired(&world, &disk, "circle");
    assert_eq!(report.findings.count(Invariant::Cycle), 1, "{}", lines(&report.findings));
    let lost = format!("#{}", d.min(below));
    let names = world.run(async {
        let volume = reopen(&world, &disk).await;
        let root = volume.files.root();
        let home = volume.lookup(root, "lost+found").await.expect("it was made");
        let names = volume.list(home).await.expect("a directory");
        volume.files.shutdown().await.expect("it stops");
        names
    });
    assert!(names.contains(&lost) || names.contains(&format!("#{}", d.max(below))), "{names:?}");
}

#[test]
fn an_indirect_block_gone_wild_harms_nobody_else() {
    let world = World::new(1);
    let (disk, geometry) = sample(&world);
    let b = ino_of(&world, &disk, &["b"]);
    let address = inode_at(&disk, &geometry, b).indirect[0].get() as u64;
    let chance = Seeded::new(5);
    let noise: Vec<u8> = (0..4096).map(|_| chance.next_u64() as u8).collect();
    disk.put(geometry.byte_address(address), &noise);
    let report = repaired(&world, &disk, "wild");
    assert_eq!(report.findings.count(Invariant::IndirectPointers), 1);
    assert_eq!(content(&world, &disk, &["b"]), vec![b'b'; 12 * 4096]);
    assert_eq!(content(&world, &disk, &["d", "c"]), vec![b'c'; 5000]);
}

#[test]
fn a_destroyed_superblock_is_found_again() {
    let world = World::new(1);
    let (disk, _) = sample(&world);
    disk.put(SUPERBLOCK_ADDRESS, &[0x5a; 8192]);
    let report = repaired(&world, &disk, "superblock");
    assert!(report.findings.count(Invariant::SuperblockFields) > 0);
    assert_eq!(content(&world, &disk, &["d", "c"]), vec![b'c'; 5000]);
}

#[test]
fn a_check_that_only_looks_writes_nothing() {
    let world = World::new(1);
    let (disk, geometry) = sample(&world);
    change_inode(&disk, &geometry, 2, |dinode| dinode.links.set(9));
    let before = disk.events().len();
    let report = world.run(look(&world, &disk));
    assert_eq!(report.findings.count(Invariant::LinkCount), 1);
    assert_eq!(disk.events().len(), before);
}

#[test]
fn noise_over_a_table_of_inodes_costs_those_inodes() {
    let world = World::new(1);
    let (disk, geometry) = sample(&world);
    let b = ino_of(&world, &disk, &["b"]);
    let chance = Seeded::new(6);
    // The inode block of the directory's group, not that of the root.
    let d = ino_of(&world, &disk, &["d"]);
    assert_ne!(geometry.group_of_inode(d), 0);
    let noise: Vec<u8> = (0..4096).map(|_| chance.next_u64() as u8).collect();
    disk.put(geometry.byte_address(geometry.inode_position(d).fragment), &noise);
    let report = repaired(&world, &disk, "noise");
    assert!(report.findings.count(Invariant::InodeWhole) > 0, "{}", lines(&report.findings));
    assert_eq!(ino_of(&world, &disk, &["b"]), b);
    assert_eq!(content(&world, &disk, &["b"]), vec![b'b'; 70_000]);
}

#[test]
fn a_destroyed_group_block_is_made_anew() {
    let world = World::new(1);
    let (disk, geometry) = sample(&world);
    for group in 0..geometry.group_count {
        disk.put(group_byte(&geometry, group), &vec![0xa5; geometry.group_block_size as usize]);
    }
    repaired(&world, &disk, "groups");
    for (path, byte, size) in
        [(&["a"][..], b'a', 100), (&["b"], b'b', 70_000), (&["d", "c"], b'c', 5000)]
    {
        assert_eq!(content(&world, &disk, path), vec![byte; size], "{path:?}");
    }
}

#[test]
fn a_root_full_of_noise_gives_nobody_rights() {
    let world = World::new(1);
    let (disk, geometry) = sample(&world);
    let kept = inode_at(&disk, &geometry, 2);
    change_inode(&disk, &geometry, 2, |dinode| {
        dinode.mode.set(0o047_777);
        (dinode.uid, dinode.gid) = (4711.into(), 4711.into());
        dinode.mtime_nanoseconds.set(-1);
        dinode.atime_nanoseconds.set(-1);
        dinode.spare = [9; 8];
    });
    repaired(&world, &disk, "root-noise");
    let mended = inode_at(&disk, &geometry, 2);
    assert_eq!((mended.uid.get(), mended.gid.get(), mended.permissions()), (0, 0, 0o755));
    assert_eq!(mended.direct, kept.direct);
    assert_eq!(content(&world, &disk, &["b"]), vec![b'b'; 70_000]);
}
