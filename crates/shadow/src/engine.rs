//! The engine: what it consists of, and room for what it is asked for.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use cache::{Budget, DataPath};
use runtime::Runtime;
use runtime::sync::Signal;
use vfs::{FsError, FsStat};
use vnode::{Limits, Space as Kind, Vnode};

use crate::commit::{Commits, Counts};
use crate::format::inode::Record;
use crate::format::{FIRST, INODES, UNIT};
use crate::inode::Inode;
use crate::nodes::{Node, Nodes, Stem};
use crate::space::Space;
use crate::update::{Promised, Update};

/// A file of this engine, in memory.
pub(crate) type File = Rc<Vnode<Inode>>;

/// Blocks of one file that one Update frees at most, so that large files take several.
pub(crate) const BLOCKS_PER_UPDATE: usize = 256;
/// Links that a file may have.
pub(crate) const MOST_LINKS: u32 = 32_767;
/// Inode numbers end here: an entry of a directory has 32 bits for one.
const LAST_INO: u64 = u32::MAX as u64;

/// See the crate's prose.
pub struct Shadow {
    pub(crate) runtime: Runtime,
    pub(crate) limits: Limits,
    pub(crate) budget: Rc<Budget>,
    pub(crate) path: Rc<DataPath>,
    pub(crate) nodes: Rc<Nodes>,
    pub(crate) space: Rc<Space>,
    pub(crate) commits: Rc<Commits>,
    pub(crate) promised: Rc<Promised>,
    /// The sequence of the next change.
    pub(crate) next: Cell<u64>,
    /// Numbers of files whose end is not durable.
    pub(crate) leaving: RefCell<BTreeSet<u64>>,
    /// Units that changes free that are not durable.
    pub(crate) leaving_units: Cell<u64>,
    /// Blocks of inodes that have access times which no Update carries.
    pub(crate) touched: RefCell<Vec<Rc<Node>>>,
    /// For a bug that tests plant: the answer of the change before.
    pub(crate) late_answer: RefCell<Option<Rc<[u8]>>>,
    /// The block of inodes that new files get numbers of.
    pub(crate) hint: Cell<u64>,
    /// Blocks of inodes that went because they were empty.
    pub(crate) vacant: RefCell<BTreeSet<u64>>,
    /// Whether a stop leaves the device open.
    pub(crate) keeps_device: bool,
}

/// Files that have room in so many bytes where there are so many: any unit may become a block of
/// inodes.
pub(crate) fn room_for_files(free_bytes: u64, files: u64) -> u64 {
    (free_bytes / UNIT as u64 * INODES).min(LAST_INO.saturating_sub(files))
}

impl Shadow {
    /// How many directories there are.
    pub fn directories(&self) -> u64 {
        self.commits.directories.get()
    }

    /// How often something was done since it was opened.
    pub fn counts(&self) -> Counts {
        self.commits.counts()
    }

    pub(crate) fn block_size(&self) -> u64 {
        self.limits.block_size
    }

    /// Units of a block of a file.
    pub(crate) fn per_block(&self) -> u64 {
        self.block_size() / UNIT as u64
    }

    pub(crate) fn released(&self) -> &Signal {
        &self.commits.released
    }

    /// Whether there is room for so many blocks beside `units` of metadata and all that is needed
    /// anyway. What grows leaves the pool alone.
    pub(crate) fn has_room(&self, blocks: u64, units: u64, kind: Kind, grows: bool) -> bool {
        let pool = if grows { self.space.pool() } else { 0 };
        let units = units + self.commits.needs() + self.promised.units.get() + pool;
        self.space.has_blocks(blocks, units, kind != Kind::Reserved)
    }

    /// Units of metadata that a change of a leaf takes at most: with what leads to it, and to the
    /// inode.
    pub(crate) fn cost_of(&self, stem: &Stem) -> u64 {
        u64::from(self.nodes.height(stem)) + 2 + self.cost_of_inode()
    }

    pub(crate) fn cost_of_inode(&self) -> u64 {
        u64::from(self.nodes.height(&Stem::Inodes)) + 2
    }

    /// How full it is. What the engine needs for itself is no part of it.
    pub(crate) fn fullness(&self, (orphans, used): (u64, u64)) -> FsStat {
        let kept = self.commits.keeps() + self.space.pool();
        let claimed = self.space.claimed() * self.per_block();
        let free = self.space.free_units() + self.leaving_units.get();
        let free_bytes = free.saturating_sub(kept + claimed) * UNIT as u64 + used;
        let total_bytes = free_bytes + self.commits.units.get() * UNIT as u64;
        let files = self.commits.files.get();
        let free_files = room_for_files(free_bytes, files) + orphans;
        FsStat {
            total_bytes,
            free_bytes,
            available_bytes: free_bytes,
            total_files: files + free_files,
            free_files,
            available_files: free_files,
        }
    }

    /// The block of an inode, and its slot there.
    ///
    /// # Errors
    /// [`FsError::Stale`] when there is no such block, [`FsError::Io`], [`FsError::Corrupt`].
    pub(crate) async fn home_of(&self, ino: u64) -> Result<(Rc<Node>, u64), FsError> {
        if ino > LAST_INO {
            return Err(FsError::Stale);
        }
        let home = self.nodes.get(&Stem::Inodes, 0, ino / INODES).await?;
        Ok((home.ok_or(FsError::Stale)?, ino % INODES))
    }

    /// A number for a new file, with the block and slot of its inode: near its directory, or where
    /// others of late are.
    pub(crate) async fn new_ino(
        &self,
        update: &mut Update,
        near: u64,
    ) -> Result<(u64, Rc<Node>, u64), FsError> {
        for block in [near / INODES, self.hint.get()] {
            if block * INODES < FIRST {
                continue;
            }
            let Some(home) = self.nodes.get(&Stem::Inodes, 0, block).await? else { continue };
            if let Some(found) = self.free_slot(update, block, home) {
                return Ok(found);
            }
        }
        loop {
            // A block that others have promised from has a number of its own soon.
            let vacant = self.vacant.borrow_mut().pop_first();
            let mut block = vacant.unwrap_or(self.commits.next_ino.get() / INODES);
            while self.is_promised(block) {
                block += 1;
            }
            if block * INODES > LAST_INO - INODES {
                return Err(FsError::NoSpace);
            }
            let made = &mut update.taken.made;
            let home = self.nodes.make(&Stem::Inodes, 0, block, made).await?;
            if let Some(found) = self.free_slot(update, block, home) {
                self.hint.set(block);
                return Ok(found);
            }
        }
    }

    fn is_promised(&self, block: u64) -> bool {
        let range = block * INODES..(block + 1) * INODES;
        self.promised.inos.borrow().range(range).count() as u64 == INODES
    }

    /// Promises a free slot of a block of inodes to an Update.
    fn free_slot(
        &self,
        update: &mut Update,
        block: u64,
        home: Rc<Node>,
    ) -> Option<(u64, Rc<Node>, u64)> {
        let mut promised = self.promised.inos.borrow_mut();
        let is_free = |slot: &u64| {
            let ino = block * INODES + slot;
            let is_held = promised.contains(&ino) || self.leaving.borrow().contains(&ino);
            !is_held && home.inode(*slot, Record::is_free)
        };
        let slot = (0..INODES).find(is_free)?;
        let ino = block * INODES + slot;
        promised.insert(ino);
        update.taken.inos.push(ino);
        Some((ino, home, slot))
    }
}
