//! The disk: what is durable, and the Updates that are on their way to it.
//!
//! An Update rests on another when they change the same thing: an inode, or what stands at one
//! place of a directory. Names of a directory that come and go do not rest on each other, though
//! each changes its times: of these the latest counts. All of them rest on the last change of the
//! directory that is more than that, and the next such change rests on all of them. What makes a
//! snapshot rests on all before it. An Update rests besides on what its planner says, and on what
//! the answer shows that is remembered with it.
//!
//! Invariants:
//! 1. The platter is closed: what an Update on it rests on is on it.
//! 2. An Update reaches the platter once, as a whole.
//! 3. After a cut, what was on its way belongs to no engine: one of before stages in vain.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use runtime::Timestamp;
use vfs::{Depends, FileKind, FsError};
use vnode::horizon::Horizon;

use crate::inode::Inode;
use crate::planted::{Bug, is_planted};
pub use crate::record::Platter;
use crate::record::{Entry, Record};

/// The inode of the root directory.
pub(crate) const ROOT: u64 = 2;

/// See the module's prose.
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
    /// What it rests on, and was not durable then.
    after: BTreeSet<u64>,
    /// It may become durable as soon as that is.
    is_due: bool,
    horizon: Horizon,
}

/// The newest Update that changed something, for whatever rests on it.
#[derive(Default)]
struct Rests {
    inodes: BTreeMap<u64, Touched>,
    /// The last that changed snapshots: these become durable in their order.
    snapshots: u64,
    entries: BTreeMap<(u64, u64), u64>,
}

#[derive(Default)]
struct Touched {
    last: u64,
    /// Those since then that changed names alone.
    names: Vec<u64>,
}

/// What a cut did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Updates that it took: no caller had been told of them.
    pub taken: u64,
    /// Updates that it left, though no caller had been told of them.
    pub kept: u64,
}

impl Disk {
    /// A disk with an empty root directory, and room for so many bytes of data.
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

    /// Blocks that it has room for.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// What would write data, or is a step of what makes a file shorter, fails from now on, or does
    /// no more.
    pub fn refuse(&self, refuses: bool) {
        self.refuses.set(refuses);
    }

    /// The error of what fails.
    pub(crate) fn check(&self) -> Result<(), FsError> {
        if self.refuses.get() { Err(FsError::Io) } else { Ok(()) }
    }

    /// A disk on which nothing is but what another one had.
    pub fn of(bytes: u64, platter: Platter) -> Rc<Self> {
        let blocks = bytes / crate::inode::BLOCK;
        Rc::new(Self { blocks, platter: RefCell::new(platter), ..Self::default() })
    }

    /// How often something happened to it: an Update was staged, or became durable.
    pub fn events(&self) -> u64 {
        self.events.get()
    }

    /// The Updates that are on their way.
    pub fn pending(&self) -> Vec<u64> {
        self.pending.borrow().keys().copied().collect()
    }

    /// What a cut would leave now that keeps, of what is on its way, as much as may be kept of that
    /// for which `keeps` holds.
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

    /// What is durable now.
    pub fn platter(&self) -> Platter {
        self.platter.borrow().clone()
    }

    /// The number of an engine that begins on it now.
    pub(crate) fn begin(&self) -> u64 {
        self.epoch.get()
    }

    /// Takes an Update that is to become durable, and rests on these changes besides. Says whether
    /// the disk is still that of the engine.
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

    /// What an Update rests on that is not durable; from now on others rest on it.
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

    /// Keeps what is known of what rests on what within bounds: nothing rests on what is durable.
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

    /// An Update becomes durable, or will as soon as what it rests on is: it waited its time, or
    /// the holder of the disk says so.
    pub fn make_durable(&self, sequence: u64) {
        self.due(self.epoch.get(), sequence);
    }

    /// The same, unless the power went since the engine of this number began.
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

    /// Sets the access time of a file, which rests on nothing, if the file is there.
    pub(crate) fn touch(&self, epoch: u64, (ino, generation): (u64, u32), time: Timestamp) {
        let mut platter = self.platter.borrow_mut();
        let Some(file) = platter.files.get_mut(&ino) else { return };
        if epoch == self.epoch.get() && file.inode.generation == generation {
            file.inode.atime = time;
        }
    }

    /// The power goes. Of what was on its way, that stays for which `keeps` holds, as far as it is
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
