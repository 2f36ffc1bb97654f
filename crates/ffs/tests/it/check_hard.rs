//! The checker where a repair could do harm: damage of one file that affects another, interrupted
//! repairs, names and sizes that can be saved.

use std::rc::Rc;

use ffs::OpenError;
use fsck::{CheckOptions, FINDINGS_KEPT, Invariant, Report, check};
use ufs2::layout::Geometry;
use ufs2::mkfs::MkfsOptions;
use vfs::{FileSystem, Stability};

use crate::common::edit::{change_inode, geometry_of, inode_at};
use crate::common::volume::{Volume, fresh, reopen, try_open};
use crate::common::{Event, MemoryDisk, World, findings};

const SIZE: u64 = 8 << 20;
const BLOCK: u64 = 4096;

fn options() -> MkfsOptions {
    MkfsOptions { block_size: BLOCK, fragment_size: 512, ..MkfsOptions::default() }
}

/// Offsets in a file, with the content there.
type Pieces<'a> = &'a [(u64, Vec<u8>)];

/// A volume with these files in its root.
fn volume_with(world: &World, files: &[(&str, Pieces<'_>)]) -> (Rc<MemoryDisk>, Geometry) {
    let disk = world.run(async {
        let (disk, volume) = fresh(world, SIZE, &options()).await;
        let root = volume.files.root();
        for (name, pieces) in files {
            let file = volume.create(root, name).await.expect("new");
            for (offset, data) in *pieces {
                let write = volume.write(file, *offset, data.clone(), Stability::FileSync);
                write.await.expect("there is room");
            }
        }
        volume.files.shutdown().await.expect("it stops");
        disk
    });
    let geometry = geometry_of(&disk);
    (disk, geometry)
}

/// Byte offset on the disk of an entry of the root.
fn entry_byte(disk: &MemoryDisk, geometry: &Geometry, name: &str) -> u64 {
    let start = geometry.byte_address(inode_at(disk, geometry, 2).direct[0].get() as u64);
    let chunk = disk.bytes(start, 512);
    let name = [name.as_bytes(), b"\0"].concat();
    let at = chunk.windows(name.len()).position(|bytes| bytes == name).expect("it is there");
    start + at as u64 - 8
}

/// The result of `look` on the volume, which is stopped afterwards.
fn with_volume<T>(world: &World, disk: &Rc<MemoryDisk>, look: impl AsyncFnOnce(&Volume) -> T) -> T {
    world.run(async {
        let volume = reopen(world, disk).await;
        let seen = look(&volume).await;
        volume.files.shutdown().await.expect("it stops");
        seen
    })
}

fn ino_of(world: &World, disk: &Rc<MemoryDisk>, path: &[&str]) -> u64 {
    with_volume(world, disk, async |volume| {
        let mut id = volume.files.root();
        for name in path {
            id = volume.lookup(id, name).await.unwrap_or_else(|error| panic!("{path:?}: {error}"));
        }
        id.ino.0
    })
}

fn content(world: &World, disk: &Rc<MemoryDisk>, name: &str) -> Vec<u8> {
    with_volume(world, disk, async |volume| {
        let file = volume.lookup(volume.files.root(), name).await.expect("it has its name");
        volume.read(file).await.expect("it is a file")
    })
}

fn text(report: &Report) -> String {
    report.findings.list.iter().map(|finding| format!("{finding}\n")).collect()
}

/// Repairs a disk. Afterwards neither our checker nor another judge finds anything.
fn repaired(world: &World, disk: &MemoryDisk, name: &str) -> Report {
    let options = CheckOptions { repair: true, ..CheckOptions::default() };
    let report = world.run(check(disk, &world.runtime(), &options, &mut |_| ()));
    let report = report.unwrap_or_else(|error| panic!("{name}: {error}"));
    if let Some(judged) = findings(disk, name) {
        assert_eq!(judged, "", "{name}: after the repair of\n{}", text(&report));
    }
    report
}

#[test]
fn a_stray_indirect_pointer_changes_no_data_of_another_file() {
    let world = World::new(1);
    let mut words = vec![0; BLOCK as usize];
    words[..8].copy_from_slice(&0xdead_beef_dead_beef_u64.to_le_bytes());
    words[8 * 100..8 * 101].copy_from_slice(&7_u64.to_le_bytes());
    let files: [(&str, &[_]); 2] =
        [("stray", &[(0, vec![b's'; 70_000])]), ("well", &[(0, words.clone())])];
    let (disk, geometry) = volume_with(&world, &files);
    let (stray, well) = (ino_of(&world, &disk, &["stray"]), ino_of(&world, &disk, &["well"]));
    let victim = inode_at(&disk, &geometry, well).direct[0];
    change_inode(&disk, &geometry, stray, |dinode| dinode.indirect[0] = victim);
    let report = repaired(&world, &disk, "stray");
    assert!(content(&world, &disk, "well") == words, "{}", text(&report));
}

/// The disk with every subset of the sectors of its first stage of writes.
fn cut_in_first_stage(before: &[u8], events: &[Event]) -> Vec<Rc<MemoryDisk>> {
    let mut sectors = Vec::new();
    for event in events.iter().take_while(|event| !matches!(event, Event::Flush)) {
        let Event::Write(offset, bytes) = event else { continue };
        let each = bytes.chunks_exact(512).enumerate();
        sectors.extend(each.map(|(index, bytes)| (offset + 512 * index as u64, bytes)));
    }
    let cut = |set: u32| {
        let disk = MemoryDisk::new(before.len() as u64);
        disk.put(0, before);
        let written = sectors.iter().enumerate().filter(|(index, _)| set >> index & 1 == 1);
        written.for_each(|(_, (at, bytes))| disk.put(*at, bytes));
        Rc::new(disk)
    };
    (0..1 << sectors.len()).map(cut).collect()
}

#[test]
fn a_cut_in_the_mark_of_a_repair_frees_no_file_that_lost_its_name() {
    let world = World::new(1);
    let (disk, geometry) = volume_with(&world, &[("a", &[(0, vec![b'a'; 5000])])]);
    let ino = ino_of(&world, &disk, &["a"]);
    disk.put(entry_byte(&disk, &geometry, "a"), &[0; 4]);
    let before = disk.bytes(0, SIZE as usize);
    let history = disk.events().len();
    repaired(&world, &disk, "nameless");
    let disks = cut_in_first_stage(&before, &disk.events()[history..]);
    assert!(disks.len() > 1, "the first stage writes something");
    for (set, disk) in disks.iter().enumerate() {
        let report = repaired(&world, disk, "torn");
        assert_eq!((report.freed, report.reconnected), (0, 1), "{set:#b}: {}", text(&report));
        assert_eq!(ino_of(&world, disk, &["lost+found", &format!("#{ino}")]), ino);
    }
}

#[test]
fn a_name_of_nothing_takes_no_name_from_a_file() {
    let world = World::new(1);
    let files: [(&str, &[_]); 2] = [("n1", &[(0, vec![1; 10])]), ("n2", &[(0, vec![2; 20])])];
    let (disk, geometry) = volume_with(&world, &files);
    let kept = ino_of(&world, &disk, &["n2"]);
    let (first, second) = (entry_byte(&disk, &geometry, "n1"), entry_byte(&disk, &geometry, "n2"));
    disk.put(second + 8, b"n1");
    disk.put(first, &(kept as u32 + 1).to_le_bytes()); // a free inode
    let report = repaired(&world, &disk, "nothing");
    assert_eq!(report.findings.count(Invariant::EntryTarget), 1, "{}", text(&report));
    assert_eq!(report.findings.count(Invariant::DuplicateName), 0, "{}", text(&report));
    assert_eq!(ino_of(&world, &disk, &["n1"]), kept);
}

#[test]
fn a_size_beyond_all_pointers_costs_nothing_that_trees_hold() {
    let world = World::new(1);
    let (disk, geometry) = volume_with(&world, &[("b", &[(0, vec![b'b'; 70_000])])]);
    let ino = ino_of(&world, &disk, &["b"]);
    change_inode(&disk, &geometry, ino, |dinode| dinode.size.set(70_000 | 1 << 60));
    let report = repaired(&world, &disk, "size");
    assert!(report.findings.count(Invariant::InodeSize) > 0, "{}", text(&report));
    let content = content(&world, &disk, "b");
    assert!(content == vec![b'b'; 70_000], "{} bytes: {}", content.len(), text(&report));
}

#[test]
fn a_directory_of_impossible_size_keeps_its_blocks() {
    let world = World::new(1);
    let names: Vec<String> = (0..300).map(|index| format!("{index:0200}")).collect();
    let files: Vec<(&str, Pieces<'_>)> =
        names.iter().map(|name| (name.as_str(), &[][..])).collect();
    let (disk, geometry) = volume_with(&world, &files);
    assert!(inode_at(&disk, &geometry, 2).indirect[0].get() != 0, "it has a tree");
    change_inode(&disk, &geometry, 2, |dinode| dinode.size.set(dinode.size.get() | 1 << 40));
    let report = repaired(&world, &disk, "long");
    assert_eq!(report.reconnected, 0, "{}", text(&report));
    ino_of(&world, &disk, &[&names[299]]);
}

#[test]
fn a_file_that_begins_with_a_hole_is_not_taken_for_a_socket() {
    let world = World::new(1);
    let (disk, geometry) = volume_with(&world, &[("s", &[(2 * BLOCK, vec![b's'; 5000])])]);
    let ino = ino_of(&world, &disk, &["s"]);
    change_inode(&disk, &geometry, ino, |dinode| dinode.mode.set(0o140_644)); // one bit
    let report = repaired(&world, &disk, "socket");
    assert_eq!(report.findings.count(Invariant::InodeType), 1, "{}", text(&report));
    assert_eq!(content(&world, &disk, "s")[2 * BLOCK as usize..], vec![b's'; 5000]);
}

#[test]
fn damage_behind_many_findings_is_not_taken_for_a_cut() {
    const FILES: u64 = 200;
    let world = World::new(1);
    let disk = world.run(async {
        let (disk, volume) = fresh(&world, 4 * SIZE, &options()).await;
        let root = volume.files.root();
        for index in 0..FILES {
            let file = volume.create(root, &format!("f{index}")).await.expect("new");
            let data = vec![b'f'; BLOCK as usize];
            let write = volume.write(file, 12 * BLOCK, data, Stability::FileSync);
            write.await.expect("there is room");
        }
        volume.settle().await;
        disk // as a cut leaves it
    });
    let geometry = geometry_of(&disk);
    let root = inode_at(&disk, &geometry, 2);
    let start = geometry.byte_address(root.direct[0].get() as u64);
    let mut files = 0;
    for ino in 3..geometry.inode_count() {
        let dinode = inode_at(&disk, &geometry, ino);
        if dinode.size.get() != 13 * BLOCK || dinode.is_free() {
            continue;
        }
        // Every slot behind the end of the file holds a pointer.
        let tree = geometry.byte_address(dinode.indirect[0].get() as u64);
        let pointer = disk.bytes(tree, 8);
        disk.put(tree, &pointer.repeat(BLOCK as usize / 8));
        files += 1;
    }
    assert_eq!(files, FILES);
    assert!(FILES * (BLOCK / 8 - 1) > FINDINGS_KEPT as u64);
    // And the type of the first entry behind the dots is wrong, which no cut causes.
    disk.put(start + 24 + 6, &[1]);
    let before = disk.bytes(0, 4 * SIZE as usize);
    let opened = world.run(try_open(world.runtime(), disk.clone()));
    assert!(matches!(opened.map(|_| ()), Err(OpenError::Damaged(_))), "it was opened");
    assert!(disk.bytes(0, 4 * SIZE as usize) == before, "something was written");
}

#[test]
fn names_in_lost_and_found_that_are_taken_keep_nobody_out() {
    let world = World::new(1);
    let files: [(&str, Pieces<'_>); 2] = [("n1", &[]), ("n2", &[])];
    let (disk, geometry) = volume_with(&world, &files);
    let inos = ["n1", "n2"].map(|name| ino_of(&world, &disk, &[name]));
    with_volume(&world, &disk, async |volume| {
        let home = volume.mkdir(volume.files.root(), "lost+found").await.expect("new");
        for ino in inos {
            let first = format!("#{ino}");
            for length in first.len()..=255 {
                volume.create(home, &format!("{first:_<length$}")).await.expect("new");
            }
        }
    });
    for name in ["n1", "n2"] {
        disk.put(entry_byte(&disk, &geometry, name), &[0; 4]);
    }
    let report = repaired(&world, &disk, "taken");
    assert_eq!(report.reconnected, 2, "{}", text(&report));
    for ino in inos {
        assert_eq!(ino_of(&world, &disk, &["lost+found", &format!("#{ino}.1")]), ino);
    }
}

/// Two files with equal claims on everything: no evidence says which is right. Both keep their
/// readable content.
#[test]
fn equal_claims_on_a_tree_leave_both_files_their_content() {
    let world = World::new(1);
    let data: Vec<u8> = (0..60 * BLOCK).map(|at| (at / 7) as u8).collect();
    let pieces = [(0, data.clone())];
    let (disk, geometry) = volume_with(&world, &[("a", &pieces), ("b", &[])]);
    let (a, b) = (ino_of(&world, &disk, &["a"]), ino_of(&world, &disk, &["b"]));
    let whole = inode_at(&disk, &geometry, a);
    change_inode(&disk, &geometry, b, |dinode| {
        dinode.size = whole.size;
        dinode.sectors = whole.sectors;
        dinode.direct = whole.direct;
        dinode.indirect = whole.indirect;
    });
    let report = repaired(&world, &disk, "two-trees");
    assert_eq!(report.findings.count(Invariant::Duplicate), 61, "{}", text(&report));
    assert!(text(&report).contains("with the pointers to blocks 12 to 59"), "{}", text(&report));
    assert!(content(&world, &disk, "a") == data && content(&world, &disk, "b") == data);
}

/// A claim on an indirect block as data that weighs as much as that of the tree is settled, too.
#[test]
fn a_block_of_pointers_that_a_file_claims_as_data_stays_with_the_tree() {
    let world = World::new(1);
    let data: Vec<u8> = (0..60 * BLOCK).map(|at| (at / 7) as u8).collect();
    let pieces = [(0, data.clone())];
    let (disk, geometry) = volume_with(&world, &[("a", &[(0, vec![1; 100])]), ("b", &pieces)]);
    let (a, b) = (ino_of(&world, &disk, &["a"]), ino_of(&world, &disk, &["b"]));
    let root = inode_at(&disk, &geometry, b).indirect[0];
    // One invalid pointer takes away the weight that the block gives to the tree's claim.
    let byte = geometry.byte_address(root.get() as u64);
    disk.put(byte + BLOCK - 8, &u64::MAX.to_le_bytes());
    change_inode(&disk, &geometry, a, |dinode| {
        dinode.size.set(BLOCK);
        dinode.direct[0] = root; // and its sectors are wrong now
    });
    let report = repaired(&world, &disk, "tree-and-data");
    assert!(report.findings.count(Invariant::Duplicate) > 0, "{}", text(&report));
    assert!(content(&world, &disk, "b") == data, "{}", text(&report));
}

/// The target of a link is checked before the claims on its block are settled, and a link without a
/// target gives up its block. Then the block is not contested, but the directory was not read to
/// its end.
#[test]
fn a_claim_that_is_given_up_hides_no_names_of_a_directory() {
    let world = World::new(1);
    let (disk, geometry) = volume_with(&world, &[]);
    let name = |number: usize| format!("{number:0>250}"); // more than the direct blocks hold
    let (link, directory) = with_volume(&world, &disk, async |volume| {
        let root = volume.files.root();
        let link = volume.symlink(root, "link", &[b't'; 300]).await.expect("new");
        let directory = volume.mkdir(root, "directory").await.expect("new");
        for number in 0..200 {
            volume.mkdir(directory, &name(number)).await.expect("new");
        }
        (link.ino.0, directory.ino.0)
    });
    let pointers = inode_at(&disk, &geometry, directory).indirect[0].get();
    assert_ne!(pointers, 0, "it has an indirect block");
    let zeros = pointers + geometry.fragments_per_block as i64 - 1;
    change_inode(&disk, &geometry, link, |dinode| dinode.direct[0].set(zeros));
    let report = repaired(&world, &disk, "given-up");
    assert_eq!(report.reconnected, 0, "{}", text(&report));
    assert_eq!(report.directories, 202, "{}", text(&report));
    let last = ["directory", &name(199)];
    assert!(ino_of(&world, &disk, &last) > 0);
}
