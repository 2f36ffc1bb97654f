//! From a block of a file to its address: every slot is inside its block, every address on the
//! disk.
//!
//! The first byte chooses the disk; then come the size of a file, a block number and the pointers.

use sim::Prng;
use ufs2::layout::{DIRECT_POINTERS, Geometry, INDIRECT_POINTERS};
use ufs2::map::{Path, block_count, path, pointer, run_length};

use super::Target;
use crate::input::Input;
use crate::templates;

pub(super) const TARGET: Target =
    Target { name: "indirect-block", check, generate, longest: 512, memory: 256 << 10 };

fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let template = input.pick(templates::all());
    let geometry = &template.geometry;
    let (size, lbn) = (input.u64(), input.u64());
    check_size(geometry, size, lbn);
    check_path(geometry, lbn);

    let mut block = input.rest().to_vec();
    block.resize(geometry.block_size as usize, 0);
    let slots = geometry.pointers_per_indirect as usize;
    for slot in (0..64).chain([slots / 2, slots - 1]) {
        let address = pointer(&block, slot);
        let end = address.checked_add(geometry.fragments_per_block);
        let is_block = geometry.is_data_run(address, geometry.fragments_per_block);
        assert!(!is_block || end.is_some_and(|end| end <= geometry.size), "{address}");
        assert!(!is_block || address.is_multiple_of(geometry.fragments_per_block));
    }
    let mut turned = block.clone();
    template.big.turn_indirect(&mut turned);
    assert_eq!(pointer(&turned, 0), pointer(&block, 0).swap_bytes());
    template.big.turn_indirect(&mut turned);
    assert_eq!(turned, block);
    template.geometry.turn_indirect(&mut turned);
    assert_eq!(turned, block, "nothing to turn");
}

fn check_size(geometry: &Geometry, size: u64, lbn: u64) {
    let blocks = block_count(geometry, size);
    let run = run_length(geometry, size, lbn.min(blocks));
    assert!((1..=geometry.fragments_per_block).contains(&run), "{run} fragments");
    assert_eq!(blocks, u128::from(size).div_ceil(geometry.block_size.into()) as u64);
}

fn check_path(geometry: &Geometry, lbn: u64) {
    let direct = DIRECT_POINTERS as u64;
    let Some(behind) = lbn.checked_sub(direct) else { return };
    let fan = geometry.pointers_per_indirect;
    let last = geometry.max_file_size / geometry.block_size;
    let Ok(Path { tree, slots }) = path(geometry, lbn) else {
        return assert!(lbn > last, "block {lbn} of at most {last} can be reached");
    };
    assert!(lbn <= last && tree < INDIRECT_POINTERS && slots.len() == tree + 1);
    assert!(slots.iter().all(|&slot| (slot as u64) < fan), "slots {slots:?} of {fan}");
    let before: u64 = (1..=tree as u32).map(|level| fan.pow(level)).sum();
    let within = slots.iter().fold(0, |within, &slot| within * fan + slot as u64);
    assert_eq!(before + within, behind, "the way leads to the block");
}

fn generate(prng: &mut Prng) -> Vec<u8> {
    let mut input = vec![prng.next_u64() as u8];
    input.extend((prng.next_u64() >> prng.below(64)).to_le_bytes());
    input.extend((prng.next_u64() >> prng.below(64)).to_le_bytes());
    for _ in 0..prng.below(12) {
        input.extend(prng.below(10_000).to_le_bytes());
    }
    input
}
