//! Damage to a chosen structure of the log.

use std::ops::Range;

use crc_fast::{CrcAlgorithm, checksum};
use journal::format::{HEADER_SIZE, SLOTS};
use sim::{Image, Prng};

use super::sample::Sample;
use crate::input::Input;
use crate::targets::volume;

/// Bytes of a slot.
const SLOT: u64 = 72;
/// Bytes of a record's line.
const LINE: u64 = 32;
/// Offset of a slot's checksum, which covers all of it with zeros in its place, and of an entry's,
/// which covers the bytes after it.
const SLOT_SUM: usize = 20;
const ENTRY_SUM: usize = 4;
/// Offsets in an entry of the checksum of the one before, and of its length.
const PREVIOUS: usize = 8;
const LENGTH: usize = 40;
/// Number of kinds of structures.
const KINDS: u8 = 6;

/// The bytes of the log that a patch of this kind damages.
fn place(sample: &Sample, kind: u8, which: u8) -> Range<u64> {
    let (at, size, records) = sample.entries[usize::from(which) % sample.entries.len()];
    let behind = at + HEADER_SIZE as u64;
    match kind {
        0 => {
            let slot = SLOTS[usize::from(which) % SLOTS.len()];
            slot..slot + SLOT
        }
        1 => at..behind,
        2 | 3 if records > 0 => behind..behind + records * LINE,
        4 => at..at + size,
        _ => 0..sample.log.size(),
    }
}

/// Takes the next patch of an input.
pub(super) fn apply(sample: &Sample, home: &mut Image, log: &mut Image, input: &mut Input<'_>) {
    let (kind, which) = (input.u8() % (KINDS + 1), input.u8());
    let offset = u64::from(input.u16());
    let form = input.u8();
    let piece = input.bytes(1 + usize::from(form % 8));
    if kind == KINDS {
        return apply_at_home(sample, home, (which, offset), piece);
    }
    let range = place(sample, kind, which);
    let scale = if range.end - range.start > 1 << 16 { 61 } else { 1 };
    let at = range.start + offset * scale % (range.end - range.start);
    let end = range.end.min(at + piece.len() as u64);
    log.write(at, &piece[..(end - at) as usize]);
}

/// Damages a group block on the volume, and seals it.
fn apply_at_home(sample: &Sample, home: &mut Image, (which, offset): (u8, u64), piece: &[u8]) {
    let geometry = &sample.geometry;
    let group = u64::from(which) % geometry.group_count;
    let address = geometry.byte_address(geometry.group_header_fragment(group));
    let mut block = vec![0; geometry.group_block_size as usize];
    home.read(address, &mut block);
    let at = offset as usize % block.len();
    let end = block.len().min(at + piece.len());
    block[at..end].copy_from_slice(&piece[..end - at]);
    geometry.seal_group(&mut block);
    home.write(address, &block);
}

fn sum(bytes: &[u8]) -> [u8; 4] {
    (checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32).to_le_bytes()
}

/// Makes every checksum match, and the chain valid.
pub(super) fn seal(sample: &Sample, log: &mut Image) {
    for slot in SLOTS {
        let mut bytes = [0; SLOT as usize];
        log.read(slot, &mut bytes);
        bytes[SLOT_SUM..SLOT_SUM + 4].fill(0);
        let sum = sum(&bytes);
        bytes[SLOT_SUM..SLOT_SUM + 4].copy_from_slice(&sum);
        log.write(slot, &bytes);
    }
    let mut previous = (sample.epoch as u32).to_le_bytes();
    for &(at, size, _) in &sample.entries {
        let mut entry = vec![0; size as usize];
        log.read(at, &mut entry);
        entry[PREVIOUS..PREVIOUS + 4].copy_from_slice(&previous);
        let length = entry[LENGTH..LENGTH + 4].try_into().expect("four bytes");
        let length = (u32::from_le_bytes(length) as usize).clamp(HEADER_SIZE, entry.len());
        previous = sum(&entry[ENTRY_SUM + 4..length]);
        entry[ENTRY_SUM..ENTRY_SUM + 4].copy_from_slice(&previous);
        log.write(at, &entry);
    }
}

/// Adds a patch to an input, mostly of a whole field.
pub(super) fn generate(prng: &mut Prng, input: &mut Vec<u8>) {
    let kind = prng.below(u64::from(KINDS) + 1) as u8;
    let width = volume::width(prng);
    let most = [72, 64, 512, 512, 4096, 65_536, 4096][usize::from(kind)];
    let offset = volume::offset(prng, most, width);
    input.extend([kind, prng.next_u64() as u8]);
    input.extend(offset.to_le_bytes());
    input.push((width - 1) as u8);
    input.extend(&volume::value(prng).to_le_bytes()[..width]);
}
