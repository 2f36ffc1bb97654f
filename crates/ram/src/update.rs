//! The changes of one operation while it is being planned.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use vfs::SnapshotNumber;
use vnode::{EntryChange, Manner, Plan, SnapshotChange, Space, Vnode};

use crate::body::RamChunk;
use crate::inode::Inode;

/// Free blocks of data and free file numbers.
#[derive(Default)]
pub(crate) struct Room {
    pub(crate) free_blocks: Cell<i64>,
    pub(crate) claimed_blocks: Cell<i64>,
    pub(crate) free_inos: RefCell<BTreeSet<u64>>,
}

/// Room that the Update keeps if it is applied, and that is free again if it is dropped.
pub(crate) struct Taken {
    room: Rc<Room>,
    blocks: i64,
    inos: Vec<u64>,
}

impl Taken {
    pub(crate) fn new(room: Rc<Room>) -> Self {
        Self { room, blocks: 0, inos: Vec::new() }
    }

    pub(crate) fn blocks(&mut self, count: i64) {
        self.blocks += count;
        self.room.free_blocks.set(self.room.free_blocks.get() - count);
    }

    pub(crate) fn ino(&mut self) -> Option<u64> {
        let ino = self.room.free_inos.borrow_mut().pop_first()?;
        self.inos.push(ino);
        Some(ino)
    }

    /// Keeps the room, since the Update was applied.
    pub(crate) fn keep(&mut self) {
        (self.blocks, self.inos) = (0, Vec::new());
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.free_blocks.set(self.room.free_blocks.get() + self.blocks);
        self.room.free_inos.borrow_mut().extend(self.inos.drain(..));
    }
}

/// The Update: see the module.
pub struct Update {
    pub(crate) space: Space,
    pub(crate) manner: Manner,
    /// Inodes with their new values.
    pub(crate) inodes: BTreeMap<u64, (Rc<Vnode<Inode>>, Inode)>,
    pub(crate) entries: Vec<(RamChunk, EntryChange)>,
    /// New chunks of directories.
    pub(crate) chunks: Vec<RamChunk>,
    pub(crate) blocks: Vec<(u64, u64, Bytes)>,
    /// Files truncated inside a block, with the bytes that stay in it.
    pub(crate) cuts: Vec<(u64, u64, usize)>,
    pub(crate) born: Vec<u64>,
    pub(crate) ended: Vec<u64>,
    /// Its change of snapshots.
    pub(crate) snapshots: Option<SnapshotChange>,
    /// The snapshot from which it frees files, up to this number, or all.
    pub(crate) thinned: Option<(SnapshotNumber, Option<u64>)>,
    /// Blocks that it frees.
    pub(crate) freed_blocks: i64,
    pub(crate) taken: Taken,
}

impl Update {
    pub(crate) fn new(space: Space, room: Rc<Room>) -> Self {
        Self {
            space,
            manner: Manner::default(),
            inodes: BTreeMap::new(),
            entries: Vec::new(),
            chunks: Vec::new(),
            blocks: Vec::new(),
            cuts: Vec::new(),
            born: Vec::new(),
            ended: Vec::new(),
            snapshots: None,
            thinned: None,
            freed_blocks: 0,
            taken: Taken::new(room),
        }
    }

    /// The inode as this Update will leave it.
    pub(crate) fn inode(&mut self, file: &Rc<Vnode<Inode>>) -> &mut Inode {
        let first = || {
            let mut inode = file.look(Clone::clone);
            if let Some(volatile) = file.volatile() {
                (inode.mtime, inode.ctime) = (volatile.mtime, volatile.ctime);
            }
            (file.clone(), inode)
        };
        &mut self.inodes.entry(file.ino).or_insert_with(first).1
    }
}

impl Plan for Update {
    fn is_empty(&self) -> bool {
        let of_snapshots = self.snapshots.is_some() || self.thinned.is_some();
        self.inodes.is_empty() && self.entries.is_empty() && !of_snapshots
    }

    fn manner(&mut self) -> &mut Manner {
        &mut self.manner
    }
}
