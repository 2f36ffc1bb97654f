//! The table of files in memory, and the eviction of vnodes when memory is short.
//!
//! A vnode may pin the block of its inode, and a directory keeps its names. Both would add up: a
//! block holds a hundred inodes, so that few vnodes of a large volume can pin most of its inode
//! blocks. So the memory that vnodes keep is counted with the engine's blocks, and when these
//! cannot be kept within their budget by themselves, vnodes are forgotten, the least recently used
//! first.
//!
//! One order is enough. 4.4BSD has two lists, so that a vnode by which cached data is found goes
//! last; here data is found by its byte of the disk and stays when its vnode goes, and a vnode with
//! anything pending is on no list at all (invariant 2).
//!
//! Invariants:
//! 1. There is one vnode for an inode number.
//! 2. A vnode is forgotten only when nothing else holds it, everything that changed it is durable,
//!    and no UNSTABLE change is kept in it alone: reading it anew gives the same.
//! 3. Looking for vnodes to forget costs a pass over all of them; it happens again only when there
//!    are an eighth more of them, or a 64th of the budget more is in use.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use cache::Meter;
use cache::hash::NumberMap;
use vfs::Sequence;

use crate::vnode::{Facts, Vnode};

/// Idle vnodes kept in memory.
const IDLE_VNODES: usize = 65_536;

/// See the module's prose.
pub(crate) struct Table<I> {
    table: RefCell<NumberMap<Rc<Vnode<I>>>>,
    tick: Cell<u64>,
    /// Vnodes that there may be before some are forgotten (invariant 3).
    most: Cell<usize>,
    /// Memory of the vnodes and their names.
    pub(crate) memory: Meter,
}

impl<I: Facts> Table<I> {
    pub(crate) fn new(memory: Meter) -> Self {
        Self { table: RefCell::default(), tick: Cell::new(0), most: Cell::new(IDLE_VNODES), memory }
    }

    /// The vnode of an inode, if it is in memory.
    pub(crate) fn find(&self, ino: u64) -> Option<Rc<Vnode<I>>> {
        let node = self.table.borrow().get(&ino).cloned()?;
        self.touch(&node);
        Some(node)
    }

    fn touch(&self, node: &Vnode<I>) {
        node.used.set(self.tick());
    }

    pub(crate) fn insert(&self, node: &Rc<Vnode<I>>) {
        self.touch(node);
        self.memory.add(size_of::<Vnode<I>>());
        let old = self.table.borrow_mut().insert(node.ino, node.clone());
        assert!(old.is_none(), "one vnode for inode {} (invariant 1)", node.ino);
    }

    /// The next tick of the table's clock.
    pub(crate) fn tick(&self) -> u64 {
        self.tick.set(self.tick.get() + 1);
        self.tick.get()
    }

    /// Drops the vnode of an inode that has ended.
    pub(crate) fn remove(&self, ino: u64) {
        if self.table.borrow_mut().remove(&ino).is_some() {
            self.memory.subtract(size_of::<Vnode<I>>());
        }
    }

    pub(crate) fn are_many(&self) -> bool {
        self.table.borrow().len() > self.most.get()
    }

    /// Forgets all idle vnodes but the most recently used: at most half of [`IDLE_VNODES`] stay,
    /// and all of these but the last keep at most `bytes`, so that a directory that is in use and
    /// larger than that stays.
    pub(crate) fn forget(&self, durable: Sequence, bytes: usize) {
        let most = IDLE_VNODES / 2;
        let table = self.table.borrow();
        let mut idle: Vec<(u64, u64)> = table
            .values()
            .filter(|node| Rc::strong_count(node) == 1 && node.volatile().is_none())
            .filter(|node| node.newest() <= durable)
            .map(|node| (node.used.get(), node.ino))
            .collect();
        idle.sort_unstable_by(|one, other| other.cmp(one));
        let (mut pinned, mut kept) = (BTreeSet::new(), 0);
        let staying = idle.iter().take(most).position(|(_, ino)| {
            let node = &table[ino];
            let (block, size) = node.look(Facts::pinned);
            kept += size_of::<Vnode<I>>() + node.names_bytes();
            kept += if pinned.insert(block) { size } else { 0 };
            kept > bytes
        });
        let staying = staying.map_or(most.min(idle.len()), |last| last + 1);
        drop(table);
        for (_, ino) in &idle[staying..] {
            debug_assert!(self.may_forget(*ino, durable), "invariant 2: it would be read the same");
            self.remove(*ino);
        }
        let left = self.table.borrow().len();
        self.most.set(IDLE_VNODES.max(left + left / 8));
        assert!(!self.are_many(), "invariant 3: nobody looks again before there are more");
    }

    /// Whether nothing is lost with the vnode of an inode.
    fn may_forget(&self, ino: u64, durable: Sequence) -> bool {
        self.table.borrow().get(&ino).is_some_and(|node| {
            let is_idle = Rc::strong_count(node) == 1 && node.volatile().is_none();
            is_idle && node.newest() <= durable
        })
    }
}
