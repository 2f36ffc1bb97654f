//! What a snapshot holds: on the platter, and for readers.
//!
//! A tree of the platter is shared by all that have it; its blocks are those of the live tree until
//! that has others. What snapshots hold takes nothing of the room that is counted.
//!
//! Invariant: a tree does not change, but for files that go when it is being deleted.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use vfs::{Snapshot, SnapshotNumber, SnapshotUsage, Timestamp};
use vnode::FoundSnapshots;

use crate::body::Body;
use crate::inode::BLOCK;
use crate::record::Stored;

/// Files that go with one step of a deletion.
const FILES_PER_STEP: usize = 16;

/// Files by their numbers.
pub(crate) type Tree = BTreeMap<u64, Stored>;

/// A snapshot on the platter.
#[derive(Clone, Debug)]
pub(crate) struct Pinned {
    pub(crate) snapshot: Snapshot,
    pub(crate) tree: Rc<Tree>,
    pub(crate) freed_bytes: u64,
}

/// All snapshots of a platter.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllPinned {
    pub(crate) each: BTreeMap<SnapshotNumber, Pinned>,
    pub(crate) last: SnapshotNumber,
    pub(crate) changed: Timestamp,
}

impl AllPinned {
    /// What is told of them to an engine that begins.
    pub(crate) fn found(&self) -> FoundSnapshots {
        let all = self.each.values().map(|pinned| pinned.snapshot.clone()).collect();
        FoundSnapshots { all, last: self.last, changed: self.changed }
    }
}

/// The files that the next step of a deletion takes: all up to this number; none if no more are
/// left behind it.
pub(crate) fn next_step(tree: &Tree) -> Option<u64> {
    tree.keys().nth(FILES_PER_STEP).map(|&first_left| first_left - 1)
}

/// A tree without its files up to this number.
pub(crate) fn without(tree: &Rc<Tree>, through: u64) -> Rc<Tree> {
    Rc::new(tree.range(through + 1..).map(|(&ino, file)| (ino, file.clone())).collect())
}

/// Where a block stands, and what it is: two trees share it if both are the same.
fn blocks(tree: &Tree) -> impl Iterator<Item = (u64, u64, usize)> {
    let of = |ino, (&lbn, data): (&u64, &Bytes)| (ino, lbn, data.as_ptr() as usize);
    tree.iter().flat_map(move |(&ino, file)| file.blocks.iter().map(move |block| of(ino, block)))
}

/// What the snapshot of this number takes, beside all others and the live tree.
pub(crate) fn usage(all: &AllPinned, live: &Tree, number: SnapshotNumber) -> SnapshotUsage {
    let Some(pinned) = all.each.get(&number) else { return SnapshotUsage::default() };
    let others = all.each.iter().filter(|(other, _)| **other != number);
    let others = others.flat_map(|(_, other)| blocks(&other.tree));
    let elsewhere: BTreeSet<_> = others.chain(blocks(live)).collect();
    let (mut referenced, mut unique) = (0, 0);
    for block in blocks(&pinned.tree) {
        referenced += BLOCK;
        unique += if elsewhere.contains(&block) { 0 } else { BLOCK };
    }
    let freed_bytes = pinned.freed_bytes;
    SnapshotUsage { referenced_bytes: referenced, unique_bytes: unique, freed_bytes }
}

/// A tree as readers see it, made when one of them wants it.
pub(crate) struct Bodies(RefCell<BTreeMap<(SnapshotNumber, u64), Body>>);

impl Bodies {
    pub(crate) fn new() -> Self {
        Self(RefCell::default())
    }

    /// Looks at a file of a tree, if it has that.
    pub(crate) fn look<T>(
        &self,
        (number, tree): (SnapshotNumber, &Tree),
        ino: u64,
        look: impl FnOnce(&Body) -> T,
    ) -> Option<T> {
        let stored = tree.get(&ino)?;
        let mut bodies = self.0.borrow_mut();
        Some(look(bodies.entry((number, ino)).or_insert_with(|| Body::of(stored))))
    }

    /// Forgets a tree.
    pub(crate) fn forget(&self, number: SnapshotNumber) {
        self.0.borrow_mut().retain(|(of, _), _| *of != number);
    }
}
