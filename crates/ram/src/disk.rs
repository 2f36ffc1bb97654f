//! The disk: its durable contents, and the pending Updates.
//!
//! An Update depends on another when they change the same thing: an inode, or the entry at one
//! place of a directory. Additions and removals of names in a directory do not depend on each
//! other, though each changes its times: of these the latest counts. All of them depend on the last
//! change of the directory that is more than that, and the next such change depends on all of them.
//! The creation of a snapshot depends on all earlier Updates. An Update also depends on the Updates
//! that its planner names, and on those whose effects the answer remembered with it shows.
//!
//! Invariants:
//! 1. The platter is closed: it contains every Update that an Update on it depends on.
//! 2. An Update reaches the platter once, as a whole.
//! 3. After a cut, pending Updates belong to no engine: staging by an earlier engine has no effect.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use runtime::Timestamp;
use vfs::{Depends, FileKind, FsError};
use vnode::chain::{Chain, ChainLink};
use vnode::horizon::Horizon;

use crate::inode::Inode;
use crate::planted::{Bug, is_planted};
pub use crate::record::Platter;
use crate::record::{Entry, Record};

/// The inode of the root directory.
pub(crate) const ROOT: u64 = 2;

/// The disk: see the module.
#[derive(Default)]
pub struct Disk {
    platter: RefCell<Platter>,
    pending: RefCell<BTreeMap<u64, Pending>>,
    rests: RefCell<Rests>,
    /// Cuts so far (invariant 3).
    epoch: Cell<u64>,
    events: Cell<u64>,
    refuses: Cell<bool>,
    blocks: u64,
}

struct Pending {
    records: Vec<Record>,
    /// Updates that it depends on, and that were not durable when it was staged.
    after: BTreeSet<u64>,
    /// It may become durable as soon as those are.
    is_due: bool,
    horizon: Horizon,
}

/// The newest Update that changed each thing, for the dependencies of later ones.
#[derive(Default)]
struct Rests {
    inodes: BTreeMap<u64, Touched>,
    /// The last Update that changed snapshots: these become durable in order.
    snapshots: u64,
    entries: BTreeMap<(u64, u64), u64>,
}

#[derive(Default)]
struct Touched {
    last: u64,
    /// Later Updates that changed names alone.
    names: Vec<u64>,
}

/// The effect of a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Updates that it took: no caller had an answer to them.
    pub taken: u64,
    /// Updates that it left, although no caller had an answer to them.
    pub kept: u64,
}

impl Disk {
    /// A disk with an empty root directory, and room for this many bytes of data.
    pub fn new(bytes: u64, now: Timestamp) -> Rc<Self> {
        let disk = Self { blocks: bytes / crate::inode::BLOCK, ..Self::default() };
        let mut platter = disk.platter.borrow_mut();
        platter.take(Record::Inode(ROOT, Inode::root(now)));
        let names = [(0, &b"."[..]), (directory::chunk::DOT_DOT_OFFSET as u64, &b".."[..])];
        for (at, name) in names {
            let entry = Entry { name: name.into(), ino: ROOT, kind: FileKind::Directory };
            platter.take(Record::Entry(ROOT, at, Some(entry)));
        }
        drop(platter);
        Rc::new(disk)
    }

    /// Capacity in blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Makes every write of data, and every step of a truncation, fail from now on, or succeed
    /// again.
    pub fn refuse(&self, refuses: bool) {
        self.refuses.set(refuses);
    }

    /// The error of a refused operation.
    pub(crate) fn check(&self) -> Result<(), FsError> {
        if self.refuses.get() { Err(FsError::Io) } else { Ok(()) }
    }

    /// A disk with the durable contents of another one.
    pub fn of(bytes: u64, platter: Platter) -> Rc<Self> {
        let blocks = bytes / crate::inode::BLOCK;
        Rc::new(Self { blocks, platter: RefCell::new(platter), ..Self::default() })
    }

    /// Adds a chain to the durable contents, as damage to the file of one leaves it.
    pub fn add_chain(&self, chain: Chain) {
        self.platter.borrow_mut().take(Record::Chain(ChainLink::Begins(chain)));
    }

    /// The open chains of the durable contents.
    pub fn chains(&self) -> Vec<Chain> {
        self.platter.borrow().chains.values().copied().collect()
    }

    /// Number of events: an Update was staged, or became durable.
    pub fn events(&self) -> u64 {
        self.events.get()
    }

    /// The pending Updates.
    pub fn pending(&self) -> Vec<u64> {
        self.pending.borrow().keys().copied().collect()
    }

    /// The contents after a cut now that keeps as many as possible of the pending Updates for which
    /// `keeps` holds.
    pub fn remains(&self, mut keeps: impl FnMut() -> bool) -> (Platter, Cut) {
        let (mut platter, mut cut) = (self.platter(), Cut::default());
        let mut lost = BTreeSet::new();
        for (sequence, update) in &*self.pending.borrow() {
            let is_closed = update.after.iter().all(|before| !lost.contains(before));
            if keeps() && is_closed {
                cut.kept += 1;
                update.records.iter().for_each(|record| platter.take(record.clone()));
            } else {
                cut.taken += 1;
                lost.insert(*sequence);
            }
        }
        (platter, cut)
    }

    /// The durable contents.
    pub fn platter(&self) -> Platter {
        self.platter.borrow().clone()
    }

    /// The epoch of an engine that starts on the disk now.
    pub(crate) fn begin(&self) -> u64 {
        self.epoch.get()
    }

    /// Stages an Update that is to become durable and also depends on these changes. Returns
    /// whether the disk still belongs to the engine.
    pub(crate) fn stage(
        &self,
        epoch: u64,
        sequence: u64,
        (records, rests_on): (Vec<Record>, &Depends),
        horizon: &Horizon,
    ) -> bool {
        if epoch != self.epoch.get() {
            return false;
        }
        let after = self.rest(sequence, &records, rests_on);
        let horizon = horizon.clone();
        if is_planted(Bug::StagedReceipts) {
            horizon.pass(sequence);
        }
        self.events.set(self.events.get() + 1);
        let pending = Pending { records, after, is_due: false, horizon };
        let before = self.pending.borrow_mut().insert(sequence, pending);
        assert!(before.is_none(), "invariant 3: one engine at a time stages");
        true
    }

    /// The pending Updates that an Update depends on; records the Update for later dependencies.
    fn rest(&self, sequence: u64, records: &[Record], rests_on: &Depends) -> BTreeSet<u64> {
        let mut rests = self.rests.borrow_mut();
        let mut after: BTreeSet<u64> = rests_on.each().iter().map(|change| change.0).collect();
        for record in records {
            match record {
                Record::Inode(ino, _)
                | Record::Block(ino, ..)
                | Record::Cut(ino, ..)
                | Record::End(ino) => {
                    let touched = rests.inodes.entry(*ino).or_default();
                    after.insert(touched.last);
                    after.extend(touched.names.drain(..));
                    touched.last = sequence;
                }
                Record::Names(ino, ..) => {
                    let touched = rests.inodes.entry(*ino).or_default();
                    after.insert(touched.last);
                    touched.names.push(sequence);
                }
                Record::Entry(ino, at, _) => {
                    after.extend(rests.entries.insert((*ino, *at), sequence));
                    after.extend(rests.inodes.get(ino).map(|touched| touched.last));
                }
                Record::Pin(..) | Record::Unpin(..) | Record::Thin(..) | Record::RollBack(_) => {
                    after.insert(std::mem::replace(&mut rests.snapshots, sequence));
                }
                Record::Chain(_) | Record::Answer(_) => {}
            }
        }
        let pending = self.pending.borrow();
        after.extend(pending.range(..=rests_on.all_through().0).map(|(&before, _)| before));
        after.retain(|before| *before != sequence && pending.contains_key(before));
        drop(pending);
        self.forget_durable(&mut rests, sequence);
        if is_planted(Bug::NoOrder) { BTreeSet::new() } else { after }
    }

    /// Bounds the records of dependencies: no Update needs to depend on a durable one.
    fn forget_durable(&self, rests: &mut Rests, newest: u64) {
        let pending = self.pending.borrow();
        if rests.inodes.len() + rests.entries.len() <= 4 * pending.len() + 64 {
            return;
        }
        let may_be_lost = |one: &u64| *one == newest || pending.contains_key(one);
        rests.entries.retain(|_, last| may_be_lost(last));
        rests.inodes.retain(|_, touched| {
            touched.names.retain(may_be_lost);
            may_be_lost(&touched.last) || !touched.names.is_empty()
        });
    }

    /// Makes an Update durable, or lets it become durable as soon as its dependencies are: its
    /// delay is over, or the holder of the disk orders it.
    pub fn make_durable(&self, sequence: u64) {
        self.due(self.epoch.get(), sequence);
    }

    /// The same, unless there was a cut since the engine of this epoch started.
    pub(crate) fn due(&self, epoch: u64, sequence: u64) {
        if epoch != self.epoch.get() {
            return;
        }
        if let Some(pending) = self.pending.borrow_mut().get_mut(&sequence) {
            pending.is_due = true;
        }
        while let Some(next) = self.next_due() {
            self.pass(next);
        }
    }

    fn next_due(&self) -> Option<u64> {
        let pending = self.pending.borrow();
        let may =
            |update: &Pending| update.after.iter().all(|before| !pending.contains_key(before));
        let next = pending.iter().find(|(_, update)| update.is_due && may(update));
        next.map(|(&sequence, _)| sequence)
    }

    /// The commit point: an Update is durable.
    fn pass(&self, sequence: u64) {
        let update = self.pending.borrow_mut().remove(&sequence);
        let update = update.expect("invariant 2: an Update is due once");
        let is_closed = !update.after.iter().any(|one| self.pending.borrow().contains_key(one));
        assert!(is_closed, "invariant 1: what an Update rests on is durable before it");
        self.events.set(self.events.get() + 1);
        let mut platter = self.platter.borrow_mut();
        update.records.into_iter().for_each(|record| platter.take(record));
        drop(platter);
        if !is_planted(Bug::StagedReceipts) {
            update.horizon.pass(sequence);
        }
    }

    /// Sets the access time of a file, which depends on nothing, if the file exists.
    pub(crate) fn touch(&self, epoch: u64, (ino, generation): (u64, u32), time: Timestamp) {
        let mut platter = self.platter.borrow_mut();
        let Some(file) = platter.files.get_mut(&ino) else { return };
        if epoch == self.epoch.get() && file.inode.generation == generation {
            file.inode.atime = time;
        }
    }

    /// A power cut. Pending Updates survive if `keeps` holds for them, as far as the result is
    /// closed.
    pub fn cut(&self, keeps: impl FnMut() -> bool) -> Cut {
        let (platter, cut) = self.remains(keeps);
        self.platter.replace(platter);
        self.epoch.set(self.epoch.get() + 1);
        self.rests.take();
        self.pending.take().into_values().for_each(|update| update.horizon.fail());
        cut
    }
}
