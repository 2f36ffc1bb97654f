//! The superblock, its backup copies, and the recovery record in front of the primary.

use zerocopy::little_endian::{I32, I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Summary;

/// The byte address of the primary superblock. FreeBSD knows other places; since version 13 it
/// refuses UFS2 in any of them, and so do we.
/// version 13 it refuses UFS2 in any of them, and so do we.
pub const SUPERBLOCK_ADDRESS: u64 = 65_536;
/// Bytes reserved for a superblock, however many of them it fills.
pub const SUPERBLOCK_ROOM: u64 = 8_192;
/// The magic number of a UFS2 superblock, in its last field.
pub const SUPERBLOCK_MAGIC: u32 = 0x1954_0119;
/// The magic number of the older format with 32-bit addresses, in the same place.
pub const SUPERBLOCK_MAGIC_UFS1: u32 = 0x0001_1954;
/// The number that FreeBSD writes there while it makes a file system.
pub const SUPERBLOCK_MAGIC_UNFINISHED: u32 = 0x1996_0408;
/// The value of `old_flags`: the flags are in `flags`.
pub const FLAGS_MOVED: u8 = 0x80;
/// The byte address of the recovery record: it ends where the primary superblock begins.
pub const RECOVERY_RECORD_ADDRESS: u64 = SUPERBLOCK_ADDRESS - size_of::<RecoveryRecord>() as u64;

/// The bits of [`Superblock::flags`].
pub mod flags {
    /// The disk was not clean when it was mounted.
    pub const UNCLEAN: u32 = 0x1;
    /// The writer orders its writes by soft updates.
    pub const SOFT_UPDATES: u32 = 0x2;
    /// A full check is due before the next mount.
    pub const NEEDS_FSCK: u32 = 0x4;
    /// Soft updates keep a journal.
    pub const SOFT_UPDATES_JOURNAL: u32 = 0x8;
    /// POSIX access control lists.
    pub const POSIX_ACLS: u32 = 0x10;
    /// A label per file, for mandatory access control.
    pub const MULTILABEL: u32 = 0x20;
    /// A journal below the file system (gjournal).
    pub const GJOURNAL: u32 = 0x40;
    /// NFSv4 access control lists; never together with the POSIX ones.
    pub const NFS4_ACLS: u32 = 0x100;
    /// The check hashes that `check_hashes` names are kept.
    pub const CHECK_HASHES: u32 = 0x200;
    /// Freed blocks are reported to the device (TRIM).
    pub const TRIM: u32 = 0x400;
    /// All bits with a meaning, and the mark that the flags are here and not in the old place.
    pub const KNOWN: u32 = 0x7ff;
}

/// The bits of [`Superblock::check_hashes`].
pub mod hashes {
    /// Each superblock copy.
    pub const SUPERBLOCK: u32 = 1;
    /// Each group block.
    pub const GROUP: u32 = 2;
    /// Each inode that is in use.
    pub const INODE: u32 = 4;
    /// All kinds that any system keeps.
    pub const ALL: u32 = SUPERBLOCK | GROUP | INODE;
}

/// Totals over all groups, 64 bits each. Equal to the sum of the summary area on a clean disk.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Totals {
    /// Directories.
    pub directories: I64,
    /// Blocks that are entirely free.
    pub free_blocks: I64,
    /// Free inodes.
    pub free_inodes: I64,
    /// Free fragments in blocks that are not entirely free.
    pub free_fragments: I64,
    /// Zero on disk: FreeBSD's checker compares it.
    pub free_clusters: I64,
    /// Zero, compared as well.
    pub reserved: [u8; 24],
}

/// The superblock: 1376 bytes that are written as `superblock_size` bytes, the rest zero.
///
/// Every field that follows from others is checked by [`super::Geometry::parse`]; read the shape of
/// the disk from there. `fs_...` is FreeBSD's name of a field.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Superblock {
    /// Zero: the links of an old in-core list.
    pub reserved_0: [u8; 8],
    /// Backup superblock, in fragments from the start of a group (`fs_sblkno`).
    pub backup_offset: I32,
    /// Group block, in fragments from the start of a group (`fs_cblkno`).
    pub group_block_offset: I32,
    /// Inode table, in fragments from the start of a group (`fs_iblkno`).
    pub inode_table_offset: I32,
    /// First data fragment after the inode table, from the start of a group (`fs_dblkno`).
    pub data_offset: I32,
    /// Zero: UFS1 values.
    pub reserved_24: [u8; 20],
    /// Number of groups (`fs_ncg`).
    pub group_count: U32,
    /// Bytes in a block (`fs_bsize`).
    pub block_size: I32,
    /// Bytes in a fragment, the unit of every address (`fs_fsize`).
    pub fragment_size: I32,
    /// Fragments in a block: 1, 2, 4 or 8 (`fs_frag`).
    pub fragments_per_block: I32,
    /// Percent of the data fragments that only root may fill (`fs_minfree`).
    pub reserve_percent: I32,
    /// Zero: rotational delay and speed.
    pub reserved_64: [u8; 8],
    /// Clears the offset within a block: -block_size (`fs_bmask`).
    pub block_mask: I32,
    /// Clears the offset within a fragment: -fragment_size (`fs_fmask`).
    pub fragment_mask: I32,
    /// log2 of the block size (`fs_bshift`).
    pub block_shift: I32,
    /// log2 of the fragment size (`fs_fshift`).
    pub fragment_shift: I32,
    /// Longest I/O, in blocks, 0 to 256 (`fs_maxcontig`).
    pub max_contiguous_blocks: I32,
    /// Blocks that one file takes in a group before it moves on (`fs_maxbpg`).
    pub max_blocks_per_group: I32,
    /// log2 of the fragments in a block (`fs_fragshift`).
    pub fragments_shift: I32,
    /// log2 of the 512-byte sectors in a fragment (`fs_fsbtodb`).
    pub sector_shift: I32,
    /// Bytes that a superblock fills on disk (`fs_sbsize`).
    pub superblock_size: I32,
    /// Zero.
    pub reserved_108: [u8; 8],
    /// Pointers in an indirect block (`fs_nindir`).
    pub pointers_per_indirect: I32,
    /// Inodes in a block (`fs_inopb`).
    pub inodes_per_block: U32,
    /// Zero: a UFS1 value.
    pub reserved_124: [u8; 4],
    /// The goal of allocation: 0 time, 1 space (`fs_optim`).
    pub optimization: I32,
    /// Zero: geometry of long-gone disks.
    pub reserved_132: [u8; 12],
    /// Second of creation, and 32 random bits: identify this file system (`fs_id`).
    pub id: [U32; 2],
    /// Zero: a UFS1 value.
    pub reserved_152: [u8; 4],
    /// Bytes of the summary area, rounded up to whole fragments (`fs_cssize`).
    pub summary_size: I32,
    /// Bytes of a group block, header and maps, in whole fragments (`fs_cgsize`).
    pub group_block_size: I32,
    /// Zero: geometry of long-gone disks.
    pub reserved_164: [u8; 20],
    /// Inodes in a group (`fs_ipg`).
    pub inodes_per_group: U32,
    /// Fragments in a group; the last group may have fewer (`fs_fpg`).
    pub fragments_per_group: I32,
    /// 32-bit totals of UFS1. Some tools fill them in UFS2; no system reads them.
    pub old_totals: [u8; 16],
    /// In-core mark "changed". Zero on disk (`fs_fmod`).
    pub modified: i8,
    /// 1 after a clean stop, 0 while mounted for writing (`fs_clean`).
    pub clean: i8,
    /// In-core mark "mounted read-only". Zero on disk (`fs_ronly`).
    pub read_only: i8,
    /// [`FLAGS_MOVED`] (`fs_old_flags`).
    pub old_flags: u8,
    /// Path at which this file system was mounted last, NUL-padded (`fs_fsmnt`).
    pub last_mount: [u8; 468],
    /// Label of the volume, NUL-padded (`fs_volname`).
    pub volume_name: [u8; 32],
    /// System-wide identifier; no system uses it (`fs_swuid`).
    pub system_id: U64,
    /// Zero.
    pub reserved_720: [u8; 4],
    /// Group that was searched last, a hint (`fs_cgrotor`).
    pub group_rotor: I32,
    /// Pointers of a running kernel. Meaningless on disk, written as zero.
    pub in_core: [u8; 128],
    /// Zero: a UFS1 value.
    pub reserved_856: [u8; 4],
    /// Largest extent, in bytes; 0 means one block (`fs_maxbsize`).
    pub max_extent_size: I32,
    /// Inodes without a name that were still open (`fs_unrefs`).
    pub unreferenced_inodes: I64,
    /// Size of the device, in fragments (`fs_providersize`).
    pub device_size: I64,
    /// Fragments at the start of a data area that metadata takes first (`fs_metaspace`).
    pub metadata_space: I64,
    /// Zero.
    pub reserved_888: [u8; 104],
    /// Byte address of this very copy; 0 is accepted (`fs_sblockactualloc`).
    pub own_address: I64,
    /// Byte address of the primary, in every copy (`fs_sblockloc`).
    pub primary_address: I64,
    /// Totals over all groups (`fs_cstotal`).
    pub totals: Totals,
    /// Second of the last write of the superblock (`fs_time`).
    pub time: I64,
    /// Fragments of the file system (`fs_size`).
    pub size: I64,
    /// Fragments that files can fill (`fs_dsize`).
    pub data_size: I64,
    /// Address of the summary area, in fragments (`fs_csaddr`).
    pub summary_address: I64,
    /// 512-byte sectors that wait to be freed. 0 when clean (`fs_pendingblocks`).
    pub pending_sectors: I64,
    /// Inodes that wait to be freed. 0 when clean (`fs_pendinginodes`).
    pub pending_inodes: U32,
    /// Inodes of snapshots, packed from the front, 0 for none (`fs_snapinum`).
    pub snapshots: [U32; 20],
    /// Expected size of a file, in bytes (`fs_avgfilesize`).
    pub average_file_size: U32,
    /// Expected number of files in a directory (`fs_avgfpdir`).
    pub average_files_per_directory: U32,
    /// In-core value. Zero on disk (`fs_save_cgsize`).
    pub reserved_1204: [u8; 4],
    /// Second of the last mount or check (`fs_mtime`).
    pub mount_time: I64,
    /// First inode of the journal's list of files without a name (`fs_sujfree`).
    pub journal_free_list: I32,
    /// Zero.
    pub reserved_1220: [u8; 84],
    /// Check hash of this copy (`fs_ckhash`).
    pub check_hash: U32,
    /// The check hashes that are kept: see [`hashes`] (`fs_metackhash`).
    pub check_hashes: U32,
    /// See [`flags`] (`fs_flags`).
    pub flags: U32,
    /// Highest cluster sum, 0 when no cluster map is kept (`fs_contigsumsize`).
    pub cluster_sum_size: I32,
    /// Bytes that an inode offers to a symbolic link (`fs_maxsymlinklen`).
    pub inline_symlink_size: I32,
    /// Inode format of UFS1. Ignored (`fs_old_inodefmt`).
    pub old_inode_format: I32,
    /// Highest legal byte offset in a file (`fs_maxfilesize`).
    pub max_file_size: U64,
    /// block_size - 1 (`fs_qbmask`).
    pub block_offset_mask: I64,
    /// fragment_size - 1 (`fs_qfmask`).
    pub fragment_offset_mask: I64,
    /// Zero (`fs_state`).
    pub state: I32,
    /// Zero: geometry of long-gone disks.
    pub reserved_1356: [u8; 16],
    /// [`SUPERBLOCK_MAGIC`].
    pub magic: U32,
}

offsets!(Superblock, 1376, {
    backup_offset: 8, group_block_offset: 12, inode_table_offset: 16, data_offset: 20,
    reserved_24: 24, group_count: 44, block_size: 48, fragment_size: 52, fragments_per_block: 56,
    reserve_percent: 60, reserved_64: 64, block_mask: 72, fragment_mask: 76, block_shift: 80,
    fragment_shift: 84, max_contiguous_blocks: 88, max_blocks_per_group: 92, fragments_shift: 96,
    sector_shift: 100, superblock_size: 104, reserved_108: 108, pointers_per_indirect: 116,
    inodes_per_block: 120, reserved_124: 124, optimization: 128, reserved_132: 132, id: 144,
    reserved_152: 152, summary_size: 156, group_block_size: 160, reserved_164: 164,
    inodes_per_group: 184, fragments_per_group: 188, old_totals: 192, modified: 208, clean: 209,
    read_only: 210, old_flags: 211, last_mount: 212, volume_name: 680, system_id: 712,
    reserved_720: 720, group_rotor: 724, in_core: 728, reserved_856: 856, max_extent_size: 860,
    unreferenced_inodes: 864, device_size: 872, metadata_space: 880, reserved_888: 888,
    own_address: 992, primary_address: 1000, totals: 1008, time: 1072, size: 1080,
    data_size: 1088, summary_address: 1096, pending_sectors: 1104, pending_inodes: 1112,
    snapshots: 1116, average_file_size: 1196, average_files_per_directory: 1200,
    reserved_1204: 1204, mount_time: 1208, journal_free_list: 1216, reserved_1220: 1220,
    check_hash: 1304, check_hashes: 1308, flags: 1312, cluster_sum_size: 1316,
    inline_symlink_size: 1320, old_inode_format: 1324, max_file_size: 1328,
    block_offset_mask: 1336, fragment_offset_mask: 1344, state: 1352, reserved_1356: 1356,
    magic: 1372,
});

offsets!(Totals, 64, {
    directories: 0, free_blocks: 8, free_inodes: 16, free_fragments: 24, free_clusters: 32,
    reserved: 40,
});

impl Superblock {
    /// The number that identifies the file system, wherever it is.
    pub fn number(&self) -> u64 {
        let [second, random] = self.id.map(|half| u64::from(half.get()));
        second << 32 | random
    }

    /// The superblock at the front of its room.
    ///
    /// # Panics
    /// When `block` is shorter than a superblock: a buffer of the wrong size is our own bug.
    pub fn of(block: &[u8]) -> &Self {
        let (superblock, _) = Self::ref_from_prefix(block).expect("the room of a superblock");
        superblock
    }

    /// The superblock at the front of its room, for changes.
    ///
    /// # Panics
    /// As [`Superblock::of`].
    pub fn of_mut(block: &mut [u8]) -> &mut Self {
        let (superblock, _) = Self::mut_from_prefix(block).expect("the room of a superblock");
        superblock
    }
}

impl Totals {
    /// The totals of these groups; fields that are not counted are 0.
    pub fn of(rows: &[Summary]) -> Self {
        let sum = |count: fn(&Summary) -> I32| {
            I64::new(rows.iter().map(|row| i64::from(count(row).get())).sum())
        };
        Self {
            directories: sum(|row| row.directories),
            free_blocks: sum(|row| row.free_blocks),
            free_inodes: sum(|row| row.free_inodes),
            free_fragments: sum(|row| row.free_fragments),
            free_clusters: I64::ZERO,
            reserved: [0; 24],
        }
    }
}

/// Enough to find the backups when the primary superblock is gone. It is in the 20 bytes before it;
/// optional.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RecoveryRecord {
    /// [`SUPERBLOCK_MAGIC`].
    pub magic: U32,
    /// log2 of the 512-byte sectors in a fragment.
    pub sector_shift: I32,
    /// Backup superblock, in fragments from the start of a group.
    pub backup_offset: I32,
    /// Fragments in a group.
    pub fragments_per_group: I32,
    /// Number of groups.
    pub group_count: U32,
}

offsets!(RecoveryRecord, 20, {
    magic: 0, sector_shift: 4, backup_offset: 8, fragments_per_group: 12, group_count: 16,
});
