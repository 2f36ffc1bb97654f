//! The checker on disks that are odd as a whole: a journal below, an older file system in between,
//! a whole branch of the tree without its types.

use std::rc::Rc;

use fsck::{CheckError, CheckOptions, Invariant, Report, check};
use ufs2::layout::{SUPERBLOCK_ADDRESS, flags, kind_bits};
use ufs2::mkfs::MkfsOptions;
use vfs::{Device, FileKind, FileSystem, ObjectId, SetAttributes, Stability};

use crate::common::edit::{change_inode, change_superblock, geometry_of, group_byte, inode_at};
use crate::common::volume::{Volume, fresh, name, reopen};
use crate::common::{MemoryDisk, World, findings};

const SIZE: u64 = 8 << 20;
const BLOCK: u64 = 4096;
/// More than the number of rounds of a check.
const DEEP: usize = 30;

async fn made(world: &World) -> (Rc<MemoryDisk>, Volume) {
    let options = MkfsOptions { block_size: BLOCK, fragment_size: 512, ..MkfsOptions::default() };
    fresh(world, SIZE, &options).await
}

async fn fill(volume: &Volume, file: ObjectId, data: &[u8]) {
    let write = volume.write(file, 0, data.to_vec(), Stability::FileSync);
    write.await.expect("there is room");
}

fn examine(world: &World, disk: &MemoryDisk) -> Result<Report, CheckError> {
    let options = CheckOptions { repair: true, ..CheckOptions::default() };
    world.run(check(disk, &world.runtime(), &options, &mut |_| ()))
}

/// Repairs a disk; afterwards no checker finds anything.
fn repaired(world: &World, disk: &MemoryDisk, name: &str) -> (Report, String) {
    let report = examine(world, disk).unwrap_or_else(|error| panic!("{name}: {error}"));
    let lines = report.findings.list.iter().map(|finding| format!("{finding}\n")).collect();
    if let Some(judged) = findings(disk, name) {
        assert_eq!(judged, "", "{name}: after the repair of\n{lines}");
    }
    (report, lines)
}

fn journalled(world: &World, clean: u8) -> Rc<MemoryDisk> {
    let disk = world.run(async {
        let (disk, volume) = made(world).await;
        volume.create(volume.files.root(), "a").await.expect("new");
        volume.files.shutdown().await.expect("it stops");
        disk
    });
    let geometry = geometry_of(&disk);
    change_inode(&disk, &geometry, 3, |dinode| dinode.links.set(7));
    change_superblock(&disk, &geometry, SUPERBLOCK_ADDRESS, |superblock| {
        superblock.flags.set(superblock.flags.get() | flags::GJOURNAL);
        superblock.clean = clean as _;
    });
    disk
}

/// FreeBSD writes the journal over the disk when it attaches it.
#[test]
fn a_disk_with_an_open_journal_below_it_is_not_repaired() {
    let world = World::new(1);
    let disk = journalled(&world, 0).fork();
    match examine(&world, &disk) {
        Err(CheckError::NotRepairable(reason)) => assert!(reason.contains("gjournal"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert!(disk.events().is_empty());
    let look = world.run(check(&disk, &world.runtime(), &CheckOptions::default(), &mut |_| ()));
    assert_eq!(look.expect("it may be looked at").findings.count(Invariant::LinkCount), 1);
}

/// A disk whose journal was closed cleanly is repaired, and so is the state that a repair of ours
/// left of it.
#[test]
fn a_disk_with_a_closed_journal_below_it_is_repaired() {
    let world = World::new(1);
    let disk = journalled(&world, 1).fork();
    repaired(&world, &disk, "journal");
    let cut = journalled(&world, 0);
    change_superblock(&cut, &geometry_of(&cut), SUPERBLOCK_ADDRESS, |superblock| {
        superblock.flags.set(superblock.flags.get() | flags::NEEDS_FSCK);
        superblock.last_mount[..13].copy_from_slice(b"duramen:fsck:");
    });
    repaired(&world, &cut, "journal-cut");
}

/// They are found in one round, in which there are more of them than rounds.
#[test]
fn directories_side_by_side_may_all_have_lost_their_types() {
    let world = World::new(1);
    let (disk, inos) = world.run(async {
        let (disk, volume) = made(&world).await;
        let mut inos = Vec::new();
        for number in 0..DEEP {
            let at = volume.mkdir(volume.files.root(), &format!("d{number}")).await.expect("new");
            volume.create(at, "leaf").await.expect("new");
            inos.push(at.ino.0);
        }
        volume.files.shutdown().await.expect("it stops");
        (disk, inos)
    });
    let regular = u16::from(kind_bits(FileKind::Regular)) << 12;
    let geometry = geometry_of(&disk);
    for &ino in &inos {
        change_inode(&disk, &geometry, ino, |dinode| dinode.mode.set(regular | 0o755));
    }
    let (report, lines) = repaired(&world, &disk, "wide");
    assert_eq!(report.findings.count(Invariant::InodeType), DEEP as u64, "{lines}");
    assert_eq!(report.directories, 1 + DEEP as u64, "{lines}");
    assert_eq!(report.reconnected, 0, "{lines}");
}

/// Each is found only when the one above it is a directory again.
#[test]
fn directories_within_each_other_may_all_have_lost_their_types() {
    let world = World::new(1);
    let (disk, inos) = world.run(async {
        let (disk, volume) = made(&world).await;
        let (mut at, mut inos) = (volume.files.root(), Vec::new());
        for _ in 0..DEEP {
            at = volume.mkdir(at, "d").await.expect("new");
            inos.push(at.ino.0);
        }
        let leaf = volume.create(at, "leaf").await.expect("new");
        fill(&volume, leaf, b"content").await;
        volume.files.shutdown().await.expect("it stops");
        (disk, inos)
    });
    let geometry = geometry_of(&disk);
    for ino in inos {
        let regular = u16::from(kind_bits(FileKind::Regular)) << 12;
        change_inode(&disk, &geometry, ino, |dinode| dinode.mode.set(regular | 0o755));
    }
    let (report, lines) = repaired(&world, &disk, "deep");
    assert_eq!(report.findings.count(Invariant::InodeType), DEEP as u64, "{lines}");
    assert_eq!(report.reconnected, 0, "{lines}");
    let content = world.run(async {
        let volume = reopen(&world, &disk).await;
        let mut at = volume.files.root();
        for _ in 0..DEEP {
            at = volume.lookup(at, "d").await.expect("it is there again");
        }
        let leaf = volume.lookup(at, "leaf").await.expect("it is there");
        let content = volume.read(leaf).await.expect("a file");
        volume.files.shutdown().await.expect("it stops");
        content
    });
    assert_eq!(content, b"content");
}

/// If a group's header is lost, its inode table is read, and may contain old inodes. A known file
/// loses no block to those, even if it is damaged itself.
#[test]
fn an_inode_of_long_ago_takes_no_block_of_a_file() {
    let world = World::new(1);
    let data: Vec<u8> = (0..10 * BLOCK).map(|at| (at / 7) as u8).collect();
    let (disk, a, stale) = world.run(async {
        let (disk, volume) = made(&world).await;
        let root = volume.files.root();
        let a = volume.create(root, "a").await.expect("new");
        let directory = volume.mkdir(root, "elsewhere").await.expect("new");
        let old = volume.create(directory, "old").await.expect("new");
        fill(&volume, old, &data).await;
        volume.files.shutdown().await.expect("it stops");
        (disk, a.ino.0, old.ino.0)
    });
    let geometry = geometry_of(&disk);
    let group = geometry.group_of_inode(stale);
    assert_ne!(group, geometry.group_of_inode(a), "a directory is put into another group");
    let old = inode_at(&disk, &geometry, stale);
    world.run(async {
        let volume = reopen(&world, &disk).await;
        let directory = volume.lookup(volume.files.root(), "elsewhere").await.expect("there");
        volume.remove(directory, "old").await.expect("it goes");
        volume.files.shutdown().await.expect("it stops");
    });
    change_inode(&disk, &geometry, a, |dinode| {
        (dinode.size, dinode.direct) = (old.size, old.direct); // and the sectors are wrong
    });
    change_inode(&disk, &geometry, stale, |dinode| *dinode = old);
    disk.put(group_byte(&geometry, group), &[0; 512]);
    let (report, lines) = repaired(&world, &disk, "stale");
    assert_eq!(report.findings.count(Invariant::Duplicate), 10, "{lines}");
    let content = world.run(async {
        let volume = reopen(&world, &disk).await;
        let a = volume.lookup(volume.files.root(), "a").await.expect("it has its name");
        let content = volume.read(a).await.expect("a file");
        volume.files.shutdown().await.expect("it stops");
        content
    });
    assert!(content == data, "{lines}");
}

/// -1 means no device to other systems.
#[test]
fn a_device_has_a_number() {
    let world = World::new(1);
    let (disk, ino) = world.run(async {
        let (disk, volume) = made(&world).await;
        let (root, number) = (volume.files.root(), Device { major: 3, minor: 4 });
        let kind = FileKind::CharacterDevice;
        let attributes = SetAttributes::default();
        let tty = name("tty");
        let made = volume.files.mknod(&volume.root, root, &tty, kind, number, attributes);
        made.await.open().await.expect("running").into_inner().result.expect("new");
        let ino = volume.lookup(root, "tty").await.expect("it is there").ino.0;
        volume.files.shutdown().await.expect("it stops");
        (disk, ino)
    });
    change_inode(&disk, &geometry_of(&disk), ino, |dinode| dinode.direct[0].set(-1));
    let (report, lines) = repaired(&world, &disk, "device");
    assert_eq!(report.findings.count(Invariant::Device), 1, "{lines}");
}

/// A target's block is zero behind the target: nonzero bytes there belong to the target.
#[test]
fn a_target_that_goes_on_behind_its_size_comes_back() {
    let world = World::new(1);
    let target = "target-".repeat(40);
    let (disk, ino) = world.run(async {
        let (disk, volume) = made(&world).await;
        let (root, attributes) = (volume.files.root(), SetAttributes::default());
        let text = target.as_bytes();
        let link = name("link");
        let made = volume.files.symlink(&volume.root, root, &link, text, attributes);
        made.await.open().await.expect("running").into_inner().result.expect("new");
        let ino = volume.lookup(root, "link").await.expect("it is there").ino.0;
        volume.files.shutdown().await.expect("it stops");
        (disk, ino)
    });
    let geometry = geometry_of(&disk);
    change_inode(&disk, &geometry, ino, |dinode| dinode.size.set(200));
    let (report, lines) = repaired(&world, &disk, "target");
    assert_eq!(report.findings.count(Invariant::SymlinkTarget), 1, "{lines}");
    let size = inode_at(&disk, &geometry, ino).size.get();
    assert_eq!(size, target.len() as u64, "{lines}");
}

/// The first chunk of a directory lies over one in the middle of another, and the directory that it
/// names has lost the record of its place. Returns whether it is still in its place after a repair.
pub(crate) fn is_where_it_was() -> bool {
    let world = World::new(1);
    let (disk, [wide, above, below]) = world.run(async {
        let (disk, volume) = made(&world).await;
        let root = volume.files.root();
        let wide = volume.mkdir(root, "wide").await.expect("new");
        for number in 0..200 {
            volume.create(wide, &format!("file-{number:04}")).await.expect("new");
        }
        // Its name in the other one would be nearer to the root.
        let far = volume.mkdir(root, "far").await.expect("new");
        let above = volume.mkdir(far, "above").await.expect("new");
        let below = volume.mkdir(above, "below").await.expect("new");
        volume.create(below, "leaf").await.expect("new");
        volume.files.shutdown().await.expect("it stops");
        (disk, [wide, above, below].map(|directory| directory.ino.0))
    });
    let geometry = geometry_of(&disk);
    let first = |ino| geometry.byte_address(inode_at(&disk, &geometry, ino).direct[0].get() as u64);
    disk.put(first(wide) + 1024, &disk.bytes(first(above), 512));
    disk.put(first(below), &[0xff; 512]);
    repaired(&world, &disk, "stray");
    world.run(async {
        let volume = reopen(&world, &disk).await;
        let far = volume.lookup(volume.files.root(), "far").await.expect("it is there");
        let above = volume.lookup(far, "above").await.expect("it is there");
        let found = volume.lookup(above, "below").await;
        volume.files.shutdown().await.expect("it stops");
        found.is_ok_and(|found| found.ino.0 == below)
    })
}

#[test]
fn a_directory_stays_where_it_is_when_a_stray_chunk_names_it_too() {
    assert!(is_where_it_was());
}
