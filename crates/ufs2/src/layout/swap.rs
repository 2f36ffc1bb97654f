//! Disks of the other byte order: each structure is converted in memory, as soon as it was read.
//!
//! UFS2 has no byte order of its own: a disk has that of the machine that wrote it. The rest of
//! this project knows little-endian structures only. A big-endian disk is converted block by block,
//! right after every read of metadata; it is never written. A check without repair may convert a
//! superblock copy back, to see the disk as it should be.
//!
//! A check hash covers the bytes as they are on the disk, and is stored in the disk's order. So it
//! is compared before the numbers are converted; if it fits, the converted structure is sealed
//! anew, and if not, the hash that it keeps does not fit there either. A caller that verifies a
//! structure later gets the same verdict.
//!
//! Bytes are not numbers: maps, names, labels, and the target of a short symbolic link stay.

use std::mem::offset_of;
use std::ops::Range;

use directory::entry::{CHUNK_SIZE, ENTRY_ALIGNMENT, ENTRY_HEADER_SIZE, EntryHeader};
use vfs::FileKind;
use zerocopy::{FromBytes, IntoBytes};

use super::{
    BadSuperblock, Dinode, Geometry, GroupHeader, INLINE_SYMLINK_SIZE, SUPERBLOCK_MAGIC, Superblock,
};

/// The byte order of numbers on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The least significant byte first: the only one that is written.
    Little,
    /// The most significant byte first.
    Big,
}

/// A run of adjacent numbers of one width in a structure.
struct Numbers {
    place: Range<usize>,
    width: usize,
}

const fn numbers(width: usize, start: usize, end: usize) -> Numbers {
    assert!((end - start).is_multiple_of(width), "whole numbers");
    Numbers { place: start..end, width }
}

/// The numbers of a structure by their width in bytes: from one field up to, and without, another,
/// or a single field.
macro_rules! numbers {
    ($structure:ident { $($width:literal: $first:ident $(.. $end:ident)?),+ $(,)? }) => {
        [$(numbers(
            $width,
            offset_of!($structure, $first),
            numbers!(@end $structure, $width, $first $(, $end)?),
        ),)+]
    };
    (@end $structure:ident, $width:literal, $first:ident) => {
        offset_of!($structure, $first) + $width
    };
    (@end $structure:ident, $width:literal, $first:ident, $end:ident) => {
        offset_of!($structure, $end)
    };
}

const SUPERBLOCK: [Numbers; 11] = numbers!(Superblock {
    4: reserved_0..modified,
    8: system_id,
    4: group_rotor,
    4: max_extent_size,
    8: unreferenced_inodes..pending_inodes,
    4: pending_inodes..mount_time,
    8: mount_time,
    4: journal_free_list..max_file_size,
    8: max_file_size..state,
    4: state,
    4: magic,
});

const GROUP_HEADER: [Numbers; 4] = numbers!(GroupHeader {
    4: reserved_0..old_cylinders,
    2: old_cylinders..fragments,
    4: fragments..time,
    8: time,
});

const INODE: [Numbers; 7] = numbers!(Dinode {
    2: mode..uid,
    4: uid..size,
    8: size..mtime_nanoseconds,
    4: mtime_nanoseconds..attribute_blocks,
    8: attribute_blocks..direct,
    8: change,
    4: free_link..spare,
});

/// The pointers of an inode, or its device number.
const POINTERS: [Numbers; 1] = numbers!(Dinode { 8: direct..change });

const ENTRY_HEADER: [Numbers; 2] = numbers!(EntryHeader { 4: inode, 2: record_length });

fn turn(bytes: &mut [u8], structure: &[Numbers]) {
    for Numbers { place, width } in structure {
        turn_all(&mut bytes[place.clone()], *width);
    }
}

fn turn_all(bytes: &mut [u8], width: usize) {
    bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
}

impl Geometry {
    /// Reads a superblock copy of either byte order; afterwards `block` is little-endian.
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
            return Self::parse(Superblock::of(block));
        }
        let raw = block.to_vec();
        turn(block, &SUPERBLOCK);
        let geometry = Self { byte_order: ByteOrder::Big, ..Self::parse(Superblock::of(block))? };
        let hashed = &raw[..geometry.superblock_size as usize];
        if fits(hashed, offset_of!(Superblock, check_hash)) {
            geometry.seal_superblock(block);
        }
        Ok(geometry)
    }

    /// A superblock copy as it is on the disk, sealed.
    ///
    /// # Panics
    /// When `block` is shorter than [`Geometry::superblock_size`].
    pub fn superblock_on_disk(&self, block: &[u8]) -> Vec<u8> {
        let mut copy = block[..self.superblock_size as usize].to_vec();
        self.seal_superblock(&mut copy);
        if self.byte_order == ByteOrder::Big {
            turn_superblock(&mut copy);
            if self.superblock_hashes {
                let field = offset_of!(Superblock, check_hash);
                let hash = super::check_hash(&copy, field).to_be_bytes();
                copy[field..field + hash.len()].copy_from_slice(&hash);
            }
        }
        copy
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
    /// breaks it is the last that is converted, and a walk of the chunk stops there too.
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

/// Converts a superblock copy as it is, whatever its numbers are; the check hash too, so that it
/// does not fit then.
///
/// # Panics
/// When `block` is shorter than a superblock.
pub fn turn_superblock(block: &mut [u8]) {
    turn(block, &SUPERBLOCK);
}

/// Whether the big-endian hash at `field` fits the bytes around it.
fn fits(bytes: &[u8], field: usize) -> bool {
    bytes[field..].starts_with(&super::check_hash(bytes, field).to_be_bytes())
}
