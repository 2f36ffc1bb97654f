//! Labels and log records of a set of disks. The checksum catches most damage; so the bytes get a
//! matching one, and the decoder must judge their contents.

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, checksum};
use raid::label::{DATA_START, LABEL_SIZE, Label, Replacement, Slot, Standing, map_size};
use raid::layout::{Layout, Level, MEMBERS, UNITS};
use raid::record::{BLOCK, Change, Place, Slots, decode, encode, size_at};
use sim::Prng;

use super::{Target, some_bytes};

pub(super) const LABEL: Target = Target {
    name: "raid-label",
    check: check_label,
    generate: generate_label,
    longest: LABEL_SIZE as usize,
    memory: 256 << 10,
};
pub(super) const RECORD: Target = Target {
    name: "raid-record",
    check: check_record,
    generate: generate_record,
    longest: 32 << 10,
    memory: 16 << 20,
};

/// Layout of the set whose records are judged.
const LAYOUT: Layout = Layout { level: Level::Parity, members: 5, unit: 64 << 10, rows: 1 << 20 };

/// Offset of the checksum in a label and in a record.
const SUM_OF_LABEL: usize = 20;
const SUM_OF_RECORD: usize = 8;

/// The same bytes with a matching checksum.
fn sealed(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..][..4].fill(0);
    let sum = checksum(CrcAlgorithm::Crc32Iscsi, &bytes) as u32;
    bytes[at..][..4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn check_label(bytes: &[u8]) {
    let as_they_are = Label::decode(bytes);
    let mut whole = bytes.to_vec();
    whole.resize(LABEL_SIZE as usize, 0);
    let whole = sealed(&whole, SUM_OF_LABEL);
    let judged = Label::decode(&whole);
    assert!(as_they_are.is_err() || as_they_are == judged, "a checksum that fits changes nothing");
    let Ok(label) = judged else { return };
    let Layout { level, members, unit, rows } = label.layout;
    assert!(MEMBERS.contains(&members) && members >= level.fewest() && label.slot < members);
    assert!(UNITS.contains(&unit) && unit.is_power_of_two() && rows > 0);
    assert!(label.data_start >= DATA_START && label.data_start.is_multiple_of(unit));
    let end = (rows * unit).checked_add(label.data_start).expect("it ends somewhere");
    let pieces = label.layout.pieces(label.layout.size() - unit, unit);
    assert!(pieces.map(|piece| label.data_start + piece.offset + piece.length).eq([end]));
    assert_eq!(Label::decode(&label.encode()), Ok(label));
}

fn generate_label(prng: &mut Prng) -> Vec<u8> {
    let level = Level::ALL[prng.index(Level::ALL.len())];
    let members = prng.between(level.fewest() as u64, *MEMBERS.end() as u64) as usize;
    let unit = 4096 << prng.below(11);
    let start = (DATA_START + (64 << 10).max(8 * unit * members as u64)).next_multiple_of(unit);
    let slots = (1..=members as u8).map(|slot| {
        let all = [Standing::InSync, Standing::Stale, Standing::Rebuilding, Standing::Offline];
        Slot { member: [slot; 16], standing: all[prng.index(all.len())] }
    });
    let slots = slots.collect();
    let layout = Layout { level, members, unit, rows: prng.between(1, 1 << 30) };
    let (slot, generation) = (prng.index(members), prng.next_u64());
    let (set, number) = ([9; 16], prng.next_u64());
    let replacement = (level != Level::Striped && prng.chance(1, 4)).then(|| Replacement {
        slot,
        other: [0xff; 16],
        is_done: prng.chance(1, 2),
    });
    Label {
        set,
        slot,
        generation,
        number,
        whole: generation,
        forced: 0,
        layout,
        data_start: start,
        slots,
        replacement,
        is_incoming: false,
        nvram: None,
        has_log_apart: false,
    }
    .encode()
}

fn check_record(bytes: &[u8]) {
    let as_they_are = decode(bytes, &LAYOUT);
    if bytes.len() < BLOCK as usize {
        return assert_eq!(as_they_are, None, "it is too short");
    }
    let judged = decode(&sealed(bytes, SUM_OF_RECORD), &LAYOUT);
    let Some(record) = judged else { return assert_eq!(as_they_are, None) };
    let held: u64 = record.changes.iter().map(Change::held).sum();
    assert!(held <= bytes.len() as u64, "no byte comes from elsewhere");
    let mut zeros = record.changes.iter().filter(|change| change.is_zeros);
    assert!(zeros.all(|change| change.length() <= *UNITS.end()));
    record.changes.iter().for_each(assert_within);
    assert!(record.place.tail <= record.place.sequence && record.place.sequence < u64::MAX);
    let (pieces, _) = encode(&record.place, &record.changes);
    let again: Vec<u8> = pieces.concat();
    assert!(again.len() <= bytes.len(), "no larger than it was");
    assert_eq!(size_at(&again, record.place.set), Some(again.len() as u64));
    let again = decode(&again, &LAYOUT).expect("it is whole");
    assert_eq!((again.place, again.changes), (record.place, record.changes));
}

/// A change affects nothing but the data and the map of members of the set.
fn assert_within(change: &Change) {
    let Layout { members, unit, rows, .. } = LAYOUT;
    assert!(change.slots.iter().all(|slot| slot < members), "{:?}", change.slots);
    let end = change.offset.checked_add(change.length()).expect("it ends somewhere");
    assert!(change.offset < end || change.is_vacated);
    assert!(end <= rows * unit + map_size(rows), "{end}");
    let is_of_data = change.offset < rows * unit;
    assert!(!is_of_data || end <= change.offset / unit * unit + unit, "{}..{end}", change.offset);
    assert!(change.offset.is_multiple_of(BLOCK) && change.length().is_multiple_of(BLOCK));
}

fn generate_record(prng: &mut Prng) -> Vec<u8> {
    let changes = (0..prng.below(5)).map(|_| {
        let Layout { members, unit, rows, .. } = LAYOUT;
        let slots = Slots(prng.below(1 << members) as u32);
        if prng.chance(1, 6) {
            return Change::vacated(prng.below(rows) * unit);
        }
        let end = rows * unit + map_size(rows);
        let offset = prng.below(end / BLOCK) * BLOCK;
        if prng.chance(1, 3) {
            let most = (unit - offset % unit) / BLOCK;
            let most = if offset < rows * unit { most } else { 1 };
            return Change::zeros(slots, offset, prng.between(1, most) * BLOCK);
        }
        let data = vec![Bytes::from(some_bytes(prng, BLOCK as usize))];
        Change::new(slots, offset, data)
    });
    let changes: Vec<Change> = changes.collect();
    let (sequence, mask) = (prng.next_u64(), prng.next_u64());
    let (tail, previous) = (sequence / 2, prng.next_u64() as u32);
    encode(&Place { set: [7; 16], sequence, tail, previous, mask }, &changes).0.concat()
}
