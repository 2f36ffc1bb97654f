//! Mending the newest update.
//!
//! Blocks of the newest update, which an opening believes, have another witness: a checksum
//! identifies a single flipped bit. So a flipped bit in the newest superblock, or in a run that it
//! lists, loses no acknowledged change.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use block::{BlockDevice, Buffer};
use cow::bits::{flipped, flipped_in_pieces};
use cow::format::head::{seal_alone, unsealed};
use cow::{Pointer, Secret, UNIT, sum, sum_of_sums};

use crate::format::superblock::{Listed, Superblock};
use crate::planted::{Bug, is_planted};

/// Pointers are at multiples of this in their blocks.
const ALIGNED: usize = 4;

/// By the first units of blocks: their checksums with a bit flipped back, and the position of the
/// bit in the run.
type Candidates = BTreeMap<u64, Vec<(u64, usize, u8)>>;

/// Mends a superblock that is wrong on the disk: with another version of it, or by flipping one bit
/// back. None if it is not a superblock.
pub(crate) async fn mended_superblock(
    device: &dyn BlockDevice,
    block: &[u8],
    (at, secret): (u64, &Secret),
) -> Option<Superblock> {
    if block.iter().all(|&byte| byte == 0) || is_planted(Bug::UnmendedSuperblocks) {
        return None;
    }
    let own = *secret;
    let is_one = move |block: &[u8]| Superblock::read(block, at, &own).is_some();
    let other = device.mend(at * UNIT as u64, UNIT as u64, Rc::new(is_one)).await.ok().flatten();
    if let Some(other) = other {
        return Superblock::read(&other, at, secret);
    }
    let (mut copy, own_sum) = unsealed(block);
    let difference = sum(&copy) ^ own_sum;
    if !difference.is_power_of_two() {
        let (byte, bit) = flipped(UNIT, difference)?;
        copy[byte] ^= 1 << bit;
    }
    seal_alone(&mut copy);
    Superblock::read(&copy, at, secret)
}

/// Mends a listed run that is wrong on the disk: with another version of it, or by flipping one bit
/// back. `superblock` has the bytes of the superblock, and blocks of files have `block` units.
pub(crate) async fn mended_run(
    device: &dyn BlockDevice,
    (superblock, all, block): (&[u8], &[Listed], u64),
    listed: Listed,
    bytes: &[u8],
) -> Option<Buffer> {
    if is_planted(Bug::UnmendedRuns) {
        return None;
    }
    let is_right = move |bytes: &[u8]| sum_listed(&listed, bytes) == listed.sum;
    let length = bytes.len() as u64;
    let other = device.mend(listed.offset(), length, Rc::new(is_right)).await.ok().flatten();
    if other.is_some() {
        return other;
    }
    let grain = usize::from(listed.grain) * UNIT;
    if bytes.is_empty() || !bytes.len().is_multiple_of(grain) {
        return None;
    }
    let difference = sum_listed(&listed, bytes) ^ listed.sum;
    let candidates = flipped_in_pieces(bytes.len() / grain, grain, difference);
    let mut candidates_at = Candidates::new();
    for (piece, byte, bit) in candidates {
        // Tries a block of metadata, and a block of data whose units are pieces.
        for length in BTreeSet::from([grain, block as usize * UNIT]) {
            let (at, first) = (piece * grain + byte, listed.run.start as usize * UNIT);
            let start = ((first + at) / length * length).saturating_sub(first);
            let Some(bytes) = bytes.get(start..start + length) else { continue };
            let mut copy = Buffer::copied(bytes);
            copy[at - start] ^= 1 << bit;
            let address = ((first + start) / UNIT) as u64;
            candidates_at.entry(address).or_default().push((sum(&copy), at, bit));
        }
    }
    let candidates = candidates_at;
    let mut found = led_to(superblock, &candidates);
    for other in all.iter().filter(|_| !candidates.is_empty()) {
        let room = Buffer::unfilled(other.run.length as usize * UNIT);
        found = found.or(led_to(&device.read(other.offset(), room).await.ok()?, &candidates));
    }
    let (byte, bit) = found?;
    let mut copy = Buffer::copied(bytes);
    copy[byte] ^= 1 << bit;
    Some(copy).filter(|copy| is_right(copy))
}

/// The candidate that one of the pointers in these bytes leads to, by address and checksum.
fn led_to(bytes: &[u8], candidates: &Candidates) -> Option<(usize, u8)> {
    let number = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
    let places = (0..=bytes.len().saturating_sub(size_of::<Pointer>())).step_by(ALIGNED);
    let mut all = places.filter_map(|at| {
        let here = candidates.get(&number(at))?.iter();
        let mut fit = here.filter(|(sum, ..)| number(at + 16) == *sum);
        fit.next().map(|&(_, byte, bit)| (byte, bit))
    });
    all.next()
}

/// The checksum of the bytes of a listed run.
pub(crate) fn sum_listed(listed: &Listed, bytes: &[u8]) -> u64 {
    let sums: Vec<u64> = bytes.chunks(usize::from(listed.grain) * UNIT).map(sum).collect();
    sum_of_sums(&sums)
}
