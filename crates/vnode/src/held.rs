//! The snapshots of a volume, and the files in them that are in use.
//!
//! Invariants:
//! 1. Numbers of snapshots rise: none is given away twice. No two snapshots that exist have file
//!    ids in common ([`SnapshotNumber::behind`]).
//! 2. No two snapshots that are found have the same name.
//! 3. A file of a snapshot is in memory only while the snapshot is found; when it is deleted, the
//!    file is dead for every task that has it, and is kept aside until none of these reads it.
//! 4. Clients find a snapshot when the change that made it is durable, and not before: after a
//!    crash its number is given away again. A reply that lists snapshots, or says that one is gone,
//!    waits for all changes of the set.
//! 5. Each change of the set has a later time than those before, whatever the clock says; and
//!    clients see a later time whenever they find other snapshots.
//!
//! Not asserted: 4, which the namespace asserts for all that a reply shows.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

use cache::Meter;
use runtime::sync::Lock;
use vfs::{
    Depends, FsError, Ino, Name, ObjectId, Sequence, Snapshot, SnapshotNumber, SnapshotState,
    Timestamp,
};

use crate::horizon::Horizon;
use crate::planted::{Bug, is_planted};
use crate::vnode::{Facts, Vnode};

/// Files of snapshots kept in memory, in use or not, before idle ones are forgotten.
const MOST_HELD: usize = 4096;

/// The snapshots that a volume had when it was opened.
#[derive(Clone, Debug, Default)]
pub struct FoundSnapshots {
    /// All snapshots, including those that are being deleted, in the order of their numbers.
    pub all: Vec<Snapshot>,
    /// The largest number that was ever given away; that of the live tree if none was.
    pub last: SnapshotNumber,
    /// Time at which a snapshot was made or deleted last.
    pub changed: Timestamp,
}

/// A snapshot, and the change that made it, if that may not be durable.
struct Known {
    snapshot: Snapshot,
    pinned_by: Depends,
}

/// All snapshots. A lookup or a step of a listing costs the logarithm of their number.
#[derive(Default)]
struct Records {
    all: BTreeMap<SnapshotNumber, Known>,
    /// Snapshots that are not being deleted.
    ready: BTreeSet<SnapshotNumber>,
    /// The same by name (invariant 2).
    names: BTreeMap<Name, SnapshotNumber>,
    /// Snapshots whose making may not be durable.
    open: BTreeSet<SnapshotNumber>,
}

impl Records {
    /// Adds a snapshot that was made by this change, which may not be durable.
    fn insert(&mut self, snapshot: Snapshot, pinned_by: Depends) {
        let number = snapshot.number;
        if is_found(&snapshot) {
            self.ready.insert(number);
            self.names.entry(snapshot.name.clone()).or_insert(number);
        }
        self.open.insert(number);
        self.all.insert(number, Known { snapshot, pinned_by });
    }

    /// Marks a snapshot as being deleted: it is found no more.
    fn set_deleting(&mut self, number: SnapshotNumber) {
        let Some(known) = self.all.get_mut(&number) else { return };
        let name = &known.snapshot.name;
        if self.ready.remove(&number) && self.names.get(name) == Some(&number) {
            self.names.remove(name);
        }
        known.snapshot.state = SnapshotState::Deleting;
    }

    /// Removes a snapshot that is freed completely.
    fn remove(&mut self, number: SnapshotNumber) {
        self.set_deleting(number);
        self.open.remove(&number);
        self.all.remove(&number);
    }

    /// Notes the snapshots whose making is durable now.
    fn settle(&mut self, is_durable: impl Fn(&Depends) -> bool) {
        let all = &mut self.all;
        self.open.retain(|number| {
            let Some(known) = all.get_mut(number) else { return false };
            let is_open = !is_durable(&known.pinned_by);
            if !is_open {
                known.pinned_by = Depends::NOTHING;
            }
            is_open
        });
    }
}

/// Files of snapshots, by snapshot and inode number.
type Held<I> = BTreeMap<(SnapshotNumber, u64), Rc<Vnode<I>>>;

/// See the module's prose.
pub(crate) struct Book<I> {
    records: RefCell<Records>,
    last: Cell<SnapshotNumber>,
    changed: Cell<Timestamp>,
    changes: Cell<Depends>,
    horizon: Horizon,
    files: RefCell<Held<I>>,
    /// Files of deleted snapshots that tasks had then.
    dead: RefCell<Vec<Rc<Vnode<I>>>>,
    /// Files that there may be before some are forgotten.
    most: Cell<usize>,
    memory: Meter,
    /// Held by the verb that changes the set of snapshots, or by a stop, behind which none begins.
    pub(crate) changing: Lock,
}

impl<I: Facts> Book<I> {
    pub(crate) fn new(found: FoundSnapshots, horizon: Horizon, memory: Meter) -> Self {
        let mut records = Records::default();
        found.all.into_iter().for_each(|one| records.insert(one, Depends::NOTHING));
        Self {
            records: RefCell::new(records),
            last: Cell::new(found.last),
            changed: Cell::new(found.changed),
            changes: Cell::default(),
            horizon,
            files: RefCell::default(),
            dead: RefCell::default(),
            most: Cell::new(MOST_HELD),
            memory,
            changing: Lock::default(),
        }
    }

    /// All snapshots.
    pub(crate) fn all(&self) -> Vec<Snapshot> {
        self.records.borrow().all.values().map(|known| known.snapshot.clone()).collect()
    }

    /// The time for a change of the set. Clients may not find some snapshots yet, and this change
    /// may add to these; the times that they see meanwhile are still later than those that they saw
    /// before (invariant 5).
    pub(crate) fn time_of_change(&self, now: Timestamp) -> Timestamp {
        self.settle();
        let open = self.records.borrow().open.len();
        now.max(shifted(self.changed.get(), open as i64 + 2))
    }

    /// The number of snapshots that clients find, and the change time that they see.
    pub(crate) fn shown(&self) -> (usize, Timestamp) {
        self.settle();
        let records = self.records.borrow();
        let open = records.open.intersection(&records.ready).count();
        (records.ready.len() - open, shifted(self.changed.get(), -(open as i64)))
    }

    /// The first snapshot that clients find with a number larger than `number`, and its name.
    pub(crate) fn shown_behind(&self, number: SnapshotNumber) -> Option<(SnapshotNumber, Name)> {
        let records = self.records.borrow();
        let behind = records.ready.range((Bound::Excluded(number), Bound::Unbounded));
        let mut shown = behind.filter_map(|number| records.all.get(number));
        let Known { snapshot, .. } = shown.find(|known| self.is_durable(&known.pinned_by))?;
        Some((snapshot.number, snapshot.name.clone()))
    }

    /// The number of the snapshot that clients find by this name.
    pub(crate) fn shown_named(&self, name: &Name) -> Option<SnapshotNumber> {
        let number = *self.records.borrow().names.get(name)?;
        self.check_shown(number).is_ok().then_some(number)
    }

    fn settle(&self) {
        self.records.borrow_mut().settle(|pinned_by| self.is_durable(pinned_by));
    }

    fn is_durable(&self, pinned_by: &Depends) -> bool {
        self.horizon.has_all(pinned_by) || is_planted(Bug::UnwaitedPins)
    }

    /// All changes of the set that may not be durable (invariant 4).
    pub(crate) fn changes(&self) -> Depends {
        if is_planted(Bug::UnwaitedPins) { Depends::NOTHING } else { self.changes.get() }
    }

    /// The snapshot that is found by this name, if there is one.
    pub(crate) fn find(&self, name: &Name) -> Option<Snapshot> {
        let records = self.records.borrow();
        let number = records.names.get(name)?;
        records.all.get(number).map(|known| known.snapshot.clone())
    }

    /// The snapshot of this number, if it is being deleted.
    pub(crate) fn deleting(&self, number: SnapshotNumber) -> Option<Snapshot> {
        let records = self.records.borrow();
        let known = records.all.get(&number).filter(|known| !is_found(&known.snapshot));
        known.map(|known| known.snapshot.clone())
    }

    /// The number for the next snapshot.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] when there is none.
    pub(crate) fn next(&self) -> Result<SnapshotNumber, FsError> {
        self.last.get().behind(self.records.borrow().all.keys().copied())
    }

    /// [`FsError::Stale`] unless clients find the snapshot of this number.
    pub(crate) fn check_shown(&self, number: SnapshotNumber) -> Result<(), FsError> {
        let records = self.records.borrow();
        let found = records.all.get(&number).filter(|known| is_found(&known.snapshot));
        let shown = found.filter(|known| self.is_durable(&known.pinned_by));
        shown.map(|_| ()).ok_or(FsError::Stale)
    }

    /// Adds a snapshot that this change made.
    pub(crate) fn pinned(&self, snapshot: Snapshot, by: Depends) {
        assert!(snapshot.number > self.last.get(), "invariant 1: a number is given away once");
        let id = |number| ObjectId::live(Ino(0), 0).within(number).file_id();
        let is_other = |&number: &SnapshotNumber| id(number) != id(snapshot.number);
        let are_own = self.records.borrow().all.keys().all(is_other);
        assert!(are_own, "invariant 1: its file ids are its own");
        assert!(self.find(&snapshot.name).is_none(), "invariant 2: its name was not found");
        self.last.set(snapshot.number);
        self.note(snapshot.created, by);
        self.records.borrow_mut().insert(snapshot, by);
    }

    /// A snapshot is found no more since this change. Tasks may have files of it.
    pub(crate) fn deleted(&self, number: SnapshotNumber, at: Timestamp, by: Depends) {
        self.note(at, by);
        if is_planted(Bug::LastingSnapshots) {
            return;
        }
        self.records.borrow_mut().set_deleting(number);
        let mut files = self.files.borrow_mut();
        let all = files.range((number, 0)..=(number, u64::MAX));
        let dead: Vec<Rc<Vnode<I>>> = all.map(|(_, file)| file.clone()).collect();
        for file in &dead {
            file.die();
            files.remove(&(number, file.ino));
            self.memory.subtract(size_of::<Vnode<I>>());
        }
        let is_left = files.range((number, 0)..=(number, u64::MAX)).next().is_some();
        assert!(!is_left, "invariant 3: no file of a deleted snapshot is in memory");
        self.dead.borrow_mut().extend(dead.into_iter().filter(|file| Rc::strong_count(file) > 1));
    }

    /// Waits until no task reads a file of a deleted snapshot. A caller that was dropped and calls
    /// again waits for the rest.
    pub(crate) async fn left_by_readers(&self, number: SnapshotNumber) {
        loop {
            let next = self.dead.borrow().iter().find(|file| file.tree == number).cloned();
            let Some(file) = next else { return };
            drop(file.lock.exclusive().await);
            self.dead.borrow_mut().retain(|other| !Rc::ptr_eq(other, &file));
        }
    }

    /// A snapshot is freed completely since this change.
    pub(crate) fn ended(&self, number: SnapshotNumber, by: Depends) {
        self.note_change(&by);
        self.records.borrow_mut().remove(number);
    }

    fn note(&self, at: Timestamp, by: Depends) {
        assert!(at > self.changed.get(), "invariant 5: the times of changes rise");
        self.changed.set(at);
        self.note_change(&by);
    }

    fn note_change(&self, by: &Depends) {
        let mut changes = self.changes.get();
        changes.join(by);
        self.changes.set(changes);
    }

    /// A file of a snapshot, if it is in memory.
    pub(crate) fn file(&self, number: SnapshotNumber, ino: u64) -> Option<Rc<Vnode<I>>> {
        self.files.borrow().get(&(number, ino)).cloned()
    }

    /// Adds a file of a snapshot to the table.
    pub(crate) fn insert(&self, file: &Rc<Vnode<I>>, durable: Sequence) {
        self.memory.add(size_of::<Vnode<I>>());
        let old = self.files.borrow_mut().insert((file.tree, file.ino), file.clone());
        assert!(old.is_none(), "one vnode for file {} of {:?}", file.ino, file.tree);
        if self.files.borrow().len() > self.most.get() {
            self.forget(durable);
        }
    }

    /// Forgets idle files, and changes that are durable.
    pub(crate) fn forget(&self, durable: Sequence) {
        let mut files = self.files.borrow_mut();
        let before = files.len();
        files.retain(|_, file| Rc::strong_count(file) > 1);
        self.memory.subtract((before - files.len()) * size_of::<Vnode<I>>());
        self.most.set(MOST_HELD.max(2 * files.len()));
        let is_open = |on: &Depends| on.newest() > durable;
        self.records.borrow_mut().settle(|pinned_by| !is_open(pinned_by));
        if !is_open(&self.changes.get()) {
            self.changes.set(Depends::NOTHING);
        }
    }
}

/// Whether a snapshot is found by its name.
pub(crate) fn is_found(snapshot: &Snapshot) -> bool {
    snapshot.state == SnapshotState::Ready
}

/// `time`, moved by this many nanoseconds.
fn shifted(time: Timestamp, nanoseconds: i64) -> Timestamp {
    const SECOND: i64 = 1_000_000_000;
    let all = i64::from(time.nanoseconds).saturating_add(nanoseconds);
    let seconds = time.seconds.saturating_add(all.div_euclid(SECOND));
    Timestamp { seconds, nanoseconds: all.rem_euclid(SECOND) as u32 }
}
