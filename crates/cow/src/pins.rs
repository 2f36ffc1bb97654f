//! The snapshots of a volume, the blocks they hold, and the dead lists.
//!
//! A snapshot is a root that stays. The snapshots made between the birth and the death of a block
//! hold it, so two numbers identify its holders for good: a [`Span`]. When the live tree loses a
//! block, it goes on the list of that span, which does not change when snapshots are made or
//! deleted. A deletion frees the lists that have no snapshot left: it reads the lists that it
//! frees, and nothing else.
//!
//! Invariants:
//! 1. Numbers of snapshots, and the updates that made them, rise together.
//! 2. A dead block is on one list, or in one record, as long as its span has a holder.
//! 3. No task reads a snapshot that is gone and holds nothing.
//! 4. A run that goes on a list has a holder; so a list becomes loose when a snapshot releases its
//!    blocks, and stays so.
//!
//! Not asserted: 2, which the checks of engines test; 3, which is up to the layers above.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};

use vfs::{SnapshotNumber, SnapshotUsage, Timestamp};
use vnode::FoundSnapshots;

use crate::format::run::Span;
use crate::format::snapshot::{List, RUNS, Snapshots, State, Told};
use crate::format::{FAN, UNIT};
use crate::numbers::{Numbers, Occupied};
use crate::planted::{Bug, is_planted};

/// Places for blocks of lists that may be in use when a snapshot is made: half of those that a tree
/// has. There are no more places than blocks that existed at one time, and each block takes a unit:
/// it takes 1 TiB of lists to reach this, which cover at least 100 TiB that snapshots alone hold.
const MOST_DIED: u64 = 1 << 28;

/// A dead list, and the slot of its line.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// The slot of its line.
    pub slot: u64,
    /// The list.
    pub list: List,
}

/// See the module's prose.
#[derive(Default)]
pub struct Pins {
    /// All snapshots, with the slots of their lines.
    all: RefCell<BTreeMap<u64, (Told, u64)>>,
    /// Numbers of the snapshots that hold something, with the updates that made them, in order.
    holders: RefCell<Vec<(u64, u64)>>,
    lists: RefCell<BTreeMap<Span, Listing>>,
    /// Readable lists that have no snapshot left.
    loose: RefCell<BTreeSet<Span>>,
    line_slots: Numbers,
    list_slots: Numbers,
    died_slots: Numbers,
    last: Cell<u64>,
    changed: Cell<Timestamp>,
    nodes: Cell<u64>,
    pinned: Cell<u64>,
    pinned_until: Cell<u64>,
    /// Lists that cannot be read to their end.
    damaged: RefCell<BTreeSet<Span>>,
    /// Counts the changes of lists other than by folds.
    changes: Cell<u64>,
}

impl Pins {
    /// From the fields of the newest root, all lines, and the places of blocks of lists.
    pub fn new(
        said: &Snapshots,
        all: BTreeMap<u64, (Told, u64)>,
        lists: BTreeMap<Span, Listing>,
        died: Occupied,
    ) -> Self {
        let lines: BTreeSet<u64> = all.values().map(|(_, slot)| *slot).collect();
        let of_lists: BTreeSet<u64> = lists.values().map(|listing| listing.slot).collect();
        let slots = |end: u64, used: BTreeSet<u64>| {
            Numbers::new(end, used.into_iter().map(|slot| slot..slot + 1))
        };
        let holders = all.values().filter(|(told, _)| told.state != State::Gone);
        let holders = holders.map(|(told, _)| (told.number, told.update)).collect();
        let pins = Self {
            holders: RefCell::new(holders),
            line_slots: slots(said.line_slots, lines),
            list_slots: slots(said.list_slots, of_lists),
            died_slots: died.numbers(said.died_slots),
            all: RefCell::new(all),
            lists: RefCell::new(lists),
            last: Cell::new(said.last),
            changed: Cell::new(said.changed),
            nodes: Cell::new(said.nodes),
            pinned: Cell::new(said.pinned),
            pinned_until: Cell::new(said.pinned_until),
            ..Self::default()
        };
        pins.find_loose();
        pins
    }

    /// The fields of the next root, without its trees.
    pub fn said(&self) -> Snapshots {
        Snapshots {
            line_slots: self.line_slots.end(),
            list_slots: self.list_slots.end(),
            died_slots: self.died_slots.end(),
            last: self.last.get(),
            changed: self.changed.get(),
            nodes: self.nodes.get(),
            pinned: self.pinned.get(),
            pinned_until: self.pinned_until.get(),
            ..Snapshots::default()
        }
    }

    /// The snapshots, for the layers above.
    pub fn found(&self) -> FoundSnapshots {
        let all = self.all.borrow().values().map(|(told, _)| told.snapshot()).collect();
        let last = SnapshotNumber(self.last.get());
        FoundSnapshots { all, last, changed: self.changed.get() }
    }

    /// Number of snapshots, including those being deleted.
    pub fn count(&self) -> u64 {
        self.all.borrow().len() as u64
    }

    /// A snapshot, with the slot of its line.
    pub fn told(&self, number: SnapshotNumber) -> Option<(Told, u64)> {
        self.all.borrow().get(&number.0).cloned()
    }

    /// All snapshots, with the slots of their lines.
    pub fn lines(&self) -> BTreeMap<u64, (Told, u64)> {
        self.all.borrow().clone()
    }

    /// Number of snapshots that hold something.
    pub fn holders(&self) -> usize {
        self.holders.borrow().len()
    }

    /// The update that made the newest snapshot that holds something.
    fn newest(&self) -> Option<u64> {
        self.holders.borrow().last().map(|&(_, update)| update)
    }

    /// Whether a snapshot holds a block of the live tree with this birth.
    pub fn holds(&self, birth: u64) -> bool {
        self.newest().is_some_and(|update| birth <= update)
    }

    /// The number of the next snapshot.
    pub fn next_number(&self) -> u64 {
        self.last.get() + 1
    }

    /// Lines of lists from this one on are free.
    pub fn list_slots(&self) -> u64 {
        self.list_slots.end()
    }

    /// The holders of a block with this birth that dies now: none if no snapshot holds it.
    pub fn span_of(&self, birth: u64) -> Option<Span> {
        if is_planted(Bug::ForgottenPins) {
            return None;
        }
        let holders = self.holders.borrow();
        let behind = holders.partition_point(|&(_, update)| update < birth);
        let &(first, _) = holders.get(behind)?;
        Some(Span { first, end: self.next_number() })
    }

    /// Whether a snapshot is left that holds dead blocks of this span.
    pub fn has_holder(&self, span: Span) -> bool {
        self.first_holder(span).is_some()
    }

    /// Asserts that no snapshot is left that holds dead blocks of this span.
    pub fn assert_loose(&self, span: Span) {
        assert!(!self.has_holder(span) || is_planted(Bug::GreedyDeletions), "it is held");
    }

    /// The slot for the line of a new snapshot.
    pub fn next_line(&self) -> u64 {
        self.line_slots.next(1)[0]
    }

    /// Slots for the lines of new lists.
    pub fn next_lists(&self, count: usize) -> Vec<u64> {
        self.list_slots.next(count)
    }

    /// Places for new blocks of lists.
    pub fn next_died(&self, count: usize) -> Vec<u64> {
        self.died_slots.next(count)
    }

    /// Notes that nothing is known of these places.
    pub fn pass_died(&self, places: Range<u64>) {
        places.for_each(|place| self.died_slots.take(place));
        self.changes.set(self.changes.get() + 1);
    }

    /// Blocks of metadata that lead to files of the live tree, and blocks of inodes.
    pub fn nodes(&self) -> u64 {
        self.nodes.get()
    }

    /// Counts a block of metadata that is new in the live tree.
    pub fn count_node(&self) {
        self.nodes.set(self.nodes.get() + 1);
    }

    /// Counts a block with this birth that left the live tree, or was replaced.
    pub fn uncount_node(&self, birth: u64, is_replaced: bool) {
        if !is_replaced {
            self.nodes.set(self.nodes.get().saturating_sub(1));
        }
        if birth <= self.pinned_until.get() {
            self.pinned.set(self.pinned.get().saturating_sub(1));
        }
    }

    /// Corrects the counts of blocks of metadata: all, and those that snapshots hold.
    pub fn count_anew(&self, (nodes, pinned): (u64, u64)) {
        self.nodes.set(nodes);
        self.pinned.set(pinned);
        self.pinned_until.set(self.newest().unwrap_or(0));
    }

    /// Adds a snapshot with this record.
    pub fn pin(&self, told: Told, slot: u64) {
        let newer = self.newest().is_none_or(|newest| newest < told.update);
        assert!(told.number > self.last.get() && newer, "invariant 1");
        self.last.set(told.number);
        self.changed.set(told.created);
        self.holders.borrow_mut().push((told.number, told.update));
        self.line_slots.take(slot);
        self.pinned.set(self.nodes.get());
        self.pinned_until.set(told.update);
        self.all.borrow_mut().insert(told.number, (told, slot));
    }

    /// Notes that a snapshot is no longer found by its name.
    pub fn delete(&self, number: SnapshotNumber, at: Timestamp) {
        self.changed.set(at);
        if let Some((told, _)) = self.all.borrow_mut().get_mut(&number.0) {
            told.state = State::Deleting;
        }
    }

    /// Notes that a snapshot holds nothing any more.
    pub fn let_go(&self, number: SnapshotNumber) {
        if let Some((told, _)) = self.all.borrow_mut().get_mut(&number.0) {
            told.state = State::Gone;
        }
        self.holders.borrow_mut().retain(|&(holder, _)| holder != number.0);
        if self.holders.borrow().is_empty() {
            self.pinned.set(0);
            self.pinned_until.set(0);
        }
        self.changes.set(self.changes.get() + 1);
        self.find_loose();
    }

    /// Counts units that its deletion has freed.
    pub fn count_freed(&self, number: SnapshotNumber, units: u64) {
        if let Some((told, _)) = self.all.borrow_mut().get_mut(&number.0) {
            told.freed += units;
        }
    }

    /// Removes a snapshot of which nothing is left.
    pub fn end(&self, number: SnapshotNumber) {
        let ended = self.all.borrow_mut().remove(&number.0);
        ended.iter().for_each(|(_, slot)| self.line_slots.give_back(*slot));
        if self.all.borrow().is_empty() {
            self.line_slots.clear();
        }
    }

    /// The list of this span, if there is one.
    pub fn list(&self, span: Span) -> Option<Listing> {
        self.lists.borrow().get(&span).copied()
    }

    /// The first list behind this one that has no snapshot left.
    pub fn loose_list(&self, behind: Option<Span>) -> Option<Listing> {
        let lists = self.lists.borrow();
        if is_planted(Bug::GreedyDeletions) {
            let damaged = self.damaged.borrow();
            return lists.values().find(|it| !damaged.contains(&it.list.span)).copied();
        }
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let loose = self.loose.borrow();
        loose.range((from, Bound::Unbounded)).next().map(|span| lists[span])
    }

    /// Finds the lists that have no snapshot left.
    fn find_loose(&self) {
        let (lists, damaged) = (self.lists.borrow(), self.damaged.borrow());
        let is_loose = |span: &&Span| !self.has_holder(**span) && !damaged.contains(span);
        self.loose.replace(lists.keys().filter(is_loose).copied().collect());
    }

    /// Notes that the last block of a list is damaged: the runs on it are not freed.
    pub fn note_damage(&self, span: Span) {
        self.damaged.borrow_mut().insert(span);
        self.loose.borrow_mut().remove(&span);
    }

    /// Blocks of lists have places below this one.
    pub fn died_slots(&self) -> u64 {
        self.died_slots.end()
    }

    /// Lists of blocks that died after the snapshot of this number was made.
    pub fn lists_behind(&self, number: SnapshotNumber) -> Vec<Listing> {
        let lists = self.lists.borrow();
        lists.values().filter(|listing| listing.list.span.end > number.0).copied().collect()
    }

    /// Number of changes of lists other than by folds.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Sets a list after a fold, with the places of its new blocks.
    pub fn set_list(&self, listing: Listing, new: &[u64]) {
        assert!(self.has_holder(listing.list.span), "invariant 4");
        self.list_slots.take(listing.slot);
        new.iter().for_each(|&slot| self.died_slots.take(slot));
        self.lists.borrow_mut().insert(listing.list.span, listing);
    }

    /// Notes that a list has lost its last block; `rest` is the remaining list, if there is one.
    pub fn shorten(&self, listing: Listing, rest: Option<List>) {
        self.changes.set(self.changes.get() + 1);
        self.died_slots.give_back(listing.list.last);
        let span = listing.list.span;
        match rest {
            Some(list) => _ = self.lists.borrow_mut().insert(span, Listing { list, ..listing }),
            None => {
                self.lists.borrow_mut().remove(&span);
                self.loose.borrow_mut().remove(&span);
                self.list_slots.give_back(listing.slot);
            }
        }
    }

    /// Notes that there is no block of lines of lists any more.
    pub fn clear_list_slots(&self) {
        assert!(!self.has_lists(), "no list is left");
        self.list_slots.clear();
    }

    /// Notes that there is no block of lists any more. The remains of a rotten list keep their
    /// places.
    pub fn clear_died_slots(&self) {
        assert!(!self.has_lists(), "no list is left");
        self.died_slots.clear();
    }

    /// Whether there are lists.
    pub fn has_lists(&self) -> bool {
        !self.lists.borrow().is_empty()
    }

    /// All lists, with the slots of their lines.
    pub fn listings(&self) -> Vec<Listing> {
        self.lists.borrow().values().copied().collect()
    }

    /// All lists.
    pub fn lists(&self) -> Vec<List> {
        self.lists.borrow().values().map(|listing| listing.list).collect()
    }

    /// All snapshots that hold something, in the order in which they were made.
    pub fn holding(&self) -> Vec<Told> {
        let all = self.all.borrow();
        let holding = all.values().filter(|(told, _)| told.state != State::Gone);
        holding.map(|(told, _)| told.clone()).collect()
    }

    /// The first snapshot that holds dead blocks of this span.
    pub(crate) fn first_holder(&self, span: Span) -> Option<u64> {
        let holders = self.holders.borrow();
        let at = holders.partition_point(|&(number, _)| number < span.first);
        holders.get(at).map(|&(number, _)| number).filter(|&number| number < span.end)
    }

    /// The first and the last snapshot that hold dead blocks of this span, as a span from the one
    /// to the other.
    pub fn holders_of(&self, span: Span) -> Option<Span> {
        let first = self.first_holder(span)?;
        let holders = self.holders.borrow();
        let end = holders.partition_point(|&(number, _)| number < span.end);
        holders[..end].last().map(|&(last, _)| Span { first, end: last + 1 })
    }

    /// Makes the counts those of a snapshot that the live tree goes back to.
    pub fn roll_back(&self, told: &Told) {
        self.nodes.set(told.nodes);
        self.pinned.set(told.nodes);
        self.pinned_until.set(told.update);
    }

    /// Space that each of these snapshots uses; `unlisted` has the dead units that are on no list
    /// yet.
    pub fn usage(
        &self,
        trees: &[SnapshotNumber],
        unlisted: &BTreeMap<Span, u64>,
    ) -> Vec<SnapshotUsage> {
        let mut alone: BTreeMap<u64, u64> = BTreeMap::new();
        let lists = self.lists.borrow();
        let listed = lists.values().map(|listing| (listing.list.span, listing.list.units));
        for (span, units) in listed.chain(unlisted.iter().map(|(&span, &units)| (span, units))) {
            if let Some(Span { first, end }) = self.holders_of(span)
                && first + 1 == end
            {
                *alone.entry(first).or_default() += units;
            }
        }
        let bytes = |units: u64| units.saturating_mul(UNIT as u64);
        let usage = |tree: &SnapshotNumber| {
            let all = self.all.borrow();
            let Some((told, _)) = all.get(&tree.0) else { return SnapshotUsage::default() };
            SnapshotUsage {
                referenced_bytes: bytes(told.units + told.nodes),
                unique_bytes: bytes(alone.get(&tree.0).copied().unwrap_or(0)),
                freed_bytes: bytes(told.freed),
            }
        };
        trees.iter().map(usage).collect()
    }

    /// Whether there are places for many more blocks of lists.
    pub fn may_list_more(&self) -> bool {
        self.died_slots.end() < MOST_DIED
    }

    /// Units that are reserved as long as there are snapshots: blocks of metadata of the live tree
    /// that they hold are written once more when they change, and all of these, and this many
    /// blocks of files, may go on lists.
    pub fn keeps(&self, blocks: u64) -> u64 {
        match self.pinned_until.get() {
            0 => 0, // each change asks
            _ => kept(&self.said(), self.holders() as u64, blocks),
        }
    }

    /// The same with one more snapshot made now.
    pub fn would_keep_with_one_more(&self, blocks: u64) -> u64 {
        let nodes = self.nodes.get();
        let said = Snapshots { pinned: nodes, pinned_until: u64::MAX, ..self.said() };
        kept(&said, self.holders() as u64 + 1, blocks)
    }
}

/// Units that are reserved according to a root with this many snapshots and blocks of files:
/// see [`Pins::keeps`]. The next dead blocks may need a list of their own for each of the
/// snapshots.
pub fn kept(said: &Snapshots, holders: u64, blocks: u64) -> u64 {
    if said.pinned_until == 0 {
        return 0; // there are none
    }
    // Impossible counts reserve everything.
    let listed = blocks.saturating_add(said.nodes).div_ceil(RUNS as u64 - 1);
    let lines = listed + listed.div_ceil(FAN) + 16;
    said.pinned.saturating_add(lines).saturating_add(holders.saturating_mul(4))
}
