//! Effects of Updates in flight on names, inodes and directories, as far as a later Update may have
//! to wait for them.
//!
//! Invariant: a fact is known from the staging of its Update until that Update is durable.
//!
//! Not asserted, since the table of Updates in flight is not here.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::rc::Rc;

use ufs2::layout::{Dinode, MAX_LINKS, kind_bits};
use vfs::{Depends, FileKind, Sequence};

use super::{BEHIND_NAMES, Flight, GIVING_BACK, REPLACING, REVEALING, Until, Wait};
use crate::buffer::{Buffer, Role};
use crate::edit::{Extent, entry_at};
use crate::item::{Intent, Subject};
use crate::planted::{Bug, is_planted};
use crate::policy::in_place::Pending;
use crate::policy::{Staged, StagedUpdate};

/// The rank of added links.
const LINKING: usize = 1;

/// An effect of an Update in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fact {
    /// Added a name of this inode.
    Named(u64),
    /// This inode begins with it.
    Begun(u64),
    /// This directory grew, or moved.
    Grown(u64),
    /// An entry was moved out of this directory.
    MovedOut(u64),
    /// This inode lost a name.
    Dropped(u64),
}

/// Block address and byte offset of an entry.
type Place = (u64, usize);

/// The facts of one Update, and the entries in which it added names.
#[derive(Debug, Default)]
pub(super) struct Names {
    facts: Vec<Fact>,
    places: Vec<Place>,
    /// Inodes to which it adds names that were not cancelled.
    adding: Vec<u64>,
}

impl Names {
    /// Whether the Update added a name of this inode.
    pub(super) fn has_named(&self, ino: u64) -> bool {
        self.facts.contains(&Fact::Named(ino))
    }
}

/// See the module's prose. Each list has the Updates in order.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Updates that added names which still exist.
    named: Table,
    /// The Update that added the current name of an entry, and the named inode.
    standing: BTreeMap<Place, (u64, u64)>,
    begun: Table,
    grown: Table,
    moved_out: Table,
    dropped: Table,
    /// Number of uncancelled names that are being added, by inode.
    adding: BTreeMap<u64, u32>,
}

/// Updates by the inode that they are about.
#[derive(Debug, Default)]
struct Table(BTreeMap<u64, Vec<u64>>);

impl Table {
    fn of(&self, ino: u64) -> &[u64] {
        self.0.get(&ino).map_or(&[], Vec::as_slice)
    }

    fn last(&self, ino: u64) -> Option<u64> {
        self.of(ino).last().copied()
    }

    fn add(&mut self, ino: u64, sequence: u64) {
        let of = self.0.entry(ino).or_default();
        if of.last() != Some(&sequence) {
            of.push(sequence);
        }
    }

    fn remove(&mut self, ino: u64, sequence: u64) {
        if let Some(of) = self.0.get_mut(&ino) {
            of.retain(|&one| one != sequence);
            if of.is_empty() {
                self.0.remove(&ino);
            }
        }
    }
}

impl Facts {
    fn table(&mut self, fact: Fact) -> (&mut Table, u64) {
        match fact {
            Fact::Named(ino) => (&mut self.named, ino),
            Fact::Begun(ino) => (&mut self.begun, ino),
            Fact::Grown(ino) => (&mut self.grown, ino),
            Fact::MovedOut(ino) => (&mut self.moved_out, ino),
            Fact::Dropped(ino) => (&mut self.dropped, ino),
        }
    }

    /// An Update is durable.
    pub(super) fn forget(&mut self, sequence: u64, names: &Names) {
        for place in &names.places {
            if self.standing.get(place).is_some_and(|&(by, _)| by == sequence) {
                self.standing.remove(place);
            }
        }
        for &fact in &names.facts {
            let (table, ino) = self.table(fact);
            table.remove(ino, sequence);
        }
        names.adding.iter().for_each(|&ino| self.add_one_less(ino));
    }

    /// A name that an Update adds to an inode was cancelled.
    pub(super) fn cancel_name(&mut self, names: &mut Names, ino: u64) {
        if let Some(at) = names.adding.iter().position(|&one| one == ino) {
            names.adding.swap_remove(at);
            self.add_one_less(ino);
        }
    }

    fn add_one_less(&mut self, ino: u64) {
        if let Entry::Occupied(mut adding) = self.adding.entry(ino) {
            *adding.get_mut() -= 1;
            if *adding.get() == 0 {
                adding.remove();
            }
        }
    }

    /// A file has left no trace: no Update waits for changes of its inode.
    pub(super) fn forget_inode(&mut self, ino: u64) {
        self.begun.0.remove(&ino);
        self.dropped.0.remove(&ino);
    }

    /// Whether an Update that is not durable adds a name of this inode.
    pub(super) fn adds_name(&self, ino: u64) -> bool {
        self.adding.contains_key(&ino)
    }

    /// Adds the waits of an Update, and notes its facts.
    pub(super) fn note(&mut self, sequence: u64, update: &StagedUpdate, flight: &mut Flight) {
        let adds_name = update.items.iter().any(|item| added(item).is_some());
        for item in &update.items {
            self.note_inode(update, item, flight);
            if let Some((directory, target)) = added(item) {
                self.note_added(directory, target, flight);
            }
            if let (Intent::ParentRetargeted, Subject::Entry { directory, .. }) =
                (item.intent, item.subject)
            {
                flight.hangs_on.extend(self.grown.last(directory));
            }
        }
        if adds_name && !is_planted(Bug::EarlyDrops) {
            let hangs_on = flight.hangs_on.iter();
            let waits = hangs_on.map(|&on| Wait { from: REPLACING, on, until: Until::Hung });
            flight.waits.extend(waits);
        }
        for item in &update.items {
            if let Some((directory, gone)) = taken_away(item) {
                self.note_fallen(item);
                // The name that the Update adds is one that the file keeps.
                let is_moved =
                    update.items.iter().any(|item| added(item).is_some_and(|(_, of)| of == gone));
                let is_last = links_after(update, gone) == Some(0);
                let keeps = if is_moved || is_last { &[] } else { self.named.of(gone) };
                self.note_taken_away((directory, gone), adds_name, keeps, flight);
            }
        }
        for &fact in &flight.names.facts {
            let (table, ino) = self.table(fact);
            table.add(ino, sequence);
        }
        for item in &update.items {
            if let (Some((_, target)), Some(place)) = (added(item), place_of(item)) {
                self.standing.insert(place, (sequence, target));
                flight.names.places.push(place);
                *self.adding.entry(target).or_default() += 1;
                flight.names.adding.push(target);
            }
        }
        flight.waits.retain(|wait| wait.on != sequence);
        flight.hangs_on.remove(&sequence);
    }

    fn note_inode(&self, update: &StagedUpdate, item: &Staged, flight: &mut Flight) {
        let Subject::Inode { ino } = item.subject else { return };
        let facts = &mut flight.names.facts;
        match item.intent {
            Intent::InodeInitialised => facts.push(Fact::Begun(ino)),
            Intent::SizeSet => facts.push(Fact::Grown(ino)),
            Intent::LinkDropped => facts.push(Fact::Dropped(ino)),
            Intent::SizeCleared if !is_planted(Bug::EarlyInodeClears) => {
                let until = Until::Dropped;
                let from = BEHIND_NAMES;
                let waits = self.dropped.of(ino).iter().map(|&on| Wait { from, on, until });
                flight.waits.extend(waits);
            }
            // While a dropped link is undone in a copy, the count there is higher.
            Intent::LinkAdded
                if links(item) + drops(update, ino) + self.dropped.of(ino).len()
                    > MAX_LINKS as usize =>
            {
                let (from, until) = (LINKING, Until::Done);
                let waits = self.dropped.of(ino).iter().map(|&on| Wait { from, on, until });
                flight.waits.extend(waits);
            }
            _ => {}
        }
    }

    /// A name is gone: it is no longer one that its file keeps.
    fn note_fallen(&mut self, item: &Staged) {
        let fallen = place_of(item).and_then(|place| self.standing.remove(&place));
        if let Some((by, of)) = fallen {
            self.named.remove(of, by);
        }
    }

    /// A name of `target` appears in `directory`.
    fn note_added(&self, directory: u64, target: u64, flight: &mut Flight) {
        if let Some(on) = self.begun.last(target) {
            flight.waits.push(Wait { from: REVEALING, on, until: Until::Prepared });
        }
        if !is_planted(Bug::LooseNames) {
            flight.hangs_on.extend(self.named.last(directory));
        }
        // A change that makes a directory longer hangs on the previous one.
        flight.hangs_on.extend(self.grown.last(directory));
        flight.names.facts.push(Fact::Named(target));
    }

    /// A name of `gone` goes from `directory`, or is retargeted. The Update may also add a name,
    /// and the file may keep names that other Updates added.
    fn note_taken_away(
        &self,
        (directory, gone): (u64, u64),
        adds_name: bool,
        keeps: &[u64],
        flight: &mut Flight,
    ) {
        let hung = |&on: &u64| Wait { from: REPLACING, on, until: Until::Hung };
        if !is_planted(Bug::EarlyDrops) {
            flight.waits.extend(keeps.iter().map(hung));
            flight.hangs_on.extend(keeps);
        }
        if !is_planted(Bug::EmptiedEarly) {
            flight.waits.extend(self.moved_out.of(gone).iter().map(hung));
            flight.hangs_on.extend(self.moved_out.of(gone));
        }
        // The drop is visible when the directory covers the entry.
        let grown = self.grown.last(directory);
        let shown = |on| Wait { from: BEHIND_NAMES, on, until: Until::Hung };
        if !is_planted(Bug::UnshownDrops) {
            flight.waits.extend(grown.map(shown));
        }
        flight.hangs_on.extend(grown);
        let owes = adds_name || !keeps.is_empty() || !self.moved_out.of(gone).is_empty();
        if owes {
            flight.names.facts.push(Fact::MovedOut(directory));
        }
    }
}

/// The entry that the item changes.
fn place_of(item: &Staged) -> Option<Place> {
    item.entry_place().map(|(buffer, offset)| (buffer.address(), offset))
}

/// The directory and the inode of a name that the item adds.
pub(super) fn added(item: &Staged) -> Option<(u64, u64)> {
    match (item.intent, item.subject) {
        (
            Intent::EntryAdded | Intent::EntryRetargeted,
            Subject::Entry { directory, target: Some(target) },
        ) => Some((directory, target)),
        _ => None,
    }
}

/// Whether an entry names an object other than a directory.
pub(super) fn is_file(item: &Staged) -> bool {
    let kind = |(buffer, offset): (&Rc<Buffer>, _)| buffer.read(|image| entry_at(image, offset).1);
    item.entry_place().map(kind).is_some_and(|kind| kind != kind_bits(FileKind::Directory))
}

/// The directory and the inode of a name that the item removes.
fn taken_away(item: &Staged) -> Option<(u64, u64)> {
    match (item.intent, item.subject) {
        (Intent::EntryDropped | Intent::EntryRetargeted, Subject::Entry { directory, .. }) => {
            Some((directory, item.named_before()))
        }
        _ => None,
    }
}

/// The inode of a file that the Update frees in one step.
pub(super) fn ended(update: &StagedUpdate) -> Option<u64> {
    update.items.iter().find_map(|item| match (item.intent, item.subject, &item.change) {
        (Intent::SizeCleared, Subject::Inode { ino }, Some((buffer, Extent::Bytes(bytes)))) => {
            buffer.read(|image| Dinode::at(image, bytes.start).is_free()).then_some(ino)
        }
        _ => None,
    })
}

/// Fields that an Update changes which ends a file, except names and attributes of other files:
/// buffers by address, with ranges of bits.
pub(super) fn fields_of(
    update: &StagedUpdate,
    ended: u64,
) -> BTreeMap<u64, (Rc<Buffer>, Vec<Range<usize>>)> {
    let mut all: BTreeMap<u64, (Rc<Buffer>, Vec<Range<usize>>)> = BTreeMap::new();
    for item in &update.items {
        let Some((buffer, extent)) = &item.change else { continue };
        let field = match (item.intent, extent) {
            (Intent::SizeCleared, Extent::Bytes(bytes))
                if item.subject == (Subject::Inode { ino: ended }) =>
            {
                bytes.start * 8..bytes.end * 8
            }
            (Intent::MapGivenBack, &Extent::Bits { map, first, count, .. }) => {
                map * 8 + first..map * 8 + first + count
            }
            _ => continue,
        };
        let of = all.entry(buffer.address()).or_insert_with(|| (buffer.clone(), Vec::new()));
        of.1.push(field);
    }
    all
}

/// The link count of an inode that the item changes.
fn links(item: &Staged) -> usize {
    match &item.change {
        Some((buffer, Extent::Bytes(bytes))) => {
            let links = buffer.read(|image| Dinode::at(image, bytes.start).links.get());
            usize::from(links)
        }
        _ => 0,
    }
}

/// Number of links of an inode that the Update drops.
fn drops(update: &StagedUpdate, ino: u64) -> usize {
    let subject = Subject::Inode { ino };
    let dropped = |item: &&Staged| item.intent == Intent::LinkDropped && item.subject == subject;
    update.items.iter().filter(dropped).count()
}

/// The link count of an inode after an Update, if the Update changes it.
fn links_after(update: &StagedUpdate, ino: u64) -> Option<usize> {
    let mut about = update.items.iter().filter(|item| item.subject == Subject::Inode { ino });
    about.next().map(links)
}

impl Flight {
    /// The whole Update waits for these.
    pub(super) fn rest_on(&mut self, changes: &Depends) {
        if is_planted(Bug::LooseUpdates) {
            return;
        }
        let through = changes.all_through().0;
        if through > 0 {
            self.waits.push(Wait { from: 0, on: through, until: Until::DoneThrough });
        }
        let each = changes.each().iter();
        self.waits.extend(each.map(|on| Wait { from: 0, on: on.0, until: Until::Done }));
    }

    /// An inode lands after each earlier change of it that holds it up in its buffer.
    pub(super) fn stand_on(&mut self, own: Sequence, update: &StagedUpdate) {
        for item in &update.items {
            let Some((buffer, _)) = &item.change else { continue };
            if buffer.role() == Role::Inodes {
                self.follows.extend(buffer.stands_on(own).into_iter().map(|before| before.0));
            }
        }
        self.stands_on_others = !self.follows.is_empty(); // entries are not noted yet
    }

    /// A directory run moves when all Updates that changed it are durable.
    pub(super) fn come_after(&mut self, own: Sequence, update: &StagedUpdate) {
        for run in update.moved.iter().filter(|_| !is_planted(Bug::LooseRuns)) {
            let others = run.sequences().into_iter().filter(|&on| on != own);
            self.waits.extend(others.map(|on| Wait { from: 0, on: on.0, until: Until::Done }));
        }
    }

    /// Freed bits of metadata land when all Updates that changed it are durable.
    pub(super) fn outlive(&mut self, own: Sequence, update: &StagedUpdate, pending: &Pending) {
        for &(address, count) in &update.freed {
            for (_, buffer) in pending.range(address..address + count) {
                let others = buffer.sequences().into_iter().filter(|&on| on != own);
                let until = Until::Done;
                self.waits.extend(others.map(|on| Wait { from: GIVING_BACK, on: on.0, until }));
            }
        }
    }
}
