//! Damage that matches its checksums: a block is changed, and so are the blocks that lead to it, up
//! to the superblocks.

use cow::format::head::seal_alone;
use cow::{Kind, sum};
use shadow::format::kind;
use sim::Image;

use crate::scrub::{UNIT, stands_twice, unit_of};

/// A pointer as bytes of a block.
fn pointer(unit: u64, bytes: &[u8]) -> [u8; 24] {
    let mut pointer = [0; 24];
    pointer[..8].copy_from_slice(&unit.to_le_bytes());
    pointer[8..16].copy_from_slice(&bytes[32..40]); // its birth
    pointer[16..].copy_from_slice(&sum(bytes).to_le_bytes());
    pointer
}

/// Changes a block, and the blocks that lead to it.
pub(crate) fn forge(image: &mut Image, unit: u64, change: impl FnOnce(&mut [u8])) {
    let mut bytes = unit_of(image, unit);
    let before = bytes.clone();
    change(&mut bytes);
    if stands_twice(&before) {
        let is_copy = |other: &u64| unit_of(image, *other) == before;
        let copies: Vec<u64> = (2..image.size() / UNIT - 2).filter(is_copy).collect();
        return copies.iter().for_each(|&copy| replace(image, copy, &before, &bytes));
    }
    replace(image, unit, &before, &bytes);
}

/// Replaces a block by another.
fn replace(image: &mut Image, unit: u64, before: &[u8], bytes: &[u8]) {
    let before = pointer(unit, before);
    let now = pointer(unit, bytes);
    image.write(unit * UNIT, bytes);
    if before == now {
        return;
    }
    for above in 2..image.size() / UNIT - 2 {
        let old = unit_of(image, above);
        let is_there = |at: &usize| old[*at..*at + 24] == before;
        let places: Vec<usize> = (0..old.len() - 24).filter(is_there).collect();
        if !old.starts_with(b"DuSh") || places.is_empty() {
            continue;
        }
        let mut new = old.clone();
        places.iter().for_each(|&at| new[at..at + 24].copy_from_slice(&now));
        if new[6] == kind::SUPERBLOCK.byte() {
            new[56..64].fill(0);
            seal_alone(&mut new);
            image.write(above * UNIT, &new);
        } else {
            replace(image, above, &old, &new);
        }
    }
}

/// Units with a block of this kind, owner, level and index that satisfy `is_used`, the oldest
/// first.
pub(crate) fn versions(
    image: &Image,
    (kind, owner, level, index): (Kind, u64, u8, u64),
    is_used: impl Fn(u64) -> bool,
) -> Vec<u64> {
    let number = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
    };
    let mut found: Vec<(u64, u64)> = Vec::new();
    for unit in 32..image.size() / UNIT - 2 {
        let bytes = unit_of(image, unit);
        let is_it = bytes.starts_with(b"DuSh") && bytes[6] == kind.byte();
        let place = [8, 16, 24].map(|at| number(&bytes, at));
        if is_it && place == [owner, level.into(), index] && is_used(unit) {
            found.push((number(&bytes, 32), unit));
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, unit)| unit).collect()
}
