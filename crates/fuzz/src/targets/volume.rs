//! Shared by the targets on whole disks: a small new file system, and damage to its fields.

use std::rc::Rc;

use runtime::Timestamp;
use sim::{Disk, Executor, Image, Prng};
use ufs2::layout::{Geometry, SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM};
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::Name;

/// A new file system of several groups, small enough that every case can have its own.
pub(super) fn small(executor: &Executor) -> Rc<Disk> {
    let options = MkfsOptions {
        block_size: 4096,
        fragment_size: 512,
        max_group_blocks: Some(200),
        bytes_per_inode: Some(8192),
        ..MkfsOptions::default()
    };
    new(executor, 2 << 20, &options)
}

/// A new file system.
pub(super) fn new(executor: &Executor, size: u64, options: &MkfsOptions) -> Rc<Disk> {
    let disk = Disk::new(executor, Image::zeroed(size));
    let now = Timestamp { seconds: 1_800_000_000, nanoseconds: 0 };
    let random = executor.runtime().random;
    executor.block_on(mkfs(&*disk, options, &*random, now)).expect("the disk holds it");
    disk
}

/// The layout of a disk of ours.
pub(super) fn geometry_of(image: &Image) -> Geometry {
    let mut superblock = vec![0; SUPERBLOCK_ROOM as usize];
    image.read(SUPERBLOCK_ADDRESS, &mut superblock);
    Geometry::parse_any_order(&mut superblock).expect("our own disk")
}

pub(super) fn name(text: &str) -> Name {
    Name::parse(text.as_bytes()).expect("a legal name")
}

/// The size of a field in bytes.
pub(super) fn width(prng: &mut Prng) -> usize {
    [1, 2, 4, 8][prng.index(4)]
}

/// The offset of a field of this width below `end`: mostly aligned to the width.
pub(super) fn offset(prng: &mut Prng, end: usize, width: usize) -> u16 {
    let offset = prng.index(end);
    (if prng.chance(3, 4) { offset - offset % width } else { offset }) as u16
}

/// A value for a field: anything, a number of any length, a single bit, or a likely number.
pub(super) fn value(prng: &mut Prng) -> u64 {
    match prng.below(4) {
        0 => prng.next_u64(),
        1 => u64::MAX >> prng.below(64),
        2 => 1 << prng.below(64),
        _ => prng.below(5000),
    }
}
