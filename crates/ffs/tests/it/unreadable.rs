//! Disks with unreadable sectors: the check ends, reports them, and a repair rewrites data that
//! follows from the rest.
//!
//! Every fragment of metadata of a small disk fails in turn, one sector of it or all. Then:
//! 1. a look ends, and reports that something cannot be read;
//! 2. a repair writes it, and a second check, of a disk that is readable again, is silent;
//! 3. every file without data there is as it was.
//!
//! A disk whose metadata is completely unreadable, and a missing one, are reported as such.

use fsck::{CheckError, CheckOptions, Invariant, check};
use ufs2::layout::{RECOVERY_RECORD_ADDRESS, SUPERBLOCK_ADDRESS};
use vfs::{Attributes, FileKind, FileSystem, ObjectId};

use crate::common::volume::reopen;
use crate::common::{Event, MemoryDisk, World};
use crate::damage::base::Base;
use crate::damage::judge::{compare, examine, lines, repair};
use crate::damage::map::Owner;
use crate::damage::mutation::{Mutation, Structure, Touched};

const SECTOR: u64 = 512;

/// Judges the checker on a disk with unreadable sectors in a fragment.
fn judge(base: &Base, bytes: std::ops::Range<u64>) -> Result<(), String> {
    judge_disk(base, base.disk.fork(), bytes)
}

fn judge_disk(base: &Base, disk: MemoryDisk, bytes: std::ops::Range<u64>) -> Result<(), String> {
    disk.spoil(bytes.clone());
    let look = examine(&disk, false, None).map_err(|error| format!("the look: {error}"))?;
    if !disk.events().is_empty() {
        return Err("the look wrote something".into());
    }
    if look.findings.count(Invariant::Readable) == 0 {
        return Err(format!("it was missed:{}", lines(&look)));
    }
    repair(&disk, Some(&look))?;
    if disk.spoilt() > 0 {
        return Err("it was not written".into());
    }
    let gone = vec![0; (bytes.end - bytes.start) as usize];
    let touched = Mutation::new(Structure::Blocks, String::new(), bytes.start, gone).touched(base);
    compare(base, &disk, &touched).map_err(|wrong| format!("{wrong}{}", lines(&look)))
}

/// The metadata part of a fragment, in bytes of the disk.
fn metadata_in(base: &Base, fragment: u64) -> Option<std::ops::Range<u64>> {
    let geometry = &base.geometry;
    let (start, size) = (fragment * geometry.fragment_size, geometry.fragment_size);
    let initialised = |first: u64| {
        let group = first / geometry.inodes_per_group;
        first % geometry.inodes_per_group < base.map.initialised[group as usize]
    };
    match base.map.owner(start) {
        Owner::Nothing | Owner::Data(..) => None,
        // The rest of its room has no meaning.
        Owner::Superblock => {
            let end = SUPERBLOCK_ADDRESS + geometry.superblock_size;
            (start < end).then(|| start..end.min(start + size))
        }
        // The bytes behind those are never read.
        Owner::Inodes(first) if !initialised(first) => None,
        Owner::Directory(ino, offset) if offset >= base.map.inodes[&ino].size.get() => None,
        _ => Some(start..start + size),
    }
}

fn judge_all(base: &Base, step: usize) {
    let mut failures = Vec::new();
    let fragments = base.geometry.size;
    for fragment in (0..fragments).step_by(step) {
        let Some(all) = metadata_in(base, fragment) else { continue };
        let one = all.start + fragment % (base.geometry.fragment_size / SECTOR) * SECTOR;
        let one = one.min(all.end - SECTOR);
        let parts = [all.clone(), one..one + SECTOR];
        for part in &parts[..if all == parts[1] { 1 } else { 2 }] {
            if let Err(wrong) = judge(base, part.clone()) {
                failures.push(format!("{part:?} {:?}: {wrong}", base.map.owner(all.start)));
            }
        }
    }
    failures.truncate(10);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn any_fragment_of_metadata_may_be_unreadable() {
    judge_all(&Base::small_blocks(), if cfg!(debug_assertions) { 7 } else { 1 });
    judge_all(&Base::large_blocks(), 1);
}

#[test]
fn any_fragment_of_a_disk_of_freebsd_may_be_unreadable() {
    if let Some(base) = Base::freebsd() {
        judge_all(&base, 1);
    }
}

#[test]
fn the_sectors_of_the_disk_may_be_wider() {
    const WIDE: u64 = 4096;
    let base = Base::large_blocks();
    let mut failures = Vec::new();
    for fragment in (0..base.geometry.size).step_by(3) {
        let Some(bytes) = metadata_in(&base, fragment) else { continue };
        let wide = bytes.start / WIDE * WIDE..bytes.end.next_multiple_of(WIDE);
        let disk = base.disk.fork_with_sectors(WIDE as u32);
        if let Err(wrong) = judge_disk(&base, disk, wide) {
            failures.push(format!("{bytes:?} {:?}: {wrong}", base.map.owner(bytes.start)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Without that invariant the damage is missed: sectors of the disk stay as they are.
#[test]
fn a_checker_that_takes_no_note_of_it_is_found_out() {
    let base = Base::small_blocks();
    let disk = base.disk.fork();
    let summary = base.map.fragments(|owner| owner == Owner::Summary);
    let byte = base.geometry.byte_address(summary[0]);
    disk.spoil(byte..byte + SECTOR);
    let report = examine(&disk, true, Some(Invariant::Readable)).expect("it ends");
    assert_eq!(report.findings.count(Invariant::Readable), 0);
    let again = examine(&disk.fork(), false, None).expect("it ends");
    assert!(report.findings.total() > 0 || again.findings.total() > 0);
}

/// The primary superblock fails together with its surroundings: a copy takes its place.
#[test]
fn the_front_of_the_disk_may_be_unreadable() {
    let base = Base::small_blocks();
    let disk = base.disk.fork();
    disk.spoil(0..SUPERBLOCK_ADDRESS + base.geometry.superblock_size);
    let report = examine(&disk, true, None).expect("there are copies");
    assert!(report.findings.count(Invariant::SuperblockFields) > 0, "{}", lines(&report));
    assert_eq!(examine(&disk, false, None).expect("it is well").findings.total(), 0);
    compare(&base, &disk, &Touched::default()).expect("no file was there");
    // The area in front of the file system is not ours.
    let first_write = RECOVERY_RECORD_ADDRESS / SECTOR * SECTOR;
    for event in disk.events() {
        if let Event::Write(at, _) = event {
            assert!(at >= first_write, "a write at byte {at}");
        }
    }
}

/// File data is not mistaken for anything else.
#[test]
fn data_that_cannot_be_read_is_left_alone() {
    let base = Base::small_blocks();
    let disk = base.disk.fork();
    let data = base.map.fragments(|owner| matches!(owner, Owner::Data(..)));
    for fragment in &data {
        let byte = base.geometry.byte_address(*fragment);
        disk.spoil(byte..byte + base.geometry.fragment_size);
    }
    let spoilt = disk.spoilt();
    let world = World::new(1);
    let options = CheckOptions { repair: true, full: true, ..CheckOptions::default() };
    let report = world.run(check(&disk, &world.runtime(), &options, &mut |_| ()));
    let report = report.expect("it ends");
    assert!(report.findings.count(Invariant::Data) > 0);
    // Except the target of a link, which the file system reads itself.
    let links = report.findings.count(Invariant::Readable) as usize;
    assert_eq!(disk.spoilt(), spoilt - links, "{}", lines(&report));
}

/// A failed read-ahead harms no reader: not the one of the blocks in front of an indirect block
/// that cannot be read.
#[test]
fn what_cannot_be_read_ahead_fails_no_reader() {
    let base = Base::small_blocks();
    let world = World::new(1);
    let disk = std::rc::Rc::new(base.disk.fork());
    for fragment in base.map.fragments(|owner| matches!(owner, Owner::Indirect(..))) {
        let byte = base.geometry.byte_address(fragment);
        disk.spoil(byte..byte + base.geometry.block_size);
    }
    let direct = 12 * base.geometry.block_size;
    let long = base
        .files
        .values()
        .filter(|file| file.attributes.kind == FileKind::Regular && file.attributes.size > direct);
    let mut refused = 0;
    world.run(async {
        let volume = reopen(&world, &disk).await;
        for file in long {
            let Attributes { ino, generation, .. } = file.attributes;
            let read = async |from: u64, count: u64| {
                let id = ObjectId::live(ino, generation);
                let sealed = volume.files.read(&volume.root, id, from, count as u32).await;
                sealed.open().await.expect("running").into_inner().result
            };
            for from in [0, direct / 2] {
                read(from, direct / 2).await.expect("nobody asked for what cannot be read");
            }
            refused += u64::from(read(direct, 512).await.is_err());
        }
    });
    assert!(refused > 0, "there was something that could not be read");
}

#[test]
fn a_disk_that_can_be_read_nowhere_is_no_missing_file_system() {
    let disk = MemoryDisk::new(1 << 20);
    disk.spoil(0..1 << 20);
    assert!(matches!(examine(&disk, true, None), Err(CheckError::Device(_))));
    assert!(disk.events().is_empty());
}
