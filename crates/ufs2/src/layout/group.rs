//! The header of a group block, and the counts that every group keeps twice.
//!
//! The maps behind the header have no struct: their places depend on the disk, see
//! [`super::GroupMaps`].

use zerocopy::little_endian::{I16, I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The magic number of a group block, in its second field.
pub const GROUP_MAGIC: u32 = 0x0009_0255;
/// Bytes of the header: the inode map follows.
pub const GROUP_HEADER_SIZE: usize = size_of::<GroupHeader>();

/// Counts of one group: in its header, and as its row of the summary area.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct Summary {
    /// Directories.
    pub directories: I32,
    /// Blocks that are entirely free.
    pub free_blocks: I32,
    /// Free inodes.
    pub free_inodes: I32,
    /// Free fragments in blocks that are not entirely free.
    pub free_fragments: I32,
}

offsets!(Summary, 16, { directories: 0, free_blocks: 4, free_inodes: 8, free_fragments: 12 });

/// The first 168 bytes of a group block. `cg_...` is FreeBSD's name of a field.
///
/// FreeBSD's checker compares all of it with its own computation, including the reserved bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct GroupHeader {
    /// Zero.
    pub reserved_0: [u8; 4],
    /// [`GROUP_MAGIC`] (`cg_magic`).
    pub magic: U32,
    /// Low half of `time`, or 0 (`cg_old_time`).
    pub old_time: I32,
    /// Its own number (`cg_cgx`).
    pub index: U32,
    /// Zero: a UFS1 value.
    pub old_cylinders: I16,
    /// Zero: a UFS1 value.
    pub old_inodes: I16,
    /// Fragments in this group (`cg_ndblk`).
    pub fragments: U32,
    /// The counts (`cg_cs`).
    pub counts: Summary,
    /// Fragment of the last block found in the group, a hint (`cg_rotor`).
    pub block_rotor: U32,
    /// The last fragment found in the group, a hint (`cg_frotor`).
    pub fragment_rotor: U32,
    /// The last inode found in the group, a hint (`cg_irotor`).
    pub inode_rotor: U32,
    /// Entry k: free runs of exactly k fragments in partly used blocks. Entry 0 is 0 (`cg_frsum`).
    pub fragment_runs: [U32; 8],
    /// Zero: UFS1 offsets.
    pub reserved_84: [u8; 8],
    /// Byte offset of the inode map (`cg_iusedoff`).
    pub inode_map_offset: U32,
    /// Byte offset of the fragment map (`cg_freeoff`).
    pub fragment_map_offset: U32,
    /// Byte offset of the end of all maps (`cg_nextfreeoff`).
    pub maps_end_offset: U32,
    /// Byte offset at which cluster sum 0 would be: see [`super::GroupMaps`] (`cg_clustersumoff`).
    pub cluster_sums_offset: U32,
    /// Byte offset of the cluster map (`cg_clusteroff`).
    pub cluster_map_offset: U32,
    /// Whole blocks in this group, 0 when no cluster map is kept (`cg_nclusterblks`).
    pub cluster_blocks: U32,
    /// Inodes in this group (`cg_niblk`).
    pub inodes: U32,
    /// Initialised inodes, from the start of the table (`cg_initediblk`).
    pub initialized_inodes: U32,
    /// Inodes without a name that were still open (`cg_unrefs`).
    pub unreferenced_inodes: U32,
    /// Zero.
    pub reserved_128: [u8; 4],
    /// Check hash of the group block (`cg_ckhash`).
    pub check_hash: U32,
    /// Time of the last write, in seconds (`cg_time`).
    pub time: I64,
    /// Zero.
    pub reserved_144: [u8; 24],
}

offsets!(GroupHeader, 168, {
    magic: 4, old_time: 8, index: 12, old_cylinders: 16, old_inodes: 18, fragments: 20,
    counts: 24, block_rotor: 40, fragment_rotor: 44, inode_rotor: 48, fragment_runs: 52,
    reserved_84: 84, inode_map_offset: 92, fragment_map_offset: 96, maps_end_offset: 100,
    cluster_sums_offset: 104, cluster_map_offset: 108, cluster_blocks: 112, inodes: 116,
    initialized_inodes: 120, unreferenced_inodes: 124, reserved_128: 128, check_hash: 132,
    time: 136, reserved_144: 144,
});

impl GroupHeader {
    /// The header at the front of a group block.
    ///
    /// # Panics
    /// When `block` is shorter than a header: a buffer of the wrong size is our own bug.
    pub fn of(block: &[u8]) -> &Self {
        let (header, _) = Self::ref_from_prefix(block).expect("a group block holds a header");
        header
    }

    /// The header at the front of a group block, for changes.
    ///
    /// # Panics
    /// As [`GroupHeader::of`].
    pub fn of_mut(block: &mut [u8]) -> &mut Self {
        let (header, _) = Self::mut_from_prefix(block).expect("a group block holds a header");
        header
    }
}

impl Summary {
    /// The rows of the summary area.
    ///
    /// # Panics
    /// When the length is no multiple of 16 bytes: the area is made of whole fragments.
    pub fn rows(area: &[u8]) -> &[Self] {
        <[Self]>::ref_from_bytes(area).expect("fragments hold whole rows")
    }

    /// The rows of the summary area, for changes.
    ///
    /// # Panics
    /// As [`Summary::rows`].
    pub fn rows_mut(area: &mut [u8]) -> &mut [Self] {
        <[Self]>::mut_from_bytes(area).expect("fragments hold whole rows")
    }
}
