//! Positions of the names of a directory, so that finding one does not read the others.
//!
//! Built by one scan when a directory is first used, and updated when an Update that changes the
//! directory is applied. The names themselves stay in their chunks: the index has a hash of each,
//! which gives the slots that may have the name, nearly always one. A lookup compares the name with
//! the entry in the slot. So a name takes about 20 bytes, and a directory of a million names needs
//! no million allocations.
//!
//! Invariants:
//! 1. `slots` holds every live entry except "." and "..", which have fixed positions.
//! 2. `ghosts` holds slots whose entry was dropped by an Update that may not be durable, and whose
//!    name is still in the chunk. A name that comes back takes its own slot: so on the disk, where
//!    the drop and the new entry are deltas of one field, both can never be visible together.
//! 3. `slack[c]` is at least the maximum length of a record that chunk `c` has room for.
//! 4. `memory` counts `bytes` for this index, which is about the memory that it takes.
//!
//! Not asserted: 3, since the chunks are not here.

use std::collections::{BTreeMap, VecDeque};

use crate::entry::{CHUNK_SIZE, ENTRY_ALIGNMENT, minimum_record_length};
use vfs::Sequence;

use cache::Meter;
use cache::hash::{SPREAD, folded_product};

use crate::buckets::{self, Slots};

/// Position of a name, and the inode that it names.
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
    /// A name was added at an offset.
    Added {
        /// The name.
        name: Box<[u8]>,
        /// Position and inode of the name.
        slot: Slot,
        /// Bytes up to the next entry.
        record_length: usize,
        /// Maximum length of a record for which its chunk has room now.
        slack: u16,
    },
    /// A name came back to the slot that it had before.
    Returned {
        /// The name.
        name: Box<[u8]>,
        /// Position and inode of the name.
        slot: Slot,
    },
    /// A name was dropped from its offset.
    Dropped {
        /// The name.
        name: Box<[u8]>,
        /// Former byte offset of the entry.
        offset: u64,
        /// Maximum length of a record for which its chunk has room now.
        slack: u16,
    },
    /// A name names another inode now.
    Retargeted {
        /// The name.
        name: Box<[u8]>,
        /// Position and inode of the name.
        slot: Slot,
    },
    /// ".." names another directory.
    Parent {
        /// Inode of the parent.
        ino: u64,
    },
    /// Another chunk was added.
    Grown,
}

/// An entry found by a scan.
#[derive(Clone, Copy, Debug)]
pub struct Scanned(Key, u32);

fn number(ino: u64) -> u32 {
    u32::try_from(ino).expect("entries hold 32 bits of inode numbers")
}

/// See the module's prose.
#[derive(Debug)]
pub struct DirIndex {
    /// Inode that ".." names.
    pub parent: u64,
    /// Inode numbers by [`Key`].
    slots: Slots,
    hashing: NameHash,
    ghosts: BTreeMap<Box<[u8]>, u64>,
    /// Ghosts by offset, each with the Update that dropped it.
    ghost_names: BTreeMap<u64, (Sequence, Box<[u8]>)>,
    /// Drops in order, until they are durable.
    dropped: VecDeque<(Sequence, u64)>,
    slack: Vec<u16>,
    /// By record length: no chunk below this index has room for such a record.
    hints: [usize; LENGTHS],
    bytes: usize,
    memory: Meter,
}

/// Hash of a name in the upper 35 bits; position of its entry below, in units of the alignment.
type Key = u64;

/// Bits of a position: offsets have 31 bits and are multiples of 4.
const PLACE_BITS: u32 = 29;
const PLACES: u64 = (1 << PLACE_BITS) - 1;

/// Hash function for names: the same for all directories of a volume as long as it is open, and
/// unpredictable for clients, so that none can choose names that collide. If names do collide, each
/// lookup compares them one by one: slow, but correct.
#[derive(Clone, Copy, Debug)]
pub struct NameHash {
    secret: u64,
    /// Mask of the hash bits that count.
    mask: Key,
}

impl NameHash {
    /// A hash that cannot be predicted without `secret`.
    pub fn new(secret: u64) -> Self {
        Self { secret, mask: !PLACES }
    }

    /// One hash for all names: lookups take longer then, with no other effect.
    pub fn blind() -> Self {
        Self { secret: 0, mask: 0 }
    }

    /// The key of a name at position 0.
    fn first(self, name: &[u8]) -> Key {
        let mut state = self.secret ^ name.len() as u64;
        for piece in name.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            state = folded_product(state ^ u64::from_le_bytes(word), SPREAD);
        }
        folded_product(state, self.secret | 1) & self.mask
    }

    /// The key of a name whose entry is at `offset`.
    fn key(self, name: &[u8], offset: u64) -> Key {
        self.first(name) | place(offset)
    }
}

fn place(offset: u64) -> Key {
    let place = offset / ENTRY_ALIGNMENT as u64;
    assert!(place <= PLACES && offset.is_multiple_of(ENTRY_ALIGNMENT as u64), "an entry's offset");
    place
}

fn slot((key, ino): (Key, u32)) -> Slot {
    Slot { offset: (key & PLACES) * ENTRY_ALIGNMENT as u64, ino: u64::from(ino) }
}

/// Approximate bytes of memory of a dropped name: the name and its slot, and the overhead of trees
/// and allocations.
fn cost(name: &[u8]) -> usize {
    const BESIDE: usize = 3 * size_of::<(Box<[u8]>, Slot)>() / 2;
    name.len().next_multiple_of(16) + 16 + BESIDE
}

/// Record lengths are multiples of 4 up to 264.
const LENGTHS: usize = minimum_record_length(255) / ENTRY_ALIGNMENT + 1;

impl DirIndex {
    /// An index without names over `chunks` chunks without room; `memory` counts its bytes.
    pub fn new(parent: u64, chunks: usize, hashing: NameHash, memory: Meter) -> Self {
        let bytes = size_of::<Self>() + chunks * size_of::<u16>();
        memory.add(bytes);
        Self {
            parent,
            slots: Slots::new(),
            hashing,
            ghosts: BTreeMap::new(),
            ghost_names: BTreeMap::new(),
            dropped: VecDeque::new(),
            slack: vec![0; chunks],
            hints: [0; LENGTHS],
            bytes,
            memory,
        }
    }

    /// Approximate bytes of memory of the index.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The expected value of [`DirIndex::bytes`].
    fn counted(&self) -> usize {
        let ghosts = self.ghost_names.values().map(|(_, name)| 2 * cost(name));
        let names = self.slots.len() * buckets::COST + ghosts.sum::<usize>();
        size_of::<Self>() + self.slack.len() * size_of::<u16>() + names
    }

    fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.memory.add(bytes);
    }

    fn shrink(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.memory.subtract(bytes);
    }

    /// The next slot after offset `after`, or the first, that may hold `name`: if the name exists
    /// at all, it is in one of these.
    pub fn candidate(&self, name: &[u8], after: Option<u64>) -> Option<Slot> {
        let first = self.hashing.first(name);
        let start = first | after.map_or(0, |offset| place(offset) + 1);
        self.slots.first(start, first | PLACES).map(slot)
    }

    /// Offset of the first name of an inode. Looks at all names.
    pub fn first_of(&self, ino: u64) -> Option<u64> {
        let slots = self.slots.iter().map(slot).filter(|slot| slot.ino == ino);
        slots.map(|slot| slot.offset).min()
    }

    /// Pairs of slots that may have the same name.
    pub fn twins(&self) -> Vec<(Slot, Slot)> {
        let all = self.slots.iter();
        let pairs = all.clone().zip(all.skip(1));
        let alike = pairs.filter(|(one, other)| one.0 & !PLACES == other.0 & !PLACES);
        alike.map(|(one, other)| (slot(one), slot(other))).collect()
    }

    /// The slot that `name` had before it was dropped.
    pub fn ghost(&self, name: &[u8]) -> Option<u64> {
        self.ghosts.get(name).copied()
    }

    /// Whether the directory has only "." and "..".
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// An entry found by a scan.
    pub fn entry(&self, name: &[u8], slot: Slot) -> Scanned {
        Scanned(self.hashing.key(name, slot.offset), number(slot.ino))
    }

    /// Adds the live entries found by a scan.
    pub fn fill(&mut self, scanned: Vec<Scanned>) {
        self.grow(scanned.len() * buckets::COST);
        self.slots = scanned.into_iter().map(|Scanned(key, ino)| (key, ino)).collect();
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
                self.add(&name, slot);
            }
            IndexChange::Returned { name, slot } => {
                self.bury(slot.offset..slot.offset + 1);
                self.add(&name, slot);
            }
            IndexChange::Dropped { name, offset, slack } => {
                let key = self.hashing.key(&name, offset);
                self.slots.remove(key).expect("invariant 1: a name is dropped that was there");
                self.shrink(buckets::COST);
                let chunk = offset as usize / CHUNK_SIZE;
                self.slack[chunk] = self.slack[chunk].max(slack);
                let longest = (usize::from(slack) / ENTRY_ALIGNMENT).min(LENGTHS - 1);
                for hint in &mut self.hints[..=longest] {
                    *hint = (*hint).min(chunk);
                }
                self.grow(2 * cost(&name)); // it is in two trees
                self.ghost_names.insert(offset, (sequence, name.clone()));
                self.ghosts.insert(name, offset);
                self.dropped.push_back((sequence, offset));
            }
            IndexChange::Retargeted { name, slot } => {
                let key = self.hashing.key(&name, slot.offset);
                let ino = self
                    .slots
                    .get_mut(key)
                    .expect("invariant 1: a name is retargeted that is there");
                *ino = number(slot.ino);
            }
            IndexChange::Parent { ino } => self.parent = ino,
            IndexChange::Grown => {
                self.slack.push(0);
                self.grow(size_of::<u16>());
            }
        }
    }

    fn add(&mut self, name: &[u8], slot: Slot) {
        self.grow(buckets::COST);
        debug_assert!(
            !self.ghost_names.contains_key(&slot.offset),
            "invariant 2: where a name stands, none may come back"
        );
        let key = self.hashing.key(name, slot.offset);
        self.slots.insert(key, number(slot.ino));
    }

    /// Forgets the ghosts whose slots are reused.
    fn bury(&mut self, range: std::ops::Range<u64>) {
        let taken: Vec<u64> = self.ghost_names.range(range).map(|(&offset, _)| offset).collect();
        for offset in taken {
            self.forget_ghost(offset);
        }
    }

    /// Forgets ghosts that are not needed any more (invariant 2).
    fn forget_ghosts(&mut self, durable: Sequence) {
        while let Some(&(sequence, offset)) = self.dropped.front()
            && sequence <= durable
        {
            self.dropped.pop_front();
            // Its slot may have been reused since, and freed again by a later drop.
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
        debug_assert_eq!(self.bytes, self.counted(), "invariant 4: what it takes was counted");
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
        let dropped = IndexChange::Dropped { name, offset: number * 24, slack: 24 };
        index.apply(dropped, Sequence(1000 + number), Sequence(durable));
    }

    #[test]
    fn the_memory_of_names_comes_back_when_their_drops_are_durable() {
        let memory = Meter::default();
        let mut index = DirIndex::new(2, 1000, NameHash::new(7), memory.clone());
        let empty = memory.bytes();
        (0..1000).for_each(|number| add(&mut index, number));
        assert!(memory.bytes() > empty + 1000 * 12);
        (0..900).for_each(|number| drop_name(&mut index, number, 0));
        assert_eq!(index.ghost(b"name7"), Some(7 * 24), "nothing of it is durable");
        drop_name(&mut index, 900, 1899);
        assert_eq!(index.ghost(b"name7"), None);
        assert_eq!(index.ghost(b"name900"), Some(900 * 24));
        (901..1000).for_each(|number| drop_name(&mut index, number, 1000 + number - 1));
        drop_name_of_a_slot_that_was_taken_again(&mut index);
        assert!(memory.bytes() < empty + 10 * 80, "{} of {empty} bytes", memory.bytes());
        drop(index);
        assert_eq!(memory.bytes(), 0);
    }

    fn drop_name_of_a_slot_that_was_taken_again(index: &mut DirIndex) {
        add(index, 999);
        let (name, offset) = ((*b"name999").into(), 999 * 24);
        let dropped = IndexChange::Dropped { name, offset, slack: 24 };
        index.apply(dropped, Sequence(3000), Sequence(2500));
        assert_eq!(index.ghost(b"name999"), Some(999 * 24), "the later drop is not durable");
    }

    #[test]
    fn room_for_short_names_is_no_hint_for_long_ones() {
        let mut index = DirIndex::new(2, 1000, NameHash::new(7), Meter::default());
        (0..1000).for_each(|number| add(&mut index, number));
        assert_eq!(index.chunk_with_room(40, 0), None);
        drop_name(&mut index, 100, 0);
        assert_eq!(index.hints[40 / ENTRY_ALIGNMENT], 1000, "a longer one need not look again");
        assert_eq!(index.chunk_with_room(24, 0), Some(100 * 24 / CHUNK_SIZE));
    }

    #[test]
    fn names_are_found_where_they_stand_whatever_others_do() {
        let mut index = DirIndex::new(2, 10_000, NameHash::new(99), Meter::default());
        (0..100_000).for_each(|number| add(&mut index, number));
        (0..100_000).step_by(3).for_each(|number| drop_name(&mut index, number, 0));
        for number in 0..100_000 {
            let name = format!("name{number}").into_bytes();
            let mut slots = Vec::new();
            while let Some(slot) = index.candidate(&name, slots.last().map(|s: &Slot| s.offset)) {
                slots.push(slot);
            }
            let own = Slot { offset: number * 24, ino: number };
            assert_eq!(slots.contains(&own), number % 3 != 0, "name{number} at {slots:?}");
            assert!(slots.len() <= 3, "name{number} collides with others: {slots:?}");
        }
    }

    #[test]
    fn the_same_name_twice_is_told_and_others_are_hardly_ever() {
        let mut index = DirIndex::new(2, 1000, NameHash::new(5), Meter::default());
        let scan = |name: String, number: u64| {
            index.entry(name.as_bytes(), Slot { offset: number * 24, ino: 9 })
        };
        let mut scanned: Vec<_> = (0..20_000).map(|n| scan(format!("name{n}"), n)).collect();
        scanned.push(scan("name77".to_owned(), 20_000));
        index.fill(scanned);
        let twins = index.twins();
        let offsets = |&(one, other): &(Slot, Slot)| (one.offset, other.offset);
        assert!(twins.iter().map(offsets).any(|pair| pair == (77 * 24, 20_000 * 24)));
        assert!(twins.len() <= 3, "{twins:?}");
    }
}
