//! Contents of a snapshot: the blocks that it shares with others, the files freed by a step of its
//! deletion, and its files as readers see them. Snapshots do not count against the room of the
//! volume.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use vfs::{SnapshotNumber, SnapshotUsage};

use crate::body::Body;
use crate::inode::BLOCK;
use crate::record::{AllPinned, Tree};

/// Files freed by one step of a deletion.
const FILES_PER_STEP: usize = 16;

/// The last file number that the next step of a deletion frees; `None` if no files are left after
/// it.
pub(crate) fn next_step(tree: &Tree) -> Option<u64> {
    tree.keys().nth(FILES_PER_STEP).map(|&first_left| first_left - 1)
}

/// Address and identity of each block: two trees share it if both are the same.
fn blocks(tree: &Tree) -> impl Iterator<Item = (u64, u64, usize)> {
    let of = |ino, (&lbn, data): (&u64, &Bytes)| (ino, lbn, data.as_ptr() as usize);
    tree.iter().flat_map(move |(&ino, file)| file.blocks.iter().map(move |block| of(ino, block)))
}

/// The space of a snapshot, beside all others and the live tree.
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

/// Files of trees as readers see them, built on the first access.
pub(crate) struct Bodies(RefCell<BTreeMap<(SnapshotNumber, u64), Body>>);

impl Bodies {
    pub(crate) fn new() -> Self {
        Self(RefCell::default())
    }

    /// Runs `look` on a file of a tree, if the tree has it.
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

    /// Drops the files of a tree.
    pub(crate) fn forget(&self, number: SnapshotNumber) {
        self.0.borrow_mut().retain(|(of, _), _| *of != number);
    }
}
