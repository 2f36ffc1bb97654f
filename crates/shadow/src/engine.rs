//! The engine: its parts, and room for operations.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cache::{Budget, DataPath};
use cow::format::inode::Record;
use cow::{FIRST, INODES, Inode, Node, Pins, ROOT, Stem, UNIT};
use runtime::Runtime;
use runtime::sync::Signal;
use vfs::{FsError, Sequence};
use vnode::{Limits, Space as Kind, Vnode};

use crate::callers::Callers;
use crate::commit::{Commits, Counts, Staged};
use crate::compaction::Compaction;
use crate::planted::{Bug, is_planted};
use crate::scrubbing::Scrubbing;
use crate::space::Space;
use crate::units::Nodes;
use crate::update::Update;
use crate::waiting::Promised;

/// A file of this engine, in memory.
pub(crate) type File = Rc<Vnode<Inode>>;

/// Blocks of one file that one Update frees at most, so that large files take several.
pub(crate) const BLOCKS_PER_UPDATE: usize = 256;
/// Links that a file may have.
pub(crate) const MOST_LINKS: u32 = 32_767;
/// Blocks of inodes that were removed and are tried for new files.
const VACANT: usize = 4;
/// Blocks of inodes that are searched for free slots before a new block is added.
const LOOKED: usize = 8;
/// Numbers without a file that may exist in addition to as many as there are files.
const SPARE: u64 = 1024;
/// The last inode number: a directory entry has 32 bits for one.
pub(crate) const LAST_INO: u64 = u32::MAX as u64;

/// Units of an update that changes nothing: its record.
pub(crate) const SUCCESSOR: u64 = 1;

/// See the crate's prose.
pub struct Shadow {
    pub(crate) runtime: Runtime,
    pub(crate) limits: Limits,
    pub(crate) budget: Rc<Budget>,
    pub(crate) path: Rc<DataPath>,
    /// Its device, with a count of foreground I/O.
    pub(crate) callers: Rc<Callers>,
    pub(crate) nodes: Rc<Nodes>,
    pub(crate) space: Rc<Space>,
    pub(crate) commits: Rc<Commits>,
    pub(crate) pins: Rc<Pins>,
    pub(crate) promised: Rc<Promised>,
    /// The sequence of the next change.
    pub(crate) next: Cell<u64>,
    /// Numbers of files whose removal is not durable.
    pub(crate) leaving: RefCell<BTreeSet<u64>>,
    /// Units freed by changes that are not durable.
    pub(crate) leaving_units: Cell<u64>,
    /// Blocks of inodes with access times that are in no Update.
    pub(crate) touched: RefCell<BTreeMap<u64, Rc<Node>>>,
    /// The last update that needs no successor, because no client has changed anything with it.
    pub(crate) followed: Cell<u64>,
    /// For a planted bug: the reply of the change before.
    pub(crate) late_answer: RefCell<Option<Rc<[u8]>>>,
    /// The block of inodes from which new files get numbers.
    pub(crate) hint: Cell<u64>,
    /// Blocks of inodes that were removed because they were empty.
    pub(crate) vacant: RefCell<BTreeSet<u64>>,
    /// Whether a stop leaves the device open.
    pub(crate) keeps_device: bool,
    /// State of the scrub.
    pub(crate) scrubbing: Scrubbing,
    /// State of the compaction.
    pub(crate) compaction: Compaction,
}

impl Shadow {
    /// Number of directories.
    pub fn directories(&self) -> u64 {
        self.commits.directories.get()
    }

    /// Totals since it was opened.
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

    /// Whether there is room for this many blocks in addition to `units` of metadata and all that
    /// is needed anyway. Changes that grow leave the pool alone, and those of others than root also
    /// leave the reserve.
    pub(crate) fn has_room(&self, blocks: u64, units: u64, kind: Kind, grows: bool) -> bool {
        self.has_room_for(blocks, (units, 0), kind, grows)
    }

    /// The same, if this many more blocks may die.
    pub(crate) fn has_room_for(
        &self,
        blocks: u64,
        (units, deaths): (u64, u64),
        kind: Kind,
        grows: bool,
    ) -> bool {
        let needs = self.commits.needs(self.promised.deaths.get() + deaths);
        let mut units = units + needs + self.promised.units.get();
        let mut pool = 0;
        if grows {
            // Whole blocks: an overwrite wants these.
            pool = self.space.pool().div_ceil(self.per_block());
            units += self.commits.keeps();
            if kind == Kind::User {
                pool += self.reserved().div_ceil(self.per_block());
            }
        }
        self.space.has_blocks(blocks + pool, units, kind != Kind::Reserved)
    }

    /// Sends blocks of metadata out with the next update, as they are, if there is room for `units`
    /// units of them and their parents; returns the change that does so. They replace others, so
    /// this works on a full volume.
    pub(crate) fn write_again(
        &self,
        nodes: impl IntoIterator<Item = Rc<Node>>,
        units: u64,
    ) -> Option<Sequence> {
        let has_room = || self.has_room(0, units, Kind::Reserved, false);
        if self.commits.is_refused() || !has_room() {
            return None;
        }
        nodes.into_iter().for_each(|node| self.nodes.mark(&node));
        let sequence = self.next.replace(self.next.get() + 1);
        self.commits.stage(Staged { sequence, ..Staged::default() });
        self.commits.commit_soon();
        Some(Sequence(sequence))
    }

    /// Sends access times out with the next update.
    pub(crate) fn write_touched(&self) {
        // Touched blocks are not pinned in memory any longer, whatever happens to them.
        let touched = self.touched.take();
        let cost = touched.len() as u64 * self.cost_of_inode();
        // A crash may lose an access time, and so may a full volume, or a full host below it.
        if !touched.is_empty() {
            self.write_again(touched.into_values().filter(|home| !home.is_gone()), cost);
        }
    }

    /// Gives the last update a successor that changes nothing, if nothing else follows: then it is
    /// no longer the update that an opening may reject for damaged or torn blocks, and such damage
    /// loses nothing of it.
    pub(crate) fn follow(&self) {
        let last = self.commits.number() - 1;
        let is_quiet = !self.commits.is_busy() && !self.commits.has_staged();
        let is_due = last > self.followed.get() && is_quiet && !is_planted(Bug::UnfollowedUpdates);
        if is_due && self.write_again([], SUCCESSOR).is_some() {
            self.followed.set(last + 1);
        }
    }

    /// Units of metadata that a change of a leaf takes at most: including its parents, and the path
    /// to the inode.
    pub(crate) fn cost_of(&self, stem: &Stem) -> u64 {
        u64::from(self.nodes.height(stem)) + 2 + self.cost_of_inode()
    }

    pub(crate) fn cost_of_inode(&self) -> u64 {
        u64::from(self.nodes.height(&Stem::Inodes)) + 2
    }

    /// The block of an inode, and its slot there, in this tree of inodes.
    ///
    /// # Errors
    /// [`FsError::Stale`] if there is no such block, [`FsError::Io`], [`FsError::Corrupt`].
    pub(crate) async fn home_in(
        &self,
        inodes: &Stem,
        ino: u64,
    ) -> Result<(Rc<Node>, u64), FsError> {
        if ino > LAST_INO || ino < FIRST && ino != ROOT {
            return Err(FsError::Stale);
        }
        let home = self.nodes.get(inodes, 0, ino / INODES).await?;
        Ok((home.ok_or(FsError::Stale)?, ino % INODES))
    }

    /// A number for a new file, with the block and slot of its inode: near its directory, or near
    /// other recent files.
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
        let vacant: Vec<u64> = self.vacant.borrow().iter().copied().take(VACANT).collect();
        for block in vacant {
            let made = &mut update.taken.made;
            let home = self.nodes.make(&Stem::Inodes, 0, block, made).await?;
            // Perhaps none of its numbers may be used yet.
            if let Some(found) = self.free_slot(update, block, home) {
                self.vacant.borrow_mut().remove(&block);
                self.hint.set(block);
                return Ok(found);
            }
        }
        for _ in 0..LOOKED {
            if let Some((block, home)) = self.look_for_slots(update).await?
                && let Some(found) = self.free_slot(update, block, home)
            {
                self.vacant.borrow_mut().remove(&block);
                self.hint.set(block);
                return Ok(found);
            }
        }
        loop {
            // A block whose numbers are all promised to others has a number in use soon.
            let mut block = self.commits.next_ino.get() / INODES;
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

    /// The next block of inodes, in turn, if it may have free slots: a removed one, perhaps from
    /// before the volume was opened; one in memory; or any, if there are far fewer files than
    /// numbers, so that a read is worth it.
    async fn look_for_slots(
        &self,
        update: &mut Update,
    ) -> Result<Option<(u64, Rc<Node>)>, FsError> {
        let (first, end) = (FIRST / INODES, self.commits.next_ino.get() / INODES);
        let block = self.promised.looked.get().max(first);
        let block = if block < end { block } else { first };
        self.promised.looked.set(block + 1);
        if block >= end {
            return Ok(None);
        }
        if let Some(home) = self.nodes.find(&Stem::Inodes, 0, block) {
            return Ok(Some((block, home)));
        }
        // An unreadable block has no slots for new files.
        let Ok(leaf) = self.nodes.leaf(&Stem::Inodes, block).await else { return Ok(None) };
        if leaf.is_null() {
            let made = &mut update.taken.made;
            return Ok(Some((block, self.nodes.make(&Stem::Inodes, 0, block, made).await?)));
        }
        let is_sparse = self.commits.next_ino.get() > 2 * self.commits.files.get() + SPARE;
        let get = self.nodes.get(&Stem::Inodes, 0, block);
        let home = if is_sparse { get.await.unwrap_or(None) } else { None };
        Ok(home.map(|home| (block, home)))
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
