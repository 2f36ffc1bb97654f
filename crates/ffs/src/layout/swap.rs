//! Disks of the other byte order: each structure is turned around in memory, as soon as it was
//! read.
//!
//! UFS2 has no byte order of its own: a disk is in that of the machine that wrote it. The rest of
//! this project knows little-endian structures only. A big-endian disk becomes one of them block by
//! block, behind every read of metadata; it is never written.
//!
//! A check hash covers the bytes as they lie on the disk, and stands there in the disk's order. So
//! it is compared before the numbers are turned; if it fits, the turned structure is sealed anew,
//! and if not, the hash that it keeps does not fit there either. Whoever verifies a structure later
//! finds out what the disk said.
//!
//! Bytes are not numbers: maps, names, labels, and the target of a short symbolic link stay.

use std::mem::offset_of;
use std::ops::Range;

use vfs::FileKind;
use zerocopy::{FromBytes, IntoBytes};

use super::{
    BadSuperblock, CHUNK_SIZE, Dinode, ENTRY_ALIGNMENT, ENTRY_HEADER_SIZE, EntryHeader, Geometry,
    GroupHeader, INLINE_SYMLINK_SIZE, SUPERBLOCK_MAGIC, Superblock,
};

/// In which order the bytes of a number lie on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The least significant byte first: the only one that is written.
    Little,
    /// The most significant byte first.
    Big,
}

/// Where numbers of one width stand side by side in a structure.
struct Numbers {
    place: Range<usize>,
    width: usize,
}

const fn numbers(start: usize, end: usize, width: usize) -> Numbers {
    assert!((end - start).is_multiple_of(width));
    Numbers { place: start..end, width }
}

const SUPERBLOCK: [Numbers; 11] = [
    numbers(0, offset_of!(Superblock, modified), 4),
    numbers(offset_of!(Superblock, system_id), offset_of!(Superblock, reserved_720), 8),
    numbers(offset_of!(Superblock, group_rotor), offset_of!(Superblock, in_core), 4),
    numbers(
        offset_of!(Superblock, max_extent_size),
        offset_of!(Superblock, unreferenced_inodes),
        4,
    ),
    numbers(offset_of!(Superblock, unreferenced_inodes), offset_of!(Superblock, pending_inodes), 8),
    numbers(offset_of!(Superblock, pending_inodes), offset_of!(Superblock, mount_time), 4),
    numbers(offset_of!(Superblock, mount_time), offset_of!(Superblock, journal_free_list), 8),
    numbers(offset_of!(Superblock, journal_free_list), offset_of!(Superblock, max_file_size), 4),
    numbers(offset_of!(Superblock, max_file_size), offset_of!(Superblock, state), 8),
    numbers(offset_of!(Superblock, state), offset_of!(Superblock, reserved_1356), 4),
    numbers(offset_of!(Superblock, magic), size_of::<Superblock>(), 4),
];

const GROUP_HEADER: [Numbers; 4] = [
    numbers(0, offset_of!(GroupHeader, old_cylinders), 4),
    numbers(offset_of!(GroupHeader, old_cylinders), offset_of!(GroupHeader, fragments), 2),
    numbers(offset_of!(GroupHeader, fragments), offset_of!(GroupHeader, time), 4),
    numbers(offset_of!(GroupHeader, time), offset_of!(GroupHeader, reserved_144), 8),
];

const INODE: [Numbers; 7] = [
    numbers(0, offset_of!(Dinode, uid), 2),
    numbers(offset_of!(Dinode, uid), offset_of!(Dinode, size), 4),
    numbers(offset_of!(Dinode, size), offset_of!(Dinode, mtime_nanoseconds), 8),
    numbers(offset_of!(Dinode, mtime_nanoseconds), offset_of!(Dinode, attribute_blocks), 4),
    numbers(offset_of!(Dinode, attribute_blocks), offset_of!(Dinode, direct), 8),
    numbers(offset_of!(Dinode, change), offset_of!(Dinode, free_link), 8),
    numbers(offset_of!(Dinode, free_link), offset_of!(Dinode, spare), 4),
];

/// The pointers of an inode, or its device number.
const POINTERS: [Numbers; 1] = [numbers(offset_of!(Dinode, direct), offset_of!(Dinode, change), 8)];

const ENTRY_HEADER: [Numbers; 2] = [
    numbers(offset_of!(EntryHeader, inode), offset_of!(EntryHeader, record_length), 4),
    numbers(offset_of!(EntryHeader, record_length), offset_of!(EntryHeader, kind), 2),
];

fn turn(bytes: &mut [u8], structure: &[Numbers]) {
    for Numbers { place, width } in structure {
        turn_all(&mut bytes[place.clone()], *width);
    }
}

fn turn_all(bytes: &mut [u8], width: usize) {
    bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
}

impl Geometry {
    /// Reads a superblock copy of either byte order; from then on `block` is little-endian.
    ///
    /// # Errors
    /// As [`Geometry::parse`].
    ///
    /// # Panics
    /// When `block` is shorter than the room of a superblock.
    pub fn parse_any_order(block: &mut [u8]) -> Result<Self, BadSuperblock> {
        let magic = offset_of!(Superblock, magic);
        let big = block[magic..].starts_with(&SUPERBLOCK_MAGIC.to_be_bytes());
        if !big {
            return Self::parse(superblock(block));
        }
        let raw = block.to_vec();
        turn(block, &SUPERBLOCK);
        let geometry = Self { byte_order: ByteOrder::Big, ..Self::parse(superblock(block))? };
        let hashed = &raw[..geometry.superblock_size as usize];
        if fits(hashed, offset_of!(Superblock, check_hash)) {
            geometry.seal_superblock(block);
        }
        Ok(geometry)
    }

    /// Makes a group block that was just read little-endian.
    ///
    /// # Panics
    /// When `block` is shorter than [`Geometry::group_block_size`].
    pub fn turn_group(&self, block: &mut [u8]) {
        if self.byte_order == ByteOrder::Little {
            return;
        }
        let hashed = &block[..self.group_block_size as usize];
        let fits = fits(hashed, offset_of!(GroupHeader, check_hash));
        turn(block, &GROUP_HEADER);
        turn_all(&mut block[self.maps.cluster_sums.clone()], size_of::<u32>());
        if fits {
            self.seal_group(block);
        }
    }

    /// Makes the summary area, just read, little-endian.
    pub fn turn_summary(&self, area: &mut [u8]) {
        if self.byte_order == ByteOrder::Big {
            turn_all(area, size_of::<u32>());
        }
    }

    /// Makes a block of inodes that was just read little-endian.
    pub fn turn_inodes(&self, block: &mut [u8]) {
        if self.byte_order == ByteOrder::Big {
            block.chunks_exact_mut(size_of::<Dinode>()).for_each(|inode| self.turn_inode(inode));
        }
    }

    fn turn_inode(&self, inode: &mut [u8]) {
        let fits = fits(inode, offset_of!(Dinode, check_hash));
        turn(inode, &INODE);
        let dinode = Dinode::at_mut(inode, 0);
        let is_target = dinode.kind() == Some(FileKind::Symlink)
            && dinode.size.get() < INLINE_SYMLINK_SIZE as u64;
        if !is_target {
            turn(dinode.as_mut_bytes(), &POINTERS);
        }
        if fits {
            self.seal_inode(dinode);
        }
    }

    /// Makes a block of pointers that was just read little-endian.
    pub fn turn_indirect(&self, block: &mut [u8]) {
        if self.byte_order == ByteOrder::Big {
            turn_all(block, size_of::<u64>());
        }
    }

    /// Makes directory chunks that were just read little-endian. In a broken chunk the entry that
    /// breaks it is the last that is turned, and whoever walks the chunk stops there too.
    pub fn turn_directory(&self, chunks: &mut [u8]) {
        if self.byte_order == ByteOrder::Big {
            chunks.chunks_exact_mut(CHUNK_SIZE).for_each(turn_chunk);
        }
    }
}

fn turn_chunk(chunk: &mut [u8]) {
    let mut rest = chunk;
    while rest.len() >= ENTRY_HEADER_SIZE {
        turn(rest, &ENTRY_HEADER);
        let (header, _) = EntryHeader::ref_from_prefix(rest).expect("longer than a header");
        let length = usize::from(header.record_length.get());
        if length < ENTRY_HEADER_SIZE
            || !length.is_multiple_of(ENTRY_ALIGNMENT)
            || length > rest.len()
        {
            return;
        }
        rest = &mut rest[length..];
    }
}

fn superblock(block: &[u8]) -> &Superblock {
    let (superblock, _) = Superblock::ref_from_prefix(block).expect("the room of a superblock");
    superblock
}

/// Whether the big-endian hash at `field` fits the bytes around it.
fn fits(bytes: &[u8], field: usize) -> bool {
    bytes[field..].starts_with(&super::check_hash(bytes, field).to_be_bytes())
}
