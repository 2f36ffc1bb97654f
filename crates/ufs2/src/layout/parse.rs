//! Parses a superblock into a [`Geometry`], or reports the field that makes no sense.
//!
//! The checks are those that FreeBSD 14 makes before it mounts, so that a disk which passes here
//! can be mounted there. State (clean, pending frees) is not checked here.

use std::fmt;

use super::geometry::{Geometry, GroupMaps};
use super::superblock::*;
use super::{ByteOrder, DIRECT_POINTERS, INLINE_SYMLINK_SIZE, INODE_SIZE, hashes};

/// The reasons for which a superblock cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSuperblock {
    /// There is no superblock.
    #[error("there is no UFS2 superblock (magic number is {found:#010x})")]
    Missing {
        /// The bytes in place of the magic number.
        found: u32,
    },
    /// It is big-endian, which [`Geometry::parse_any_order`] understands.
    #[error("this UFS2 superblock is big-endian, where only a little-endian one can be used")]
    BigEndian,
    /// The older format.
    #[error("this is a UFS1 file system; only UFS2 can be used")]
    Ufs1,
    /// The run of mkfs that made it did not finish.
    #[error("this file system was never finished: the run that made it was cut off")]
    Unfinished,
    /// The disk ends before the file system does.
    #[error(
        "the file system fills {needed} bytes, but the disk has only {size}: it was cut off, or \
         not all of it was copied"
    )]
    Short {
        /// Bytes of the file system.
        needed: u64,
        /// Bytes of the disk.
        size: u64,
    },
    /// A field has an illegal value.
    #[error("superblock field {field} is {found}, expected {expected}")]
    Field {
        /// FreeBSD's name of the field.
        field: &'static str,
        /// Its value.
        found: i128,
        /// The required value.
        expected: Expected,
    },
}

/// The required value of a superblock field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// This value, which follows from other fields.
    Exactly(i128),
    /// A range, both ends included.
    Between(i128, i128),
    /// A value with this property.
    Rule(&'static str),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(value) => write!(f, "{value}"),
            Self::Between(low, high) => write!(f, "{low} to {high}"),
            Self::Rule(rule) => f.write_str(rule),
        }
    }
}

type Checked<T = ()> = Result<T, BadSuperblock>;

fn exactly(field: &'static str, found: impl Into<i128>, expected: impl Into<i128>) -> Checked {
    let (found, expected) = (found.into(), expected.into());
    if found == expected {
        return Ok(());
    }
    Err(BadSuperblock::Field { field, found, expected: Expected::Exactly(expected) })
}

/// Checks a range and returns the value as a `u64`, which holds all legal ones.
fn between(
    field: &'static str,
    found: impl Into<i128>,
    low: impl Into<i128>,
    high: impl Into<i128>,
) -> Checked<u64> {
    let (found, low, high) = (found.into(), low.into(), high.into());
    if (low..=high).contains(&found) {
        return Ok(found as u64);
    }
    Err(BadSuperblock::Field { field, found, expected: Expected::Between(low, high) })
}

fn rule(field: &'static str, found: impl Into<i128>, holds: bool, rule: &'static str) -> Checked {
    if holds {
        return Ok(());
    }
    Err(BadSuperblock::Field { field, found: found.into(), expected: Expected::Rule(rule) })
}

/// Block and fragment sizes, from which many fields follow.
struct Units {
    block: u64,
    fragment: u64,
    per_block: u64,
}

/// The division of the disk into groups.
struct Groups {
    count: u64,
    fragments: u64,
    inodes: u64,
    size: u64,
}

impl BadSuperblock {
    /// The error for a caller that needs the file system: there is none, or it is cut off.
    pub fn sentence(&self) -> String {
        match self {
            Self::Short { .. } => self.to_string(),
            _ => format!("there is no UFS2 file system here: {self}"),
        }
    }
}

impl Geometry {
    /// Checks every field of a little-endian superblock that is used anywhere.
    ///
    /// # Errors
    /// [`BadSuperblock`] names the first wrong field.
    pub fn parse(superblock: &Superblock) -> Result<Self, BadSuperblock> {
        check_format(superblock)?;
        let units = parse_units(superblock)?;
        check_tunables(superblock, &units)?;
        let groups = parse_groups(superblock, &units)?;
        let geometry = assemble(superblock, &units, &groups)?;
        check_summary_area(superblock, &geometry)?;
        Ok(geometry)
    }
}

fn check_format(s: &Superblock) -> Checked {
    let found = s.magic.get();
    match found {
        SUPERBLOCK_MAGIC => {}
        SUPERBLOCK_MAGIC_UFS1 => return Err(BadSuperblock::Ufs1),
        SUPERBLOCK_MAGIC_UNFINISHED => return Err(BadSuperblock::Unfinished),
        _ if found.swap_bytes() == SUPERBLOCK_MAGIC => return Err(BadSuperblock::BigEndian),
        _ => return Err(BadSuperblock::Missing { found }),
    }
    exactly("fs_sblockloc", s.primary_address.get(), SUPERBLOCK_ADDRESS)?;
    // Without this mark FreeBSD takes this very byte for all the flags, and hashes would be lost.
    exactly("fs_old_flags", s.old_flags, FLAGS_MOVED)
}

fn parse_units(s: &Superblock) -> Checked<Units> {
    let block = between("fs_bsize", s.block_size.get(), 4096, 65_536)?;
    rule("fs_bsize", s.block_size.get(), block.is_power_of_two(), "a power of 2")?;
    let fragment = between("fs_fsize", s.fragment_size.get(), (block / 8).max(512), block)?;
    rule("fs_fsize", s.fragment_size.get(), fragment.is_power_of_two(), "a power of 2")?;
    let per_block = block / fragment;
    let pointers = block / size_of::<u64>() as u64;

    exactly("fs_frag", s.fragments_per_block.get(), per_block)?;
    exactly("fs_bmask", s.block_mask.get(), -i128::from(block))?;
    exactly("fs_fmask", s.fragment_mask.get(), -i128::from(fragment))?;
    exactly("fs_qbmask", s.block_offset_mask.get(), block - 1)?;
    exactly("fs_qfmask", s.fragment_offset_mask.get(), fragment - 1)?;
    exactly("fs_bshift", s.block_shift.get(), block.ilog2())?;
    exactly("fs_fshift", s.fragment_shift.get(), fragment.ilog2())?;
    exactly("fs_fragshift", s.fragments_shift.get(), per_block.ilog2())?;
    exactly("fs_fsbtodb", s.sector_shift.get(), (fragment / 512).ilog2())?;
    exactly("fs_nindir", s.pointers_per_indirect.get(), pointers)?;
    exactly("fs_inopb", s.inodes_per_block.get(), block / INODE_SIZE)?;
    exactly("fs_maxsymlinklen", s.inline_symlink_size.get(), INLINE_SYMLINK_SIZE as u64)?;
    exactly("fs_maxfilesize", s.max_file_size.get(), max_file_size(block))?;
    Ok(Units { block, fragment, per_block })
}

/// The highest offset that the pointers of an inode reach, on a disk with blocks of this size.
pub fn max_file_size(block_size: u64) -> u64 {
    let pointers = block_size / size_of::<u64>() as u64;
    let blocks = DIRECT_POINTERS as u64 + (1..=3).map(|level| pointers.pow(level)).sum::<u64>();
    block_size * blocks - 1
}

/// Settings that only steer allocation, and the hints.
fn check_tunables(s: &Superblock, units: &Units) -> Checked {
    between("fs_minfree", s.reserve_percent.get(), 0, 99)?;
    between("fs_optim", s.optimization.get(), 0, 1)?;
    between("fs_maxbpg", s.max_blocks_per_group.get(), 1, i32::MAX)?;
    between("fs_avgfilesize", s.average_file_size.get(), 1, u32::MAX)?;
    between("fs_avgfpdir", s.average_files_per_directory.get(), 1, u32::MAX)?;
    if s.max_extent_size.get() != 0 {
        let found = s.max_extent_size.get();
        let extent = between("fs_maxbsize", found, units.block, 16 * units.block)?;
        rule("fs_maxbsize", found, extent.is_power_of_two(), "0 or a power of 2")?;
    }
    // The sums are as mkfs made them; the length of a read is a setting that may change later.
    between("fs_maxcontig", s.max_contiguous_blocks.get(), 0, 256)?;
    between("fs_contigsumsize", s.cluster_sum_size.get(), 0, MAX_CLUSTER_SUM_SIZE)?;
    Ok(())
}

/// The longest runs that cluster sums count, in blocks.
pub const MAX_CLUSTER_SUM_SIZE: u64 = 16;

fn parse_groups(s: &Superblock, units: &Units) -> Checked<Groups> {
    let count = between("fs_ncg", s.group_count.get(), 1, u32::MAX)?;
    between("fs_cgrotor", s.group_rotor.get(), 0, count - 1)?;

    let found = s.fragments_per_group.get();
    let fragments = between("fs_fpg", found, 3 * units.per_block, i32::MAX)?;
    let whole = fragments.is_multiple_of(units.per_block);
    rule("fs_fpg", found, whole, "whole blocks (a multiple of fs_frag)")?;

    let per_block = units.block / INODE_SIZE;
    let found = s.inodes_per_group.get();
    let inodes = between("fs_ipg", found, per_block, u32::MAX)?;
    rule("fs_ipg", found, inodes.is_multiple_of(per_block), "whole blocks of inodes")?;
    let numbered = count * inodes < (1 << 32) - per_block;
    rule("fs_ipg", found, numbered, "inode numbers of 32 bits in all groups together")?;

    // Byte addresses must fit an off_t.
    let size = between("fs_size", s.size.get(), 1, i64::MAX as u64 / units.fragment)?;
    let groups = size.div_ceil(fragments);
    exactly("fs_ncg", s.group_count.get(), groups)?;
    Ok(Groups { count, fragments, inodes, size })
}

/// Derives the offsets in a group, and compares them with those of the superblock.
fn assemble(s: &Superblock, units: &Units, groups: &Groups) -> Checked<Geometry> {
    let offsets = GroupOffsets::new(units.fragment, units.per_block, groups.inodes);
    exactly("fs_sblkno", s.backup_offset.get(), offsets.backup)?;
    exactly("fs_cblkno", s.group_block_offset.get(), offsets.group_block)?;
    exactly("fs_iblkno", s.inode_table_offset.get(), offsets.inode_table)?;
    exactly("fs_dblkno", s.data_offset.get(), offsets.data)?;
    let last_group = groups.size - (groups.count - 1) * groups.fragments;
    rule(
        "fs_size",
        s.size.get(),
        last_group >= offsets.data,
        "a last group that can hold at least its metadata",
    )?;

    let cluster_sum_size = s.cluster_sum_size.get() as u64;
    let maps = GroupMaps::new(groups.inodes, groups.fragments, units.per_block, cluster_sum_size);
    let found = s.group_block_size.get();
    let group_block_size = between("fs_cgsize", found, maps.end as u64, units.block)?;
    let whole = group_block_size.is_multiple_of(units.fragment);
    rule("fs_cgsize", found, whole, "whole fragments")?;

    let found = s.superblock_size.get();
    let superblock_size =
        between("fs_sbsize", found, size_of::<Superblock>() as u64, SUPERBLOCK_ROOM)?;
    rule("fs_sbsize", found, superblock_size.is_multiple_of(512), "a multiple of 512")?;

    let found = s.metadata_space.get();
    let metadata_space = between("fs_metaspace", found, 0, groups.fragments / 2)?;
    let whole = metadata_space.is_multiple_of(units.per_block);
    rule("fs_metaspace", found, whole, "whole blocks (a multiple of fs_frag)")?;

    let kept = if s.flags.get() & flags::CHECK_HASHES != 0 { s.check_hashes.get() } else { 0 };
    Ok(Geometry {
        byte_order: ByteOrder::Little,
        block_size: units.block,
        fragment_size: units.fragment,
        fragments_per_block: units.per_block,
        group_count: groups.count,
        fragments_per_group: groups.fragments,
        inodes_per_group: groups.inodes,
        inodes_per_block: units.block / INODE_SIZE,
        pointers_per_indirect: units.block / size_of::<u64>() as u64,
        size: groups.size,
        data_size: between("fs_dsize", s.data_size.get(), 0, groups.size)?,
        reserve_percent: s.reserve_percent.get() as u64,
        max_blocks_per_group: s.max_blocks_per_group.get() as u64,
        metadata_space,
        max_file_size: s.max_file_size.get(),
        superblock_size,
        group_block_size,
        summary_address: between("fs_csaddr", s.summary_address.get(), 0, groups.size - 1)?,
        summary_fragments: summary_fragments(groups.count, units.fragment),
        cluster_sum_size,
        maps,
        superblock_hashes: kept & hashes::SUPERBLOCK != 0,
        group_hashes: kept & hashes::GROUP != 0,
        inode_hashes: kept & hashes::INODE != 0,
        backup_offset: offsets.backup,
        group_block_offset: offsets.group_block,
        inode_table_offset: offsets.inode_table,
        data_offset: offsets.data,
    })
}

/// Fragments that the summary area of this many groups fills.
pub fn summary_fragments(group_count: u64, fragment_size: u64) -> u64 {
    (group_count * size_of::<super::Summary>() as u64).div_ceil(fragment_size)
}

/// The places of the metadata in a group, in fragments from its start.
pub struct GroupOffsets {
    /// The copy of the superblock.
    pub backup: u64,
    /// The header and the maps.
    pub group_block: u64,
    /// The inodes.
    pub inode_table: u64,
    /// The data behind them.
    pub data: u64,
}

impl GroupOffsets {
    /// The offsets in groups with this many inodes each.
    pub fn new(fragment_size: u64, fragments_per_block: u64, inodes: u64) -> Self {
        let blocks =
            |bytes: u64| bytes.div_ceil(fragment_size).next_multiple_of(fragments_per_block);
        let backup = blocks(SUPERBLOCK_ADDRESS + SUPERBLOCK_ROOM);
        let group_block = backup + blocks(SUPERBLOCK_ROOM);
        let inode_table = group_block + fragments_per_block;
        let data = inode_table + inodes * INODE_SIZE / fragment_size;
        Self { backup, group_block, inode_table, data }
    }
}

/// The summary area lies in the data area of one group.
fn check_summary_area(s: &Superblock, geometry: &Geometry) -> Checked {
    let bytes = geometry.summary_fragments * geometry.fragment_size;
    exactly("fs_cssize", s.summary_size.get(), bytes)?;
    let group = geometry.group_of_fragment(geometry.summary_address);
    let end = geometry.summary_address + geometry.summary_fragments;
    let fits = geometry.summary_address >= geometry.first_data_fragment(group)
        && end <= geometry.group_base(group) + geometry.group_size_fragments(group);
    rule("fs_csaddr", s.summary_address.get(), fits, "a place in the data area of one group")
}
