//! The names of a directory in memory, so that finding one does not read the others.
//!
//! Built by one scan when a directory is first used, then kept true by every Update that changes
//! the directory, at the moment at which it is applied.
//!
//! Invariants:
//! 1. `names` holds every live entry but "." and "..", which have their fixed places.
//! 2. `ghosts` holds slots whose entry was dropped and whose name still stands in the chunk. A name
//!    that comes back takes its own slot: so on the disk, where the drop and the new entry are
//!    deltas of one field, both can never be seen together.
//! 3. `slack[c]` is at least the longest record that chunk `c` has room for.

use std::collections::BTreeMap;

use crate::layout::{CHUNK_SIZE, ENTRY_ALIGNMENT, minimum_record_length};

/// Where a name stands and what it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Byte offset of the entry in the directory.
    pub offset: u64,
    /// The inode that it names.
    pub ino: u64,
}

/// A change that an applied Update made.
#[derive(Clone, Debug)]
pub enum IndexChange {
    /// A name stands at an offset now; what room is left in its chunk.
    Added { name: Box<[u8]>, slot: Slot, record_length: usize, slack: u16 },
    /// A name took the slot again in which it stood before.
    Returned { name: Box<[u8]>, slot: Slot },
    /// A name is gone; what room its chunk has now.
    Dropped { name: Box<[u8]>, slack: u16 },
    /// A name names another inode.
    Retargeted { name: Box<[u8]>, ino: u64 },
    /// ".." names another directory.
    Parent { ino: u64 },
    /// Another chunk was added.
    Grown,
}

/// See the module's prose.
#[derive(Debug)]
pub struct DirIndex {
    /// What ".." names.
    pub parent: u64,
    names: BTreeMap<Box<[u8]>, Slot>,
    ghosts: BTreeMap<Box<[u8]>, u64>,
    /// The same by offset.
    ghost_names: BTreeMap<u64, Box<[u8]>>,
    slack: Vec<u16>,
    /// By record length: no chunk before this one has room for such a record.
    hints: [usize; LENGTHS],
}

/// Record lengths are multiples of 4 up to 264.
const LENGTHS: usize = minimum_record_length(255) / ENTRY_ALIGNMENT + 1;

impl DirIndex {
    /// An index without names over `chunks` chunks without room.
    pub fn new(parent: u64, chunks: usize) -> Self {
        Self {
            parent,
            names: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            ghost_names: BTreeMap::new(),
            slack: vec![0; chunks],
            hints: [0; LENGTHS],
        }
    }

    /// Where `name` stands.
    pub fn find(&self, name: &[u8]) -> Option<Slot> {
        self.names.get(name).copied()
    }

    /// The slot in which `name` stood before it was dropped.
    pub fn ghost(&self, name: &[u8]) -> Option<u64> {
        self.ghosts.get(name).copied()
    }

    /// Whether there is nothing but "." and "..".
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Takes in a live entry while scanning; false when the name is there already.
    pub fn insert(&mut self, name: &[u8], slot: Slot) -> bool {
        self.names.insert(name.into(), slot).is_none()
    }

    /// Sets the room of a chunk while scanning.
    pub fn set_slack(&mut self, chunk: usize, room: u16) {
        self.slack[chunk] = room;
    }

    /// The first chunk from `from` on that may have room for a record of `length` bytes.
    pub fn chunk_with_room(&mut self, length: usize, from: usize) -> Option<usize> {
        let hint = self.hints[length / ENTRY_ALIGNMENT];
        let start = from.max(hint).min(self.slack.len());
        let fits = |room: &u16| usize::from(*room) >= length;
        let found = self.slack[start..].iter().position(fits);
        let chunk = found.map(|distance| start + distance);
        if from <= hint {
            self.hints[length / ENTRY_ALIGNMENT] = chunk.unwrap_or(self.slack.len());
        }
        chunk
    }

    /// Follows an Update that was applied.
    pub fn apply(&mut self, change: IndexChange) {
        match change {
            IndexChange::Added { name, slot, record_length, slack } => {
                self.bury(slot.offset..slot.offset + record_length as u64);
                self.slack[slot.offset as usize / CHUNK_SIZE] = slack;
                self.add(name, slot);
            }
            IndexChange::Returned { name, slot } => {
                self.bury(slot.offset..slot.offset + 1);
                self.add(name, slot);
            }
            IndexChange::Dropped { name, slack } => {
                let slot = self.names.remove(&name).expect("a name is dropped that was there");
                let chunk = slot.offset as usize / CHUNK_SIZE;
                self.slack[chunk] = self.slack[chunk].max(slack);
                for hint in &mut self.hints {
                    *hint = (*hint).min(chunk);
                }
                self.ghost_names.insert(slot.offset, name.clone());
                self.ghosts.insert(name, slot.offset);
            }
            IndexChange::Retargeted { name, ino } => {
                let slot = self.names.get_mut(&name).expect("a name is retargeted that is there");
                slot.ino = ino;
            }
            IndexChange::Parent { ino } => self.parent = ino,
            IndexChange::Grown => self.slack.push(0),
        }
    }

    fn add(&mut self, name: Box<[u8]>, slot: Slot) {
        let old = self.names.insert(name, slot);
        assert!(old.is_none(), "a name is added once (invariant 1)");
    }

    /// Forgets the ghosts whose slots are taken by something else.
    fn bury(&mut self, range: std::ops::Range<u64>) {
        let taken: Vec<u64> = self.ghost_names.range(range).map(|(&offset, _)| offset).collect();
        for offset in taken {
            let name = self.ghost_names.remove(&offset).expect("just listed");
            self.ghosts.remove(&name);
        }
    }
}
