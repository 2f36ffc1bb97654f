//! Makes file systems of every shape and lets an independent checker judge them.

use futures::executor::block_on;
use runtime::{Random, Timestamp};
use ufs2::layout::{
    BadSuperblock, Geometry, GroupHeader, SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM, Superblock,
};
use ufs2::mkfs::{MkfsError, MkfsOptions, mkfs};
use zerocopy::FromBytes;

use crate::common::edit::group_at;
use crate::common::{Event, MemoryDisk, Seeded, findings};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 123_456_789 };
const MEGABYTE: u64 = 1 << 20;
const TERABYTE: u64 = 1 << 40;

fn make(disk: &MemoryDisk, options: &MkfsOptions) -> Result<Geometry, MkfsError> {
    block_on(mkfs(disk, options, &Seeded::new(1), NOW))
}

fn sizes(block_size: u64, fragment_size: u64) -> MkfsOptions {
    MkfsOptions { block_size, fragment_size, ..MkfsOptions::default() }
}

/// Makes a file system and runs the checker, which must not report even a note.
fn judge(name: &str, size: u64, options: &MkfsOptions) -> Geometry {
    let disk = MemoryDisk::new(size);
    let geometry = make(&disk, options).expect("it fits the disk");
    if let Some(findings) = findings(&disk, name) {
        assert_eq!(findings, "", "{size} bytes, {options:?}");
    }
    geometry
}

fn superblock_of(disk: &MemoryDisk) -> Superblock {
    let bytes = disk.bytes(SUPERBLOCK_ADDRESS, size_of::<Superblock>());
    Superblock::read_from_bytes(&bytes).expect("as long as a superblock")
}

#[test]
fn every_pair_of_block_and_fragment_size_is_clean() {
    for block_size in [4096, 8192, 16_384, 32_768, 65_536] {
        for fragment_size in [1, 2, 4, 8].map(|split| block_size / split) {
            let name = format!("{block_size}-{fragment_size}");
            let geometry = judge(&name, 40 * MEGABYTE, &sizes(block_size, fragment_size));
            assert!(geometry.group_count >= 4, "{name}");
        }
    }
}

#[test]
fn the_smallest_disks_are_clean() {
    for (block_size, fragment_size) in [(4096, 512), (32_768, 4096), (65_536, 65_536)] {
        let options = sizes(block_size, fragment_size);
        let Err(MkfsError::TooSmall { needed, .. }) = make(&MemoryDisk::new(65_536), &options)
        else {
            panic!("64 KiB are too small");
        };
        let geometry = judge(&format!("smallest-{block_size}"), needed, &options);
        assert_eq!(geometry.group_count, 1);
    }
}

#[test]
fn a_disk_of_a_megabyte_is_clean() {
    judge("megabyte", MEGABYTE, &MkfsOptions::default());
}

#[test]
fn last_groups_of_any_length_are_clean() {
    // A partial block of fragments at the end, and last groups barely large enough for their
    // metadata.
    let options = MkfsOptions { max_group_blocks: Some(128), ..sizes(4096, 512) };
    let mut lengths = std::collections::BTreeSet::new();
    for fragments in (20_001..23_000).step_by(211) {
        let geometry = judge(&format!("last-{fragments}"), fragments * 512, &options);
        lengths.insert(geometry.group_size_fragments(geometry.group_count - 1));
    }
    assert!(lengths.len() > 10, "the last groups have the lengths {lengths:?}");
}

#[test]
fn many_groups_are_clean() {
    let options = MkfsOptions { max_group_blocks: Some(40), ..sizes(4096, 4096) };
    let geometry = judge("many", 200 * MEGABYTE, &options);
    assert!(geometry.group_count > 1000, "{} groups", geometry.group_count);
}

#[test]
fn large_groups_are_clean() {
    let geometry = judge("large", 3 << 30, &sizes(65_536, 65_536));
    assert_eq!(geometry.group_count, 4);
}

#[test]
fn disks_of_random_shape_are_clean() {
    let random = Seeded::new(20_250_101);
    let below = |limit: u64| random.next_u64() % limit;
    let mut made = 0;
    for round in 0..40 {
        let block_size = 4096 << below(5);
        let options = MkfsOptions {
            bytes_per_inode: (below(2) == 1).then(|| 512 << below(12)),
            max_group_blocks: (below(2) == 1).then(|| below(3000)),
            reserve_percent: below(30),
            check_hashes: below(2) == 1,
            ..sizes(block_size, block_size >> below(4))
        };
        let size = MEGABYTE + below(30 * MEGABYTE) / 512 * 512;
        let disk = MemoryDisk::new(size);
        match make(&disk, &options) {
            Ok(_) => made += 1,
            Err(MkfsError::TooSmall { .. }) => continue,
            Err(error) => panic!("{size} bytes, {options:?}: {error}"),
        }
        if let Some(findings) = findings(&disk, &format!("random-{round}")) {
            assert_eq!(findings, "", "{size} bytes, {options:?}");
        }
    }
    assert!(made >= 30, "{made} disks");
}

#[test]
fn dense_and_sparse_inodes_are_clean() {
    for bytes_per_inode in [512, 100_000, 1 << 30] {
        let options =
            MkfsOptions { bytes_per_inode: Some(bytes_per_inode), ..MkfsOptions::default() };
        judge(&format!("inodes-{bytes_per_inode}"), 30 * MEGABYTE, &options);
    }
}

#[test]
fn a_disk_without_hashes_with_a_name_and_without_a_reserve_is_clean() {
    let options = MkfsOptions {
        check_hashes: false,
        volume_name: "heartwood-1".into(),
        reserve_percent: 0,
        ..MkfsOptions::default()
    };
    let geometry = judge("plain", 20 * MEGABYTE, &options);
    assert!(!geometry.superblock_hashes && !geometry.group_hashes && !geometry.inode_hashes);
}

#[test]
fn an_older_file_system_leaves_no_trace_in_the_new_one() {
    let disk = MemoryDisk::new(24 * MEGABYTE);
    disk.put(0, &vec![0xa5; 24 * MEGABYTE as usize]);
    make(&disk, &sizes(8192, 1024)).expect("it fits the disk");
    make(&disk, &MkfsOptions::default()).expect("it fits the disk");
    if let Some(findings) = findings(&disk, "older") {
        assert_eq!(findings, "");
    }
}

#[test]
fn boot_code_before_the_recovery_record_survives() {
    let disk = MemoryDisk::with_sectors(24 * MEGABYTE, 4096);
    disk.put(0, &[0xb0; SUPERBLOCK_ADDRESS as usize]);
    make(&disk, &MkfsOptions::default()).expect("it fits the disk");
    let boot = disk.bytes(0, SUPERBLOCK_ADDRESS as usize);
    let (code, record) = boot.split_at(boot.len() - 20);
    assert!(code.iter().all(|&byte| byte == 0xb0));
    assert_ne!(record, [0xb0; 20]);
}

#[test]
fn a_terabyte_takes_a_write_a_group_and_a_few_more() {
    let disk = MemoryDisk::new(TERABYTE);
    let geometry = make(&disk, &MkfsOptions::default()).expect("it fits the disk");
    let lengths: Vec<usize> = disk
        .events()
        .iter()
        .filter_map(|event| match event {
            Event::Write(_, bytes) => Some(bytes.len()),
            Event::Flush => None,
        })
        .collect();
    assert!(geometry.group_count < 2000, "{} groups", geometry.group_count);
    assert!(lengths.len() as u64 <= geometry.group_count + 4, "{} writes", lengths.len());
    let written: usize = lengths.iter().sum();
    assert!((written as u64) < TERABYTE / 5000, "{written} bytes");
}

#[test]
fn every_group_of_a_terabyte_fits_its_hash_and_the_totals() {
    let disk = MemoryDisk::new(TERABYTE);
    let geometry = make(&disk, &MkfsOptions::default()).expect("it fits the disk");
    assert_eq!(Geometry::parse(&superblock_of(&disk)).as_ref(), Ok(&geometry));
    let mut free_blocks = 0;
    for group in 0..geometry.group_count {
        let block = group_at(&disk, &geometry, group);
        assert_eq!(geometry.verify_group(&block), Ok(()), "group {group}");
        free_blocks += i64::from(GroupHeader::of(&block).counts.free_blocks.get());
    }
    assert_eq!(superblock_of(&disk).totals.free_blocks.get(), free_blocks);
}

#[test]
fn a_run_that_is_cut_off_leaves_no_file_system() {
    let size = 24 * MEGABYTE;
    let disk = MemoryDisk::new(size);
    make(&disk, &sizes(8192, 1024)).expect("it fits the disk");
    let before = disk.bytes(0, size as usize);
    let old_events = disk.events().len();
    make(&disk, &MkfsOptions::default()).expect("it fits the disk");
    let events = &disk.events()[old_events..];

    let flushes: Vec<usize> =
        (0..events.len()).filter(|&index| matches!(events[index], Event::Flush)).collect();
    let [erased, filled, _done] = flushes[..] else { panic!("{} flushes", flushes.len()) };
    let replayed = MemoryDisk::new(size);
    replayed.put(0, &before);
    for (index, event) in events.iter().enumerate() {
        if (erased..=filled).contains(&index) {
            let found = Geometry::parse(&superblock_of(&replayed));
            assert_eq!(found, Err(BadSuperblock::Unfinished), "event {index}");
        }
        if let Event::Write(offset, bytes) = event {
            replayed.put(*offset, bytes);
        }
    }
    assert!(Geometry::parse(&superblock_of(&replayed)).is_ok());
}

#[test]
fn a_superblock_torn_at_any_sector_is_no_superblock() {
    let disk = MemoryDisk::new(24 * MEGABYTE);
    let geometry = make(&disk, &MkfsOptions::default()).expect("it fits the disk");
    let whole = disk.bytes(SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM as usize);
    let sectors = size_of::<Superblock>().div_ceil(512);
    // Any proper subset of the sectors may have reached the zeroed disk.
    for landed in 0..(1 << sectors) - 1 {
        let mut torn = vec![0; whole.len()];
        for sector in (0..sectors).filter(|sector| landed >> sector & 1 == 1) {
            let range = sector * 512..(sector + 1) * 512;
            torn[range.clone()].copy_from_slice(&whole[range]);
        }
        let (superblock, _) = Superblock::ref_from_prefix(&torn).expect("long enough");
        let good = Geometry::parse(superblock).is_ok();
        assert!(!good || geometry.verify_superblock(&torn).is_err(), "sectors {landed:#b}");
    }
}

#[test]
fn a_write_protected_disk_is_refused_before_anything_happens() {
    let disk = MemoryDisk::read_only(24 * MEGABYTE);
    assert!(matches!(make(&disk, &MkfsOptions::default()), Err(MkfsError::ReadOnly)));
    assert!(disk.events().is_empty());
}

#[test]
fn a_bad_option_is_refused_before_anything_happens() {
    let disk = MemoryDisk::new(24 * MEGABYTE);
    for options in [
        sizes(5000, 5000),
        sizes(2048, 512),
        sizes(32_768, 2048),
        sizes(4096, 8192),
        MkfsOptions { reserve_percent: 100, ..MkfsOptions::default() },
        MkfsOptions { bytes_per_inode: Some(100), ..MkfsOptions::default() },
        MkfsOptions { volume_name: "a b".into(), ..MkfsOptions::default() },
        MkfsOptions { volume_name: "x".repeat(32), ..MkfsOptions::default() },
    ] {
        let refused = make(&disk, &options);
        assert!(matches!(refused, Err(MkfsError::Option { .. })), "{options:?}");
    }
    assert!(disk.events().is_empty());
}
