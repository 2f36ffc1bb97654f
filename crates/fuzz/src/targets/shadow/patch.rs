//! Damage to a chosen block, with or without matching checksums, up to the superblocks.

use cow::format::head::{seal_alone, secret};
use cow::{Kind, UNIT, sum};
use shadow::format::kind;
use shadow::format::superblock::Superblock;
use sim::{Image, Prng};

use super::garden::{Garden, birth, kind, pointer, unit_of};
use crate::input::Input;
use crate::targets::volume;

/// Patches with a form from this one on are sealed.
const SEALED: u8 = 128;
/// Forms with this bit change all copies of a block.
const COPIES: u8 = 64;

/// Takes the next patch of an input.
pub(super) fn apply(garden: &Garden, image: &mut Image, input: &mut Input<'_>) {
    let (of, which) = (usize::from(input.u8()), usize::from(input.u8()));
    let offset = usize::from(input.u16()) % UNIT;
    let form = input.u8();
    let piece = input.bytes(1 + usize::from(form % 16));
    let kinds: Vec<_> = garden.kinds.iter().collect();
    let (&of, units) = kinds[of % kinds.len()];
    let is_copied = of == kind::ANCHOR.byte() || of == kind::SUPERBLOCK.byte();
    let first = which % units.len();
    let taken = if is_copied && form & COPIES != 0 { 0..units.len() } else { first..first + 1 };
    for &unit in &units[taken] {
        let mut block = unit_of(image, unit);
        let end = (offset + piece.len()).min(UNIT);
        block[offset..end].copy_from_slice(&piece[..end - offset]);
        image.write(unit * UNIT as u64, &block);
        if form >= SEALED {
            seal(garden, image, unit);
        }
    }
}

/// Updates all pointers and checksums on the way to a block.
fn seal(garden: &Garden, image: &mut Image, unit: u64) {
    let mut block = unit_of(image, unit);
    let is_of = |of: Kind| kind(&block) == of.byte();
    let is_alone = is_of(kind::ANCHOR) || is_of(kind::SUPERBLOCK);
    if is_alone {
        block[56..64].fill(0);
        seal_alone(&mut block);
        list(image, unit, &mut block);
        return image.write(unit * UNIT as u64, &block);
    }
    let is_data = kind(&block) == 0;
    for &(above, at) in garden.ways.get(&unit).into_iter().flatten() {
        let mut leads = unit_of(image, above);
        let by = if is_data { leads[at + 8..at + 16].try_into().ok() } else { None };
        let now = pointer(unit, &block, by.unwrap_or_else(|| birth(&block)));
        leads[at..at + 24].copy_from_slice(&now);
        image.write(above * UNIT as u64, &leads);
        seal(garden, image, above);
    }
}

/// Makes a superblock list the current contents.
fn list(image: &Image, unit: u64, block: &mut [u8]) {
    let secret = secret(block);
    let Some(mut read) = Superblock::read(block, unit, &secret) else { return };
    if read.listed.is_empty() {
        return;
    }
    for listed in &mut read.listed {
        if listed.run.end() > image.size() / UNIT as u64 {
            continue;
        }
        let mut bytes = vec![0; listed.run.length as usize * UNIT];
        image.read(listed.run.start * UNIT as u64, &mut bytes);
        let parts = bytes.chunks(usize::from(listed.grain) * UNIT);
        let sums: Vec<u8> = parts.flat_map(|part| sum(part).to_le_bytes()).collect();
        listed.sum = sum(&sums);
    }
    block.copy_from_slice(&*read.write(unit, &secret));
}

/// Adds a patch to an input, mostly of a whole field, half of them sealed.
pub(super) fn generate(prng: &mut Prng, input: &mut Vec<u8>) {
    let width = volume::width(prng);
    let of = prng.next_u64() as u8;
    let most = [64, 320, 1300, UNIT][prng.index(4)];
    let offset = volume::offset(prng, most, width);
    input.extend([of, prng.next_u64() as u8]);
    input.extend(offset.to_le_bytes());
    input.push((width - 1) as u8 + 16 * prng.below(16) as u8);
    input.extend(&volume::value(prng).to_le_bytes()[..width]);
}
