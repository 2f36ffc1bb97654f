//! The layout of one particular disk.

use std::ops::Range;

use zerocopy::FromBytes;
use zerocopy::little_endian::I32;

use super::{ByteOrder, INODE_SIZE, ROOT_INODE};

/// The shape of one file system, checked once by [`Geometry::parse`] and true from then on.
///
/// Sizes and counts are `u64`, so that addresses are computed without conversions; they are all
/// small enough that no product here overflows. A *group offset* counts fragments from the start of
/// a group, an *address* counts them from the start of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The byte order of numbers on the disk; in memory they are little-endian.
    pub byte_order: ByteOrder,
    /// Bytes in a block: a power of 2, 4096 to 65536.
    pub block_size: u64,
    /// Bytes in a fragment: a power of 2, at least 512.
    pub fragment_size: u64,
    /// Fragments in a block: 1, 2, 4 or 8.
    pub fragments_per_block: u64,
    /// Number of groups, at least 1.
    pub group_count: u64,
    /// Fragments in every group but the last: whole blocks.
    pub fragments_per_group: u64,
    /// Inodes in every group, including the last: whole blocks of them.
    pub inodes_per_group: u64,
    /// Inodes in a block.
    pub inodes_per_block: u64,
    /// Pointers in an indirect block.
    pub pointers_per_indirect: u64,
    /// Fragments of the file system. The device may be larger.
    pub size: u64,
    /// Fragments that files can fill.
    pub data_size: u64,
    /// Percent of `data_size` that only root may fill.
    pub reserve_percent: u64,
    /// Blocks that one file should take in a group before it moves on, at least 1.
    pub max_blocks_per_group: u64,
    /// Fragments at the start of a data area that indirect and directory blocks take first.
    pub metadata_space: u64,
    /// Highest legal byte offset in a file; its largest size is one more.
    pub max_file_size: u64,
    /// Bytes that a superblock copy fills on disk; its hash covers them.
    pub superblock_size: u64,
    /// Bytes of a group block, in whole fragments; its hash covers them.
    pub group_block_size: u64,
    /// Address of the summary area.
    pub summary_address: u64,
    /// Fragments of the summary area.
    pub summary_fragments: u64,
    /// Runs of free blocks are counted up to this length; 0 when no cluster map is kept.
    pub cluster_sum_size: u64,
    /// The places of the maps in a group block.
    pub maps: GroupMaps,
    /// Whether superblock copies have check hashes.
    pub superblock_hashes: bool,
    /// Whether group blocks have check hashes.
    pub group_hashes: bool,
    /// Whether inodes have check hashes.
    pub inode_hashes: bool,
    pub(super) backup_offset: u64,
    pub(super) group_block_offset: u64,
    pub(super) inode_table_offset: u64,
    pub(super) data_offset: u64,
}

/// Byte ranges in a group block. All are the same in every group.
///
/// Bits count from the least significant of the first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMaps {
    /// A bit for each inode; 1 says used.
    pub inodes: Range<usize>,
    /// A bit for each fragment; 1 says *free*. Bits behind a short group are 0.
    pub fragments: Range<usize>,
    /// An `i32` for each length of runs of free blocks, from length 1. On disk the array nominally
    /// starts 4 bytes earlier, with a sum 0 that does not exist: those bytes belong to the fragment
    /// map, or are 0. Empty when no cluster map is kept.
    pub cluster_sums: Range<usize>,
    /// A bit for each block; 1 says free as a whole. Empty when no cluster map is kept.
    pub clusters: Range<usize>,
    /// The end of the last map; zeros follow.
    pub end: usize,
}

impl GroupMaps {
    /// The places of the maps in groups of this shape.
    pub(crate) fn new(
        inodes_per_group: u64,
        fragments_per_group: u64,
        fragments_per_block: u64,
        cluster_sum_size: u64,
    ) -> Self {
        let bytes = |bits: u64| bits.div_ceil(8) as usize;
        let inodes = super::GROUP_HEADER_SIZE..super::GROUP_HEADER_SIZE + bytes(inodes_per_group);
        let fragments = inodes.end..inodes.end + bytes(fragments_per_group);
        if cluster_sum_size == 0 {
            let none = fragments.end..fragments.end;
            let end = fragments.end;
            return Self { inodes, fragments, cluster_sums: none.clone(), clusters: none, end };
        }
        let sums = fragments.end.next_multiple_of(size_of::<I32>());
        let cluster_sums = sums..sums + cluster_sum_size as usize * size_of::<I32>();
        let blocks = fragments_per_group / fragments_per_block;
        let clusters = cluster_sums.end..cluster_sums.end + bytes(blocks);
        let end = clusters.end;
        Self { inodes, fragments, cluster_sums, clusters, end }
    }

    /// The inode map in a group block.
    pub fn inodes_in<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        &block[self.inodes.clone()]
    }

    /// The inode map, for changes.
    pub fn inodes_in_mut<'a>(&self, block: &'a mut [u8]) -> &'a mut [u8] {
        &mut block[self.inodes.clone()]
    }

    /// The fragment map in a group block.
    pub fn fragments_in<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        &block[self.fragments.clone()]
    }

    /// The fragment map, for changes.
    pub fn fragments_in_mut<'a>(&self, block: &'a mut [u8]) -> &'a mut [u8] {
        &mut block[self.fragments.clone()]
    }

    /// The cluster sums in a group block, for changes: element `k - 1` counts runs of `k` blocks,
    /// the last one all the longer runs too.
    pub fn cluster_sums_in_mut<'a>(&self, block: &'a mut [u8]) -> &'a mut [I32] {
        <[I32]>::mut_from_bytes(&mut block[self.cluster_sums.clone()]).expect("whole numbers")
    }

    /// The header fields that locate the maps: `(inode map, fragment map, cluster sums, cluster
    /// map, end)`, as FreeBSD counts, with the cluster sums 4 bytes early.
    pub fn header_offsets(&self) -> [u32; 5] {
        let (sums, clusters) = if self.cluster_sums.is_empty() {
            (0, 0)
        } else {
            (self.cluster_sums.start - size_of::<I32>(), self.clusters.start)
        };
        [self.inodes.start, self.fragments.start, sums, clusters, self.end]
            .map(|offset| offset as u32)
    }
}

/// The position of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodePosition {
    /// Address of the block of inodes that it is in.
    pub fragment: u64,
    /// Bytes from the start of that block.
    pub offset: usize,
}

impl Geometry {
    /// Byte address of a fragment.
    pub fn byte_address(&self, fragment: u64) -> u64 {
        fragment * self.fragment_size
    }

    /// Number of inodes of the file system; inode numbers are below this.
    pub fn inode_count(&self) -> u64 {
        self.group_count * self.inodes_per_group
    }

    /// Whether a file could have this number.
    pub fn is_inode(&self, ino: u64) -> bool {
        (ROOT_INODE..self.inode_count()).contains(&ino)
    }

    /// Fragments in group `group`: all but the last have the same.
    pub fn group_size_fragments(&self, group: u64) -> u64 {
        assert!(group < self.group_count, "group {group} of {}", self.group_count);
        self.fragments_per_group.min(self.size - self.group_base(group))
    }

    /// Whole blocks in a group: a short last group may end within a block.
    pub fn group_size_blocks(&self, group: u64) -> u64 {
        self.group_size_fragments(group) / self.fragments_per_block
    }

    /// Address of the first fragment of a group.
    pub fn group_base(&self, group: u64) -> u64 {
        group * self.fragments_per_group
    }

    /// Address of the backup superblock of a group. Group 0 has one too.
    pub fn backup_superblock_fragment(&self, group: u64) -> u64 {
        self.group_base(group) + self.backup_offset
    }

    /// Address of the group block: header and maps, `group_block_size` bytes.
    pub fn group_header_fragment(&self, group: u64) -> u64 {
        self.group_base(group) + self.group_block_offset
    }

    /// Address of the inode table of a group.
    pub fn inode_table_fragment(&self, group: u64) -> u64 {
        self.group_base(group) + self.inode_table_offset
    }

    /// Address of the first fragment behind the inode table. In all groups but the first, data lies
    /// before the metadata as well: see [`Geometry::is_data_fragment`].
    pub fn first_data_fragment(&self, group: u64) -> u64 {
        self.group_base(group) + self.data_offset
    }

    /// The group offsets of the metadata of a group, in order; the second range is the summary
    /// area's, empty in all groups but one.
    pub fn metadata_offsets(&self, group: u64) -> [Range<u64>; 2] {
        let start = if group == 0 { 0 } else { self.backup_offset };
        let summary = if self.group_of_fragment(self.summary_address) == group {
            let start = self.summary_address - self.group_base(group);
            start..start + self.summary_fragments
        } else {
            self.data_offset..self.data_offset
        };
        [start..self.data_offset, summary]
    }

    /// The group that an inode is in.
    pub fn group_of_inode(&self, ino: u64) -> u64 {
        ino / self.inodes_per_group
    }

    /// The group that a fragment is in.
    pub fn group_of_fragment(&self, fragment: u64) -> u64 {
        fragment / self.fragments_per_group
    }

    /// The position of an inode.
    ///
    /// # Panics
    /// When there is no such inode: numbers from disk go through [`Geometry::is_inode`] first.
    pub fn inode_position(&self, ino: u64) -> InodePosition {
        assert!(ino < self.inode_count(), "inode {ino} of {}", self.inode_count());
        let index = ino % self.inodes_per_group;
        let block = index / self.inodes_per_block;
        let fragment = self.inode_table_fragment(self.group_of_inode(ino));
        InodePosition {
            fragment: fragment + block * self.fragments_per_block,
            offset: (index % self.inodes_per_block * INODE_SIZE) as usize,
        }
    }

    /// Whether a file may hold this fragment: it is on the disk, and not metadata.
    pub fn is_data_fragment(&self, fragment: u64) -> bool {
        if fragment >= self.size {
            return false;
        }
        let offset = fragment % self.fragments_per_group;
        let metadata = self.metadata_offsets(self.group_of_fragment(fragment));
        !metadata.iter().any(|range| range.contains(&offset))
    }

    /// Whether a file may hold this run: inside one block, on the disk, and not metadata. Takes
    /// unchecked numbers from a disk.
    pub fn is_data_run(&self, first: u64, count: u64) -> bool {
        let room = self.fragments_per_block - first % self.fragments_per_block;
        if first >= self.size || !(1..=room).contains(&count) || count > self.size - first {
            return false;
        }
        // Groups begin at a block boundary, so all of it is in one.
        let start = first % self.fragments_per_group;
        let metadata = self.metadata_offsets(self.group_of_fragment(first));
        !metadata.iter().any(|range| range.start.max(start) < range.end.min(start + count))
    }
}
