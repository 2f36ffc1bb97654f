//! Byte format of the pre-write log's records.
//!
//! A record is one write. Its head says which bytes go where, the bytes follow, and a checksum
//! covers all of it: a record with a fitting checksum is whole. docs/formats/raid.md has the
//! picture. All numbers are little-endian; the checksum is CRC-32C.
//!
//! The data written to a set may itself contain records of that set, for example a copy of a
//! member. So the first bytes of each data block are masked with a number that is drawn anew for
//! each record: no block but the first looks like the beginning of a record.
//!
//! A fitting checksum does not make bytes a record of this set: recovery would write wherever they
//! say. So [`decode`] rejects a record that refers to anything outside of the set.

use std::cmp::Reverse;
use std::mem::size_of;

use block::{Buffer, length_of, zeros};
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::label::{Id, map_size};
use crate::layout::{Layout, UNITS};
use crate::planted::{Bug, is_planted};

/// Magic bytes of a record.
pub const MAGIC: [u8; 8] = *b"prewrite";
/// Alignment and size unit of records, in bytes.
pub const BLOCK: u64 = 4096;
/// Bytes of one piece of zeros.
const ZEROS: usize = 64 << 10;
/// Flag in a change's length: the data is zeros.
const IS_ZEROS: u32 = 1 << 31;
/// Flag in a change's length: the data is not what belongs there.
const IS_LOST: u32 = 1 << 30;
/// In place of a length: the stripe that begins at the offset is vacated.
const IS_VACATED: u32 = 1 << 29;
/// Byte offset of the checksum in a head.
const CHECKSUM: usize = 8;

/// A set of members, as a bit mask of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots(pub u32);

impl Slots {
    /// One slot alone.
    pub fn one(slot: usize) -> Self {
        Self(1 << slot)
    }

    /// The union of both.
    pub fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether a slot is in the set.
    pub fn has(self, slot: usize) -> bool {
        self.0 >> slot & 1 == 1
    }

    /// The slots in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..u32::BITS as usize).filter(move |&slot| self.has(slot))
    }
}

impl FromIterator<usize> for Slots {
    fn from_iter<T: IntoIterator<Item = usize>>(slots: T) -> Self {
        slots.into_iter().map(Self::one).fold(Self(0), Self::with)
    }
}

/// Bytes to be written to members, the same on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The members.
    pub slots: Slots,
    /// Byte offset in their data area.
    pub offset: u64,
    /// The bytes, in pieces.
    pub data: Vec<Bytes>,
    /// Whether all of it is zeros, which a record need not hold.
    pub is_zeros: bool,
    /// Whether the data is not what belongs there. It gets checksums that it does not fit, so that
    /// nothing is reconstructed from it.
    pub is_lost: bool,
    /// Whether this is no write: the data of the stripe that begins here is no longer needed,
    /// whatever earlier records have of it.
    pub is_vacated: bool,
}

impl Change {
    /// A change to these bytes.
    pub fn new(slots: Slots, offset: u64, data: Vec<Bytes>) -> Self {
        Self { slots, offset, data, is_zeros: false, is_lost: false, is_vacated: false }
    }

    /// A change that vacates the stripe that begins at this offset of each member's data area.
    pub fn vacated(offset: u64) -> Self {
        Self { is_vacated: true, ..Self::new(Slots(0), offset, Vec::new()) }
    }

    /// A change to zeros.
    pub fn zeros(slots: Slots, offset: u64, length: u64) -> Self {
        let pieces = (0..length).step_by(ZEROS);
        let piece = |at: u64| zeros((length - at).min(ZEROS as u64) as usize);
        Self { is_zeros: true, ..Self::new(slots, offset, pieces.map(piece).collect()) }
    }

    /// Bytes that are changed.
    pub fn length(&self) -> u64 {
        length_of(&self.data)
    }

    /// Bytes that a record holds for the change.
    pub fn held(&self) -> u64 {
        if self.is_zeros { 0 } else { self.length() }
    }

    /// Whether a set with this layout may have made the change: whole blocks of one data unit, or
    /// of the map of written stripes, on its members.
    fn is_within(&self, layout: &Layout) -> bool {
        let Layout { members, unit, rows, .. } = *layout;
        let (data_end, length) = (rows * unit, self.length());
        if self.is_vacated {
            return self.offset < data_end && self.offset.is_multiple_of(unit);
        }
        let Some(end) = self.offset.checked_add(length) else { return false };
        let is_whole = self.offset.is_multiple_of(BLOCK) && length.is_multiple_of(BLOCK);
        let is_known = u64::from(self.slots.0) >> members == 0;
        let is_there = if self.offset < data_end {
            self.offset / unit == end.saturating_sub(1) / unit
        } else {
            end <= data_end + map_size(rows)
        };
        length > 0 && is_whole && is_known && is_there
    }
}

/// The fields of a record's head, without its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The set.
    pub set: Id,
    /// Grows by one with each record of a set.
    pub sequence: u64,
    /// The oldest record that was still needed when this one was written; itself, if none was.
    pub tail: u64,
    /// Checksum of the record before it.
    pub previous: u32,
    /// Drawn anew for each record.
    pub mask: u64,
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Position of the record in the log.
    pub place: Place,
    /// Its own checksum.
    pub checksum: u32,
    /// Changes to replay, in this order.
    pub changes: Vec<Change>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHead {
    magic: [u8; 8],
    checksum: U32,
    /// Blocks of the whole record.
    blocks: U32,
    set: Id,
    sequence: U64,
    tail: U64,
    previous: U32,
    changes: U32,
    mask: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawChange {
    offset: U64,
    slots: U32,
    length: U32,
}

const HEAD: usize = size_of::<RawHead>();
const CHANGE: usize = size_of::<RawChange>();

/// Bytes of the head of a record with this many changes: whole blocks.
fn head_size(changes: usize) -> u64 {
    ((HEAD + changes * CHANGE) as u64).next_multiple_of(BLOCK)
}

/// Bytes of a record with this many changes of this many bytes in total: whole blocks.
pub fn size_of_record(changes: usize, bytes: u64) -> u64 {
    head_size(changes) + bytes.next_multiple_of(BLOCK)
}

/// The bytes of a record, and its checksum.
pub fn encode(place: &Place, changes: &[Change]) -> (Vec<Bytes>, u32) {
    let bytes: u64 = changes.iter().map(Change::held).sum();
    let size = size_of_record(changes.len(), bytes);
    let raw = RawHead {
        magic: MAGIC,
        blocks: ((size / BLOCK) as u32).into(),
        set: place.set,
        sequence: place.sequence.into(),
        tail: place.tail.into(),
        previous: place.previous.into(),
        changes: (changes.len() as u32).into(),
        mask: place.mask.into(),
        ..RawHead::new_zeroed()
    };
    let mut head = Buffer::zeroed(head_size(changes.len()) as usize);
    head[..HEAD].copy_from_slice(raw.as_bytes());
    for (change, room) in changes.iter().zip(head[HEAD..].chunks_exact_mut(CHANGE)) {
        let raw = RawChange {
            offset: change.offset.into(),
            slots: change.slots.0.into(),
            length: (change.length() as u32 | flags_of(change)).into(),
        };
        room.copy_from_slice(raw.as_bytes());
    }
    let padding = (size - head.len() as u64 - bytes) as usize;
    let held = changes.iter().filter(|change| !change.is_zeros);
    let data = held.flat_map(|change| change.data.iter().cloned());
    let data: Vec<Bytes> = data.chain((padding > 0).then(|| zeros(padding))).collect();
    let mut data = Buffer::joined(&data);
    mask(&mut data, place.mask);
    let checksum = sum_of(&head, &data);
    head[CHECKSUM..][..4].copy_from_slice(&checksum.to_le_bytes());
    (vec![head.freeze(), data.freeze()], checksum)
}

fn flags_of(change: &Change) -> u32 {
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    flag(change.is_zeros, IS_ZEROS)
        | flag(change.is_lost, IS_LOST)
        | flag(change.is_vacated, IS_VACATED)
}

/// Masks the first bytes of each data block, or unmasks them.
fn mask(data: &mut [u8], mask: u64) {
    for block in data.chunks_mut(BLOCK as usize) {
        block.iter_mut().zip(mask.to_le_bytes()).for_each(|(byte, mask)| *byte ^= mask);
    }
}

/// Checksum of a record whose head has zeros in the checksum's place.
fn sum_of(head: &[u8], data: &[u8]) -> u32 {
    let mut sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
    sum.update(head);
    sum.update(data);
    sum.finalize() as u32
}

/// Size of the record that begins here, by its head. `None` if no record of this set begins here.
pub fn size_at(bytes: &[u8], set: Id) -> Option<u64> {
    let (raw, _) = RawHead::ref_from_prefix(bytes).ok()?;
    let is_one = raw.magic == MAGIC && raw.set == set && raw.blocks.get() > 0;
    is_one.then(|| u64::from(raw.blocks.get()) * BLOCK)
}

/// Sequence number of the record that begins here, by its head.
pub(crate) fn sequence_at(bytes: &[u8]) -> Option<u64> {
    RawHead::ref_from_prefix(bytes).ok().map(|(raw, _)| raw.sequence.get())
}

/// Decodes a record that is all of `bytes`. `None` if it is not whole, or if a set with this layout
/// cannot have made it.
pub fn decode(bytes: &[u8], layout: &Layout) -> Option<Record> {
    let record = decode_any(bytes)?;
    let Place { sequence, tail, .. } = record.place;
    let is_numbered = tail <= sequence && sequence < u64::MAX;
    let are_within = record.changes.iter().all(|change| change.is_within(layout));
    (is_numbered && are_within).then_some(record)
}

/// Decodes a record without judging its contents.
fn decode_any(bytes: &[u8]) -> Option<Record> {
    let (raw, rest) = RawHead::ref_from_prefix(bytes).ok()?;
    let changes = raw.changes.get() as usize;
    let head = usize::try_from(head_size(changes)).ok().filter(|&head| head <= bytes.len())?;
    if raw.magic != MAGIC || u64::from(raw.blocks.get()) * BLOCK != bytes.len() as u64 {
        return None;
    }
    let mut summed = bytes[..head].to_vec();
    summed[CHECKSUM..][..4].fill(0);
    let checksum = sum_of(&summed, &bytes[head..]);
    if checksum != raw.checksum.get() && !is_planted(Bug::UnsummedRecords) {
        return None;
    }
    let mut data = bytes[head..].to_vec();
    mask(&mut data, raw.mask.get());
    let (data, mut at) = (Bytes::from(data), 0_usize);
    let of_each = rest.chunks_exact(CHANGE).take(changes).map(|raw| {
        let raw = RawChange::ref_from_bytes(raw).ok()?;
        let (slots, offset) = (Slots(raw.slots.get()), raw.offset.get());
        let (length, is_lost) =
            (raw.length.get() & !(IS_ZEROS | IS_LOST), raw.length.get() & IS_LOST != 0);
        if raw.length.get() == IS_VACATED {
            return Some(Change::vacated(offset));
        }
        if raw.length.get() & IS_ZEROS != 0 {
            let is_fit = u64::from(length) <= *UNITS.end();
            let zeros = || Change { is_lost, ..Change::zeros(slots, offset, length.into()) };
            return is_fit.then(zeros);
        }
        let end = at.checked_add(length as usize).filter(|&end| end <= data.len())?;
        let data = vec![data.slice(at..end)];
        at = end;
        Some(Change { is_lost, ..Change::new(slots, offset, data) })
    });
    let changes = of_each.collect::<Option<Vec<Change>>>()?;
    let place = Place {
        set: raw.set,
        sequence: raw.sequence.get(),
        tail: raw.tail.get(),
        previous: raw.previous.get(),
        mask: raw.mask.get(),
    };
    Some(Record { place, checksum, changes })
}

/// Chooses one of different records with the same number, each given with the number of members
/// that have it: the one that the next record names as its predecessor; else the one that more
/// members have; else the one with the earlier tail, which gives up less; else any, but always the
/// same.
pub(crate) fn choose_record<'r>(
    records: impl IntoIterator<Item = (&'r Record, usize)>,
    next: Option<&Record>,
) -> Option<&'r Record> {
    let named = next.map(|next| next.place.previous);
    let rank = |(record, members): &(&Record, usize)| {
        let Record { place, checksum, .. } = record;
        (named == Some(*checksum), *members, Reverse(place.tail), Reverse(*checksum))
    };
    let mut records = records.into_iter();
    if is_planted(Bug::FirstRecords) {
        return records.next().map(|(record, _)| record);
    }
    records.max_by_key(rank).map(|(record, _)| record)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layout::Level;

    fn place() -> Place {
        Place { set: [7; 16], sequence: 12, tail: 9, previous: 0x0102_0304, mask: 0xa5 }
    }

    fn joined(pieces: &[Bytes]) -> Bytes {
        Buffer::joined(pieces).freeze()
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let change = (any::<u32>(), any::<u64>(), 0..9_usize, any::<u8>()).prop_map(
            |(slots, offset, sectors, byte)| {
                if byte < 16 {
                    return Change::vacated(offset);
                }
                if byte < 64 {
                    return Change::zeros(Slots(slots), offset, (sectors * 65_536) as u64);
                }
                let data = (0..sectors).map(|_| Bytes::from(vec![byte; 512])).collect();
                Change::new(Slots(slots), offset, data)
            },
        );
        prop::collection::vec(change, 0..300)
    }

    proptest! {
        #[test]
        fn a_record_says_what_it_was_told(told in changes()) {
            let (pieces, checksum) = encode(&place(), &told);
            let bytes = joined(&pieces);
            let data = told.iter().map(Change::held).sum();
            prop_assert_eq!(bytes.len() as u64, size_of_record(told.len(), data));
            prop_assert_eq!(size_at(&bytes, [7; 16]), Some(bytes.len() as u64));
            prop_assert_eq!(size_at(&bytes, [8; 16]), None);
            let read = decode_any(&bytes).expect("it is whole");
            prop_assert_eq!((read.place, read.checksum), (place(), checksum));
            let flat = |changes: &[Change]| -> Vec<(Slots, u64, Bytes, [bool; 2])> {
                let each = changes.iter();
                let flags = |it: &Change| [it.is_zeros, it.is_vacated];
                each.map(|it| (it.slots, it.offset, joined(&it.data), flags(it))).collect()
            };
            prop_assert_eq!(flat(&read.changes), flat(&told));
        }

        #[test]
        fn a_record_that_is_torn_is_none(sector in 0..40_usize, first in any::<u8>()) {
            let data = vec![Bytes::from(vec![first; 16 << 10])];
            let change = Change::new(Slots::one(1), 4096, data);
            let bytes = joined(&encode(&place(), &[change]).0);
            let mut torn = bytes.to_vec();
            torn[sector * 512..][..512].iter_mut().for_each(|byte| *byte ^= 0x55);
            prop_assert!(decode_any(&torn).is_none());
        }

        #[test]
        fn any_bytes_are_judged(
            at in 0..200_usize,
            bytes in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut record = joined(&encode(&place(), &[]).0).to_vec();
            record[at..][..bytes.len()].copy_from_slice(&bytes);
            decode_any(&record);
        }
    }

    #[test]
    fn a_record_in_the_data_of_another_does_not_look_like_one() {
        let inner = joined(&encode(&Place { sequence: 99, ..place() }, &[]).0);
        let data = vec![inner.clone(); 3];
        let change = Change::new(Slots::one(1), 0, data);
        let bytes = joined(&encode(&place(), &[change]).0);
        let starts = (0..bytes.len()).step_by(BLOCK as usize);
        let found = starts.filter(|&at| size_at(&bytes[at..], [7; 16]).is_some());
        assert_eq!(found.collect::<Vec<_>>(), [0]);
        let read = decode_any(&bytes).expect("it is whole");
        assert_eq!(joined(&read.changes[0].data), joined(&vec![inner; 3]));
    }

    #[test]
    fn the_bytes_are_those_of_the_page() {
        let data = vec![Bytes::from(vec![5; 512])];
        let change = Change::new(Slots(0b101), 0x1000, data);
        let bytes = joined(&encode(&place(), &[change]).0);
        assert_eq!(&bytes[..8], b"prewrite");
        assert_eq!(bytes[12..16], 2_u32.to_le_bytes(), "blocks");
        assert_eq!(bytes[16..32], [7; 16]);
        assert_eq!(bytes[32..40], 12_u64.to_le_bytes());
        assert_eq!(bytes[40..48], 9_u64.to_le_bytes());
        assert_eq!(bytes[48..56], [4, 3, 2, 1, 1, 0, 0, 0], "the one before, and changes");
        assert_eq!(bytes[56..64], 0xa5_u64.to_le_bytes(), "the mask");
        assert_eq!(bytes[64..72], 0x1000_u64.to_le_bytes());
        assert_eq!(bytes[72..80], [5, 0, 0, 0, 0, 2, 0, 0], "slots and length");
        assert_eq!(bytes[4096..4608], [&[5 ^ 0xa5; 1][..], &[5; 511]].concat());
    }

    const UNIT: u64 = 16 << 10;
    const LAYOUT: Layout = Layout { level: Level::Parity, members: 3, unit: UNIT, rows: 9 };

    /// Whether a set accepts a record with this change.
    fn is_taken(change: Change) -> bool {
        decode(&joined(&encode(&place(), &[change]).0), &LAYOUT).is_some()
    }

    #[test]
    fn a_record_that_leads_out_of_its_set_is_none() {
        let end = LAYOUT.rows * UNIT;
        let zeros = |slots, offset, length| is_taken(Change::zeros(Slots(slots), offset, length));
        let data = |slots, offset, length: u64| {
            let data = vec![Bytes::from(vec![3; length as usize])];
            is_taken(Change::new(Slots(slots), offset, data))
        };
        let kinds: [&dyn Fn(u32, u64, u64) -> bool; 2] = [&zeros, &data];
        for taken in kinds {
            assert!(taken(0b111, 0, UNIT), "a unit on all members");
            assert!(!taken(0b1000, 0, UNIT) && !taken(1 << 31, 0, UNIT), "no such member");
            assert!(taken(1, end - BLOCK, BLOCK), "the last block of data");
            assert!(!taken(1, end - BLOCK, 2 * BLOCK), "no change is of data and of the map");
            assert!(taken(1, end, BLOCK), "the map");
            assert!(!taken(1, end + BLOCK, BLOCK), "behind the map");
            assert!(!taken(1, u64::MAX - BLOCK + 1, BLOCK) && !taken(1, 1 << 63, BLOCK));
            assert!(!taken(1, UNIT - BLOCK, 2 * BLOCK), "two units");
            assert!(!taken(1, 512, BLOCK) && !taken(1, 0, 512) && !taken(1, 0, 0), "no blocks");
        }
        let vacated = |offset| is_taken(Change::vacated(offset));
        assert!(vacated(end - UNIT) && !vacated(end) && !vacated(BLOCK));
    }

    #[test]
    fn a_record_whose_number_no_set_has_is_none() {
        let is_taken = |sequence, tail| {
            let place = Place { sequence, tail, ..place() };
            decode(&joined(&encode(&place, &[]).0), &LAYOUT).is_some()
        };
        assert!(is_taken(12, 12) && is_taken(u64::MAX - 1, 0));
        assert!(!is_taken(12, 13), "the tail is behind it");
        assert!(!is_taken(u64::MAX, 0), "none could follow");
    }

    #[test]
    fn of_records_with_one_number_the_one_that_is_named_then_the_one_on_more_members_is_it() {
        let record = |checksum, tail, previous| {
            let place = Place { tail, previous, ..place() };
            Record { place, checksum, changes: Vec::new() }
        };
        let (one, other) = (record(1, 9, 0), record(2, 8, 0));
        let chosen = |counts: [usize; 2], next: Option<&Record>| {
            let both = [(&one, counts[0]), (&other, counts[1])];
            let back = both.into_iter().rev();
            let chosen = choose_record(both, next).expect("one of them").checksum;
            assert_eq!(
                choose_record(back, next).expect("one of them").checksum,
                chosen,
                "in any order"
            );
            chosen
        };
        assert_eq!((chosen([2, 1], None), chosen([1, 2], None)), (1, 2), "more members have it");
        let next = record(3, 12, 2);
        assert_eq!(chosen([2, 1], Some(&next)), 2, "the next one names it");
        assert_eq!(chosen([2, 1], Some(&record(3, 12, 7))), 1, "the next one names neither");
        assert_eq!(chosen([1, 1], None), 2, "it gives up less");
        let twin = record(0, 8, 0);
        assert_eq!(choose_record([(&other, 1), (&twin, 1)], None).expect("one").checksum, 0);
        assert_eq!(choose_record([(&twin, 1), (&other, 1)], None).expect("one").checksum, 0);
    }
}
