//! Group blocks: a block that passes its check can be counted, and its counts match its maps.
//!
//! The first byte chooses the disk, the byte order and whether the damage is sealed, as an attacker
//! would; the second the group. The rest are patches of a valid block.

use sim::Prng;
use ufs2::derive::{self, BadGroup, bits};
use ufs2::layout::{Geometry, GroupHeader, Summary};

use super::{Target, some_bytes};
use crate::input::Input;
use crate::templates::{self, Numbers, Template};

pub(super) const TARGET: Target =
    Target { name: "group-block", check, generate, longest: 512, memory: 256 << 10 };

/// The numbers of a header.
const HEADER: [Numbers; 4] = [(4, 0, 16), (2, 16, 20), (4, 20, 136), (8, 136, 144)];
const HASH: usize = 132;

fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.u8();
    let (is_big, is_sealed) = (choice & 1 == 1, choice & 2 == 2);
    let template = &templates::all()[usize::from(choice >> 2) % templates::all().len()];
    let group = u64::from(input.u8()) % template.geometry.group_count;
    let mut block = template.group_block(group);
    templates::patch(&mut block, input);
    if is_sealed {
        template.geometry.seal_group(&mut block);
    }
    if is_big {
        check_turning(template, &block, is_sealed);
    }
    match derive::check_group(&template.geometry, group, &block) {
        Ok(()) => check_counts(&template.geometry, group, block),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let hash = matches!(error, BadGroup::Hash { .. });
            assert!(!(hash && is_sealed), "what was sealed fits");
        }
    }
}

/// A block of the other byte order is the same block after conversion.
fn check_turning(template: &Template, block: &[u8], is_sealed: bool) {
    let mut big = block.to_vec();
    templates::turn(&mut big, &HEADER);
    let sums = &template.geometry.maps.cluster_sums;
    templates::turn(&mut big, &[(4, sums.start, sums.end)]);
    if is_sealed && template.big.group_hashes {
        templates::put_hash(&mut big, HASH);
    }
    template.big.turn_group(&mut big);
    let (hash, turned_hash) = (&block[HASH..HASH + 4], &big[HASH..HASH + 4]);
    assert!(!is_sealed || hash == turned_hash, "a hash that fits is made to fit again");
    assert_eq!(big[..HASH], block[..HASH]);
    assert_eq!(big[HASH + 4..], block[HASH + 4..]);
}

fn check_counts(geometry: &Geometry, group: u64, mut block: Vec<u8>) {
    let before = block.clone();
    let counts = derive::recompute_group(geometry, group, &mut block);
    assert_eq!(GroupHeader::of(&block).counts, counts);
    let maps = &geometry.maps;
    assert_eq!(maps.inodes_in(&block), maps.inodes_in(&before), "maps are the truth");
    assert_eq!(maps.fragments_in(&block), maps.fragments_in(&before), "maps are the truth");

    let Summary { free_blocks, free_inodes, free_fragments, .. } = counts;
    let free = free_blocks.get() as u64 * geometry.fragments_per_block;
    let free = free + free_fragments.get() as u64;
    assert_eq!(free, bits::count_ones(maps.fragments_in(&block)), "all that is free is counted");
    assert!(free <= geometry.group_size_fragments(group));
    let used = bits::count_ones(maps.inodes_in(&block));
    assert_eq!(free_inodes.get() as u64 + used, geometry.inodes_per_group);
    let runs = GroupHeader::of(&block).fragment_runs.iter().enumerate();
    let in_runs: u64 = runs.map(|(length, runs)| length as u64 * u64::from(runs.get())).sum();
    assert_eq!(in_runs, free_fragments.get() as u64, "runs hold what is not in whole blocks");
    if !maps.clusters.is_empty() {
        assert_eq!(bits::count_ones(&block[maps.clusters.clone()]), free_blocks.get() as u64);
    }
    let again = derive::recompute_group(geometry, group, &mut block);
    assert_eq!(again, counts, "and counted again the same");
    geometry.seal_group(&mut block);
    assert_eq!(derive::check_group(geometry, group, &block), Ok(()));
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let mut input = vec![prng.next_u64() as u8, prng.next_u64() as u8];
    for _ in 0..prng.below(4) {
        let piece = some_bytes(prng, 31);
        // The header, or the start of the maps after it.
        input.extend((prng.below(400) as u16).to_le_bytes());
        input.push(piece.len() as u8);
        input.extend(piece);
    }
    input
}
