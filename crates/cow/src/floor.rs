//! The floor under files: trees, snapshots, room for operations, and numbers of files.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cache::{Budget, DataPath};
use runtime::Runtime;
use vfs::{FsError, FsInfo, Ino, MAX_NAME, ObjectId, PathConf, Timestamp};
use vnode::{Limits, Space as Kind, Vnode};

use crate::format::inode::Record;
use crate::format::pointer::{HIGHEST, Pointer, capacity};
use crate::format::{FIRST, INODES, NUMBERS, ROOT, UNIT};
use crate::inode::Inode;
use crate::layout::{Layout, Room};
use crate::live::Live;
use crate::node::{Node, Stem};
use crate::nodes::Nodes;
use crate::pins::Pins;
use crate::update::Update;

/// A file in memory.
pub type File = Rc<Vnode<Inode>>;

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
pub const LAST_INO: u64 = NUMBERS - 1;

/// See the module's prose. `L` is the engine's part.
pub struct Floor<L: Layout> {
    /// Time, randomness and tasks.
    pub runtime: Runtime,
    /// Limits for the layers above.
    pub limits: Limits,
    /// Memory for blocks and files.
    pub budget: Rc<Budget>,
    /// The device, and data in memory.
    pub path: Rc<DataPath>,
    /// Blocks of metadata.
    pub nodes: Rc<Nodes<L::Disk>>,
    /// Snapshots.
    pub pins: Rc<Pins>,
    /// Places for blocks.
    pub layout: Rc<L>,
    /// Counts, chains, and how far all is durable.
    pub live: Rc<Live>,
    /// The sequence of the next change.
    pub next: Cell<u64>,
    /// Numbers of files whose removal is not durable.
    pub(crate) leaving: RefCell<BTreeSet<u64>>,
    /// Units freed by changes that are not durable.
    pub leaving_units: Cell<u64>,
    /// Blocks of inodes with access times that are in no Update.
    pub touched: RefCell<BTreeMap<u64, Rc<Node>>>,
    /// The block of inodes from which new files get numbers.
    hint: Cell<u64>,
    /// Blocks of inodes that were removed because they were empty.
    pub(crate) vacant: RefCell<BTreeSet<u64>>,
}

impl<L: Layout> Floor<L> {
    /// The floor of an open volume without changes.
    pub fn new(
        runtime: Runtime,
        limits: Limits,
        budget: Rc<Budget>,
        nodes: Rc<Nodes<L::Disk>>,
        pins: Rc<Pins>,
        layout: Rc<L>,
        live: Rc<Live>,
    ) -> Self {
        Self {
            runtime,
            limits,
            budget,
            path: nodes.path.clone(),
            nodes,
            pins,
            layout,
            live,
            next: Cell::new(1),
            leaving: Default::default(),
            leaving_units: Default::default(),
            touched: Default::default(),
            hint: Default::default(),
            vacant: Default::default(),
        }
    }

    /// Bytes of a block of a file.
    pub fn block_size(&self) -> u64 {
        self.limits.block_size
    }

    /// Units of a block of a file.
    pub fn per_block(&self) -> u64 {
        self.block_size() / UNIT as u64
    }

    /// The first byte of a place that the engine gave.
    pub(crate) fn byte_of(&self, address: u64) -> u64 {
        self.nodes.byte_of(Pointer::new(address, 0, 0))
    }

    /// The sequence of a change.
    pub fn next_sequence(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    /// Whether the device has no room for what waits to be written.
    pub(crate) fn is_refused(&self) -> bool {
        self.path.refusals().is_waiting()
    }

    /// Whether there is room for this many blocks in addition to `units` of metadata and all that
    /// is needed anyway. Changes that grow leave alone what is set aside for others.
    pub fn has_room(&self, blocks: u64, units: u64, kind: Kind, grows: bool) -> bool {
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
        let promised = &self.live.promised;
        let (units, deaths) = (units + promised.units.get(), promised.deaths.get() + deaths);
        self.layout.has_room(Room { blocks, units, deaths, kind, grows })
    }

    /// Units of metadata that a change of a leaf takes at most: including its parents, and the path
    /// to the inode.
    pub fn cost_of(&self, stem: &Stem) -> u64 {
        u64::from(self.nodes.height(stem)) + 2 + self.cost_of_inode()
    }

    /// The same for an inode.
    pub fn cost_of_inode(&self) -> u64 {
        u64::from(self.nodes.height(&Stem::Inodes)) + 2
    }

    /// The block of an inode, and its slot there, in this tree of inodes.
    ///
    /// # Errors
    /// [`FsError::Stale`] if there is no such block, [`FsError::Io`], [`FsError::Corrupt`].
    pub async fn home_in(&self, inodes: &Stem, ino: u64) -> Result<(Rc<Node>, u64), FsError> {
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
        update: &mut Update<L>,
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
            let mut block = self.live.next_ino.get() / INODES;
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
        update: &mut Update<L>,
    ) -> Result<Option<(u64, Rc<Node>)>, FsError> {
        let (first, end) = (FIRST / INODES, self.live.next_ino.get() / INODES);
        let block = self.live.promised.looked.get().max(first);
        let block = if block < end { block } else { first };
        self.live.promised.looked.set(block + 1);
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
        let is_sparse = self.live.next_ino.get() > 2 * self.live.files.get() + SPARE;
        let get = self.nodes.get(&Stem::Inodes, 0, block);
        let home = if is_sparse { get.await.unwrap_or(None) } else { None };
        Ok(home.map(|home| (block, home)))
    }

    fn is_promised(&self, block: u64) -> bool {
        let range = block * INODES..(block + 1) * INODES;
        self.live.promised.inos.borrow().range(range).count() as u64 == INODES
    }

    /// Promises a free slot of a block of inodes to an Update.
    fn free_slot(
        &self,
        update: &mut Update<L>,
        block: u64,
        home: Rc<Node>,
    ) -> Option<(u64, Rc<Node>, u64)> {
        let mut promised = self.live.promised.inos.borrow_mut();
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

/// The limits of a volume of this many units, with a root directory of this generation.
pub fn limits(root: u32, (units, block_size): (u64, u64), read_only: bool) -> Limits {
    Limits {
        root: ObjectId::live(Ino(ROOT), root),
        block_size,
        capacity: units * UNIT as u64,
        max_target: 4095.min(block_size as usize - 1),
        fsinfo: FsInfo {
            max_file_size: capacity(HIGHEST).saturating_mul(block_size),
            block_size: block_size as u32,
            time_delta: Timestamp { seconds: 0, nanoseconds: 1 },
            read_only,
        },
        pathconf: PathConf { link_max: MOST_LINKS, name_max: MAX_NAME as u32 },
    }
}
