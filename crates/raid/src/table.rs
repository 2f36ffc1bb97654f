//! A table: checksums of 1,008 blocks of a member, in memory and byte by byte.
//!
//! Each of the two members that store a table has two *places* for it, side by side. A new
//! *version* goes first to the place that is not in force, so that a cut or a torn write leaves the
//! version in force, on each member independently; then it goes to the other place, so that a place
//! that rots leaves the same version rather than an older one. In force is the place with the later
//! whole version, and the version also says which of two members is more current.
//! docs/formats/raid.md has the picture.
//!
//! Invariant:
//! 1. The place in force is not overwritten before the other one is durable.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::blocks::BLOCK;
use crate::label::{self, Id, SUMS, is_sealed, sealed};
use crate::layout::Layout;
use crate::planted::{Bug, is_planted};
use crate::record::Change;

/// Marks a table as changed without need for a record.
pub(crate) const NO_RECORD: u64 = u64::MAX;

/// In place of a block's checksum: no disk has the block, and its checksum is unknown. A real
/// checksum may have this value as well, and then counts.
pub(crate) const MARK: u32 = u32::MAX;

/// Checksum of a block; never zero, which stands for none.
pub(crate) fn sum_of(block: &[u8]) -> u32 {
    label::sum_of(block).max(1)
}

/// Distinguishes a table from a block of the map.
const KIND: [u8; 8] = *b"raid sum";

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    checksum: U32,
    slot: U32,
    kind: [u8; 8],
    set: Id,
    number: U64,
    version: U64,
    reserved: [u8; 16],
    sums: [U32; SUMS as usize],
}

/// The tables that cover a byte range of a member's data area.
pub(crate) fn tables_of(offset: u64, length: u64) -> Range<u64> {
    let of_table = SUMS * BLOCK;
    offset / of_table..(offset + length).div_ceil(of_table)
}

/// The stripes of this unit whose checksums are in a table; the last ones may not be there.
pub(crate) fn stripes_of(table: u64, unit: u64) -> Range<u64> {
    let of_table = SUMS * BLOCK;
    table * of_table / unit..((table + 1) * of_table).div_ceil(unit)
}

/// A version of a table, as read from a place.
pub(crate) struct Version {
    pub(crate) number: u64,
    sums: Vec<u32>,
}

impl Version {
    /// Whether these bytes are a table of this set, damaged or not.
    pub(crate) fn resembles(bytes: &[u8], set: &Id) -> bool {
        Raw::ref_from_bytes(bytes).is_ok_and(|raw| raw.kind == KIND && raw.set == *set)
    }

    /// Bytes that stand for a table that is elsewhere, and are none themselves.
    pub(crate) fn damaged(set: &Id) -> Vec<u8> {
        let mut raw = Raw::new_zeroed();
        (raw.kind, raw.set) = (KIND, *set);
        raw.as_bytes().to_vec() // without a checksum
    }

    /// Decodes a table, if these bytes are that table.
    pub(crate) fn decode(bytes: &[u8], set: &Id, slot: usize, number: u64) -> Option<Self> {
        let raw = Raw::ref_from_bytes(bytes).ok()?;
        let is_whole = is_sealed(bytes, offset_of!(Raw, checksum));
        let (of_slot, of_number) = (raw.slot.get() as usize, raw.number.get());
        let is_it = raw.kind == KIND && raw.set == *set && (of_slot, of_number) == (slot, number);
        let sums = || raw.sums.iter().map(|sum| sum.get()).collect();
        // No set reaches such a version.
        let is_possible = raw.version.get() < u64::MAX / 2;
        (is_whole && is_it && is_possible).then(|| Self { number: raw.version.get(), sums: sums() })
    }
}

/// A member's two places of a table, as read.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) versions: [Option<Version>; 2],
    /// One of them cannot be read: its contents are unknown.
    pub(crate) is_unread: bool,
    /// One of them held a version, and has rotted.
    pub(crate) is_damaged: bool,
}

impl Found {
    /// Whether a version is there.
    pub(crate) fn has_any(&self) -> bool {
        self.versions.iter().any(Option::is_some)
    }
}

/// Known state of a member's two places of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The place in force, durably, and its version.
    pub(crate) holds: Option<(usize, u64)>,
    /// Both places are allocated: they have space even if the host is full.
    pub(crate) has_room: bool,
}

impl Kept {
    pub(crate) fn of(found: &Found) -> Self {
        let versions = found.versions.iter().map(|it| it.as_ref().map(|it| it.number));
        let whole = versions.enumerate().filter_map(|(place, it)| Some((place, it?)));
        let has_room = found.is_unread || found.versions.iter().all(Option::is_some);
        Self { holds: whole.max_by_key(|(_, version)| *version), has_room }
    }

    /// Whether a place has a version.
    pub(crate) fn has(found: &Found, (place, version): (usize, u64)) -> bool {
        found.versions[place].as_ref().is_some_and(|it| it.number == version)
    }

    /// The places for the next version.
    pub(crate) fn next(&self) -> Range<usize> {
        match self.holds {
            _ if is_planted(Bug::OnePlace) => 0..1,
            Some((place, _)) => 1 - place..2 - place,
            None if self.has_room => 0..1,
            None => 0..2,
        }
    }

    /// Whether a place holds no version in force, and may not be allocated.
    pub(crate) fn is_free(&self, place: usize) -> bool {
        !self.has_room && self.holds.is_none_or(|(holds, _)| holds != place)
    }

    /// The state after this version was written durably where the next one goes.
    pub(crate) fn with(&self, version: u64) -> Self {
        let places = self.next();
        let has_room = self.has_room || places.len() == 2;
        Self { holds: Some((places.start, version)), has_room }
    }
}

/// A table of checksums of consecutive blocks of a member.
pub(crate) struct Table {
    /// Slot of the member whose blocks it covers, and its number among that member's tables.
    pub(crate) slot: usize,
    pub(crate) number: u64,
    sums: RefCell<Vec<u32>>,
    /// Former checksums of blocks that are logged and not yet in place.
    former: RefCell<BTreeMap<usize, u32>>,
    /// The first record that any table needs, or an earlier one.
    needed: Rc<Cell<u64>>,
    /// The first record with a change that is not in place.
    changed: Cell<Option<u64>>,
    /// The same for changes that are being written in place.
    going: Cell<Option<u64>>,
    /// The last version that was written anywhere.
    version: Cell<u64>,
    /// Larger than any version that was written before the set was opened.
    base: u64,
    /// State of the table on the two members that store it.
    pub(crate) kept: [Cell<Kept>; 2],
    /// Its places are being allocated.
    pub(crate) is_placed: Cell<bool>,
    /// It was to be written in place, and found no room.
    pub(crate) is_stuck: Cell<bool>,
    /// Time of its last use.
    pub(crate) used: Cell<u64>,
}

impl Table {
    /// A table with the latest version that those of its two members have whose copies are current,
    /// or that another disk has lent.
    pub(crate) fn new(
        (slot, number): (usize, u64),
        (base, needed): (u64, &Rc<Cell<u64>>),
        (found, are_current): (&[Found; 2], [bool; 2]),
        lent: Option<&Version>,
    ) -> Self {
        let current = found.iter().zip(are_current).filter(|(_, is_current)| *is_current);
        let versions = current.flat_map(|(found, _)| found.versions.iter().flatten());
        let latest = versions.chain(lent).max_by_key(|it| it.number);
        // A member that is out counts as well: it may come back with its version some day.
        let numbers = found.iter().flat_map(|found| found.versions.iter().flatten()).chain(lent);
        let last = numbers.map(|it| it.number).max().unwrap_or_default();
        let unknown = || vec![0; SUMS as usize];
        Self {
            slot,
            number,
            sums: RefCell::new(latest.map_or_else(unknown, |it| it.sums.clone())),
            former: RefCell::default(),
            needed: needed.clone(),
            changed: Cell::default(),
            going: Cell::default(),
            version: Cell::new(last),
            base,
            kept: [0, 1].map(|copy| Cell::new(Kept::of(&found[copy]))),
            is_placed: Cell::default(),
            is_stuck: Cell::default(),
            used: Cell::default(),
        }
    }

    pub(crate) fn all_kept(&self) -> [Kept; 2] {
        [0, 1].map(|copy| self.kept[copy].get())
    }

    /// Whether a member has the latest version in both places, or no version exists.
    pub(crate) fn is_everywhere(&self, found: &Found) -> bool {
        let latest = self.version.get();
        let has = |it: &Option<Version>| it.as_ref().map_or(0, |it| it.number) == latest;
        if is_planted(Bug::SinglePlaces) {
            return found.versions.iter().any(has);
        }
        found.versions.iter().all(has)
    }

    /// The blocks with a known checksum.
    pub(crate) fn known(&self) -> Vec<u64> {
        let sums = self.sums.borrow();
        let blocks = (self.number * SUMS..).zip(&*sums);
        blocks.filter(|(_, sum)| **sum != 0).map(|(block, _)| block).collect()
    }

    /// Whether no checksum is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.sums.borrow().iter().all(|&sum| sum == 0)
    }

    /// Whether no member has any of it, and none is about to get it.
    pub(crate) fn is_nowhere(&self) -> bool {
        let is_under_way = self.has_changed() || self.is_going() || self.is_placed.get();
        !is_under_way && self.all_kept() == [Kept::default(); 2]
    }

    /// Resets the state of one of its members, which has nothing that counts.
    pub(crate) fn leave(&self, holder: usize, layout: &Layout) {
        let holders = layout.holders(self.slot);
        let kept = self.kept.iter().zip(holders).filter(|(_, member)| *member == holder);
        kept.for_each(|(kept, _)| kept.set(Kept::default()));
    }

    pub(crate) fn change(&self, record: u64) {
        let first = self.changed.get().map_or(record, |first| first.min(record));
        self.changed.set(Some(first));
        self.needed.set(self.needed.get().min(first));
    }

    pub(crate) fn needed_from(&self) -> u64 {
        let records = [self.changed.get(), self.going.get()];
        records.into_iter().flatten().min().unwrap_or(NO_RECORD)
    }

    /// Whether it has changes that are not in place.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed.get().is_some()
    }

    /// Whether it is being written in place.
    pub(crate) fn is_going(&self) -> bool {
        self.going.get().is_some()
    }

    /// Begins writing its changes in place: returns its bytes and their version.
    pub(crate) fn go(&self, set: &Id) -> (Bytes, u64) {
        self.going.set(self.changed.take());
        self.next_version(set)
    }

    /// Ends that write: the changes are in place on both members, or pending as before.
    pub(crate) fn has_gone(&self, is_home: bool) {
        self.is_stuck.set(!is_home);
        if let Some(first) = self.going.take().filter(|_| !is_home) {
            self.change(first);
        }
    }

    /// Schedules the table for a member that stores it and has nothing of it that counts.
    pub(crate) fn come_to(&self, holder: usize, layout: &Layout) {
        if !is_planted(Bug::LostTables) {
            self.leave(holder, layout);
            self.change(NO_RECORD);
        }
    }

    /// Its current bytes, with a new version.
    pub(crate) fn next_version(&self, set: &Id) -> (Bytes, u64) {
        let version = self.version.get().max(self.base) + 1;
        self.version.set(version);
        let mut raw = Raw::new_zeroed();
        (raw.slot, raw.number) = ((self.slot as u32).into(), self.number.into());
        (raw.kind, raw.set) = (KIND, *set);
        raw.version = version.into();
        for (raw, sum) in raw.sums.iter_mut().zip(&*self.sums.borrow()) {
            *raw = (*sum).into();
        }
        (sealed(raw.as_bytes(), offset_of!(Raw, checksum)).into(), version)
    }
}

/// The tables of a range of a member's blocks, held in memory.
pub(crate) struct InHand(pub(crate) Vec<Rc<Table>>);

impl InHand {
    /// The table, and the index in it, for each of these whole blocks.
    fn places(&self, offset: u64, length: u64) -> impl Iterator<Item = (&Rc<Table>, usize)> {
        let first = self.0[0].number;
        let place =
            move |block| (&self.0[(block / SUMS - first) as usize], (block % SUMS) as usize);
        (offset / BLOCK..(offset + length) / BLOCK).map(place)
    }

    /// Whether whole blocks fit their checksums, one by one. A block that is being written, which
    /// may be read meanwhile, may fit its former checksum.
    pub(crate) fn fit<'i>(
        &'i self,
        offset: u64,
        bytes: &'i [u8],
    ) -> impl Iterator<Item = bool> + 'i {
        let blocks = bytes.chunks_exact(BLOCK as usize);
        blocks.zip(self.places(offset, bytes.len() as u64)).map(|(bytes, (table, place))| {
            let (sum, is) = (table.sums.borrow()[place], sum_of(bytes));
            let was = table.former.borrow().get(&place).copied();
            let fits = [Some(sum), was].into_iter().flatten().any(|sum| sum == 0 || sum == is);
            fits || is_planted(Bug::UnjudgedReads)
        })
    }

    /// Sets the checksums of whole blocks that are, or will be, in place by this record.
    pub(crate) fn change(&self, offset: u64, sums: &[u32], record: u64) {
        for (&sum, (table, place)) in
            sums.iter().zip(self.places(offset, sums.len() as u64 * BLOCK))
        {
            table.sums.borrow_mut()[place] = sum;
            table.change(record);
        }
    }

    /// Number of these whole blocks without a known checksum.
    pub(crate) fn unknown(&self, offset: u64, length: u64) -> u64 {
        let is_unknown = |(table, place): &(&Rc<Table>, usize)| table.sums.borrow()[*place] == 0;
        self.places(offset, length).filter(is_unknown).count() as u64
    }

    pub(crate) fn keep_former(&self, change: &Change) {
        for (table, place) in self.places(change.offset, change.length()) {
            table.former.borrow_mut().insert(place, table.sums.borrow()[place]);
        }
    }

    pub(crate) fn forget_former(&self, change: &Change) {
        for (table, place) in self.places(change.offset, change.length()) {
            table.former.borrow_mut().remove(&place);
        }
    }

    /// Sets checksums from blocks' bytes, without need for a record.
    pub(crate) fn take(&self, offset: u64, bytes: &[u8]) {
        for (at, sum) in (offset..).step_by(BLOCK as usize).zip(sums_of(bytes)) {
            if self.sum(at) != sum {
                self.change(at, &[sum], NO_RECORD); // the table needs no write otherwise
            }
        }
    }

    /// Checksum of a block; zero if unknown.
    pub(crate) fn sum(&self, offset: u64) -> u32 {
        let mut places = self.places(offset, BLOCK);
        places.next().map_or(0, |(table, place)| table.sums.borrow()[place])
    }

    /// Whether a block is marked: its bytes are not what belongs there, and no disk is to blame.
    /// Older programs marked it with a checksum derived from those bytes.
    pub(crate) fn is_marked(&self, offset: u64, block: &[u8]) -> bool {
        [MARK, not(sum_of(block))].contains(&self.sum(offset))
    }

    /// Marks a block that no disk has, and whose checksum is unknown.
    pub(crate) fn lose(&self, offset: u64) {
        self.change(offset, &[MARK], NO_RECORD);
    }
}

/// A different checksum.
pub(crate) fn not(sum: u32) -> u32 {
    if sum == u32::MAX { 1 } else { !sum }
}

pub(crate) fn sums_of(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(BLOCK as usize).map(sum_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written;

    const SET: Id = [7; 16];

    /// A table that the members have nothing of.
    fn new(slot: usize, number: u64) -> Table {
        let nothing = [Found::default(), Found::default()];
        Table::new((slot, number), (0, &Rc::default()), (&nothing, [true; 2]), None)
    }

    fn found(table: &Table, bytes: &[&[u8]; 4]) -> [Found; 2] {
        let decode = |bytes: &[u8]| Version::decode(bytes, &SET, table.slot, table.number);
        let [one, two, three, four] = bytes.map(decode);
        [[one, two], [three, four]].map(|versions| Found { versions, ..Found::default() })
    }

    #[test]
    fn the_latest_that_is_whole_counts_and_is_not_written_over() {
        let table = new(2, 5);
        assert_eq!(table.all_kept()[0].next(), 0..2, "both get room");
        let versions = [1, 2, 3].map(|sum| {
            table.sums.borrow_mut()[0] = sum;
            table.next_version(&SET).0
        });
        let [one, two, three] = versions.each_ref().map(|bytes| &bytes[..]);
        let mut torn = three.to_vec();
        torn[600] ^= 1;
        let latest = |bytes: &[&[u8]; 4]| {
            let found = found(&table, bytes);
            let table = Table::new((2, 5), (0, &Rc::default()), (&found, [true; 2]), None);
            let sum = table.sums.borrow()[0];
            let have_it = found.each_ref().map(|found| table.is_everywhere(found));
            (sum, table.all_kept().map(|kept| kept.next()), have_it)
        };
        assert_eq!(latest(&[one, two, one, two]), (2, [0..1, 0..1], [false, false]));
        assert_eq!(latest(&[two; 4]), (2, [0..1, 0..1], [true, true]));
        assert_eq!(latest(&[three, two, two, two]), (3, [1..2, 0..1], [false, false]));
        assert_eq!(latest(&[&torn, two, two, two]), (2, [0..1, 0..1], [false, true]));
        assert_eq!(latest(&[&torn, &torn, one, &torn]), (1, [0..2, 1..2], [false, false]));
        assert_eq!(latest(&[&torn; 4]), (0, [0..2, 0..2], [true, true]), "nothing is known");
    }

    #[test]
    fn a_table_is_that_of_its_set_and_place_alone() {
        let bytes = new(0, 0).next_version(&SET).0;
        assert!(Version::decode(&bytes, &SET, 0, 0).is_some());
        assert!(Version::decode(&bytes, &[8; 16], 0, 0).is_none());
        assert!(Version::decode(&bytes, &SET, 1, 0).is_none());
        assert!(Version::decode(&bytes, &SET, 0, 1).is_none());
    }

    /// A disk may write a block where another belongs.
    #[test]
    fn a_table_is_no_map_and_a_map_is_no_table() {
        let layout =
            Layout { level: crate::layout::Level::Parity, members: 3, unit: 4096, rows: 9 };
        let map = written::empty(&layout, &SET);
        assert!(written::decode(&map, &SET, 0).is_some());
        assert!(Version::decode(&map, &SET, 0, 0).is_none());
        let table = new(0, 0);
        table.sums.borrow_mut().fill(u32::MAX);
        assert!(written::decode(&table.next_version(&SET).0, &SET, 0).is_none());
    }
}
