//! Reads and changes on-disk structures directly, with correct hashes.

use ufs2::layout::{Dinode, Geometry, INODE_SIZE, SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM, Superblock};
use zerocopy::IntoBytes;

use crate::common::MemoryDisk;

/// The geometry of an undamaged disk, in either byte order.
pub(crate) fn geometry_of(disk: &MemoryDisk) -> Geometry {
    let mut superblock = disk.bytes(SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM as usize);
    Geometry::parse_any_order(&mut superblock).expect("a sound disk")
}

/// Changes the superblock, or a copy of it, at this byte offset.
pub(crate) fn change_superblock(
    disk: &MemoryDisk,
    geometry: &Geometry,
    byte: u64,
    change: impl FnOnce(&mut Superblock),
) {
    let mut block = disk.bytes(byte, geometry.superblock_size as usize);
    change(Superblock::of_mut(&mut block));
    geometry.seal_superblock(&mut block);
    disk.put(byte, &block);
}

/// The byte of the disk where an inode starts.
pub(crate) fn inode_byte(geometry: &Geometry, ino: u64) -> u64 {
    let position = geometry.inode_position(ino);
    geometry.byte_address(position.fragment) + position.offset as u64
}

/// An inode on a disk.
pub(crate) fn inode_at(disk: &MemoryDisk, geometry: &Geometry, ino: u64) -> Dinode {
    *Dinode::at(&disk.bytes(inode_byte(geometry, ino), INODE_SIZE as usize), 0)
}

/// Changes an inode.
pub(crate) fn change_inode(
    disk: &MemoryDisk,
    geometry: &Geometry,
    ino: u64,
    change: impl FnOnce(&mut Dinode),
) {
    let mut dinode = inode_at(disk, geometry, ino);
    change(&mut dinode);
    geometry.seal_inode(&mut dinode);
    disk.put(inode_byte(geometry, ino), dinode.as_bytes());
}

/// The byte of the disk where a group block starts.
pub(crate) fn group_byte(geometry: &Geometry, group: u64) -> u64 {
    geometry.byte_address(geometry.group_header_fragment(group))
}

/// A group block on a disk.
pub(crate) fn group_at(disk: &MemoryDisk, geometry: &Geometry, group: u64) -> Vec<u8> {
    disk.bytes(group_byte(geometry, group), geometry.group_block_size as usize)
}

/// Changes a group block.
pub(crate) fn change_group(
    disk: &MemoryDisk,
    geometry: &Geometry,
    group: u64,
    change: impl FnOnce(&mut [u8]),
) {
    let mut block = group_at(disk, geometry, group);
    change(&mut block);
    geometry.seal_group(&mut block);
    disk.put(group_byte(geometry, group), &block);
}
