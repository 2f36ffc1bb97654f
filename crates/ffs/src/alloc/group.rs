//! One cylinder group in memory: its buffer, its held bits, and its allocatable space.

use std::rc::Rc;

use runtime::Instant;
use ufs2::derive::bits;
use ufs2::layout::{Geometry, GroupHeader, Summary};

use super::held::Held;
use crate::buffer::Buffer;

/// See the module's prose; the invariants are those of [`super::Allocator`].
pub(super) struct Group {
    /// Whether its counts are true and included in those of the volume.
    pub(super) counts: bool,
    buffer: Option<Rc<Buffer>>,
    /// Fragments and inodes that are promised or not yet free.
    held_fragments: Held,
    held_inodes: Held,
    /// Allocatable space.
    pub(super) free_blocks: i64,
    pub(super) free_fragments: i64,
    pub(super) free_inodes: i64,
    pub(super) directories: i64,
    /// Block of the group where the last search for a whole block ended.
    pub(super) block_rotor: usize,
    /// Block of the group where the last search for fragments ended.
    pub(super) fragment_rotor: usize,
    /// Where the last search for an inode ended.
    pub(super) inode_rotor: usize,
    /// Blocks of inodes to keep initialised ahead of the rotor, and the time of the last
    /// initialisation.
    pub(super) inode_blocks_ahead: u64,
    pub(super) initialised_at: Instant,
}

impl Group {
    pub(super) fn new(row: &Summary, counts: bool) -> Self {
        Self {
            counts,
            buffer: None,
            held_fragments: Held::default(),
            held_inodes: Held::default(),
            free_blocks: row.free_blocks.get().into(),
            free_fragments: row.free_fragments.get().into(),
            free_inodes: row.free_inodes.get().into(),
            directories: row.directories.get().into(),
            block_rotor: 0,
            fragment_rotor: 0,
            inode_rotor: 0,
            inode_blocks_ahead: 1,
            initialised_at: Instant::default(),
        }
    }

    pub(super) fn buffer(&self) -> Option<Rc<Buffer>> {
        self.buffer.clone()
    }

    pub(super) fn set_buffer(&mut self, buffer: Rc<Buffer>) {
        self.buffer = Some(buffer);
    }

    fn loaded(&self) -> &Rc<Buffer> {
        self.buffer.as_ref().expect("a group is loaded before anything of it is held")
    }

    pub(super) fn count_directory(&mut self, change: i64) {
        self.directories += change;
    }

    /// The allocatable bits of one block, lowest fragment first.
    pub(super) fn block_bits(&self, geometry: &Geometry, block: usize) -> u8 {
        let image_bits =
            self.loaded().read(|image| bits_of(geometry, geometry.maps.fragments_in(image), block));
        let first = block * geometry.fragments_per_block as usize;
        image_bits & !self.held_fragments.bits(first)
    }

    /// Marks fragments as held or not; returns the change of free blocks and free fragments.
    pub(super) fn hold_fragments(
        &mut self,
        geometry: &Geometry,
        first: usize,
        count: usize,
        held: bool,
    ) -> (i64, i64) {
        let per_block = geometry.fragments_per_block as usize;
        let block = first / per_block;
        assert_eq!(block, (first + count - 1) / per_block, "a run stays inside a block");
        let (old_blocks, old_fragments) = self.count(geometry, block);
        for fragment in first..first + count {
            self.held_fragments.put(fragment, held);
        }
        let (blocks, fragments) = self.count(geometry, block);
        self.free_blocks += blocks - old_blocks;
        self.free_fragments += fragments - old_fragments;
        (blocks - old_blocks, fragments - old_fragments)
    }

    /// Whether any of these fragments is held.
    pub(super) fn holds_fragments(&self, first: usize, count: usize) -> bool {
        (first..first + count).any(|fragment| self.held_fragments.has(fragment))
    }

    /// Whether this inode is held.
    pub(super) fn holds_inode(&self, index: usize) -> bool {
        self.held_inodes.has(index)
    }

    /// Marks an inode as held or not; returns the change of free inodes.
    pub(super) fn hold_inode(&mut self, geometry: &Geometry, index: usize, held: bool) -> i64 {
        let old = i64::from(self.is_inode_free(geometry, index));
        self.held_inodes.put(index, held);
        let change = i64::from(self.is_inode_free(geometry, index)) - old;
        self.free_inodes += change;
        change
    }

    pub(super) fn is_inode_free(&self, geometry: &Geometry, index: usize) -> bool {
        let bit = index as u64;
        let used = self.loaded().read(|image| bits::is_set(geometry.maps.inodes_in(image), bit));
        !used && !self.held_inodes.has(index)
    }

    /// Counts the allocatable space of the whole group, which is loaded.
    pub(super) fn count_all(&mut self, geometry: &Geometry) {
        let blocks = geometry.maps.fragments.len() * 8 / geometry.fragments_per_block as usize;
        let counted = (0..blocks).map(|block| self.count(geometry, block));
        let (blocks, fragments) = counted.fold((0, 0), |(blocks, fragments), (block, fragment)| {
            (blocks + block, fragments + fragment)
        });
        let count = geometry.inodes_per_group as usize;
        let inodes = (0..count).filter(|&index| self.is_inode_free(geometry, index)).count();
        let header = self.loaded().read(|image| GroupHeader::of(image).counts);
        (self.free_blocks, self.free_fragments) = (blocks, fragments);
        (self.free_inodes, self.directories) = (inodes as i64, header.directories.get().into());
        self.counts = true;
    }

    /// Free whole blocks (0 or 1), and free fragments of a partly used block.
    fn count(&self, geometry: &Geometry, block: usize) -> (i64, i64) {
        let bits = self.block_bits(geometry, block);
        if bits == full_block(geometry) { (1, 0) } else { (0, i64::from(bits.count_ones())) }
    }
}

/// The bits of a wholly free block.
pub(super) fn full_block(geometry: &Geometry) -> u8 {
    (0xff_u16 >> (8 - geometry.fragments_per_block)) as u8
}

fn bits_of(geometry: &Geometry, map: &[u8], block: usize) -> u8 {
    let per_block = geometry.fragments_per_block as usize;
    let bit = block * per_block;
    map[bit / 8] >> (bit % 8) & full_block(geometry)
}
