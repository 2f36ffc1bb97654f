//! Damaged superblocks, and their repair.

use std::process::Command;

use ufs2::layout::{
    ByteOrder, RECOVERY_RECORD_ADDRESS, SUPERBLOCK_MAGIC, SUPERBLOCK_MAGIC_UNFINISHED,
    SUPERBLOCK_ROOM, check_hash,
};
use ufs2::mark::PolicyKind;
use ufs2::mkfs::{MkfsOptions, mkfs};

use super::fields::{FIELDS, field};
use super::*;
use crate::Findings;
use crate::copies::check_copies;
use sim::{Disk, Executor, Image, Latency, Options, Prng, Timing};
use zerocopy::IntoBytes;

const PRIMARY: u64 = SUPERBLOCK_ADDRESS;
const ROOM: usize = SUPERBLOCK_ROOM as usize;

/// A disk whose reads take no time: the tests make tens of thousands.
fn disk_of(executor: &Executor, image: &Image) -> std::rc::Rc<Disk> {
    let none = (0, 0);
    let latency =
        Latency { read_ns: none, write_ns: none, through_ns: none, flush_ns: none, byte_ps: 0 };
    let timing = Timing::Random(latency);
    Disk::with_options(executor, image.clone(), Options { timing, ..Options::default() })
}

/// A new file system.
fn made(size: u64, options: &MkfsOptions) -> Image {
    let executor = Executor::new(1);
    let disk = disk_of(&executor, &Image::zeroed(size));
    let runtime = executor.runtime();
    let made = mkfs(&*disk, options, &*runtime.random, runtime.clock.wall());
    executor.block_on(made).expect("it fits the disk");
    disk.contents()
}

fn one_group() -> Image {
    let image = made(4 << 20, &MkfsOptions::default());
    assert_eq!(find_in(&image).0.geometry.group_count, 1);
    image
}

fn six_groups() -> Image {
    let image = made(6 << 20, &small_blocks());
    assert!(find_in(&image).0.geometry.group_count >= 6);
    image
}

fn small_blocks() -> MkfsOptions {
    MkfsOptions {
        block_size: 4096,
        fragment_size: 512,
        max_group_blocks: Some(256),
        ..MkfsOptions::default()
    }
}

fn without_hashes() -> Image {
    made(6 << 20, &MkfsOptions { check_hashes: false, ..small_blocks() })
}

fn try_find(image: &Image, full: bool, mut log: Log) -> (Result<Found, CheckError>, Findings) {
    let executor = Executor::new(1);
    let disk = disk_of(&executor, image);
    let overlay = Overlay::new(&*disk);
    let found = executor.block_on(find(&overlay, &mut log, full));
    if let (Ok(found), None) = (&found, log.without) {
        assert_settled(image, found);
    }
    (found, log.findings)
}

/// Asserts that nothing more is found once the superblock is repaired.
fn assert_settled(image: &Image, found: &Found) {
    let mut mended = image.clone();
    mended.write(PRIMARY, &found.geometry.superblock_on_disk(&found.block));
    let executor = Executor::new(1);
    let disk = disk_of(&executor, &mended);
    let mut log = Log::new(None);
    let again = executor.block_on(find(&Overlay::new(&*disk), &mut log, false));
    let again = again.expect("it was put there");
    assert_eq!(log.findings.list, []);
    assert_eq!(again.geometry, found.geometry);
}

fn find_in(image: &Image) -> (Found, Findings) {
    let (found, findings) = try_find(image, false, Log::new(None));
    (found.unwrap_or_else(|error| panic!("{error}; {findings:?}")), findings)
}

fn read(image: &Image, address: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    image.read(address, &mut bytes);
    bytes
}

/// Seals the superblock, as a program that wrote it on purpose would.
fn seal(image: &mut Image, size: usize) {
    let mut block = read(image, PRIMARY, size);
    let hash = check_hash(&block, std::mem::offset_of!(Superblock, check_hash));
    Superblock::of_mut(&mut block).check_hash.set(hash);
    image.write(PRIMARY, &block);
}

/// A copy of the image with changes to the primary superblock.
fn changed(image: &Image, sealed: bool, change: impl FnOnce(&mut Superblock)) -> Image {
    let mut image = image.clone();
    let mut block = read(&image, PRIMARY, ROOM);
    change(Superblock::of_mut(&mut block));
    image.write(PRIMARY, &block);
    if sealed {
        let size = Superblock::of(&block).superblock_size.get();
        seal(&mut image, size as usize);
    }
    image
}

/// The essential part of a superblock: without settings, labels, times, hints, totals of later
/// passes, and meaningless bytes, where any legal value is as good as another.
fn essence(found: &Found, groups: u64) -> (Geometry, Vec<u8>) {
    let mut block = found.block[..found.geometry.superblock_size as usize].to_vec();
    for field in FIELDS {
        let as_good = match field.class {
            Class::Tunable | Class::Changing => true,
            // With one group, nothing but its one backup contradicts the primary.
            Class::Shape => {
                groups == 1 && ["fs_id", "fs_maxb"].iter().any(|n| field.name.starts_with(n))
            }
            _ => false,
        };
        if as_good {
            field.set(&mut block, 0);
        }
    }
    let s = Superblock::of_mut(&mut block);
    s.last_mount.fill(0);
    s.volume_name.fill(0);
    s.in_core.fill(0);
    s.old_totals.fill(0);
    s.old_inode_format.set(0);
    s.snapshots.fill(0.into());
    s.totals.reserved.fill(0);
    // Flags of FreeBSD's own; that hashes are kept, where none is named.
    let as_good = if s.check_hashes.get() == 0 { 0x7fa } else { 0x5fa };
    s.flags.set(s.flags.get() & !as_good);
    let mut geometry = found.geometry.clone();
    geometry.reserve_percent = 0;
    geometry.max_blocks_per_group = 0;
    geometry.metadata_space = 0;
    (geometry, block)
}

/// Flips bits of every byte of the primary and requires the same file system from the result.
fn flip_every_byte(image: &Image, sealed: bool) {
    let (original, findings) = find_in(image);
    assert_eq!(findings.list, []);
    let groups = original.geometry.group_count;
    let right = essence(&original, groups);
    let size = original.geometry.superblock_size as usize;
    let clean = read(image, PRIMARY, ROOM);
    let mut missed = Vec::new();
    // A part of the tail, which is all zeros, is enough.
    for offset in (0..size).filter(|&offset| offset < 1400 || offset % 61 == 0) {
        // One of three changes, by turns: neighbours have the others, and so have other images.
        let turn = (offset + groups as usize + usize::from(sealed)) % 3;
        let bits = [1 << (offset % 8), 0x80, 0xff][turn];
        let mut damaged = image.clone();
        damaged.write(PRIMARY + offset as u64, &[clean[offset] ^ bits]);
        if sealed {
            seal(&mut damaged, size);
        }
        let (found, findings) = try_find(&damaged, false, Log::new(None));
        let what = format!("byte {offset} ^ {bits:#x}, sealed {sealed}");
        match found {
            Err(error) => missed.push(format!("{what}: {error}")),
            Ok(found) if essence(&found, groups) != right => {
                let is = essence(&found, groups);
                let at = is.1.iter().zip(&right.1).position(|(a, b)| a != b);
                missed.push(format!("{what}: differs at {at:?}: {:?}", findings.list));
            }
            Ok(_) => {
                let hashed = original.geometry.superblock_hashes && !sealed;
                let mut pair = [clean.clone(), clean.clone()];
                pair[1][offset] ^= bits;
                let essential =
                    pair.map(|block| essence(&Found { block, ..copy(&original) }, groups).1);
                if (hashed || essential[0] != essential[1]) && findings.list.is_empty() {
                    missed.push(format!("{what}: nothing was found"));
                }
            }
        }
    }
    assert!(missed.is_empty(), "{} misses:\n{}", missed.len(), missed.join("\n"));
}

fn copy(found: &Found) -> Found {
    Found { geometry: found.geometry.clone(), block: found.block.clone(), mark: found.mark.clone() }
}

#[test]
fn any_damaged_byte_is_noticed_with_one_group() {
    flip_every_byte(&one_group(), false);
}

#[test]
fn any_byte_changed_on_purpose_is_taken_back_with_one_group() {
    flip_every_byte(&one_group(), true);
}

#[test]
fn any_damaged_byte_is_noticed_with_many_groups() {
    flip_every_byte(&six_groups(), false);
}

#[test]
fn any_byte_changed_on_purpose_is_taken_back_with_many_groups() {
    flip_every_byte(&six_groups(), true);
}

#[test]
fn any_damaged_byte_is_noticed_without_hashes() {
    flip_every_byte(&without_hashes(), false);
}

/// Asserts that the image still gives the file system of `original`; returns the findings.
fn assert_recovered(image: &Image, original: &Image, full: bool) -> Findings {
    let (found, findings) = try_find(image, full, Log::new(None));
    let found = found.expect("there is a copy");
    let (right, _) = find_in(original);
    let groups = right.geometry.group_count;
    assert_eq!(essence(&found, groups), essence(&right, groups));
    assert_eq!(Superblock::of(&found.block).own_address.get(), PRIMARY as i64);
    findings
}

#[test]
fn a_primary_that_is_gone_comes_back_from_a_copy() {
    for original in [one_group(), six_groups(), without_hashes()] {
        let geometry = find_in(&original).0.geometry;
        let backup = geometry.byte_address(geometry.backup_superblock_fragment(0));
        let record = vec![0; (PRIMARY - RECOVERY_RECORD_ADDRESS) as usize];

        let mut image = original.clone();
        image.write(PRIMARY, &[0; ROOM]);
        let findings = assert_recovered(&image, &original, false);
        assert_eq!(findings.count(Invariant::SuperblockFields), 1);
        assert_eq!(findings.list.len(), 1);
        let copy = backup / geometry.fragment_size;
        assert_eq!(findings.list[0].place.fragment, Some(copy));
        assert!(matches!(find_in(&image).0.mark, Mark::Foreign));

        image.write(RECOVERY_RECORD_ADDRESS, &record);
        assert_recovered(&image, &original, false);
    }
}

#[test]
fn the_recovery_record_leads_to_a_copy_behind_the_front() {
    let original = six_groups();
    let geometry = find_in(&original).0.geometry;
    let backup = geometry.byte_address(geometry.backup_superblock_fragment(0));
    let mut image = original.clone();
    image.write(PRIMARY, &[0; ROOM]);
    image.write(backup, &[0; 1536]);
    let findings = assert_recovered(&image, &original, false);
    let second = geometry.backup_superblock_fragment(1);
    assert_eq!(findings.list[0].place.fragment, Some(second));
}

#[test]
fn a_full_search_finds_a_copy_that_nothing_points_at() {
    let original = made(64 << 20, &MkfsOptions::default());
    let geometry = find_in(&original).0.geometry;
    let mut image = original.clone();
    image.write(RECOVERY_RECORD_ADDRESS, &[0; 20]);
    image.write(PRIMARY, &[0; ROOM]);
    let backup = geometry.byte_address(geometry.backup_superblock_fragment(0));
    image.write(backup, &[0; ROOM]);
    let (found, _) = try_find(&image, false, Log::new(None));
    assert!(matches!(found, Err(CheckError::NoCopyNear(BadSuperblock::Missing { found: 0 }))));
    assert_recovered(&image, &original, true);
}

#[test]
fn a_disk_that_never_was_ufs2_is_none() {
    for size in [0, 512, PRIMARY, PRIMARY + 4096, 1 << 20] {
        let (found, findings) = try_find(&Image::zeroed(size), true, Log::new(None));
        let missing = matches!(found, Err(CheckError::Superblock(BadSuperblock::Missing { .. })));
        assert!(missing, "{size} bytes");
        assert_eq!(findings.list, []);
    }
}

#[test]
fn an_unfinished_file_system_without_a_copy_is_none() {
    let mut image = one_group();
    let geometry = find_in(&image).0.geometry;
    let backup = geometry.byte_address(geometry.backup_superblock_fragment(0));
    image.write(backup, &[0; ROOM]);
    let mut block = read(&image, PRIMARY, ROOM);
    Superblock::of_mut(&mut block).magic.set(SUPERBLOCK_MAGIC_UNFINISHED);
    image.write(PRIMARY, &block);
    let (found, _) = try_find(&image, true, Log::new(None));
    assert!(matches!(found, Err(CheckError::Superblock(BadSuperblock::Unfinished))));
}

#[test]
fn a_disk_shorter_than_its_file_system_is_refused() {
    for original in [one_group(), six_groups()] {
        let size = original.size() - 65_536;
        let image = Image::from_bytes(&read(&original, 0, size as usize));
        let (found, _) = try_find(&image, true, Log::new(None));
        let Err(CheckError::Superblock(bad)) = found else { panic!("it does not fit the disk") };
        assert_eq!(bad, BadSuperblock::Short { needed: original.size(), size });
    }
}

#[test]
fn a_superblock_in_a_file_is_none() {
    // A disk image in the data area of the first group, all of it before the first 256 KiB end.
    let mut image = six_groups();
    let alien = made(2 << 20, &MkfsOptions { fragment_size: 4096, ..MkfsOptions::default() });
    let geometry = find_in(&image).0.geometry;
    let original = image.clone();
    let data = geometry.byte_address(geometry.first_data_fragment(0) + 64);
    image.write(data, &read(&alien, PRIMARY, ROOM));
    image.write(PRIMARY, &[0; ROOM]);
    assert_recovered(&image, &original, true);
}

#[test]
fn a_check_that_is_left_out_repairs_nothing() {
    let image = six_groups();
    let broken = changed(&image, true, |s| s.size.set(s.size.get() - 1));
    let (mended, findings) = find_in(&broken);
    assert_eq!(findings.count(Invariant::SuperblockFields), 1);
    assert_eq!(mended.geometry, find_in(&image).0.geometry);
    let (found, findings) = try_find(&broken, false, Log::new(Some(Invariant::SuperblockFields)));
    let found = found.expect("it parses as it is");
    assert_eq!(findings.count(Invariant::SuperblockFields), 0);
    assert_eq!(found.geometry.size, mended.geometry.size - 1);
}

#[test]
fn one_damaged_word_is_told_from_all_others() {
    let image = six_groups();
    for (name, invariant) in [
        ("fs_size", Invariant::SuperblockFields),
        ("fs_bmask", Invariant::SuperblockDerived),
        ("fs_metackhash", Invariant::Flags),
        ("fs_minfree", Invariant::SuperblockHash),
    ] {
        let damaged = changed(&image, false, |s| {
            let value = field(name).get(s.as_bytes());
            field(name).set(s.as_mut_bytes(), value ^ 2);
        });
        let (found, findings) = find_in(&damaged);
        assert_eq!(findings.list.len(), 1, "{findings:?}");
        assert_eq!(findings.list[0].invariant, invariant);
        assert_eq!(findings.list[0].place, Place::field(name));
        assert_eq!(found.block, find_in(&image).0.block, "{name}");
    }
}

#[test]
fn settings_out_of_range_do_not_cost_the_rest() {
    for image in [one_group(), six_groups()] {
        let broken = changed(&image, true, |s| {
            s.volume_name[..5].copy_from_slice(b"label");
            s.reserve_percent.set(100);
            s.optimization.set(-1);
            s.max_blocks_per_group.set(0);
            s.group_rotor.set(i32::MAX);
        });
        let (found, findings) = find_in(&broken);
        assert_eq!(findings.count(Invariant::SuperblockFields), 4, "{findings:?}");
        let s = Superblock::of(&found.block);
        assert!(s.volume_name.starts_with(b"label\0"));
        assert_eq!((s.reserve_percent.get(), s.optimization.get()), (8, 0));
        assert_eq!(found.geometry, find_in(&image).0.geometry);
    }
}

#[test]
fn who_had_the_volume_is_told_and_taken_out() {
    let image = six_groups();
    let policy = Mark::Policy(PolicyKind::Sync);
    for (owner, mark, worst) in
        [("sync", policy, Severity::Note), ("fsck", Mark::Check, Severity::Repairable)]
    {
        let marked = changed(&image, true, |s| ufs2::mark::put(s, owner, 7));
        let (found, findings) = find_in(&marked);
        assert_eq!(found.mark, mark);
        assert_eq!(findings.count(Invariant::State), 2);
        assert_eq!(findings.worst, Some(worst));
        let s = Superblock::of(&found.block);
        assert_eq!((s.clean, s.last_mount), (1, [0; 468]));
        assert_eq!(Mark::of(s), Mark::Clean);
    }
    let pending = changed(&image, true, |s| s.pending_inodes.set(3));
    let (found, findings) = find_in(&pending);
    assert_eq!((found.mark, findings.worst), (Mark::Clean, Some(Severity::Repairable)));
}

#[test]
fn contradicting_flags_are_mended() {
    let image = six_groups();
    let broken = changed(&image, true, |s| s.flags.set(s.flags.get() | 0x110 | 1 << 20));
    let (found, findings) = find_in(&broken);
    assert_eq!(findings.count(Invariant::Flags), 2, "{findings:?}");
    assert_eq!(Superblock::of(&found.block).flags.get(), 0x210);
}

#[test]
fn hashes_that_nobody_keeps_are_not_believed_in() {
    let image = without_hashes();
    let broken = changed(&image, true, |s| {
        s.flags.set(0x200);
        s.check_hashes.set(6);
    });
    let (found, findings) = find_in(&broken);
    assert!(findings.count(Invariant::Flags) > 0);
    assert_eq!(found.geometry, find_in(&image).0.geometry);
}

/// Runs the last pass on an image and returns its findings and the image after its repairs.
fn copies_of(image: &Image) -> (Findings, Image) {
    let executor = Executor::new(1);
    let disk = disk_of(&executor, image);
    let mut log = Log::new(None);
    executor.block_on(async {
        let mut overlay = Overlay::new(&*disk);
        let found = find(&overlay, &mut Log::new(None), false).await.expect("it is there");
        check_copies(&mut overlay, &found.geometry, &found.block, &mut log)
            .await
            .expect("it reads");
        overlay.write().await.expect("it writes");
    });
    (log.findings, disk.contents())
}

#[test]
fn every_damaged_byte_of_a_backup_is_noticed_where_it_bears_a_hash() {
    let image = six_groups();
    let geometry = find_in(&image).0.geometry;
    let address = geometry.byte_address(geometry.backup_superblock_fragment(3));
    let size = geometry.superblock_size as usize;
    for offset in (0..size).filter(|offset| offset % 7 == 0) {
        let mut damaged = image.clone();
        let byte = read(&image, address + offset as u64, 1)[0];
        damaged.write(address + offset as u64, &[byte ^ 0x10]);
        let (findings, mended) = copies_of(&damaged);
        assert_eq!(findings.list.len(), 1, "byte {offset}: {findings:?}");
        assert_eq!(findings.list[0].invariant, Invariant::Backup);
        assert_eq!(findings.list[0].place.group, Some(3));
        let (findings, _) = copies_of(&mended);
        assert_eq!(findings.list, [], "byte {offset}");
    }
}

#[test]
fn a_backup_of_another_shape_is_noticed_without_hashes() {
    let image = without_hashes();
    let geometry = find_in(&image).0.geometry;
    let address = geometry.byte_address(geometry.backup_superblock_fragment(3));
    for field in fields::static_fields() {
        let mut block = read(&image, address, ROOM);
        let value = field.get(&block);
        field.set(&mut block, value ^ 1);
        let mut damaged = image.clone();
        damaged.write(address, &block);
        let (findings, mended) = copies_of(&damaged);
        assert_eq!(findings.count(Invariant::Backup), 1, "{}", field.name);
        assert_eq!(copies_of(&mended).0.list, [], "{}", field.name);
    }
}

#[test]
fn stale_counts_and_times_of_a_backup_are_its_own_business() {
    let image = without_hashes();
    let geometry = find_in(&image).0.geometry;
    let address = geometry.byte_address(geometry.backup_superblock_fragment(1));
    let mut block = read(&image, address, ROOM);
    let s = Superblock::of_mut(&mut block);
    s.time.set(1);
    s.totals.free_blocks.set(99);
    s.last_mount[..4].copy_from_slice(b"/old");
    s.reserve_percent.set(1);
    s.clean = 0;
    let mut stale = image.clone();
    stale.write(address, &block);
    assert_eq!(copies_of(&stale).0.list, []);
}

#[test]
fn the_recovery_record_is_mended_where_there_is_one() {
    let image = six_groups();
    for offset in 0..20_u64 {
        let mut damaged = image.clone();
        let byte = read(&image, RECOVERY_RECORD_ADDRESS + offset, 1)[0];
        damaged.write(RECOVERY_RECORD_ADDRESS + offset, &[byte ^ 4]);
        let (findings, mended) = copies_of(&damaged);
        assert_eq!(findings.count(Invariant::Recovery), 1, "byte {offset}: {findings:?}");
        assert!(mended.fingerprint() == image.fingerprint(), "byte {offset}");
    }
    for other in [[0; 20], [0x90; 20]] {
        let mut foreign = image.clone();
        foreign.write(RECOVERY_RECORD_ADDRESS, &other);
        assert_eq!(copies_of(&foreign).0.list, []);
    }
}

/// A disk that a FreeBSD 14 kernel wrote; `None`, with a message, where there is none, or where
/// `DURAMEN_ALONE` rules it out.
fn freebsd(endian: &str) -> Option<Image> {
    if std::env::var_os("DURAMEN_ALONE").is_some() {
        eprintln!("SKIPPED, NOTHING TESTED: the disks of FreeBSD are hidden by DURAMEN_ALONE");
        return None;
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/images");
    let file = format!("{folder}/freebsd14-{endian}-endian.img.xz");
    match Command::new("xz").arg("-dkc").arg(&file).output() {
        Ok(output) if output.status.success() => Some(Image::from_bytes(&output.stdout)),
        _ => {
            eprintln!("SKIPPED, NOTHING TESTED: {file} cannot be unpacked");
            None
        }
    }
}

#[test]
fn nothing_is_wrong_with_the_disks_of_freebsd() {
    for (endian, order) in [("little", ByteOrder::Little), ("big", ByteOrder::Big)] {
        let Some(image) = freebsd(endian) else { return };
        let (found, findings) = find_in(&image);
        assert_eq!(found.geometry.byte_order, order);
        assert!(findings.worst.is_none_or(|worst| worst == Severity::Note), "{findings:?}");
        assert_eq!(copies_of(&image).0.list, []);
    }
}

#[test]
fn a_disk_of_either_byte_order_is_recovered() {
    for endian in ["little", "big"] {
        let Some(original) = freebsd(endian) else { return };
        let mut image = original.clone();
        image.write(PRIMARY, &[0; ROOM]);
        assert_recovered(&image, &original, false);

        // A word in the middle of a 64-bit number.
        let mut image = original.clone();
        let address = PRIMARY + std::mem::offset_of!(Superblock, size) as u64 + 6;
        let byte = read(&image, address, 1)[0];
        image.write(address, &[byte ^ 1]);
        let findings = assert_recovered(&image, &original, false);
        assert_eq!(findings.list[0].place, Place::field("fs_size"), "{findings:?}");

        let geometry = find_in(&original).0.geometry;
        let backup = geometry.byte_address(geometry.backup_superblock_fragment(0));
        let mut image = original.clone();
        image.write(backup, &[0; 512]);
        let (findings, mended) = copies_of(&image);
        assert_eq!(findings.count(Invariant::Backup), 1);
        assert_eq!(copies_of(&mended).0.list, [], "{endian}");
    }
}

#[test]
fn whatever_lies_on_the_disk_is_an_answer_or_an_error() {
    let image = six_groups();
    let geometry = find_in(&image).0.geometry;
    let backup = geometry.byte_address(geometry.backup_superblock_fragment(0));
    let (mut found, mut refused) = (0, 0);
    for seed in 0..1500 {
        let mut prng = Prng::new(seed);
        let mut damaged = image.clone();
        for _ in 0..1 + prng.index(12) {
            let place = [PRIMARY, PRIMARY, backup, RECOVERY_RECORD_ADDRESS][prng.index(4)];
            let field = &FIELDS[prng.index(FIELDS.len())];
            let mut block = read(&damaged, place, ROOM);
            let value = match prng.index(3) {
                0 => i128::from(prng.next_u64()),
                1 => -1,
                _ => field.get(&block) ^ 1 << prng.index(40),
            };
            field.set(&mut block, value);
            damaged.write(place, &block);
        }
        if prng.chance(1, 4) {
            seal(&mut damaged, geometry.superblock_size as usize);
        }
        eprintln!("seed {seed}"); // a failure shows the last one
        match try_find(&damaged, false, Log::new(None)).0 {
            Ok(_) => found += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(found > 1000, "{found} found, {refused} refused");
}

#[test]
fn the_magic_number_alone_can_be_lost() {
    for image in [one_group(), without_hashes()] {
        let broken = changed(&image, false, |s| s.magic.set(SUPERBLOCK_MAGIC ^ 0xff00));
        let (found, findings) = find_in(&broken);
        assert_eq!(findings.list.len(), 1, "{findings:?}");
        assert_eq!(findings.list[0].place, Place::field("fs_magic"));
        assert_eq!(found.block, find_in(&image).0.block);
    }
}
