//! Recomputes the redundant parts of a group block.
//!
//! The inode map and the fragment map of a group are the truth. Its counts, its table of free runs,
//! its cluster map and its cluster sums follow from them, and so do most fields of its header. All
//! of that is computed here, from nothing but the maps and the [`Geometry`]: by mkfs, by the
//! checker, and by the engine when it writes a group whose maps differ a little from those in
//! memory. Only the number of directories must be given. [`check_group`] judges a group block that
//! was read, before anything in it is believed.
//!
//! Maps are read 64 bits at a time and without a branch a bit, so that a map of the largest group
//! takes some tens of microseconds whatever it holds.
//!
//! Invariant: the bits of the fragment map behind a short group are 0. Then a block that the end of
//! the disk cuts can never look free as a whole.

pub mod bits;
mod check;

pub use check::count_fitting;
pub use check::{BadGroup, check_group};

use zerocopy::FromZeros;
use zerocopy::little_endian::I32;

use crate::layout::{GROUP_MAGIC, Geometry, GroupHeader, Summary};

/// The free space in the fragment map of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeSpace {
    /// Blocks that are entirely free.
    pub blocks: u32,
    /// Free fragments in the other blocks.
    pub fragments: u32,
    /// Entry k: runs of exactly k free fragments in the other blocks. Entry 0 is 0.
    pub runs: [u32; 8],
}

/// Makes `block` the group block of an empty group: the fixed fields of its header, all inodes
/// free, all fragments free except metadata, no inode initialised. Once the maps are final,
/// [`recompute_group`] completes it.
///
/// # Panics
/// When `block` is shorter than a group block, or there is no such group.
pub fn initialize_group(geometry: &Geometry, group: u64, block: &mut [u8]) {
    block[..geometry.group_block_size as usize].fill(0);
    *GroupHeader::of_mut(block) = fixed_header(geometry, group);
    let map = geometry.maps.fragments_in_mut(block);
    bits::set_range(map, 0..geometry.group_size_fragments(group));
    for metadata in geometry.metadata_offsets(group) {
        bits::clear_range(map, metadata);
    }
}

/// The header of a group with the fields that never change; all others are zero.
fn fixed_header(geometry: &Geometry, group: u64) -> GroupHeader {
    let [inodes, fragments, sums, clusters, end] = geometry.maps.header_offsets();
    let mut header = GroupHeader::new_zeroed();
    header.magic.set(GROUP_MAGIC);
    header.index.set(group as u32);
    header.fragments.set(geometry.group_size_fragments(group) as u32);
    header.inode_map_offset.set(inodes);
    header.fragment_map_offset.set(fragments);
    header.cluster_sums_offset.set(sums);
    header.cluster_map_offset.set(clusters);
    header.maps_end_offset.set(end);
    header.inodes.set(geometry.inodes_per_group as u32);
    if geometry.cluster_sum_size > 0 {
        header.cluster_blocks.set(geometry.group_size_blocks(group) as u32);
    }
    header
}

/// Updates counts, free runs, cluster map and cluster sums of a group block from its maps, and
/// returns the counts. The number of directories does not follow from the maps: the header's is
/// kept.
///
/// # Panics
/// When `block` is shorter than a group block, or belongs to another group.
pub fn recompute_group(geometry: &Geometry, group: u64, block: &mut [u8]) -> Summary {
    assert_eq!(u64::from(GroupHeader::of(block).index.get()), group, "the block of another group");
    let maps = &geometry.maps;
    let used_inodes = bits::count_ones(maps.inodes_in(block));
    let (before_clusters, clusters) = block.split_at_mut(maps.clusters.start);
    let clusters = &mut clusters[..maps.clusters.len()];
    let fragments = maps.fragments_in(before_clusters);
    let free = scan_fragments(fragments, geometry.fragments_per_block, clusters);
    scan_clusters(clusters, maps.cluster_sums_in_mut(before_clusters));

    let header = GroupHeader::of_mut(block);
    header.counts.free_blocks.set(free.blocks as i32);
    header.counts.free_inodes.set((geometry.inodes_per_group - used_inodes) as i32);
    header.counts.free_fragments.set(free.fragments as i32);
    header.fragment_runs = free.runs.map(Into::into);
    header.counts
}

/// Counts the free space in a fragment map and computes its cluster map, up to the length of
/// `clusters`: it is empty on a disk that keeps none.
pub fn scan_fragments(map: &[u8], fragments_per_block: u64, clusters: &mut [u8]) -> FreeSpace {
    match fragments_per_block {
        1 => scan_fragments_of::<1>(map, clusters),
        2 => scan_fragments_of::<2>(map, clusters),
        4 => scan_fragments_of::<4>(map, clusters),
        8 => scan_fragments_of::<8>(map, clusters),
        _ => unreachable!("a block has 1, 2, 4 or 8 fragments"),
    }
}

/// [`scan_fragments`] for blocks of `BLOCK` fragments, so that the compiler unrolls the loops.
fn scan_fragments_of<const BLOCK: u32>(map: &[u8], clusters: &mut [u8]) -> FreeSpace {
    let mut free = FreeSpace::default();
    let mut clusters = clusters.chunks_mut(8 / BLOCK as usize);
    // Runs of at least k fragments; the number of exactly k is the difference to k + 1.
    let mut longer_runs = [0; 9];
    for word in bits::words(map) {
        let whole = whole_blocks::<BLOCK>(word);
        free.blocks += whole.count_ones();
        if let Some(chunk) = clusters.next() {
            let gathered = gather::<BLOCK>(whole).to_le_bytes();
            chunk.copy_from_slice(&gathered[..chunk.len()]);
        }
        let partial = word & !(whole * block_mask::<BLOCK>());
        if partial != 0 {
            free.fragments += partial.count_ones();
            count_runs::<BLOCK>(partial, &mut longer_runs);
        }
    }
    for (length, runs) in free.runs.iter_mut().enumerate().skip(1) {
        *runs = longer_runs[length] - longer_runs[length + 1];
    }
    free
}

/// The bits of the first block of a word.
const fn block_mask<const BLOCK: u32>() -> u64 {
    (1 << BLOCK) - 1
}

/// A bit at the start of each block of a word.
const fn block_starts<const BLOCK: u32>() -> u64 {
    u64::MAX / block_mask::<BLOCK>()
}

/// A bit at the start of each block whose bits are all set.
fn whole_blocks<const BLOCK: u32>(word: u64) -> u64 {
    let mut whole = word;
    for shift in 1..BLOCK {
        whole &= word >> shift;
    }
    whole & block_starts::<BLOCK>()
}

/// Moves the bits at the starts of the blocks together, to the low end.
fn gather<const BLOCK: u32>(starts: u64) -> u64 {
    let mut gathered = starts;
    let mut block = BLOCK;
    while block > 1 {
        gathered = even_bits(gathered);
        block /= 2;
    }
    gathered
}

/// Moves the bits 0, 2, 4, ... to 0, 1, 2, ...; the odd ones are dropped.
fn even_bits(word: u64) -> u64 {
    let mut word = word & 0x5555_5555_5555_5555;
    word = (word | word >> 1) & 0x3333_3333_3333_3333;
    word = (word | word >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    word = (word | word >> 4) & 0x00ff_00ff_00ff_00ff;
    word = (word | word >> 8) & 0x0000_ffff_0000_ffff;
    (word | word >> 16) & 0x0000_0000_ffff_ffff
}

/// Adds to entry k of `longer_runs` the runs of at least k bits. No run crosses a block.
fn count_runs<const BLOCK: u32>(word: u64, longer_runs: &mut [u32; 9]) {
    let continued = word << 1 & !block_starts::<BLOCK>();
    // The first bits of the runs that are still long enough.
    let mut starts = word & !continued;
    for length in 1..BLOCK {
        longer_runs[length as usize] += starts.count_ones();
        // A run can be longer only where `length` further bits lie in the same block.
        let room = block_starts::<BLOCK>() * (block_mask::<BLOCK>() >> length);
        starts &= word >> length & room;
    }
}

/// Counts the runs of free blocks in a cluster map: element `k - 1` gets the runs of exactly `k`
/// blocks, the last element the longer ones too.
pub fn scan_clusters(map: &[u8], sums: &mut [I32]) {
    let mut words = bits::words(map).peekable();
    let mut longer_runs = vec![0_i32; sums.len() + 1];
    let mut before = 0;
    while let Some(word) = words.next() {
        let after = words.peek().copied().unwrap_or(0);
        let mut starts = word & !(word << 1 | before >> 63);
        before = word;
        for (further, runs) in longer_runs[..sums.len()].iter_mut().enumerate() {
            // Bit n of this says whether the block `further` places behind n is free.
            let window = (u128::from(after) << 64 | u128::from(word)) >> further;
            starts &= window as u64;
            if starts == 0 {
                break;
            }
            *runs += starts.count_ones() as i32;
        }
    }
    for (index, sum) in sums.iter_mut().enumerate() {
        sum.set(longer_runs[index] - longer_runs[index + 1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Maps as disks have them: long runs, short runs and noise.
    fn maps() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            (any::<u8>(), 1..4_usize).prop_map(|(byte, count)| vec![byte; count]),
            (prop::sample::select(vec![0x00, 0xff]), 1..40_usize)
                .prop_map(|(byte, count)| vec![byte; count]),
            prop::collection::vec(any::<u8>(), 1..20),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    /// The definition, one bit at a time.
    fn naive_fragments(map: &[u8], block: usize) -> (FreeSpace, Vec<bool>) {
        let mut free = FreeSpace::default();
        let mut clusters = Vec::new();
        let all: Vec<bool> = (0..map.len() as u64 * 8).map(|i| bits::is_set(map, i)).collect();
        for block in all.chunks(block) {
            let whole = block.iter().all(|&bit| bit);
            clusters.push(whole);
            if whole {
                free.blocks += 1;
                continue;
            }
            for run in block.split(|&bit| !bit).filter(|run| !run.is_empty()) {
                free.fragments += run.len() as u32;
                free.runs[run.len()] += 1;
            }
        }
        (free, clusters)
    }

    fn naive_clusters(clusters: &[bool], highest: usize) -> Vec<i32> {
        let mut sums = vec![0; highest];
        for run in clusters.split(|&bit| !bit).filter(|run| !run.is_empty()) {
            sums[run.len().min(highest) - 1] += 1;
        }
        sums
    }

    proptest! {
        #[test]
        fn words_count_as_single_bits_do(
            map in maps(),
            shift in 0..4_u32,
            highest in 1..=16_usize,
        ) {
            let block = 1 << shift;
            let (expected, expected_clusters) = naive_fragments(&map, block);
            let mut clusters = vec![0; expected_clusters.len().div_ceil(8)];
            let free = scan_fragments(&map, block as u64, &mut clusters);
            prop_assert_eq!(free, expected);
            for (index, &whole) in expected_clusters.iter().enumerate() {
                prop_assert_eq!(bits::is_set(&clusters, index as u64), whole, "block {}", index);
            }

            let mut sums = vec![I32::new(-1); highest];
            scan_clusters(&clusters, &mut sums);
            let sums: Vec<i32> = sums.into_iter().map(I32::get).collect();
            prop_assert_eq!(sums, naive_clusters(&expected_clusters, highest));
        }
    }

    #[test]
    fn a_cluster_that_crosses_many_words_counts_once() {
        let mut map = [0xff; 64];
        map[63] = 0;
        let mut sums = [I32::new(0); 16];
        scan_clusters(&map, &mut sums);
        assert_eq!(sums[15].get(), 1);
        assert!(sums[..15].iter().all(|sum| sum.get() == 0));
    }
}
