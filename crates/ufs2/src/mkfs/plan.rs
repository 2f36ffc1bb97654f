//! Divides a disk into groups, and fills a superblock with the result.

use zerocopy::FromZeros;

use super::{MkfsError, MkfsOptions};
use crate::layout::{
    FLAGS_MOVED, Geometry, GroupMaps, GroupOffsets, INLINE_SYMLINK_SIZE, INODE_SIZE,
    MAX_CLUSTER_SUM_SIZE, SUPERBLOCK_ADDRESS, SUPERBLOCK_MAGIC, SUPERBLOCK_ROOM, Superblock, flags,
    hashes, max_file_size, summary_fragments,
};

/// A disk has at least this many groups, so that allocation can spread ...
const WANTED_GROUPS: u64 = 4;
/// ... unless they would be smaller than this, in bytes.
const SMALLEST_WANTED_GROUP: u64 = 4 << 20;
/// The longest I/O that FreeBSD's kernel does, in bytes.
const LONGEST_IO: u64 = 1 << 20;
/// FreeBSD's kernel counts 8 bytes more for a group header than it fills, and so sizes the block.
const HEADER_PADDING: u64 = 8;
/// Group sizes to try before the last piece of the disk is left unused.
const CUTS: u64 = 1000;

/// A planned file system.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its shape.
    pub geometry: Geometry,
    /// Its superblock, without identity, times and totals.
    pub superblock: Superblock,
}

/// The sizes that are known before the groups are cut.
struct Units {
    block: u64,
    fragment: u64,
    per_block: u64,
    inodes_per_block: u64,
    bytes_per_inode: u64,
    /// Fragments of the disk.
    size: u64,
}

/// The division of the disk.
struct Cut {
    groups: u64,
    fragments: u64,
    inodes: u64,
    /// Fragments of the file system.
    size: u64,
}

/// Plans a file system for a disk of `size` bytes with logical sectors of `sector` bytes.
///
/// # Errors
/// [`MkfsError`] when an option makes no sense, or the disk is too small or too large for it.
pub fn plan(size: u64, sector: u64, options: &MkfsOptions) -> Result<Plan, MkfsError> {
    check_options(options, sector)?;
    let mut units = Units {
        block: options.block_size,
        fragment: options.fragment_size,
        per_block: options.block_size / options.fragment_size,
        inodes_per_block: options.block_size / INODE_SIZE,
        bytes_per_inode: options.bytes_per_inode.unwrap_or(2 * options.fragment_size),
        size: size / options.fragment_size,
    };
    let mut cut = units.cut(size, options)?;
    while !units.numbers_suffice(&cut) {
        if let Some(found) = options.bytes_per_inode {
            let expected = "larger: inode numbers have 32 bits";
            return Err(bad_option("bytes per inode", found, expected));
        }
        if cut.inodes == units.inodes_per_block {
            return Err(MkfsError::TooLarge { size });
        }
        units.bytes_per_inode *= 2;
        cut = units.cut(size, options)?;
    }
    let superblock = units.superblock(&cut, size, options);
    let geometry = Geometry::parse(&superblock)
        .unwrap_or_else(|error| unreachable!("a planned superblock is a good one: {error}"));
    Ok(Plan { geometry, superblock })
}

fn bad_option(
    option: &'static str,
    found: impl ToString,
    expected: impl Into<String>,
) -> MkfsError {
    MkfsError::Option { option, found: found.to_string(), expected: expected.into() }
}

fn check_options(options: &MkfsOptions, sector: u64) -> Result<(), MkfsError> {
    let block = options.block_size;
    if !block.is_power_of_two() || !(4096..=65_536).contains(&block) {
        return Err(bad_option("block size", block, "4096, 8192, 16384, 32768 or 65536"));
    }
    let (fragment, smallest) = (options.fragment_size, sector.max(512).max(block / 8));
    if !fragment.is_power_of_two() || !(smallest..=block).contains(&fragment) {
        let expected = format!("a power of 2 from {smallest} to the block size {block}");
        return Err(bad_option("fragment size", fragment, expected));
    }
    if let Some(bytes) = options.bytes_per_inode.filter(|&bytes| bytes < 2 * INODE_SIZE) {
        let expected = format!("at least {}: an inode itself fills {INODE_SIZE}", 2 * INODE_SIZE);
        return Err(bad_option("bytes per inode", bytes, expected));
    }
    if options.reserve_percent > 99 {
        return Err(bad_option("reserve", options.reserve_percent, "0 to 99 percent"));
    }
    let name = &options.volume_name;
    if !crate::label::is_legal(name) {
        let expected = "at most 31 letters, digits, '-' and '_'";
        return Err(bad_option("volume name", format!("{name:?}"), expected));
    }
    Ok(())
}

impl Units {
    /// Inodes of a group of this many fragments.
    fn inodes(&self, fragments: u64) -> u64 {
        let wanted = (fragments * self.fragment).div_ceil(self.bytes_per_inode);
        wanted.next_multiple_of(self.inodes_per_block)
    }

    fn offsets(&self, inodes: u64) -> GroupOffsets {
        GroupOffsets::new(self.fragment, self.per_block, inodes)
    }

    fn maps(&self, fragments: u64) -> GroupMaps {
        let inodes = self.inodes(fragments);
        GroupMaps::new(inodes, fragments, self.per_block, MAX_CLUSTER_SUM_SIZE)
    }

    /// Bytes of a group block.
    fn group_block(&self, fragments: u64) -> u64 {
        self.maps(fragments).end as u64 + HEADER_PADDING
    }

    /// The largest group whose maps fit a block, in fragments.
    fn largest_group(&self) -> u64 {
        let fits = |blocks: u64| self.group_block(blocks * self.per_block) <= self.block;
        let (mut fitting, mut failing) = (0, self.block * 8);
        while failing - fitting > 1 {
            let middle = fitting.midpoint(failing);
            if fits(middle) { fitting = middle } else { failing = middle }
        }
        fitting * self.per_block
    }

    /// Divides the disk into as few groups as possible, all of about the same size.
    fn cut(&self, bytes: u64, options: &MkfsOptions) -> Result<Cut, MkfsError> {
        if self.size > i64::MAX as u64 / self.fragment {
            return Err(MkfsError::TooLarge { size: bytes });
        }
        let wanted = match options.max_group_blocks {
            Some(blocks) => blocks.saturating_mul(self.per_block).max(self.smallest_group()),
            None => (SMALLEST_WANTED_GROUP / self.fragment)
                .max(self.size.div_ceil(WANTED_GROUPS))
                .next_multiple_of(self.per_block),
        };
        let largest = wanted.min(self.largest_group());
        let groups = self.size.div_ceil(largest).max(1);
        let even = self.size.div_ceil(groups).next_multiple_of(self.per_block);
        let cut = self.cut_evenly(even.max(self.smallest_group().min(largest)));
        self.check_first_group(&cut, bytes)?;
        Ok(cut)
    }

    /// The smallest group that can hold any data, in fragments.
    fn smallest_group(&self) -> u64 {
        self.smallest_disk().next_multiple_of(self.per_block)
    }

    /// The smallest disk that can hold any data, in fragments.
    fn smallest_disk(&self) -> u64 {
        let mut size = self.needed(1, self.inodes_per_block);
        while size < self.needed(1, self.inodes(size)) {
            size += 1;
        }
        size
    }

    /// Fragments that the first of `groups` groups needs at least: its metadata, the summary area,
    /// the root directory in a block of its own.
    fn needed(&self, groups: u64, inodes: u64) -> u64 {
        self.offsets(inodes).data + summary_fragments(groups, self.fragment) + self.per_block
    }

    /// Makes groups of this many fragments, or a few less, so that the last one, which gets the
    /// remainder, can hold its metadata and at least a block. Where that is impossible, the
    /// remainder is left unused.
    fn cut_evenly(&self, largest: u64) -> Cut {
        let smallest = largest.saturating_sub(CUTS * self.per_block).max(self.smallest_group());
        let mut fragments = largest;
        while fragments >= smallest {
            let groups = self.size.div_ceil(fragments).max(1);
            let last = self.size.saturating_sub((groups - 1) * fragments);
            let inodes = self.inodes(fragments);
            if groups == 1 || last >= self.offsets(inodes).data + self.per_block {
                return Cut { groups, fragments, inodes, size: self.size };
            }
            fragments -= self.per_block;
        }
        let groups = (self.size / largest).max(1);
        let size = self.size.min(groups * largest);
        Cut { groups, fragments: largest, inodes: self.inodes(largest), size }
    }

    /// Checks that the first group has room for the structures that only it has.
    fn check_first_group(&self, cut: &Cut, bytes: u64) -> Result<(), MkfsError> {
        if self.needed(cut.groups, cut.inodes) <= cut.size.min(cut.fragments) {
            Ok(())
        } else if cut.groups == 1 {
            let needed = self.smallest_disk() * self.fragment;
            Err(MkfsError::TooSmall { size: bytes, needed })
        } else {
            Err(MkfsError::TooLarge { size: bytes })
        }
    }

    /// Whether all inodes have numbers of 32 bits.
    fn numbers_suffice(&self, cut: &Cut) -> bool {
        cut.groups * cut.inodes < (1 << 32) - self.inodes_per_block
    }

    fn superblock(&self, cut: &Cut, bytes: u64, options: &MkfsOptions) -> Superblock {
        let mut s = Superblock::new_zeroed();
        self.fill_sizes(&mut s);
        self.fill_groups(&mut s, cut, bytes, options);
        fill_settings(&mut s, self.block, options);
        s
    }

    /// Fills the fields that follow from the sizes of block and fragment.
    fn fill_sizes(&self, s: &mut Superblock) {
        let (block, fragment) = (self.block as i32, self.fragment as i32);
        s.block_size.set(block);
        s.fragment_size.set(fragment);
        s.fragments_per_block.set(self.per_block as i32);
        s.block_mask.set(-block);
        s.fragment_mask.set(-fragment);
        s.block_offset_mask.set(i64::from(block) - 1);
        s.fragment_offset_mask.set(i64::from(fragment) - 1);
        s.block_shift.set(self.block.ilog2() as i32);
        s.fragment_shift.set(self.fragment.ilog2() as i32);
        s.fragments_shift.set(self.per_block.ilog2() as i32);
        s.sector_shift.set((self.fragment / 512).ilog2() as i32);
        s.pointers_per_indirect.set(block / size_of::<u64>() as i32);
        s.inodes_per_block.set(self.inodes_per_block as u32);
        s.inline_symlink_size.set(INLINE_SYMLINK_SIZE as i32);
        s.max_file_size.set(max_file_size(self.block));
        let copy = (size_of::<Superblock>() as u64).next_multiple_of(self.fragment);
        s.superblock_size.set(copy.min(SUPERBLOCK_ROOM) as i32);
    }

    /// Fills the fields that follow from the division of the disk.
    fn fill_groups(&self, s: &mut Superblock, cut: &Cut, bytes: u64, options: &MkfsOptions) {
        let offsets = self.offsets(cut.inodes);
        let area = summary_fragments(cut.groups, self.fragment);
        let group_metadata = offsets.data - offsets.backup;
        let group_block = self.group_block(cut.fragments).next_multiple_of(self.fragment);
        // Half of the reserve, FreeBSD's own measure.
        let metadata_space = cut.fragments * options.reserve_percent / 200;

        s.backup_offset.set(offsets.backup as i32);
        s.group_block_offset.set(offsets.group_block as i32);
        s.inode_table_offset.set(offsets.inode_table as i32);
        s.data_offset.set(offsets.data as i32);
        s.group_count.set(cut.groups as u32);
        s.inodes_per_group.set(cut.inodes as u32);
        s.fragments_per_group.set(cut.fragments as i32);
        s.group_block_size.set(group_block as i32);
        s.summary_size.set((area * self.fragment) as i32);
        s.summary_address.set(offsets.data as i64);
        s.size.set(cut.size as i64);
        let metadata = offsets.backup + cut.groups * group_metadata + area;
        s.data_size.set((cut.size - metadata) as i64);
        s.device_size.set((bytes / self.fragment) as i64);
        s.metadata_space.set((metadata_space - metadata_space % self.per_block) as i64);
    }
}

/// Fills the fields that are chosen, not computed.
fn fill_settings(s: &mut Superblock, block_size: u64, options: &MkfsOptions) {
    s.magic.set(SUPERBLOCK_MAGIC);
    s.old_flags = FLAGS_MOVED;
    s.clean = 1;
    s.primary_address.set(SUPERBLOCK_ADDRESS as i64);
    s.reserve_percent.set(options.reserve_percent as i32);
    s.max_contiguous_blocks.set((LONGEST_IO / block_size) as i32);
    s.cluster_sum_size.set(MAX_CLUSTER_SUM_SIZE as i32);
    s.max_blocks_per_group.set((block_size / size_of::<u64>() as u64) as i32);
    s.max_extent_size.set(block_size as i32);
    s.average_file_size.set(16_384);
    s.average_files_per_directory.set(64);
    s.volume_name[..options.volume_name.len()].copy_from_slice(options.volume_name.as_bytes());
    if options.check_hashes {
        s.flags.set(flags::CHECK_HASHES);
        s.check_hashes.set(hashes::ALL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TERABYTE: u64 = 1 << 40;

    proptest! {
        #[test]
        fn a_disk_of_any_size_is_planned_or_refused(
            block_shift in 12..=16_u32,
            split in 0..=3_u32,
            (size_shift, low_bits) in (10..=62_u32, any::<u64>()),
            bytes_per_inode in prop::option::of(0..1_000_000_u64),
            max_group_blocks in prop::option::of(0..10_000_u64),
            reserve_percent in 0..=99_u64,
        ) {
            let size = (1 << size_shift) | (low_bits >> (64 - size_shift));
            let options = MkfsOptions {
                block_size: 1 << block_shift,
                fragment_size: (1 << block_shift) >> split,
                bytes_per_inode,
                max_group_blocks,
                reserve_percent,
                ..MkfsOptions::default()
            };
            if let Ok(Plan { geometry, .. }) = plan(size, 512, &options) {
                let used = geometry.byte_address(geometry.size);
                prop_assert!(used <= size);
                // The unused rest is smaller than the metadata of one more group.
                let metadata = geometry.metadata_offsets(0)[0].end + geometry.fragments_per_block;
                prop_assert!(size - used < geometry.byte_address(metadata + 1));
            }
        }
    }

    #[test]
    fn a_terabyte_takes_as_few_groups_as_their_maps_allow() {
        let geometry = plan(TERABYTE, 512, &MkfsOptions::default()).expect("it fits").geometry;
        let fuller = GroupMaps::new(
            geometry.inodes_per_group + geometry.inodes_per_block,
            geometry.fragments_per_group * 101 / 100,
            geometry.fragments_per_block,
            MAX_CLUSTER_SUM_SIZE,
        );
        assert!(fuller.end as u64 > geometry.block_size);
        assert_eq!(geometry.byte_address(geometry.size), TERABYTE);
    }

    #[test]
    fn inodes_get_fewer_where_their_numbers_would_not_suffice() {
        let geometry =
            plan(256 * TERABYTE, 512, &MkfsOptions::default()).expect("it fits").geometry;
        assert!(geometry.inode_count() < 1 << 32);
        let options = MkfsOptions { bytes_per_inode: Some(8192), ..MkfsOptions::default() };
        let refused = plan(256 * TERABYTE, 512, &options);
        assert!(matches!(refused, Err(MkfsError::Option { option: "bytes per inode", .. })));
    }

    #[test]
    fn what_is_needed_at_least_suffices() {
        for (block_size, fragment_size) in [(4096, 512), (32_768, 4096), (65_536, 65_536)] {
            let options = MkfsOptions { block_size, fragment_size, ..MkfsOptions::default() };
            let Err(MkfsError::TooSmall { needed, .. }) = plan(10_000, 512, &options) else {
                panic!("10,000 bytes do not even reach the superblock");
            };
            assert!(plan(needed, 512, &options).is_ok(), "{block_size}/{fragment_size}");
            assert!(plan(needed - 1, 512, &options).is_err(), "{block_size}/{fragment_size}");
        }
    }

    #[test]
    fn fragments_smaller_than_a_sector_of_the_device_are_refused() {
        let options =
            MkfsOptions { block_size: 4096, fragment_size: 512, ..MkfsOptions::default() };
        let refused = plan(1 << 30, 4096, &options);
        assert!(matches!(refused, Err(MkfsError::Option { option: "fragment size", .. })));
    }
}
