//! The names of a directory in memory, so that finding one does not read the others.
//!
//! Built by one scan when a directory is first used, then kept true by every Update that changes
//! the directory, at the moment at which it is applied.
//!
//! Invariants:
//! 1. `names` holds every live entry but "." and "..", which have their fixed places.
//! 2. `ghosts` holds slots whose entry was dropped by an Update that may not be durable, and whose
//!    name still stands in the chunk. A name that comes back takes its own slot: so on the disk,
//!    where the drop and the new entry are deltas of one field, both can never be seen together.
//! 3. `slack[c]` is at least the longest record that chunk `c` has room for.
//! 4. `memory` counts `bytes` for this index, which is about what it takes.

use std::collections::{BTreeMap, VecDeque};

use vfs::Sequence;

use crate::layout::{CHUNK_SIZE, ENTRY_ALIGNMENT, minimum_record_length};
use crate::nodes::Meter;

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
    /// The same by offset, each with the Update that dropped it.
    ghost_names: BTreeMap<u64, (Sequence, Box<[u8]>)>,
    /// Drops in their order, until they are durable.
    dropped: VecDeque<(Sequence, u64)>,
    slack: Vec<u16>,
    /// By record length: no chunk before this one has room for such a record.
    hints: [usize; LENGTHS],
    bytes: usize,
    memory: Meter,
}

/// Bytes that a name takes here: itself and its slot, and what trees and pieces of memory cost.
fn cost(name: &[u8]) -> usize {
    const BESIDE: usize = 3 * size_of::<(Box<[u8]>, Slot)>() / 2;
    name.len().next_multiple_of(16) + 16 + BESIDE
}

/// Record lengths are multiples of 4 up to 264.
const LENGTHS: usize = minimum_record_length(255) / ENTRY_ALIGNMENT + 1;

impl DirIndex {
    /// An index without names over `chunks` chunks without room; `memory` counts its bytes.
    pub(crate) fn new(parent: u64, chunks: usize, memory: Meter) -> Self {
        let bytes = size_of::<Self>() + chunks * size_of::<u16>();
        memory.add(bytes);
        Self {
            parent,
            names: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            ghost_names: BTreeMap::new(),
            dropped: VecDeque::new(),
            slack: vec![0; chunks],
            hints: [0; LENGTHS],
            bytes,
            memory,
        }
    }

    /// Bytes of memory that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.memory.add(bytes);
    }

    fn shrink(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.memory.subtract(bytes);
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
        self.grow(cost(name));
        self.names.insert(name.into(), slot).is_none() // else the index is not used
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

    /// Follows Update `sequence`, which was applied; those up to `durable` are durable.
    pub fn apply(&mut self, change: IndexChange, sequence: Sequence, durable: Sequence) {
        self.forget_ghosts(durable);
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
                let longest = (usize::from(slack) / ENTRY_ALIGNMENT).min(LENGTHS - 1);
                for hint in &mut self.hints[..=longest] {
                    *hint = (*hint).min(chunk);
                }
                self.grow(cost(&name)); // what the name took, its ghost takes, twice
                self.ghost_names.insert(slot.offset, (sequence, name.clone()));
                self.ghosts.insert(name, slot.offset);
                self.dropped.push_back((sequence, slot.offset));
            }
            IndexChange::Retargeted { name, ino } => {
                let slot = self.names.get_mut(&name).expect("a name is retargeted that is there");
                slot.ino = ino;
            }
            IndexChange::Parent { ino } => self.parent = ino,
            IndexChange::Grown => {
                self.slack.push(0);
                self.grow(size_of::<u16>());
            }
        }
    }

    fn add(&mut self, name: Box<[u8]>, slot: Slot) {
        self.grow(cost(&name));
        let old = self.names.insert(name, slot);
        assert!(old.is_none(), "a name is added once (invariant 1)");
    }

    /// Forgets the ghosts whose slots are taken by something else.
    fn bury(&mut self, range: std::ops::Range<u64>) {
        let taken: Vec<u64> = self.ghost_names.range(range).map(|(&offset, _)| offset).collect();
        for offset in taken {
            self.forget_ghost(offset);
        }
    }

    /// Forgets the ghosts that nobody needs any more (invariant 2).
    fn forget_ghosts(&mut self, durable: Sequence) {
        while let Some(&(sequence, offset)) = self.dropped.front()
            && sequence <= durable
        {
            self.dropped.pop_front();
            // Its slot may have been taken since, and left again by a later drop.
            if self.ghost_names.get(&offset).is_some_and(|&(dropped, _)| dropped == sequence) {
                self.forget_ghost(offset);
            }
        }
    }

    fn forget_ghost(&mut self, offset: u64) {
        let (_, name) = self.ghost_names.remove(&offset).expect("a ghost of which somebody knew");
        self.ghosts.remove(&name);
        self.shrink(2 * cost(&name));
    }
}

impl Drop for DirIndex {
    fn drop(&mut self) {
        self.memory.subtract(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(index: &mut DirIndex, number: u64) {
        let name = format!("name{number}").into_bytes().into();
        let slot = Slot { offset: number * 24, ino: number };
        let added = IndexChange::Added { name, slot, record_length: 24, slack: 0 };
        index.apply(added, Sequence(number), Sequence(0));
    }

    fn drop_name(index: &mut DirIndex, number: u64, durable: u64) {
        let name = format!("name{number}").into_bytes().into();
        let dropped = IndexChange::Dropped { name, slack: 24 };
        index.apply(dropped, Sequence(1000 + number), Sequence(durable));
    }

    #[test]
    fn the_memory_of_names_comes_back_when_their_drops_are_durable() {
        let memory = Meter::default();
        let mut index = DirIndex::new(2, 1000, memory.clone());
        let empty = memory.bytes();
        (0..1000).for_each(|number| add(&mut index, number));
        assert!(memory.bytes() > empty + 1000 * 40);
        (0..900).for_each(|number| drop_name(&mut index, number, 0));
        assert_eq!(index.ghost(b"name7"), Some(7 * 24), "nothing of it is durable");
        drop_name(&mut index, 900, 1899);
        assert_eq!(index.ghost(b"name7"), None);
        assert_eq!(index.ghost(b"name900"), Some(900 * 24));
        (901..1000).for_each(|number| drop_name(&mut index, number, 1000 + number - 1));
        drop_name_of_a_slot_that_was_taken_again(&mut index);
        assert!(memory.bytes() < empty + 10 * 40, "{} of {empty} bytes", memory.bytes());
        drop(index);
        assert_eq!(memory.bytes(), 0);
    }

    fn drop_name_of_a_slot_that_was_taken_again(index: &mut DirIndex) {
        add(index, 999);
        let dropped = IndexChange::Dropped { name: (*b"name999").into(), slack: 24 };
        index.apply(dropped, Sequence(3000), Sequence(2500));
        assert_eq!(index.ghost(b"name999"), Some(999 * 24), "the later drop is not durable");
    }

    #[test]
    fn room_for_short_names_is_no_hint_for_long_ones() {
        let mut index = DirIndex::new(2, 1000, Meter::default());
        (0..1000).for_each(|number| add(&mut index, number));
        assert_eq!(index.chunk_with_room(40, 0), None);
        drop_name(&mut index, 100, 0);
        assert_eq!(index.hints[40 / ENTRY_ALIGNMENT], 1000, "a longer one need not look again");
        assert_eq!(index.chunk_with_room(24, 0), Some(100 * 24 / CHUNK_SIZE));
    }
}
