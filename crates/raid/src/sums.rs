//! Checksums of what members hold, apart from it: so that a disk that lies is found.
//!
//! Of each block of a member's data area, data or parity, a *table* has the sum. Two other members
//! have the tables of each: what one disk does wrong cannot hide itself. A table has a sum of its
//! own, so that of two copies one that is torn, or belongs elsewhere, is none.
//!
//! A record of the log has all of every block that it changes, so it says what their sums become.
//! So a sum is true together with its block, and costs no write: tables change in memory, and go
//! home when the log needs its room. They go to one copy, a flush, and then to the other: a cut
//! leaves one of them whole, and the records that it lacks are still in the log.
//!
//! Before the first write of a table's blocks an empty table is written where it is to stand: on a
//! host that is full later it has its place. A sum of which nothing is known is zero, and any block
//! fits it.
//!
//! Invariants:
//! 1. Who is alone with a stripe finds for each of its blocks the sum of the last record, or that
//!    nothing is known of it.
//! 2. The record of a sum that is not at home in both copies is needed ([`Sums::needed_from`]).
//! 3. A table that is changed, or that somebody has in hand, stays in memory.
//!
//! Not asserted: 1 and 2, which are about what a cut leaves: torture's campaign `contract` cuts
//! there, and judges each return by the sums.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::mem::offset_of;
use std::rc::Rc;

use block::{Buffer, Durability, IoError, Verb};
use bytes::Bytes;
use futures::future::join_all;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::blocks::BLOCK;
use crate::label::{self, Id, Label, SUMS, is_sealed, map_size, sealed, tables_size};
use crate::layout::Layout;
use crate::members::Members;
use crate::planted::{Bug, is_planted};
use crate::record::Change;
use crate::turns::Turns;

/// Tables that are kept in memory though nobody needs them.
const MOST: usize = 1024;
/// Of a table that has changed: no record is needed for that.
const NO_RECORD: u64 = u64::MAX;

/// The sum of a block; zero is none.
fn sum_of(block: &[u8]) -> u32 {
    label::sum_of(block).max(1)
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    checksum: U32,
    slot: U32,
    number: U64,
    set: Id,
    reserved: [u8; 32],
    sums: [U32; SUMS as usize],
}

/// Sums of so many blocks of a member, one after the other.
pub(crate) struct Table {
    /// Whose blocks they are, and which of its tables it is.
    slot: usize,
    number: u64,
    sums: RefCell<Vec<u32>>,
    /// What those were of blocks that are logged and not at home yet.
    former: RefCell<BTreeMap<usize, u32>>,
    /// The first record of which it has something that is not at home.
    changed: Cell<Option<u64>>,
    /// The same of what is on its way home.
    going: Cell<Option<u64>>,
    /// Something whole stands where it belongs.
    has_place: Cell<bool>,
    /// When it was used last.
    used: Cell<u64>,
}

impl Table {
    fn change(&self, record: u64) {
        let first = self.changed.get().map_or(record, |first| first.min(record));
        self.changed.set(Some(first));
    }

    fn needed_from(&self) -> u64 {
        let records = [self.changed.get(), self.going.get()];
        records.into_iter().flatten().min().unwrap_or(NO_RECORD)
    }

    /// Its bytes.
    fn encode(&self, set: &Id) -> Bytes {
        let mut raw = Raw::new_zeroed();
        (raw.slot, raw.number, raw.set) = ((self.slot as u32).into(), self.number.into(), *set);
        for (raw, sum) in raw.sums.iter_mut().zip(&*self.sums.borrow()) {
            *raw = (*sum).into();
        }
        sealed(raw.as_bytes(), offset_of!(Raw, checksum)).into()
    }
}

/// The sums in the bytes of a table, if that is what they are.
fn decode(bytes: &[u8], set: &Id, slot: usize, number: u64) -> Option<Vec<u32>> {
    let raw = Raw::ref_from_bytes(bytes).ok()?;
    let is_whole = is_sealed(bytes, offset_of!(Raw, checksum));
    let is_it = raw.set == *set && raw.slot.get() as usize == slot && raw.number.get() == number;
    (is_whole && is_it).then(|| raw.sums.iter().map(|sum| sum.get()).collect())
}

/// Tables of some blocks of a member, in hand.
pub(crate) struct InHand(Vec<Rc<Table>>);

impl InHand {
    /// Of each of these whole blocks its table, and which of the sums there.
    fn places(&self, offset: u64, length: u64) -> impl Iterator<Item = (&Rc<Table>, usize)> {
        let first = self.0[0].number;
        let place =
            move |block| (&self.0[(block / SUMS - first) as usize], (block % SUMS) as usize);
        (offset / BLOCK..(offset + length) / BLOCK).map(place)
    }

    /// Whether whole blocks fit their sums, one by one. Of those that are being written, which one
    /// may read meanwhile, they may fit what was before.
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

    /// These whole blocks are what stands there, or will, by this record.
    fn change(&self, offset: u64, sums: &[u32], record: u64) {
        for (&sum, (table, place)) in
            sums.iter().zip(self.places(offset, sums.len() as u64 * BLOCK))
        {
            table.sums.borrow_mut()[place] = sum;
            table.change(record);
        }
    }

    /// Of how many of these whole blocks no sum is known.
    pub(crate) fn unknown(&self, offset: u64, length: u64) -> u64 {
        let is_unknown = |(table, place): &(&Rc<Table>, usize)| table.sums.borrow()[*place] == 0;
        self.places(offset, length).filter(is_unknown).count() as u64
    }

    fn keep_former(&self, change: &Change) {
        for (table, place) in self.places(change.offset, change.length()) {
            table.former.borrow_mut().insert(place, table.sums.borrow()[place]);
        }
    }

    fn forget_former(&self, change: &Change) {
        for (table, place) in self.places(change.offset, change.length()) {
            table.former.borrow_mut().remove(&place);
        }
    }

    /// What stands there, and needs no record.
    pub(crate) fn take(&self, offset: u64, bytes: &[u8]) {
        self.change(offset, &sums_of(bytes), NO_RECORD);
    }

    /// What stands at this block is not what belongs there.
    pub(crate) fn lose(&self, offset: u64) {
        for (table, place) in self.places(offset, BLOCK) {
            let sum = table.sums.borrow()[place];
            self.change(offset, &[not(sum)], NO_RECORD);
        }
    }

    /// They are to be written once more.
    pub(crate) fn touch(&self) {
        self.0.iter().for_each(|table| table.change(NO_RECORD));
    }
}

/// Another sum.
fn not(sum: u32) -> u32 {
    if sum == u32::MAX { 1 } else { !sum }
}

fn sums_of(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(BLOCK as usize).map(sum_of).collect()
}

/// The tables of all that a group changes, in hand.
pub(crate) struct OfGroup(Vec<(Change, Vec<InHand>)>);

impl OfGroup {
    fn tables(&self) -> impl Iterator<Item = &Rc<Table>> {
        self.0.iter().flat_map(|(_, in_hand)| in_hand).flat_map(|in_hand| &in_hand.0)
    }

    /// This record is durable.
    pub(crate) fn are_logged(&self, record: u64) {
        for (change, in_hand) in &self.0 {
            let mut sums = match &change.data[..] {
                [all] => sums_of(all),
                pieces => sums_of(&Buffer::joined(pieces)),
            };
            if change.is_lost && !is_planted(Bug::MadeOfLost) {
                sums.iter_mut().for_each(|sum| *sum = not(*sum));
            }
            for tables in in_hand {
                tables.keep_former(change);
                tables.change(change.offset, &sums, record);
            }
        }
    }

    /// What it changes is at home.
    pub(crate) fn are_home(&self) {
        for (change, in_hand) in &self.0 {
            in_hand.iter().for_each(|tables| tables.forget_former(change));
        }
    }
}

/// See the module's prose.
pub(crate) struct Sums {
    members: Rc<Members>,
    layout: Layout,
    data_start: u64,
    set: Id,
    known: RefCell<HashMap<(usize, u64), Rc<Table>>>,
    /// Who reads which table.
    reading: Rc<Turns>,
    /// Who gives which table its place.
    placing: Rc<Turns>,
    now: Cell<u64>,
}

impl Sums {
    pub(crate) fn new(members: Rc<Members>) -> Self {
        let Label { layout, data_start, set, .. } = members.label();
        let (known, now) = (RefCell::default(), Cell::new(0));
        let (reading, placing) = (Rc::default(), Rc::default());
        Self { members, layout, data_start, set, known, reading, placing, now }
    }

    /// The tables of whole blocks of a member, in hand.
    pub(crate) async fn of(&self, slot: usize, offset: u64, length: u64) -> InHand {
        assert!(offset.is_multiple_of(BLOCK) && length.is_multiple_of(BLOCK) && length > 0);
        let (first, last) = (offset / BLOCK / SUMS, (offset + length - 1) / BLOCK / SUMS);
        let mut tables = Vec::new();
        for number in first..=last {
            tables.push(self.table(slot, number).await);
        }
        InHand(tables)
    }

    /// Those of all that a group changes of the data area.
    pub(crate) async fn of_group(&self, group: &[Change]) -> OfGroup {
        let mut all = Vec::new();
        for change in group.iter().filter(|change| change.offset < self.data_end()) {
            let mut in_hand = Vec::new();
            for slot in change.slots.iter() {
                in_hand.push(self.of(slot, change.offset, change.length()).await);
            }
            all.push((change.clone(), in_hand));
        }
        OfGroup(all)
    }

    /// Gives all of these a place that have none. It waits while there is no room.
    pub(crate) async fn place_all(&self, of_group: &OfGroup) {
        for table in of_group.tables().filter(|table| !table.has_place.get()) {
            let _alone = self.placing.alone(self.turn_of(table.slot, table.number)).await;
            if !table.has_place.get() {
                let bytes = table.encode(&self.set);
                let writes = [0, 1].map(|copy| {
                    let (holder, offset) = self.place(table, copy);
                    let data = vec![bytes.clone()];
                    self.members.write(holder, self.data_start + offset, data, Durability::Plain)
                });
                join_all(writes).await;
                table.has_place.set(true);
            }
        }
    }

    /// Tables of other members that a member has of a stripe, in hand.
    pub(crate) async fn held_by(&self, slot: usize, stripe: u64) -> Vec<InHand> {
        let mut held = Vec::new();
        for other in (0..self.layout.members).filter(|&it| self.layout.holders(it).contains(&slot))
        {
            held.push(self.of(other, stripe * self.layout.unit, self.layout.unit).await);
        }
        held
    }

    /// The first record that is needed for sums that are not at home.
    pub(crate) fn needed_from(&self) -> u64 {
        if is_planted(Bug::ForgottenSums) {
            return NO_RECORD;
        }
        let known = self.known.borrow();
        known.values().map(|table| table.needed_from()).min().unwrap_or(NO_RECORD)
    }

    /// Brings home what has changed, durably; one call at a time. Whether there was room for it.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn bring_home(&self) -> Result<bool, IoError> {
        let all: Vec<Rc<Table>> = self.known.borrow().values().cloned().collect();
        let has_changed = |table: &Rc<Table>| table.changed.get().is_some();
        let going: Vec<Rc<Table>> = all.into_iter().filter(has_changed).collect();
        if going.is_empty() {
            return Ok(true);
        }
        let bytes: Vec<Bytes> = going.iter().map(|table| table.encode(&self.set)).collect();
        going.iter().for_each(|table| table.going.set(table.changed.take()));
        for copy in 0..2 {
            let writes = going.iter().zip(&bytes).map(|(table, bytes)| {
                let (holder, offset) = self.place(table, copy);
                self.members.write_if_room(holder, self.data_start + offset, bytes.clone())
            });
            let had_room = join_all(writes).await;
            self.members.flush().await;
            let settled = self.members.settled(Verb::Write).await;
            for (table, had_room) in going.iter().zip(had_room) {
                if !had_room || settled.is_err() {
                    table.going.take().into_iter().for_each(|first| table.change(first));
                }
            }
            settled?;
        }
        let mut had_room = true;
        for table in going {
            let is_home = table.going.take().is_some();
            had_room &= is_home;
            if is_home {
                table.has_place.set(true);
            }
        }
        Ok(had_room)
    }

    fn data_end(&self) -> u64 {
        self.layout.rows * self.layout.unit
    }

    /// Who has a copy of a table, and where in the data area.
    fn place(&self, table: &Table, copy: usize) -> (usize, u64) {
        let Layout { rows, unit, .. } = self.layout;
        let start = self.data_end() + map_size(rows) + copy as u64 * tables_size(rows, unit);
        (self.layout.holders(table.slot)[copy], start + table.number * BLOCK)
    }

    fn turn_of(&self, slot: usize, number: u64) -> u64 {
        number * self.layout.members as u64 + slot as u64
    }

    async fn table(&self, slot: usize, number: u64) -> Rc<Table> {
        let known = || self.known.borrow().get(&(slot, number)).cloned();
        let table = match known() {
            Some(table) => table,
            None => {
                // One at a time: who reads longest would bring back what was.
                let _alone = self.reading.alone(self.turn_of(slot, number)).await;
                match known() {
                    Some(table) => table,
                    None => self.read(slot, number).await,
                }
            }
        };
        self.now.set(self.now.get() + 1);
        table.used.set(self.now.get());
        table
    }

    /// Reads a table of the first of its copies that is whole.
    async fn read(&self, slot: usize, number: u64) -> Rc<Table> {
        let (sums, changed, going) =
            (RefCell::new(vec![0; SUMS as usize]), Cell::default(), Cell::default());
        let (has_place, used, former) = (Cell::default(), Cell::default(), RefCell::default());
        let table = Table { slot, number, sums, former, changed, going, has_place, used };
        let table = Rc::new(table);
        for copy in 0..2 {
            let (holder, offset) = self.place(&table, copy);
            let room = Buffer::unfilled(BLOCK as usize);
            let read = self.members.read(holder, self.data_start + offset, room).await;
            if let Some(sums) = read.and_then(|bytes| decode(&bytes, &self.set, slot, number)) {
                table.sums.replace(sums);
                table.has_place.set(true);
                break;
            }
        }
        self.make_room();
        self.known.borrow_mut().insert((slot, number), table.clone());
        table
    }

    /// Drops what was used longest ago, but for what is needed (invariant 3).
    fn make_room(&self) {
        let mut known = self.known.borrow_mut();
        if known.len() < MOST {
            return;
        }
        let is_needed = |table: &Table| table.changed.get().or(table.going.get()).is_some();
        let is_idle = |table: &&Rc<Table>| Rc::strong_count(table) == 1 && !is_needed(table);
        let mut idle: Vec<&Rc<Table>> = known.values().filter(is_idle).collect();
        idle.sort_by_key(|table| table.used.get());
        let gone = idle.into_iter().take(MOST / 8).map(|table| (table.slot, table.number));
        for key in gone.collect::<Vec<_>>() {
            let gone = known.remove(&key).filter(|table| is_needed(table));
            assert!(gone.is_none(), "invariant 3");
        }
    }
}
