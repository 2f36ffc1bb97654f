//! Buffer cache of the model: dirty blocks, their changes, and the dependencies of these.
//!
//! Without soft updates a dirty block has no changes: it is written whole, at any time. With soft
//! updates a change lands when the changes that it needs have landed; if its block is written
//! before that, the change is rolled back for the write, and the block stays dirty.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use runtime::Instant;

use super::blocks::Block;

/// Delay before a block is written, by its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ages {
    pub(super) inode: Duration,
    pub(super) directory: Duration,
    pub(super) file: Duration,
}

impl Ages {
    /// "Inodes age in 10 seconds, directories in 15 seconds, files in 30 seconds".
    pub(super) const PAPER: Self = Self {
        inode: Duration::from_secs(10),
        directory: Duration::from_secs(15),
        file: Duration::from_secs(30),
    };

    /// The ages that the paper improves on.
    pub(super) const ALL_THIRTY: Self =
        Self { inode: Self::PAPER.file, directory: Self::PAPER.file, ..Self::PAPER };

    fn of(&self, block: Block) -> Duration {
        match block {
            Block::Map(_) | Block::Inodes(_) => self.inode,
            Block::Entries(..) => self.directory,
            Block::Data(..) => self.file,
        }
    }
}

/// Action when a change has landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Nothing,
    /// The name of this inode is gone: the inode may go, too.
    Empty(u32),
    /// This inode is empty on disk: its bits may be freed.
    Release(u32),
}

/// A change that has not landed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    needs: [u64; 3],
    then: Then,
}

/// Bytes of a change, its number included; compared with 300 KB for 1000 files.
pub(super) const CHANGE_BYTES: usize = size_of::<(u64, Change)>();

struct Dirty {
    due: Instant,
    order: u64,
    changes: Vec<u64>,
}

/// The cache; see the module.
pub(super) struct Cache {
    ages: Ages,
    dirty: BTreeMap<Block, Dirty>,
    changes: HashMap<u64, Change>,
    /// Number of the last change, or of the last time that a block became dirty. 0 stands for none.
    last: u64,
    /// Rolled-back changes: of names, and all others.
    pub(super) rollbacks: [u64; 2],
    pub(super) most_changes: usize,
}

impl Cache {
    pub(super) fn new(ages: Ages) -> Self {
        let (dirty, changes) = (BTreeMap::new(), HashMap::new());
        Self { ages, dirty, changes, last: 0, rollbacks: [0; 2], most_changes: 0 }
    }

    fn entry(&mut self, block: Block, now: Instant) -> &mut Dirty {
        self.last += 1;
        let order = self.last;
        // Maps and inodes age together, as dirty blocks of the disk itself.
        let of_disk = |block: &Block| matches!(block, Block::Map(_) | Block::Inodes(_));
        let first = self.dirty.iter().take_while(|(other, _)| of_disk(other));
        let first = first.map(|(_, dirty)| dirty.due).next();
        let due = first.filter(|due| of_disk(&block) && *due > now);
        let due = due.unwrap_or_else(|| now.after(self.ages.of(block)));
        self.dirty.entry(block).or_insert_with(|| Dirty { due, order, changes: Vec::new() })
    }

    /// Marks a block as dirty.
    pub(super) fn dirty(&mut self, block: Block, now: Instant) {
        self.entry(block, now);
    }

    /// Adds a change to a block. It must not land before the changes that it needs.
    pub(super) fn change(&mut self, block: Block, needs: &[u64], then: Then, now: Instant) -> u64 {
        let mut all = [0; 3];
        all[..needs.len()].copy_from_slice(needs);
        let entry = self.entry(block, now);
        let number = {
            entry.changes.push(0);
            self.last += 1;
            self.last
        };
        let entry = self.dirty.get_mut(&block).expect("it was put there");
        *entry.changes.last_mut().expect("it was put there") = number;
        self.changes.insert(number, Change { needs: all, then });
        self.most_changes = self.most_changes.max(self.changes.len());
        number
    }

    pub(super) fn is_pending(&self, change: u64) -> bool {
        self.changes.contains_key(&change)
    }

    /// Removes a change that is dropped, or has landed; returns its action.
    pub(super) fn forget(&mut self, change: u64) -> Option<Then> {
        self.changes.remove(&change).map(|change| change.then)
    }

    /// Drops a block that is no longer needed; returns its changes.
    pub(super) fn discard(&mut self, block: Block) -> Vec<u64> {
        self.dirty.remove(&block).map_or(Vec::new(), |dirty| dirty.changes)
    }

    /// Takes a block out for writing, with the changes that land; `None` if it is clean.
    pub(super) fn take(&mut self, block: Block, now: Instant) -> Option<Vec<u64>> {
        let dirty = self.dirty.remove(&block)?;
        let waits = |number: &u64| {
            let change = self.changes.get(number);
            change.is_some_and(|change| change.needs.iter().any(|&need| self.is_pending(need)))
        };
        let (held, ready): (Vec<u64>, Vec<u64>) = dirty.changes.into_iter().partition(waits);
        if !held.is_empty() {
            let kind = usize::from(!matches!(block, Block::Entries(..)));
            self.rollbacks[kind] += held.len() as u64;
            self.entry(block, now).changes = held;
        }
        Some(ready)
    }

    /// The blocks that are due, oldest first.
    pub(super) fn due(&self, now: Instant) -> Vec<Block> {
        let due = self.dirty.iter().filter(|(_, dirty)| dirty.due <= now);
        let mut due: Vec<_> = due.map(|(&block, dirty)| (dirty.due, dirty.order, block)).collect();
        due.sort();
        due.into_iter().map(|(_, _, block)| block).collect()
    }

    /// All dirty blocks, in order of their kind.
    pub(super) fn all(&self) -> Vec<Block> {
        self.dirty.keys().copied().collect()
    }
}
