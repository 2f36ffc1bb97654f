//! The superblock: every address of an accepted shape is on the disk.

use sim::Prng;
use ufs2::derive;
use ufs2::layout::{ByteOrder, Geometry, INODE_SIZE, ROOT_INODE, SUPERBLOCK_ROOM};

use super::Target;
use crate::templates;

pub(super) const TARGET: Target =
    Target { name: "superblock", check, generate, longest: 1536, memory: 256 << 10 };

fn check(bytes: &[u8]) {
    let mut block = bytes.to_vec();
    block.resize(SUPERBLOCK_ROOM as usize, 0);
    let geometry = match Geometry::parse_any_order(&mut block) {
        Ok(geometry) => geometry,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    check_orders(&geometry, &mut block);
    check_units(&geometry);
    let last = geometry.group_count - 1;
    for group in [0, 1, last / 2, last] {
        check_group(&geometry, group.min(last));
    }
    check_inodes(&geometry);
    check_runs(&geometry);
}

/// Once sealed it matches; and the same disk of the other byte order is the same disk.
fn check_orders(geometry: &Geometry, block: &mut [u8]) {
    let _ = geometry.verify_superblock(block);
    geometry.seal_superblock(block);
    assert_eq!(geometry.verify_superblock(block), Ok(()));
    let mut little = geometry.clone();
    little.byte_order = ByteOrder::Little;
    let mut again = block.to_vec();
    assert_eq!(Geometry::parse_any_order(&mut again).as_ref(), Ok(&little));

    let mut turned = templates::big_endian_superblock(geometry, block);
    let mut big = geometry.clone();
    big.byte_order = ByteOrder::Big;
    assert_eq!(Geometry::parse_any_order(&mut turned), Ok(big));
    if geometry.superblock_hashes {
        assert_eq!(turned, block, "a hash that fits is made to fit again");
    }
}

fn check_units(geometry: &Geometry) {
    let Geometry { block_size, fragment_size, fragments_per_block, maps, .. } = geometry;
    assert_eq!(*block_size, fragment_size * fragments_per_block);
    assert!(geometry.byte_address(geometry.size) <= i64::MAX as u64, "an off_t");
    assert!(geometry.inode_count() < 1 << 32);
    assert!(maps.end as u64 <= geometry.group_block_size);
    assert!(geometry.group_block_size <= *block_size);
    assert!(maps.inodes.len() as u64 * 8 >= geometry.inodes_per_group);
    assert!(maps.fragments.len() as u64 * 8 >= geometry.fragments_per_group);
    let summary = geometry.summary_address + geometry.summary_fragments;
    assert!(summary <= geometry.size, "the summary area is on the disk");
    assert!(geometry.summary_fragments * fragment_size >= geometry.group_count * 16);
    assert!(geometry.max_file_size.checked_add(1).is_some());
}

/// All structures of a group are inside it, in order, and its block can be made.
fn check_group(geometry: &Geometry, group: u64) {
    let base = geometry.group_base(group);
    let size = geometry.group_size_fragments(group);
    assert!(base < geometry.size && base + size <= geometry.size, "group {group} is on the disk");
    let header = geometry.group_header_fragment(group);
    let table = geometry.inode_table_fragment(group);
    let data = geometry.first_data_fragment(group);
    let backup = geometry.backup_superblock_fragment(group);
    assert!(base < backup && backup < header && header < table && table < data);
    assert!(data <= base + size, "metadata fit into group {group}");
    assert!((table - header) * geometry.fragment_size >= geometry.group_block_size);
    for range in geometry.metadata_offsets(group) {
        assert!(range.start <= range.end && range.end <= size, "metadata of group {group}");
    }
    let mut block = vec![0; geometry.group_block_size as usize];
    derive::initialize_group(geometry, group, &mut block);
    derive::bits::set_range(geometry.maps.inodes_in_mut(&mut block), 0..ROOT_INODE + 1);
    let counts = derive::recompute_group(geometry, group, &mut block);
    assert!(counts.free_inodes.get() as u64 <= geometry.inodes_per_group);
    geometry.seal_group(&mut block);
    assert_eq!(derive::check_group(geometry, group, &block), Ok(()));
}

fn check_inodes(geometry: &Geometry) {
    let count = geometry.inode_count();
    for ino in [0, 1, ROOT_INODE, count / 2, count - 1] {
        let position = geometry.inode_position(ino.min(count - 1));
        assert!(position.fragment + geometry.fragments_per_block <= geometry.size);
        assert!(position.offset as u64 + INODE_SIZE <= geometry.block_size);
        assert!(!geometry.is_data_fragment(position.fragment), "no file may hold inodes");
    }
    assert!(geometry.is_inode(ROOT_INODE) && !geometry.is_inode(count));
    assert!(!geometry.is_inode(u64::MAX) && !geometry.is_inode(1));
}

fn check_runs(geometry: &Geometry) {
    let size = geometry.size;
    let per_block = geometry.fragments_per_block;
    for first in [0, 1, size / 3, size / 2, size - 1, size, u64::MAX - 1, u64::MAX] {
        for count in [0, 1, per_block, per_block + 1, u64::MAX] {
            if geometry.is_data_run(first, count) {
                assert!(first + count <= size && (1..=per_block).contains(&count));
                assert!((first..first + count).all(|at| geometry.is_data_fragment(at)));
            }
        }
    }
    assert!(!geometry.is_data_fragment(size) && !geometry.is_data_fragment(u64::MAX));
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let template = &templates::all()[prng.index(templates::all().len())];
    let mut block = if prng.chance(1, 2) {
        template.superblock.clone()
    } else {
        templates::big_endian_superblock(&template.geometry, &template.superblock)
    };
    block.truncate(1376);
    block
}
