//! Things that a repair keeps: damage that has one explanation costs only what it hit.
//!
//! Each test damages a disk whose files are all known, and has it repaired. Then every file is as
//! it was, except those that the test names, and the independent checker finds nothing.

use std::collections::BTreeSet;

use fsck::{Invariant, Report, Severity};
use ufs2::layout::{GroupHeader, INODE_SIZE, SUPERBLOCK_ADDRESS, Superblock, hashes, mode_of};
use ufs2::mkfs::MkfsOptions;
use vfs::{FileKind, FileSystem};
use zerocopy::IntoBytes;

use crate::common::edit::{
    change_inode, change_superblock, geometry_of, group_at, group_byte, inode_at, inode_byte,
};
use crate::common::volume::fresh;
use crate::common::{MemoryDisk, World, findings};
use crate::damage::base::{Base, files_of, open_to_read};
use crate::damage::judge::{compare, examine, lines, repair};
use crate::damage::mutation::Touched;

/// The inode of a file of the disk.
fn ino_of(base: &Base, path: &str) -> u64 {
    let found = base.files.iter().find(|(_, file)| file.paths.iter().any(|one| one == path));
    *found.unwrap_or_else(|| panic!("no {path}")).0
}

/// Flips a bit of the disk.
fn flip(disk: &MemoryDisk, byte: u64, bit: u32) {
    let old = disk.bytes(byte, 1)[0];
    disk.put(byte, &[old ^ 1 << bit]);
}

/// The disk of a base without check hashes of inodes, as FreeBSD 12 leaves it.
fn without_inode_hashes(base: &Base) -> MemoryDisk {
    let (disk, geometry) = (base.disk.fork(), &base.geometry);
    let backups = (0..geometry.group_count)
        .map(|group| geometry.byte_address(geometry.backup_superblock_fragment(group)));
    for byte in backups.chain([SUPERBLOCK_ADDRESS]) {
        change_superblock(&disk, geometry, byte, |superblock| {
            superblock.check_hashes.set(hashes::SUPERBLOCK | hashes::GROUP);
        });
    }
    disk
}

/// Repairs a disk and returns the report. Afterwards a check finds nothing, and all files except
/// the touched ones are as they were.
fn repaired(base: &Base, disk: &MemoryDisk, touched: &Touched) -> Result<Report, String> {
    let look = examine(disk, false, None).map_err(|error| error.to_string())?;
    repair(disk, Some(&look))?;
    let same = compare(base, disk, touched);
    same.map_err(|wrong| format!("{wrong}{}", lines(&look)))?;
    Ok(look)
}

/// The same for many damages of one disk: returns all errors.
fn all_repaired(base: &Base, disks: impl Iterator<Item = (String, MemoryDisk)>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for (label, disk) in disks {
        count += 1;
        if let Err(error) = repaired(base, &disk, &Touched::default()) {
            wrong.push(format!("{label}: {error}"));
        } else if count % 16 == 1
            && let Some(judged) = findings(&disk, "kept").filter(|judged| !judged.is_empty())
        {
            wrong.push(format!("{label}: the independent checker: {judged}"));
        }
    }
    assert!(count > 0, "nothing was damaged");
    let shown: String = wrong.iter().take(20).map(|line| format!("\n{line}")).collect();
    assert!(wrong.is_empty(), "{} of {count} went wrong:{shown}", wrong.len());
}

#[test]
fn a_wrong_bit_of_an_inode_is_put_back() {
    let base = Base::small_blocks();
    let step = 211;
    for (index, &ino) in base.files.keys().enumerate() {
        let start = inode_byte(&base.geometry, ino);
        for at in (index as u64 % step..INODE_SIZE * 8).step_by(step as usize) {
            let disk = base.disk.fork();
            flip(&disk, start + at / 8, (at % 8) as u32);
            let report = examine(&disk, true, None).expect("it is repaired");
            let (old, new) =
                (inode_at(&base.disk, &base.geometry, ino), inode_at(&disk, &base.geometry, ino));
            let found = lines(&report);
            assert_eq!(old.as_bytes(), new.as_bytes(), "bit {at} of inode {ino}:{found}");
            assert_eq!(report.findings.count(Invariant::InodeHash), 1, "{found}");
            assert_eq!(report.findings.worst, Some(Severity::Repairable), "{found}");
            assert_eq!(report.findings.total(), 1, "bit {at} of inode {ino}:{found}");
        }
    }
}

#[test]
fn a_file_whose_mode_lost_its_only_bit_is_a_file_again() {
    let base = Base::small_blocks();
    let ino = ino_of(&base, "/twelve");
    let disk = base.disk.fork();
    // A regular file without permissions: one bit of its mode is set.
    change_inode(&disk, &base.geometry, ino, |dinode| {
        dinode.mode.set(mode_of(FileKind::Regular, 0));
    });
    let before = inode_at(&disk, &base.geometry, ino);
    flip(&disk, inode_byte(&base.geometry, ino) + 1, 7);
    let report = examine(&disk, true, None).expect("it is repaired");
    let after = inode_at(&disk, &base.geometry, ino);
    assert_eq!(before.as_bytes(), after.as_bytes(), "{}", lines(&report));
}

/// A file whose hash proves that a bit is wrong, without which the file would have no block.
fn keeps_its_block() -> bool {
    let base = Base::small_blocks();
    let ino = ino_of(&base, "/fragment");
    let disk = base.disk.fork();
    let address = inode_at(&disk, &base.geometry, ino).direct[0];
    change_inode(&disk, &base.geometry, ino, |dinode| {
        dinode.direct[0].set(address.get() | 1 << 50);
    });
    flip(&disk, inode_byte(&base.geometry, ino) + 112 + 6, 2);
    assert_eq!(inode_at(&disk, &base.geometry, ino).direct[0], address, "as it was");
    examine(&disk, true, None).expect("it is repaired");
    inode_at(&disk, &base.geometry, ino).direct[0] == address
}

#[test]
fn no_bit_is_put_back_with_which_an_inode_makes_no_sense() {
    assert!(keeps_its_block());
}

#[cfg(feature = "planted-bugs")]
#[test]
fn bits_that_are_put_back_without_sense_are_noticed() {
    fsck::planted::plant(Some(fsck::planted::Bug::BitsWithoutSense));
    let is_kept = keeps_its_block();
    fsck::planted::plant(None);
    assert!(!is_kept);
}

#[test]
fn a_wrong_bit_of_a_group_block_is_put_back() {
    let base = Base::small_blocks();
    let start = group_byte(&base.geometry, 1);
    let limit = std::mem::offset_of!(GroupHeader, initialized_inodes) as u64 * 8;
    let size = base.geometry.group_block_size * 8;
    for at in (limit..limit + 32).step_by(3).chain((0..size).step_by(307)) {
        let disk = base.disk.fork();
        flip(&disk, start + at / 8, (at % 8) as u32);
        let report = examine(&disk, true, None).expect("it is repaired");
        let blocks = [&base.disk, &disk].map(|disk| group_at(disk, &base.geometry, 1));
        assert!(blocks[0] == blocks[1], "bit {at}:{}", lines(&report));
        assert_eq!(report.findings.total(), 1, "bit {at}:{}", lines(&report));
    }
}

/// A superblock except for its write time.
fn superblock_at(disk: &MemoryDisk, base: &Base) -> Vec<u8> {
    let size = base.geometry.superblock_size as usize;
    let mut block = disk.bytes(SUPERBLOCK_ADDRESS, size);
    let superblock = Superblock::of_mut(&mut block);
    superblock.time.set(0);
    superblock.check_hash.set(0);
    block
}

/// With no copy of the superblock left, and no record of where they were.
#[test]
fn a_wrong_bit_of_a_superblock_is_put_back_where_there_is_no_copy() {
    let base = Base::small_blocks();
    let geometry = &base.geometry;
    let alone = base.disk.fork();
    let clean = std::mem::offset_of!(Superblock, clean);
    alone.put(SUPERBLOCK_ADDRESS - 512, &[0; 512]);
    for group in 0..geometry.group_count {
        let byte = geometry.byte_address(geometry.backup_superblock_fragment(group));
        alone.put(byte, &vec![0; geometry.superblock_size as usize]);
    }
    for at in (0..geometry.superblock_size * 8).step_by(101) {
        if at as usize / 8 == clean {
            continue;
        }
        let disk = alone.fork();
        flip(&disk, SUPERBLOCK_ADDRESS + at / 8, (at % 8) as u32);
        let report = examine(&disk, true, None).unwrap_or_else(|error| panic!("bit {at}: {error}"));
        let [old, new] = [&base.disk, &disk].map(|disk| superblock_at(disk, &base));
        assert!(old == new, "bit {at}:{}", lines(&report));
    }
}

/// The bits of a size that count fragments, or blocks where indirect trees hold some.
fn size_bits(base: &Base, ino: u64) -> std::ops::Range<u32> {
    let size = base.files[&ino].attributes.size;
    let geometry = &base.geometry;
    let is_long = size > 12 * geometry.block_size;
    let unit = if is_long { geometry.block_size } else { geometry.fragment_size };
    unit.ilog2()..64
}

#[test]
fn a_size_with_a_wrong_bit_costs_nothing_where_inodes_bear_no_hashes() {
    for base in [Base::small_blocks(), Base::large_blocks()] {
        let plain = without_inode_hashes(&base);
        let paths = ["/fragment", "/tail", "/twelve", "/single", "/double", "/large", "/a", ""];
        // One chunk of a fragment of eight: two bits are equally likely, and the longer size is
        // taken.
        let is_clear = |path: &&&str| base.name != "32k" || **path != "/a";
        let cases = paths.iter().filter(is_clear).flat_map(|path| {
            let ino = ino_of(&base, path);
            size_bits(&base, ino).step_by(3).map(move |bit| (*path, ino, bit))
        });
        let disks = cases.map(|(path, ino, bit)| {
            let disk = plain.fork();
            let field = inode_byte(&base.geometry, ino) + 16;
            flip(&disk, field + u64::from(bit / 8), bit % 8);
            (format!("{} bit {bit} of the size of '{path}'", base.name), disk)
        });
        all_repaired(&base, disks);
    }
}

#[test]
fn a_link_is_one_again_whatever_bit_of_its_size_or_type_is_wrong() {
    let base = Base::small_blocks();
    let plain = without_inode_hashes(&base);
    // A long link that is a file by one bit looks like that file, and nothing contradicts it.
    let bits = || (16 * 8..24 * 8).chain(12..16);
    let long = bits().filter(|&at| at != 13).map(|at| ("/long-link", at));
    let cases = bits().map(|at| ("/short-link", at)).chain(long);
    let disks = cases.map(|(path, at)| {
        let disk = plain.fork();
        flip(&disk, inode_byte(&base.geometry, ino_of(&base, path)) + at / 8, (at % 8) as u32);
        (format!("bit {at} of {path}"), disk)
    });
    all_repaired(&base, disks);
}

#[test]
fn bad_pointers_cost_their_blocks_alone() {
    let base = Base::small_blocks();
    let ino = ino_of(&base, "/twelve");
    let block = base.geometry.block_size as usize;
    for count in [1, 2, 3, 8] {
        for is_sealed in [false, true] {
            let disk = base.disk.fork();
            let mut dinode = inode_at(&disk, &base.geometry, ino);
            let bad = 2..2 + count;
            dinode.direct[bad.clone()].iter_mut().for_each(|one| one.set(1 << 61));
            if is_sealed {
                base.geometry.seal_inode(&mut dinode);
            }
            disk.put(inode_byte(&base.geometry, ino), dinode.as_bytes());
            let touched = Touched { files: BTreeSet::from([ino]), ..Touched::default() };
            let look = repaired(&base, &disk, &touched).unwrap_or_else(|wrong| panic!("{wrong}"));
            let files = files_of(&disk, &base.map).expect("a sound disk");
            let file = files.get(&ino).unwrap_or_else(|| panic!("it is gone:{}", lines(&look)));
            assert_eq!(file.paths, ["/twelve"], "{}", lines(&look));
            let mut expected = base.files[&ino].pieces.clone();
            for (at, content) in &mut expected {
                if bad.contains(&(*at as usize / block)) {
                    content.fill(0);
                }
            }
            assert!(file.pieces == expected, "{count} pointers:{}", lines(&look));
        }
    }
}

/// The names of files in a directory's block.
fn names_in(disk: &MemoryDisk, byte: u64, bytes: u64) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for chunk in disk.bytes(byte, bytes as usize).chunks_exact(512) {
        let mut at = 0;
        while at < 512 {
            let ino = u32::from_le_bytes(chunk[at..at + 4].try_into().expect("four bytes"));
            let length = u16::from_le_bytes(chunk[at + 4..at + 6].try_into().expect("two bytes"));
            let name = &chunk[at + 8..at + 8 + usize::from(chunk[at + 7])];
            if ino != 0 {
                names.insert(String::from_utf8_lossy(name).into_owned());
            }
            if length == 0 {
                break; // behind the end of the directory
            }
            at += usize::from(length);
        }
    }
    names
}

/// Makes holes of some blocks of a directory, and checks that only the names in them are lost.
fn holes_cost_their_names(base: &Base, path: &str, holes: &[u64]) {
    let ino = ino_of(base, path);
    let (disk, geometry) = (base.disk.fork(), &base.geometry);
    let mut lost = BTreeSet::new();
    for &lbn in holes {
        let mut address = 0;
        if lbn < 12 {
            change_inode(&disk, geometry, ino, |dinode| {
                address = dinode.direct[lbn as usize].get() as u64;
                dinode.direct[lbn as usize].set(0);
            });
        } else {
            let tree = inode_at(&disk, geometry, ino).indirect[0].get() as u64;
            let byte = geometry.byte_address(tree) + (lbn - 12) * 8;
            let pointer = disk.bytes(byte, 8);
            address = u64::from_le_bytes(pointer.try_into().expect("eight bytes"));
            disk.put(byte, &[0; 8]);
        }
        assert_ne!(address, 0, "block {lbn} was there");
        lost.extend(names_in(&disk, geometry.byte_address(address), geometry.block_size));
    }
    let report = examine(&disk, true, None).expect("it is repaired");
    repair(&disk, None).unwrap_or_else(|wrong| panic!("{wrong}"));
    if let Some(judged) = findings(&disk, "holes") {
        assert_eq!(judged, "", "{}", lines(&report));
    }
    let files = files_of(&disk, &base.map).unwrap_or_else(|wrong| panic!("{wrong}"));
    for (name, named) in &base.files[&ino].names {
        let found = files[&ino].names.get(name);
        let expected = if lost.contains(name) { None } else { Some(named) };
        assert_eq!(found, expected, "{path}/{name} {holes:?}:{}", lines(&report));
    }
    assert!(report.findings.count(Invariant::DirectoryHole) > 0, "{}", lines(&report));
}

#[test]
fn a_lost_block_of_a_directory_costs_the_names_in_it_alone() {
    let base = Base::small_blocks();
    for holes in [&[3][..], &[0], &[2, 7, 9], &[0, 1, 2], &[13], &[11, 12]] {
        holes_cost_their_names(&base, "/large", holes);
    }
}

/// All blocks behind the direct ones are lost with their tree: only the size shows that there were
/// any, and the names before them stay.
#[test]
fn a_lost_tree_of_a_directory_costs_no_name_before_it() {
    let base = Base::small_blocks();
    let ino = ino_of(&base, "/large");
    let disk = base.disk.fork();
    change_inode(&disk, &base.geometry, ino, |dinode| dinode.indirect[0].set(0));
    let report = examine(&disk, true, None).expect("it is repaired");
    repair(&disk, None).unwrap_or_else(|wrong| panic!("{wrong}"));
    let files = files_of(&disk, &base.map).unwrap_or_else(|wrong| panic!("{wrong}"));
    let dinode = inode_at(&base.disk, &base.geometry, ino);
    for address in dinode.direct {
        let byte = base.geometry.byte_address(address.get() as u64);
        for name in names_in(&base.disk, byte, base.geometry.block_size) {
            let is_there = name == "." || name == ".." || files[&ino].names.contains_key(&name);
            assert!(is_there, "{name}:{}", lines(&report));
        }
    }
}

/// The type of a damaged inode, two bits of which are wrong.
fn mistyped(base: &Base, path: &str, kind: FileKind) -> MemoryDisk {
    let disk = base.disk.fork();
    let ino = ino_of(base, path);
    let mut dinode = inode_at(&disk, &base.geometry, ino);
    let permissions = dinode.permissions();
    dinode.mode.set(mode_of(kind, permissions));
    dinode.spare[3] ^= 0x10;
    disk.put(inode_byte(&base.geometry, ino), dinode.as_bytes());
    disk
}

#[test]
fn a_damaged_inode_gets_the_type_of_its_name() {
    let base = Base::small_blocks();
    let cases = [
        ("/long-link", FileKind::Regular),
        ("/short-link", FileKind::Regular),
        ("/fifo", FileKind::Socket),
        ("/socket", FileKind::Regular),
        ("/tail", FileKind::Symlink),
        ("/fragment", FileKind::Symlink),
        ("/empty", FileKind::Fifo),
        ("/a/b/c/d/e/leaf", FileKind::Directory),
        ("/a/b", FileKind::Regular),
    ];
    let disks = cases
        .into_iter()
        .map(|(path, kind)| (format!("{path} as {kind:?}"), mistyped(&base, path, kind)));
    all_repaired(&base, disks);
}

/// It is unknown which of the two is right then; the kept content is reported as a loss.
#[test]
fn a_type_that_content_contradicts_is_a_loss() {
    let base = Base::small_blocks();
    let disk = base.disk.fork();
    let ino = ino_of(&base, "/tail");
    let mut dinode = inode_at(&disk, &base.geometry, ino);
    dinode.spare[3] ^= 0x30;
    disk.put(inode_byte(&base.geometry, ino), dinode.as_bytes());
    // The name says a pipe, which holds nothing.
    let root = inode_at(&disk, &base.geometry, 2).direct[0].get() as u64;
    let byte = base.geometry.byte_address(root);
    let block = disk.bytes(byte, 4096);
    let at = block.windows(5).position(|bytes| bytes == b"tail\0").expect("it is there");
    disk.put(byte + at as u64 - 2, &[1]);
    let report = examine(&disk, true, None).expect("it is repaired");
    let found = report.findings.list.iter().find(|one| one.invariant == Invariant::EntryType);
    assert_eq!(found.map(|one| one.severity), Some(Severity::Loss), "{}", lines(&report));
    let files = files_of(&disk, &base.map).expect("a sound disk");
    assert!(files[&ino].pieces == base.files[&ino].pieces);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn what_is_given_up_without_need_is_noticed() {
    use fsck::planted::{Bug, plant};
    let is_noticed = |bug: Bug, test: fn()| {
        plant(Some(bug));
        let result = std::panic::catch_unwind(test);
        plant(None);
        result.is_err()
    };
    let cut: fn() = a_lost_block_of_a_directory_costs_the_names_in_it_alone;
    assert!(is_noticed(Bug::CutDirectories, cut));
    assert!(is_noticed(Bug::EntriesYield, a_damaged_inode_gets_the_type_of_its_name));
}

#[test]
fn runs_of_another_length_than_the_sums_are_a_setting() {
    let base = Base::small_blocks();
    for contiguous in [0, 1, 8, 17, 256] {
        let disk = base.disk.fork();
        change_superblock(&disk, &base.geometry, SUPERBLOCK_ADDRESS, |superblock| {
            superblock.max_contiguous_blocks.set(contiguous);
        });
        let report = examine(&disk, false, None).expect("it is checked");
        assert_eq!(report.findings.total(), 0, "{contiguous}:{}", lines(&report));
        files_of(&disk, &base.map).unwrap_or_else(|wrong| panic!("{contiguous}: {wrong}"));
    }
}

/// Names that many findings have in common are looked up in one pass.
#[test]
fn paths_of_many_findings_cost_one_look_into_their_directory() {
    const FILES: u64 = 200;
    let world = World::new(1);
    let options = MkfsOptions { block_size: 4096, fragment_size: 512, ..MkfsOptions::default() };
    let (full, inos) = world.run(async {
        let (disk, volume) = fresh(&world, 8 << 20, &options).await;
        let mut inos = Vec::new();
        for index in 0..FILES {
            let file = volume.create(volume.files.root(), &format!("{index:0200}")).await;
            inos.push(file.expect("there is room").ino.0);
        }
        volume.files.shutdown().await.expect("it stops");
        (disk, inos)
    });
    let geometry = geometry_of(&full);
    let read = |count: u64| {
        let disk = full.fork();
        for &ino in &inos[..count as usize] {
            change_inode(&disk, &geometry, ino, |dinode| dinode.links.set(9));
        }
        let report = examine(&disk, false, None).expect("it is checked");
        assert_eq!(report.findings.count(Invariant::LinkCount), count);
        assert!(report.findings.list.iter().all(|one| one.path.is_some()));
        disk.bytes_read()
    };
    let (few, many) = (read(1), read(FILES));
    // For each one its own inode is read: a block, and the sector to be written.
    assert!(many <= few + FILES * (8 << 10), "{few} bytes for one, {many} for {FILES}");
}

/// A link count that signed readers take for a negative one.
#[test]
fn a_count_of_links_has_no_sign() {
    let base = Base::small_blocks();
    let ino = ino_of(&base, "/twelve");
    for links in [32_768, 65_500, 65_501] {
        let disk = base.disk.fork();
        change_inode(&disk, &base.geometry, ino, |dinode| dinode.links.set(links));
        let world = World::new(1);
        let told = world.run(async {
            let volume = open_to_read(&world, &disk).await.expect("it opens");
            let file = volume.lookup(volume.files.root(), "twelve").await.expect("it is there");
            let attributes = volume.files.getattr(file).await.open().await.expect("running");
            attributes.into_inner().expect("it has some").nlink
        });
        assert_eq!(told, u32::from(links));
        let report = examine(&disk, true, None).expect("it is repaired");
        assert_eq!(report.findings.count(Invariant::LinkCount), 1, "{}", lines(&report));
        assert_eq!(inode_at(&disk, &base.geometry, ino).links.get(), 1);
    }
}
