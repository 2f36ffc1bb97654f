//! The places of a file's blocks in its block map, and the length of the last one.
//!
//! The inode points at a file's first 12 blocks; then come a tree of one level, one of two and one
//! of three. Address 0 is a hole, anywhere. Only the last block of a file of at most 12 blocks may
//! be shorter than a block: then it is a run of fragments.

use vfs::{FileKind, FsError};

use crate::layout::{
    DIRECT_BLOCKS, Dinode, Geometry, INDIRECT_POINTERS, INLINE_SYMLINK_SIZE, POINTER_SIZE,
    SECTOR_SIZE,
};

/// Number of blocks of a file of `size` bytes.
pub fn block_count(geometry: &Geometry, size: u64) -> u64 {
    size.div_ceil(geometry.block_size)
}

/// Fragments of block `lbn` of a file of `size` bytes, if it is no hole.
pub fn run_length(geometry: &Geometry, size: u64, lbn: u64) -> u64 {
    let blocks = block_count(geometry, size);
    let tail = size % geometry.block_size;
    if blocks <= DIRECT_BLOCKS && lbn + 1 == blocks && tail > 0 {
        tail.div_ceil(geometry.fragment_size)
    } else {
        geometry.fragments_per_block
    }
}

/// Number of 512-byte sectors of this many fragments.
pub fn sectors(geometry: &Geometry, fragments: u64) -> u64 {
    fragments * geometry.fragment_size / SECTOR_SIZE
}

/// The path to a block behind the direct ones: the tree, and the slot to take at each level.
pub struct Path {
    /// The index of the tree: 0 for the one of one level.
    pub tree: usize,
    /// The slots, from the root of the tree on.
    pub slots: Vec<usize>,
}

/// The path to block `lbn` of a file, which is behind the direct ones.
///
/// # Errors
/// [`FsError::FileTooLarge`] when no tree reaches that far.
pub fn path(geometry: &Geometry, lbn: u64) -> Result<Path, FsError> {
    let fan = geometry.pointers_per_indirect;
    let mut rest = lbn - DIRECT_BLOCKS;
    let mut span = fan;
    for tree in 0..INDIRECT_POINTERS {
        if rest < span {
            let mut slots = Vec::with_capacity(tree + 1);
            for _ in 0..=tree {
                span /= fan;
                slots.push((rest / span) as usize);
                rest %= span;
            }
            return Ok(Path { tree, slots });
        }
        rest -= span;
        span *= fan;
    }
    Err(FsError::FileTooLarge)
}

/// Number of indirect blocks between an inode and a block of its file.
///
/// # Errors
/// As [`path`].
pub fn depth(geometry: &Geometry, lbn: u64) -> Result<u64, FsError> {
    if lbn < DIRECT_BLOCKS {
        Ok(0)
    } else {
        path(geometry, lbn).map(|path| path.slots.len() as u64)
    }
}

/// The pointer in a slot of an indirect block.
pub fn pointer(image: &[u8], slot: usize) -> u64 {
    let bytes = &image[slot * POINTER_SIZE..][..POINTER_SIZE];
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// Whether an inode's pointer fields hold pointers: a short symbolic link has its target there, a
/// device its number.
pub fn has_blocks(kind: FileKind, dinode: &Dinode) -> bool {
    match kind {
        FileKind::Regular | FileKind::Directory => true,
        FileKind::Symlink => dinode.size.get() >= INLINE_SYMLINK_SIZE as u64,
        _ => false,
    }
}
