//! Checksums of members' blocks, stored on other members, so that a disk that returns wrong data is
//! detected.
//!
//! A *table* has the checksums of a range of a member's blocks, data or parity. Two other members
//! store the tables of each member: one disk cannot hide its own errors. A table has a checksum of
//! its own, so a copy that is torn, or belongs elsewhere, does not count.
//!
//! A record of the log has the whole of every block that it changes, so it determines their
//! checksums. A checksum is thus durable together with its block, and costs no write of its own:
//! tables change in memory, and are written in place when the log needs its room, to both members
//! that store them, with a flush. The version in force before is not overwritten
//! ([`crate::table`]): a cut leaves each of them a whole version, and the records that it lacks are
//! still in the log.
//!
//! Before the first write of a table's blocks, an empty table is written to all of its places: so
//! it has space if the host is full later. An unknown checksum is zero, and any block fits it.
//!
//! A table that disks may have, and that no member can read at the moment, is unknown as a whole
//! ([`TableUnread`]). It is not replaced: a write of its blocks fails, and their bytes count as
//! unread unless others prove them. A person may accept that such a table counts as empty. Before a
//! table counts as unread or empty, disks that are not members are asked for it ([`crate::lent`]).
//!
//! The later of the two members' versions counts: a disk that has lost the write of a table
//! does not bring back an older one. It gets the table once more.
//!
//! Invariants:
//! 1. The holder of a stripe's lock finds, for each of its blocks, the checksum of the last record,
//!    or that it is unknown.
//! 2. The record of a checksum that is not in place on both members is needed
//!    ([`Sums::needed_from`]).
//! 3. A table that is changed, or that a task holds, stays in memory.
//! 4. The first record that any table needs is known in one cell: each record that is written names
//!    it, and tables are many. A change of a table moves it earlier, and only writing tables in
//!    place moves it later.
//! 5. Reads and mends change no table while [`MOST_PRESSED`] are in memory ([`Sums::takes_mends`]).
//!
//! Not asserted: 1 and 2, which are about the state after a cut: torture's campaign `contract` cuts
//! there, and checks each recovery by the checksums; 5, which is about calls from other files.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use block::{Buffer, Durability, IoError, Verb, zeros};
use bytes::Bytes;
use futures::future::{join, join_all};
use runtime::sync::Signal;

use crate::blocks::BLOCK;
use crate::label::{Id, Label, SUMS, TABLE_PLACES, map_size, tables_size};
use crate::layout::Layout;
use crate::members::{Members, unread};
use crate::missed::Missed;
use crate::planted::{Bug, is_planted};
use crate::record::Change;
use crate::table::{Found, InHand, Kept, MARK, NO_RECORD, Table, Version, sums_of, tables_of};
use crate::turns::Turns;
use crate::written::Written;

/// Number of tables kept in memory though no task needs them. If more stay, changed tables are to
/// be written in place ([`Sums::are_pressed`]).
const MOST: usize = 1024;
/// Number of tables in memory from which on reads and mends change none. A table takes about 4.3
/// KB, so reads and mends keep at most 9 MB. Beyond that are only the tables of records in the log,
/// at most one for each 4 KiB of its ring; those of fresh stripes, at most one of each member for
/// each; and those that a fill changes between two writes in place, 65 of each member for
/// [`crate::rebuild::FILLED`] bytes.
const MOST_PRESSED: usize = 2 * MOST;
/// Number of unread tables that are remembered, each with 16 bytes. If there are more, none is
/// retried: those that are not remembered are refused at once as well.
const MOST_UNREAD: usize = 4096;
/// Tables of a member that get their places with one write, as long as none of them is in use.
const GROUP: u64 = 16;

/// Holds the tables of all blocks that a group changes.
pub(crate) struct OfGroup(Vec<(Change, Vec<InHand>)>);

impl OfGroup {
    fn tables(&self) -> impl Iterator<Item = &Rc<Table>> {
        self.0.iter().flat_map(|(_, in_hand)| in_hand).flat_map(|in_hand| &in_hand.0)
    }

    /// Updates the checksums after this record is durable.
    pub(crate) fn are_logged(&self, record: u64) {
        for (change, in_hand) in &self.0 {
            let are_blocks = |piece: &Bytes| (piece.len() as u64).is_multiple_of(BLOCK);
            let mut sums: Vec<u32> = if change.data.iter().all(are_blocks) {
                change.data.iter().flat_map(|piece| sums_of(piece)).collect()
            } else {
                sums_of(&Buffer::joined(&change.data))
            };
            if change.is_lost && !is_planted(Bug::MadeOfLost) {
                sums.fill(MARK);
            }
            for tables in in_hand {
                tables.keep_former(change);
                tables.change(change.offset, &sums, record);
            }
        }
    }

    /// Updates the checksums of changes that are in place, and that no record has.
    pub(crate) fn are_written(&self) {
        self.are_logged(NO_RECORD);
        self.are_home();
    }

    /// Drops the former checksums: the changes are in place.
    pub(crate) fn are_home(&self) {
        for (change, in_hand) in &self.0 {
            in_hand.iter().for_each(|tables| tables.forget_former(change));
        }
    }
}

/// No member gives a table at the moment, and disks that cannot be read may have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableUnread;

impl From<TableUnread> for IoError {
    fn from(_: TableUnread) -> Self {
        unread(Verb::Write)
    }
}

/// What the present disks give of a table.
pub(crate) struct Seen {
    /// The places of its two members.
    pub(crate) found: [Found; 2],
    /// The current version, if no member gives it.
    pub(crate) lent: Option<Version>,
}

/// Whether one of the two cannot be read.
pub(crate) fn are_unread(both: &[Found; 2]) -> bool {
    both.iter().any(|found| found.is_unread)
}

/// The checksum tables; see the module.
pub(crate) struct Sums {
    pub(crate) members: Rc<Members>,
    pub(crate) layout: Layout,
    data_start: u64,
    pub(crate) set: Id,
    known: RefCell<BTreeMap<(usize, u64), Rc<Table>>>,
    /// Locks of tables being read.
    reading: Rc<Turns>,
    /// Locks of groups of tables that get their places.
    placing: Rc<Turns>,
    /// Notified when tables were written in place.
    gone: Signal,
    /// The first record that any table needs.
    needed: Rc<Cell<u64>>,
    /// A version that is later than any from before the set was opened.
    base: u64,
    /// The map of written stripes, once it is known.
    written: OnceCell<Rc<Written>>,
    /// Groups of tables that have their places, by the member whose blocks they cover.
    roomy: RefCell<BTreeSet<(usize, u64)>>,
    /// Number of members that have come back.
    arrivals: Cell<u64>,
    pub(crate) missed: Rc<Missed>,
    /// The slot of the last replacement, once its new disk has got all tables.
    pub(crate) copied_to: Cell<Option<usize>>,
    now: Cell<u64>,
    /// Tables that could not be read for a while: they are tried once now, without retries.
    unread: RefCell<BTreeSet<(usize, u64)>>,
    /// Whether a person accepts that a table counts as empty that no member can read.
    accepts_unread: bool,
}

impl Sums {
    pub(crate) fn new(members: Rc<Members>, missed: Rc<Missed>, accepts_unread: bool) -> Self {
        let Label { layout, data_start, set, generation, .. } = members.label();
        Self {
            members,
            layout,
            data_start,
            set,
            known: RefCell::default(),
            reading: Rc::default(),
            placing: Rc::default(),
            gone: Signal::new(),
            needed: Rc::new(Cell::new(NO_RECORD)),
            base: generation.min(u32::MAX.into()) << 32,
            written: OnceCell::new(),
            roomy: RefCell::default(),
            arrivals: Cell::default(),
            missed,
            copied_to: Cell::default(),
            now: Cell::new(0),
            unread: RefCell::default(),
            accepts_unread,
        }
    }

    /// Holds the tables of a range of whole blocks of a member.
    ///
    /// # Errors
    /// [`TableUnread`] for one of them.
    pub(crate) async fn of(
        &self,
        slot: usize,
        offset: u64,
        length: u64,
    ) -> Result<InHand, TableUnread> {
        assert!(offset.is_multiple_of(BLOCK) && length.is_multiple_of(BLOCK) && length > 0);
        let mut tables = Vec::new();
        for number in tables_of(offset, length) {
            tables.push(self.table(slot, number).await?);
        }
        Ok(InHand(tables))
    }

    /// Holds the tables of everything that a group changes in the data area, on members that are
    /// out as well.
    ///
    /// # Errors
    /// [`TableUnread`] for one of them.
    pub(crate) async fn of_group(&self, group: &[Change]) -> Result<OfGroup, TableUnread> {
        let mut all = Vec::new();
        for change in group.iter().filter(|change| change.offset < self.data_end()) {
            let mut in_hand = Vec::new();
            let is_left = |slot: &usize| is_planted(Bug::OldSums) && !self.members.has(*slot);
            for slot in change.slots.iter().filter(|slot| !is_left(slot)) {
                in_hand.push(self.of(slot, change.offset, change.length()).await?);
            }
            all.push((change.clone(), in_hand));
        }
        Ok(OfGroup(all))
    }

    /// Allocates places for those of these tables that have none. It waits while the host is full.
    pub(crate) async fn place_all(&self, of_group: &OfGroup) {
        for table in of_group.tables().filter(|table| !self.has_room(table)) {
            let group = table.number / GROUP;
            let _alone = self.placing.alone(self.turn_of(table.slot, group)).await;
            if !self.has_room(table) && self.is_free(table.slot, group) {
                self.place_group(table.slot, group).await;
            }
            while table.is_going() {
                self.gone.wait().await;
            }
            if !self.has_room(table) {
                table.is_placed.set(true);
                let (bytes, _) = table.next_version(&self.set);
                let writes = (0..2).flat_map(|copy| {
                    let (holder, at) = self.place(table.slot, table.number, copy);
                    let (kept, bytes) = (table.kept[copy].get(), &bytes);
                    let free = (0..2).filter(move |&place| kept.is_free(place));
                    free.map(move |place| {
                        let (at, data) = (at + place as u64 * BLOCK, vec![bytes.clone()]);
                        self.members.write(holder, at, data, Durability::Plain)
                    })
                });
                let before = table.all_kept();
                join_all(writes).await;
                for (kept, before) in table.kept.iter().zip(before) {
                    if kept.get() == before {
                        kept.set(Kept { has_room: true, ..before });
                    } // else it belongs to another member by now
                }
                table.change(NO_RECORD); // do not evict it: it may be in force by its version
                table.is_placed.set(false);
            }
        }
    }

    /// Sets the map of written stripes: from now on, tables of unwritten stripes need not be read.
    pub(crate) fn know(&self, written: Rc<Written>) {
        assert!(self.written.set(written).is_ok(), "it becomes known once");
    }

    /// Whether no block that these tables cover was ever written.
    fn is_unused(&self, tables: Range<u64>) -> bool {
        let Layout { rows, unit, .. } = self.layout;
        let bytes = SUMS * BLOCK;
        let end = (tables.end * bytes).div_ceil(unit).min(rows);
        self.written.get().is_some_and(|map| map.has_none(tables.start * bytes / unit..end))
    }

    /// The tables of a group that are in memory.
    fn known_of(&self, slot: usize, group: u64) -> Vec<Rc<Table>> {
        let (first, end) = ((slot, group * GROUP), (slot, (group + 1) * GROUP));
        self.known.borrow().range(first..end).map(|(_, table)| table.clone()).collect()
    }

    /// Whether the places of a group have nothing that counts, and nothing is on its way there.
    fn is_free(&self, slot: usize, group: u64) -> bool {
        self.is_unused(group * GROUP..(group + 1) * GROUP)
            && self.known_of(slot, group).iter().all(|table| table.is_nowhere())
    }

    /// Allocates the places of a group of tables, none of which is in use.
    async fn place_group(&self, slot: usize, group: u64) {
        let first = group * GROUP;
        // None of them is written in place meanwhile.
        let waiting = self.known_of(slot, group);
        waiting.iter().for_each(|table| table.is_placed.set(true));
        let arrivals = self.arrivals.get();
        let all = tables_of(0, self.data_end()).end;
        let length = (GROUP.min(all - first) * TABLE_PLACES * BLOCK) as usize;
        let writes = (0..2).map(|copy| {
            let (holder, at) = self.place(slot, first, copy);
            self.members.write(holder, at, vec![zeros(length)], Durability::Plain)
        });
        join_all(writes).await;
        waiting.iter().for_each(|table| table.is_placed.set(false));
        if self.arrivals.get() != arrivals {
            return; // a member that came back lacks them
        }
        self.roomy.borrow_mut().insert((slot, group));
        for table in self.known_of(slot, group) {
            assert!(table.all_kept().iter().all(|kept| kept.holds.is_none()), "it is not used");
            table.kept.iter().for_each(|kept| kept.set(Kept { holds: None, has_room: true }));
        }
    }

    /// Whether a table has its space even if the host is full.
    fn has_room(&self, table: &Table) -> bool {
        let holders = self.layout.holders(table.slot).into_iter().zip(&table.kept);
        let mut in_use = holders.filter(|(holder, _)| self.members.has(*holder));
        in_use.all(|(_, kept)| kept.get().has_room)
    }

    /// Has a member that is being filled get the tables that it stores for a stripe. Reading a
    /// table has that effect; tables in memory when the member came got it then. In place of one
    /// that cannot be read, the member gets a damaged table: its own may be outdated.
    pub(crate) async fn read_held_by(&self, slot: usize, stripe: u64) {
        let is_held = |other: &usize| self.layout.holders(*other).contains(&slot);
        for other in (0..self.layout.members).filter(is_held) {
            for number in tables_of(stripe * self.layout.unit, self.layout.unit) {
                if self.table(other, number).await.is_err() {
                    self.fill_damaged(slot, (other, number)).await;
                }
            }
        }
    }

    /// Writes a damaged table to both of its places on a member that is being filled.
    async fn fill_damaged(&self, holder: usize, (slot, number): (usize, u64)) {
        let _alone = self.reading.alone(self.turn_of(slot, number)).await;
        if self.known.borrow().contains_key(&(slot, number)) {
            return; // it was read meanwhile
        }
        let places = vec![Version::damaged(&self.set).into(); TABLE_PLACES as usize];
        for copy in (0..2).filter(|&copy| self.layout.holders(slot)[copy] == holder) {
            let (_, at) = self.place(slot, number, copy);
            self.members.fill(holder, at, places.clone()).await;
        }
    }

    /// The groups of tables that the member of a slot stores, each with the slot whose blocks they
    /// cover.
    pub(crate) fn groups_of(&self, slot: usize) -> Vec<(usize, u64)> {
        let groups = tables_of(0, self.data_end()).end.div_ceil(GROUP);
        let is_held = |of: &usize| self.layout.holders(*of).contains(&slot);
        let held = (0..self.layout.members).filter(is_held);
        held.flat_map(|of| (0..groups).map(move |group| (of, group))).collect()
    }

    /// Copies a group of tables from a member to the incoming disk of its slot, place by place,
    /// while no table is written in place. All later writes of these tables go to both disks.
    ///
    /// # Errors
    /// [`TableUnread`] when the old disk may be the only one that has one of them, and cannot read
    /// it.
    pub(crate) async fn copy_group(
        &self,
        slot: usize,
        (of, group): (usize, u64),
    ) -> Result<(), TableUnread> {
        let _alone = self.placing.alone(self.turn_of(of, group)).await;
        if self.is_free(of, group) && !self.roomy.borrow().contains(&(of, group)) {
            return Ok(()); // it has no places yet
        }
        let first = group * GROUP;
        let tables = GROUP.min(tables_of(0, self.data_end()).end - first);
        let copies = self.layout.holders(of).into_iter().enumerate();
        for (copy, _) in copies.filter(|(_, holder)| *holder == slot) {
            let (_, at) = self.place(of, first, copy);
            let length = (tables * TABLE_PLACES * BLOCK) as usize;
            let bytes = match self.members.read(slot, at, Buffer::unfilled(length)).await {
                Some(bytes) => bytes.freeze(),
                None => self.read_places(slot, at, length, (of, first)).await?,
            };
            self.renew_damaged(&bytes, (of, first)).await;
            self.members.fill(slot, at, vec![bytes]).await;
        }
        Ok(())
    }

    /// Reads places of tables, the first of them `first`, block by block. In place of one that
    /// cannot be read there is a damaged table, and the true one is due to be written.
    async fn read_places(
        &self,
        slot: usize,
        at: u64,
        length: usize,
        (of, first): (usize, u64),
    ) -> Result<Bytes, TableUnread> {
        let mut all = Vec::with_capacity(length);
        for (place, block) in (0..).zip((at..at + length as u64).step_by(BLOCK as usize)) {
            let read = self.members.read(slot, block, Buffer::unfilled(BLOCK as usize)).await;
            let Some(read) = read else {
                self.table(of, first + place / TABLE_PLACES).await?.change(NO_RECORD);
                all.extend(Version::damaged(&self.set));
                continue;
            };
            all.extend_from_slice(&read);
        }
        Ok(all.into())
    }

    /// Marks tables with a damaged place among these, the first of them `first`, to be written in
    /// place anew: the incoming disk gets the damage as well. A table that no disk gives at the
    /// moment stays as it is.
    async fn renew_damaged(&self, places: &[u8], (of, first): (usize, u64)) {
        for (place, bytes) in (0..).zip(places.chunks_exact(BLOCK as usize)) {
            let number = first + place / TABLE_PLACES;
            let is_whole = Version::decode(bytes, &self.set, of, number).is_some();
            if is_whole || self.is_unused(number..number + 1) || is_planted(Bug::CopiedDamage) {
                continue;
            }
            if !self.takes_mends() {
                return;
            }
            if !self.known.borrow().contains_key(&(of, number)) {
                self.note_unread(of, number); // no write waits until it can be read
            }
            if let Ok(table) = self.table(of, number).await
                && !table.is_empty()
            {
                table.change(NO_RECORD);
            }
        }
    }

    /// Forgets the known state of tables on a member that comes back: it is outdated, or of
    /// versions that the member did not get.
    pub(crate) fn come_back(&self, slot: usize) {
        self.roomy.borrow_mut().retain(|(of, _)| !self.layout.holders(*of).contains(&slot));
        self.arrivals.set(self.arrivals.get() + 1);
        for table in self.known.borrow().values() {
            match self.layout.holders(table.slot).contains(&slot) {
                true if table.is_empty() => table.leave(slot, &self.layout),
                true => table.come_to(slot, &self.layout),
                false => {}
            }
        }
    }

    /// The first record that is needed for checksums that are not in place.
    pub(crate) fn needed_from(&self) -> u64 {
        if is_planted(Bug::ForgottenSums) {
            return NO_RECORD;
        }
        self.needed.get()
    }

    /// The same value, computed from the tables.
    fn first_needed(&self) -> u64 {
        let known = self.known.borrow();
        known.values().map(|table| table.needed_from()).min().unwrap_or(NO_RECORD)
    }

    /// Writes changed tables in place, durably; one call at a time. Returns whether there was room.
    /// For fresh stripes the second place of a table is durable with the next flush: recovery needs
    /// the first.
    ///
    /// # Errors
    /// [`IoError`] when the set has stopped.
    pub(crate) async fn bring_home(&self, are_fresh: bool) -> Result<bool, IoError> {
        assert_eq!(self.needed.get(), self.first_needed(), "invariant 4");
        // Before it lacks a version, a disk that is out lends the table no more.
        self.changed().iter().for_each(|table| self.note_who_misses(table));
        self.missed.bring_home().await;
        let (waiting, going): (Vec<_>, Vec<_>) =
            self.changed().into_iter().partition(|table| table.is_placed.get());
        waiting.iter().for_each(|table| table.is_stuck.set(true));
        let is_all_there = !waiting.iter().any(|table| self.is_needed(table));
        if going.is_empty() {
            return Ok(is_all_there);
        }
        let versions = going.iter().map(|table| table.go(&self.set));
        let versions: Vec<(Bytes, u64)> = versions.collect();
        let before: Vec<[Kept; 2]> = going.iter().map(|table| table.all_kept()).collect();
        let mut had_room = self.write_all(&going, &versions).await;
        self.members.flush().await;
        let mut settled = self.members.settled(Verb::Write).await;
        for (number, table) in going.iter().enumerate().filter(|_| settled.is_ok()) {
            for copy in (0..2).filter(|&copy| had_room[number][copy]) {
                let (kept, before) = (&table.kept[copy], before[number][copy]);
                if kept.get() == before {
                    kept.set(before.with(versions[number].1));
                } // else it belongs to another member by now
            }
        }
        // The place in force is overwritten only now (see `table`).
        if settled.is_ok() && !is_planted(Bug::SinglePlaces) {
            let again = self.write_all(&going, &versions).await;
            for (had, has) in had_room.iter_mut().zip(again) {
                *had = [had[0] && has[0], had[1] && has[1]];
            }
            if !are_fresh {
                self.members.flush().await;
                settled = self.members.settled(Verb::Write).await;
            }
        }
        let mut are_home = is_all_there;
        for (table, had_room) in going.iter().zip(had_room) {
            let is_home = had_room == [true, true] && settled.is_ok();
            table.has_gone(is_home);
            self.note_who_misses(table);
            are_home &= is_home || !self.is_needed(table);
        }
        self.needed.set(self.first_needed());
        self.gone.notify();
        drop(going);
        self.make_room();
        settled.map(|()| are_home)
    }

    /// The tables with changes that are not in place.
    fn changed(&self) -> Vec<Rc<Table>> {
        let known = self.known.borrow();
        known.values().filter(|table| table.has_changed()).cloned().collect()
    }

    /// Whether all changes are in place.
    pub(crate) fn are_home(&self) -> bool {
        self.changed().is_empty()
    }

    /// Writes versions of tables, each to the next place on both members. Returns which had room.
    async fn write_all(&self, going: &[Rc<Table>], versions: &[(Bytes, u64)]) -> Vec<[bool; 2]> {
        let writes = going.iter().zip(versions).map(|(table, (bytes, _))| async move {
            [self.write(table, 0, bytes).await, self.write(table, 1, bytes).await]
        });
        join_all(writes).await
    }

    /// Marks a stripe as missed if a table is written in place without one of its two members.
    fn note_who_misses(&self, table: &Table) {
        let all = self.members.all();
        let Some(map) = self.written.get().filter(|_| !is_planted(Bug::ForgottenTables)) else {
            return;
        };
        if self.layout.holders(table.slot).iter().all(|&holder| all.has(holder)) {
            return;
        }
        let stripes = table.known().into_iter().map(|block| block * BLOCK / self.layout.unit);
        // Any stripe of the table does: with it, the member gets the table when it comes back.
        stripes.filter(|&it| map.is_logged(it)).take(1).for_each(|it| self.missed.touch(it, 0));
    }

    /// Whether a record, or a member being filled, waits for a table to be written in place.
    fn is_needed(&self, table: &Table) -> bool {
        let is_of =
            |slot: usize| slot == table.slot || self.layout.holders(table.slot).contains(&slot);
        table.needed_from() != NO_RECORD || self.members.coming().is_some_and(is_of)
    }

    /// Whether checksums of these stripes found no room when they were to be written in place.
    pub(crate) fn are_stuck(&self, stripes: &[u64]) -> bool {
        let known = self.known.borrow();
        let mut stuck = known.values().filter(|table| table.is_stuck.get());
        let unit = self.layout.unit;
        stuck.any(|table| {
            stripes.iter().any(|stripe| tables_of(stripe * unit, unit).contains(&table.number))
        })
    }

    /// Writes the next version of a table to one of its members. Returns whether there was room.
    async fn write(&self, table: &Table, copy: usize, bytes: &Bytes) -> bool {
        let (holder, at) = self.place(table.slot, table.number, copy);
        let writes = table.kept[copy].get().next().map(|place| {
            let at = at + place as u64 * BLOCK;
            self.members.write_if_room(holder, at, bytes.clone())
        });
        join_all(writes).await.into_iter().all(|had_room| had_room)
    }

    /// Verifies a table on both of its members. A member that lacks it gets it the next time tables
    /// are written in place.
    pub(crate) async fn check(&self, slot: usize, number: u64) {
        let known = self.known.borrow().get(&(slot, number)).cloned();
        let Some(table) = known else {
            let _ = self.table(slot, number).await; // reading it verifies both
            return;
        };
        for (copy, kept) in table.kept.iter().enumerate() {
            let before = kept.get();
            let found = self.look(slot, number, copy).await;
            let (Some(holds), Some(found), true) =
                (before.holds, found, self.members.has(self.layout.holders(slot)[copy]))
            else {
                continue; // its member is out, or never had it
            };
            let is_as_before = kept.get() == before && !table.is_going();
            if is_as_before && !found.is_unread && !Kept::has(&found, holds) {
                kept.set(Kept { holds: Kept::of(&found).holds, ..before });
                self.met_wrong(&table, copy);
            }
        }
    }

    /// Records that a member lost a table that it had.
    fn met_wrong(&self, table: &Table, copy: usize) {
        table.change(NO_RECORD);
        self.members.counts.meet(self.layout.holders(table.slot)[copy], |met| {
            met.checksum_errors += 1;
            met.mended += 1;
        });
    }

    fn data_end(&self) -> u64 {
        self.layout.rows * self.layout.unit
    }

    /// The member that stores a copy of a table, and the offset of the first place there.
    pub(crate) fn place(&self, slot: usize, number: u64, copy: usize) -> (usize, u64) {
        let Layout { rows, unit, .. } = self.layout;
        let start = self.data_end() + map_size(rows) + copy as u64 * tables_size(rows, unit);
        let at = self.data_start + start + number * TABLE_PLACES * BLOCK;
        (self.layout.holders(slot)[copy], at)
    }

    fn turn_of(&self, slot: usize, number: u64) -> u64 {
        number * self.layout.members as u64 + slot as u64
    }

    async fn table(&self, slot: usize, number: u64) -> Result<Rc<Table>, TableUnread> {
        let known = || self.known.borrow().get(&(slot, number)).cloned();
        let table = match known() {
            Some(table) => table,
            None => {
                // One reader at a time: a slower one would bring back an older version.
                let _alone = self.reading.alone(self.turn_of(slot, number)).await;
                match known() {
                    Some(table) => table,
                    None => self.read(slot, number).await?,
                }
            }
        };
        self.now.set(self.now.get() + 1);
        table.used.set(self.now.get());
        Ok(table)
    }

    /// Reads the latest version of a table from both members. A member that lacks it gets it.
    async fn read(&self, slot: usize, number: u64) -> Result<Rc<Table>, TableUnread> {
        if self.is_unused(number..number + 1) {
            return Ok(self.begin(slot, number));
        }
        let Seen { found, lent } = self.look_everywhere(slot, number).await;
        let holders = self.layout.holders(slot);
        let are_in = holders.map(|holder| self.members.has(holder));
        let are_current = holders.map(|holder| self.is_current(holder, number));
        // A member that is in and can read both places has the version in force, if there is one.
        let says_none = |(it, is_in): (&Found, bool)| is_in && !it.is_unread && !it.is_damaged;
        let is_found = self.has_any_current((slot, number), &found) || lent.is_some();
        let is_told = is_found || found.iter().zip(are_in).any(says_none);
        let is_lacking = are_unread(&found) && !is_told;
        if is_lacking && !self.accepts_unread && !is_planted(Bug::ReplacedTables) {
            self.note_unread(slot, number);
            return Err(TableUnread);
        }
        self.unread.borrow_mut().remove(&(slot, number));
        let (of_set, lent) = ((self.base, &self.needed), lent.as_ref());
        let table = Rc::new(Table::new((slot, number), of_set, (&found, are_current), lent));
        let is_its = |it: &usize| holders.contains(it) && !self.is_current(*it, number);
        if let Some(holder) = self.members.coming().filter(is_its) {
            table.come_to(holder, &self.layout);
        }
        let is_due = lent.is_some() || self.takes_mends();
        let lacks = |copy: &usize| are_current[*copy] && !table.is_everywhere(&found[*copy]);
        for copy in (0..2).filter(lacks).filter(|_| is_due) {
            table.change(NO_RECORD);
            // An unreadable table counts as a read error already, and a rewrite may not repair it.
            let is_wrong = table.kept[copy].get().holds.is_none() && !found[copy].is_unread;
            if is_wrong && !table.is_empty() {
                self.met_wrong(&table, copy);
            }
        }
        Ok(self.keep(table))
    }

    /// Whether one of its members gives the current version of a table.
    fn has_any_current(&self, (slot, number): (usize, u64), found: &[Found; 2]) -> bool {
        let mut holders = self.layout.holders(slot).into_iter().zip(found);
        holders.any(|(holder, found)| found.has_any() && self.is_current(holder, number))
    }

    /// Remembers a table that could not be read for a while.
    fn note_unread(&self, slot: usize, number: u64) {
        let mut unread = self.unread.borrow_mut();
        if unread.len() < MOST_UNREAD {
            unread.insert((slot, number));
        }
    }

    /// Whether a table is not retried.
    fn is_tried(&self, slot: usize, number: u64) -> bool {
        let unread = self.unread.borrow();
        unread.len() >= MOST_UNREAD || unread.contains(&(slot, number))
    }

    /// Whether more tables than usual stay in memory because they are changed: they are to be
    /// written in place.
    pub(crate) fn are_pressed(&self) -> bool {
        self.known.borrow().len() > MOST && !is_planted(Bug::UnpressedTables)
    }

    /// Whether reads and mends may change tables. Otherwise what is wrong stays until a later read.
    pub(crate) fn takes_mends(&self) -> bool {
        self.known.borrow().len() < MOST_PRESSED || is_planted(Bug::UnpressedTables)
    }

    /// A table that was never used, whatever its places hold.
    fn begin(&self, slot: usize, number: u64) -> Rc<Table> {
        let nothing = [Found::default(), Found::default()];
        let of_set = (self.base, &self.needed);
        let table = Table::new((slot, number), of_set, (&nothing, [true; 2]), None);
        let has_room = self.roomy.borrow().contains(&(slot, number / GROUP));
        table.kept.iter().for_each(|kept| kept.set(Kept { holds: None, has_room }));
        self.keep(Rc::new(table))
    }

    fn keep(&self, table: Rc<Table>) -> Rc<Table> {
        self.make_room();
        self.known.borrow_mut().insert((table.slot, table.number), table.clone());
        table
    }

    /// Reads a member's places of a table. `None` if the member is neither in nor being filled.
    async fn look(&self, slot: usize, number: u64, copy: usize) -> Option<Found> {
        let (holder, at) = self.place(slot, number, copy);
        let mut found = Found::default();
        let mut note = |place: usize, bytes: &[u8]| {
            let version = Version::decode(bytes, &self.set, slot, number);
            found.is_damaged |= version.is_none() && Version::resembles(bytes, &self.set);
            found.versions[place] = version;
        };
        let both = Buffer::unfilled((TABLE_PLACES * BLOCK) as usize);
        if let Ok(read) = self.members.look(holder, at, both).await? {
            let places = read.chunks_exact(BLOCK as usize).enumerate();
            places.for_each(|(place, bytes)| note(place, bytes));
            return Some(found);
        }
        let mut is_unread = false;
        for place in 0..TABLE_PLACES as usize {
            let (at, room) = (at + place as u64 * BLOCK, Buffer::unfilled(BLOCK as usize));
            match self.members.look(holder, at, room).await? {
                Ok(bytes) => note(place, &bytes),
                Err(_) => is_unread = true,
            }
        }
        Some(Found { is_unread, ..found })
    }

    /// Reads both members' places of a table, and other disks if no member gives it. If it cannot
    /// be read, it retries for a while, once.
    pub(crate) async fn look_everywhere(&self, slot: usize, number: u64) -> Seen {
        let look = async || {
            let (one, other) = join(self.look(slot, number, 0), self.look(slot, number, 1)).await;
            let found = [one, other].map(Option::unwrap_or_default);
            let is_there = self.has_any_current((slot, number), &found);
            let lent = if is_there { None } else { self.lent(slot, number).await };
            Seen { found, lent }
        };
        let is_tried = self.is_tried(slot, number);
        let is_enough = |Seen { found, lent }: &Seen| {
            let is_there = lent.is_some() || self.has_any_current((slot, number), found);
            is_tried || is_there || !are_unread(found)
        };
        self.members.retry(look, is_enough).await
    }

    /// Evicts the least recently used tables that are not needed (invariant 3).
    fn make_room(&self) {
        let mut known = self.known.borrow_mut();
        if known.len() < MOST {
            return;
        }
        let is_needed = |table: &Table| table.has_changed() || table.is_going();
        let is_idle = |table: &&Rc<Table>| Rc::strong_count(table) == 1 && !is_needed(table);
        let mut idle: Vec<&Rc<Table>> = known.values().filter(is_idle).collect();
        idle.sort_by_key(|table| table.used.get());
        let too_many = known.len() - MOST + MOST / 8;
        let gone = idle.into_iter().take(too_many).map(|table| (table.slot, table.number));
        for key in gone.collect::<Vec<_>>() {
            let gone = known.remove(&key).filter(|table| is_needed(table));
            assert!(gone.is_none(), "invariant 3");
        }
    }
}
