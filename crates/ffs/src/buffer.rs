//! A buffer: the current image of a metadata block, and the deltas of it that are not durable yet.
//!
//! The image is what every reader sees. Each change that an Update makes is remembered as a
//! [`Delta`] with the old value of its field, until the policy has seen it reach the platter. To
//! write the block home, the image is copied and every delta that must not be seen on the disk yet
//! is undone in the copy, newest first. So no block is ever unwritable because it is hot, and the
//! policies differ in one thing only: when a delta may land.
//!
//! Invariants:
//! 1. Deltas stand in the order in which they were applied.
//! 2. A delta lands only if every earlier delta on the same field has landed or lands with it;
//!    hence, per field, the disk always shows a state that the image once had.
//! 3. An inode is one field: the inode on disk is always some past state of it, whole.
//! 4. A directory entry is undone to inode 0 or the old inode, never by layout: record lengths and
//!    names in the image are written as they are, and a name under a pending delta stays in place.
//! 5. Counts, runs, clusters and hashes of a group are derived in the copy, after the undoing.
//! 6. A buffer with pending deltas, or with a write under way, is not evicted.

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use vfs::Sequence;

use crate::derive::bits;
use crate::layout::CHUNK_SIZE;
use crate::nodes::Meter;
use crate::planted::{Bug, is_planted};

/// What a buffer holds, which decides what has to be derived when it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A cylinder group's header and maps; the group's number.
    Group(u64),
    /// A block of inodes.
    Inodes,
    /// A run of directory chunks.
    Directory,
    /// A block of pointers.
    Indirect,
}

/// How a change rewrites the image.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Bytes replaced by as many others.
    Bytes {
        /// Where, in bytes from the buffer's start.
        offset: usize,
        /// The new bytes.
        new: Box<[u8]>,
    },
    /// A run of map bits, all clear before and set after, or the other way round.
    Bits {
        /// The byte at which the map begins.
        map: usize,
        /// The first bit.
        first: usize,
        /// How many.
        count: usize,
        /// Their new value.
        value: bool,
    },
    /// The target of a directory entry: its inode number and type.
    Entry {
        /// Where the entry begins.
        offset: usize,
        /// The new inode number; 0 for none.
        ino: u32,
        /// The new type byte.
        kind: u8,
        /// Record lengths and name that make room for it: applied, never undone (invariant 4).
        layout: Vec<(usize, Box<[u8]>)>,
    },
    /// A number of 32 bits that becomes larger or smaller: a count, of which every change is good
    /// for itself, so that one can be undone without the others.
    Count {
        /// Where, in bytes from the buffer's start.
        offset: usize,
        /// By how much.
        change: i32,
    },
    /// The whole block is new; nobody points at it yet, so undoing means not writing.
    Whole,
}

/// What of a buffer an [`Edit`] changes, for policies that log it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// These bytes.
    Bytes(Range<usize>),
    /// Bits of a map.
    Bits {
        /// The byte at which the map begins.
        map: usize,
        /// The first bit.
        first: usize,
        /// How many.
        count: usize,
        /// Their new value.
        value: bool,
    },
    /// Everything.
    Whole,
}

impl Edit {
    /// What it changes. Of a directory that is the whole chunk: names and lengths are not undone,
    /// so that one entry means nothing without the others.
    pub fn extent(&self) -> Extent {
        match self {
            Edit::Bytes { offset, new } => Extent::Bytes(*offset..offset + new.len()),
            Edit::Bits { map, first, count, value } => {
                Extent::Bits { map: *map, first: *first, count: *count, value: *value }
            }
            Edit::Entry { offset, .. } => {
                let chunk = offset - offset % CHUNK_SIZE;
                Extent::Bytes(chunk..chunk + CHUNK_SIZE)
            }
            Edit::Count { offset, .. } => Extent::Bytes(*offset..offset + size_of::<i32>()),
            Edit::Whole => Extent::Whole,
        }
    }
}

/// What a delta takes back in the copy.
#[derive(Debug)]
enum Undo {
    Bytes { offset: usize, old: Box<[u8]> },
    Bits { map: usize, first: usize, count: usize, old: bool },
    Entry { offset: usize, ino: u32, kind: u8 },
    Count { offset: usize, change: i32 },
    Whole,
}

impl Undo {
    /// The field, as a range of bits of the buffer.
    fn field(&self) -> Range<usize> {
        match self {
            Undo::Bytes { offset, old } => offset * 8..(offset + old.len()) * 8,
            Undo::Bits { map, first, count, .. } => map * 8 + first..map * 8 + first + count,
            Undo::Entry { offset, .. } => offset * 8..(offset + ENTRY_HEADER) * 8,
            Undo::Count { .. } => 0..0, // in any order
            Undo::Whole => 0..usize::MAX,
        }
    }

    fn apply(&self, copy: &mut [u8]) {
        match self {
            Undo::Bytes { offset, old } => copy[*offset..offset + old.len()].copy_from_slice(old),
            Undo::Bits { map, first, count, old } => {
                for bit in *first..first + count {
                    bits::put(&mut copy[*map..], bit as u64, *old);
                }
            }
            Undo::Entry { offset, ino, kind } => set_entry(copy, *offset, *ino, *kind),
            Undo::Count { offset, change } => add(copy, *offset, -change),
            Undo::Whole => unreachable!("a block whose making is undone is not written"),
        }
    }
}

/// One change that is not durable yet.
#[derive(Debug)]
pub struct Delta {
    /// The Update that made it.
    pub sequence: Sequence,
    /// The policy's rank of the item that made it.
    pub rank: u8,
    undo: Undo,
    in_flight: bool,
}

impl Delta {
    /// Bytes of memory that it takes, about.
    fn bytes(&self) -> usize {
        let beside = match &self.undo {
            Undo::Bytes { old, .. } => old.len() + 16,
            _ => 0,
        };
        size_of::<Self>() + beside
    }
}

/// A block of metadata in memory.
pub struct Buffer {
    address: u64,
    role: Role,
    image: RefCell<Vec<u8>>,
    deltas: RefCell<Vec<Delta>>,
    /// Counts the bytes of the deltas, once the block is at home.
    meter: OnceCell<Meter>,
    /// Changed without a delta: access times, search hints. Written at leisure.
    dirty: Cell<bool>,
    /// Ticks of the cache's clock at the last use.
    pub(crate) used: Cell<u64>,
}

/// A copy of a buffer that may go to the disk now.
pub struct WriteImage {
    /// Where, in fragments.
    pub address: u64,
    /// What.
    pub data: Bytes,
}

impl Buffer {
    /// A buffer for the block at fragment `address`.
    pub fn new(address: u64, role: Role, image: Vec<u8>) -> Rc<Self> {
        Rc::new(Self {
            address,
            role,
            image: RefCell::new(image),
            deltas: RefCell::default(),
            meter: OnceCell::new(),
            dirty: Cell::new(false),
            used: Cell::new(0),
        })
    }

    /// The fragment at which the block begins.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// What it holds.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Bytes of memory that the image takes.
    pub fn size(&self) -> usize {
        self.image.borrow().len()
    }

    /// The memory of the image.
    pub(crate) fn into_image(self) -> Vec<u8> {
        self.image.into_inner()
    }

    /// Looks at the image.
    pub fn read<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.image.borrow())
    }

    /// Changes the image of a block that nobody else can see, or a field that needs no order.
    pub fn write_unordered<T>(&self, change: impl FnOnce(&mut [u8]) -> T) -> T {
        self.dirty.set(true);
        change(&mut self.image.borrow_mut())
    }

    /// Makes a directory run longer in place; the new bytes are zero until an Update fills them.
    pub fn grow(&self, size: usize) {
        let mut image = self.image.borrow_mut();
        assert!(size >= image.len(), "a run in place only grows");
        image.resize(size, 0);
    }

    /// Applies `edit` for an Update and remembers how to take it back.
    pub fn apply(&self, sequence: Sequence, rank: u8, edit: Edit) {
        let mut image = self.image.borrow_mut();
        let undo = match edit {
            Edit::Bytes { offset, new } => {
                let field = &mut image[offset..offset + new.len()];
                let old = Box::from(&*field);
                field.copy_from_slice(&new);
                Undo::Bytes { offset, old }
            }
            Edit::Bits { map, first, count, value } => {
                for bit in first..first + count {
                    assert_ne!(bits::is_set(&image[map..], bit as u64), value, "bit {bit} changes");
                    bits::put(&mut image[map..], bit as u64, value);
                }
                Undo::Bits { map, first, count, old: !value }
            }
            Edit::Entry { offset, ino, kind, layout } => {
                for (at, bytes) in layout {
                    image[at..at + bytes.len()].copy_from_slice(&bytes);
                }
                let (old_ino, old_kind) = entry_at(&image, offset);
                set_entry(&mut image, offset, ino, kind);
                Undo::Entry { offset, ino: old_ino, kind: old_kind }
            }
            Edit::Count { offset, change } => {
                add(&mut image, offset, change);
                Undo::Count { offset, change }
            }
            Edit::Whole => Undo::Whole,
        };
        let delta = Delta { sequence, rank, undo, in_flight: false };
        self.count(|meter| meter.add(delta.bytes()));
        self.deltas.borrow_mut().push(delta);
    }

    /// Has `meter` count what the deltas take that are applied from now on. There are none yet.
    pub(crate) fn count_deltas(&self, meter: &Meter) {
        assert!(!self.is_pending(), "a block comes home before it changes");
        let _ = self.meter.set(meter.clone()); // it may have been here before
    }

    fn count(&self, how: impl FnOnce(&Meter)) {
        if let Some(meter) = self.meter.get() {
            how(meter);
        }
    }

    /// Whether anything here is not durable yet.
    pub fn is_pending(&self) -> bool {
        !self.deltas.borrow().is_empty()
    }

    /// The newest Update that changed this buffer and is not durable yet.
    pub fn pending_sequence(&self) -> Option<Sequence> {
        self.deltas.borrow().last().map(|delta| delta.sequence)
    }

    /// Whether the byte range has a delta on it that may still be undone: of an Update behind
    /// `durable`.
    pub fn is_pending_at(&self, range: Range<usize>, durable: Sequence) -> bool {
        let bits = range.start * 8..range.end * 8;
        let deltas = self.deltas.borrow();
        let mut open = deltas.iter().filter(|delta| delta.sequence > durable);
        open.any(|delta| overlaps(&delta.undo.field(), &bits))
    }

    /// Whether it was changed without a delta.
    pub fn is_dirty(&self) -> bool {
        self.dirty.get()
    }

    /// A copy in which everything that does not `hold` yet is undone, or nothing when that would
    /// bring no delta forward. `derive` seals the copy (invariant 5). Marks what lands.
    pub fn write_image(
        &self,
        holds: impl Fn(&Delta) -> bool,
        derive: impl FnOnce(Role, &mut [u8]),
    ) -> Option<WriteImage> {
        let mut deltas = self.deltas.borrow_mut();
        let mut blocked: Vec<Range<usize>> = Vec::new();
        let mut undone = Vec::new();
        for (index, delta) in deltas.iter_mut().enumerate() {
            let field = delta.undo.field();
            let free = !blocked.iter().any(|other| overlaps(other, &field));
            let free = free || is_planted(Bug::UnorderedFields);
            delta.in_flight = free && holds(delta); // invariant 2
            if !delta.in_flight {
                if matches!(delta.undo, Undo::Whole) {
                    return None; // every other delta is on a block that is not there yet
                }
                blocked.push(field);
                undone.push(index);
            }
        }
        if undone.len() == deltas.len() && !self.dirty.get() {
            return None;
        }
        if is_planted(Bug::OldestFirst) {
            undone.reverse();
        }
        let mut copy = block::Buffer::copied(&self.image.borrow());
        for &index in undone.iter().rev() {
            deltas[index].undo.apply(&mut copy);
        }
        derive(self.role, &mut copy);
        self.dirty.set(false);
        Some(WriteImage { address: self.address, data: copy.freeze() })
    }

    /// What was marked by the last [`Buffer::write_image`] is durable: forget it, and say whose it
    /// was.
    pub fn landed(&self) -> Vec<(Sequence, u8)> {
        let mut landed = Vec::new();
        let mut deltas = self.deltas.borrow_mut();
        deltas.retain(|delta| {
            if delta.in_flight {
                self.count(|meter| meter.subtract(delta.bytes()));
                landed.push((delta.sequence, delta.rank));
            }
            !delta.in_flight
        });
        if deltas.is_empty() {
            *deltas = Vec::new(); // a block of new inodes has had more of them than it is large
        }
        landed
    }

    /// The block is none of ours any more: forgets all deltas, and says whose they were.
    pub fn let_go(&self) -> Vec<Sequence> {
        self.dirty.set(false);
        let deltas = self.deltas.take();
        self.count(|meter| meter.subtract(deltas.iter().map(Delta::bytes).sum()));
        deltas.into_iter().map(|delta| delta.sequence).collect()
    }
}

/// Bytes of an entry before its name.
const ENTRY_HEADER: usize = 8;

fn entry_at(image: &[u8], offset: usize) -> (u32, u8) {
    let ino = image[offset..offset + 4].try_into().expect("four bytes");
    (u32::from_le_bytes(ino), image[offset + 6])
}

fn set_entry(image: &mut [u8], offset: usize, ino: u32, kind: u8) {
    image[offset..offset + 4].copy_from_slice(&ino.to_le_bytes());
    image[offset + 6] = kind;
}

fn add(image: &mut [u8], offset: usize, change: i32) {
    let field = &mut image[offset..offset + size_of::<i32>()];
    let old = i32::from_le_bytes((&*field).try_into().expect("four bytes"));
    field.copy_from_slice(&old.wrapping_add(change).to_le_bytes());
}

fn overlaps(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(offset: usize, new: &[u8]) -> Edit {
        Edit::Bytes { offset, new: new.into() }
    }

    fn image(buffer: &Buffer, ready: &[u64]) -> Option<Vec<u8>> {
        buffer
            .write_image(|delta| ready.contains(&delta.sequence.0), |_, _| {})
            .map(|write| write.data.to_vec())
    }

    #[test]
    fn what_does_not_hold_is_undone_and_the_rest_lands() {
        let buffer = Buffer::new(8, Role::Inodes, vec![0; 8]);
        buffer.apply(Sequence(1), 0, bytes(0, &[1, 1]));
        buffer.apply(Sequence(2), 0, bytes(4, &[2, 2]));
        assert_eq!(image(&buffer, &[2]), Some(vec![0, 0, 0, 0, 2, 2, 0, 0]));
        assert_eq!(buffer.landed(), [(Sequence(2), 0)]);
        assert_eq!(buffer.read(<[u8]>::to_vec), [1, 1, 0, 0, 2, 2, 0, 0]);
        assert_eq!(image(&buffer, &[1]), Some(vec![1, 1, 0, 0, 2, 2, 0, 0]));
    }

    #[test]
    fn a_later_delta_on_the_same_field_waits_for_the_earlier_one() {
        let buffer = Buffer::new(8, Role::Inodes, vec![0; 4]);
        buffer.apply(Sequence(1), 0, bytes(0, &[1, 1]));
        buffer.apply(Sequence(2), 0, bytes(1, &[2, 2]));
        assert_eq!(image(&buffer, &[2]), None);
        assert_eq!(image(&buffer, &[1]), Some(vec![1, 1, 0, 0]));
        assert_eq!(image(&buffer, &[1, 2]), Some(vec![1, 2, 2, 0]));
    }

    #[test]
    fn an_entry_is_undone_by_inode_and_keeps_its_layout() {
        let buffer = Buffer::new(8, Role::Directory, vec![0; 32]);
        let name = (8, Box::from(*b"name"));
        let edit = Edit::Entry { offset: 0, ino: 7, kind: 8, layout: vec![name] };
        buffer.apply(Sequence(1), 2, edit);
        buffer.apply(Sequence(2), 0, bytes(20, &[9]));
        let copy = image(&buffer, &[2]).expect("the second delta lands");
        assert_eq!(entry_at(&copy, 0), (0, 0));
        assert_eq!(&copy[8..12], b"name");
        assert_eq!(buffer.read(|image| entry_at(image, 0)), (7, 8));
    }

    #[test]
    fn a_count_is_undone_without_those_behind_it() {
        let buffer = Buffer::new(8, Role::Group(0), vec![7, 0, 0, 0]);
        for (sequence, change) in [(1, 1), (2, -1), (3, 1)] {
            buffer.apply(Sequence(sequence), 0, Edit::Count { offset: 0, change });
        }
        assert_eq!(image(&buffer, &[2, 3]), Some(vec![7, 0, 0, 0]));
        assert_eq!(image(&buffer, &[1, 3]), Some(vec![9, 0, 0, 0]));
    }

    #[test]
    fn bits_are_fields_of_their_own() {
        let buffer = Buffer::new(8, Role::Group(0), vec![0; 4]);
        let bits = |first| Edit::Bits { map: 1, first, count: 2, value: true };
        buffer.apply(Sequence(1), 0, bits(0));
        buffer.apply(Sequence(2), 0, bits(2));
        assert_eq!(image(&buffer, &[2]), Some(vec![0, 0b1100, 0, 0]));
    }

    #[test]
    fn a_new_block_is_not_written_before_its_time() {
        let buffer = Buffer::new(8, Role::Indirect, vec![5; 4]);
        buffer.apply(Sequence(1), 1, Edit::Whole);
        buffer.apply(Sequence(2), 0, bytes(0, &[6]));
        assert_eq!(image(&buffer, &[2]), None);
        assert_eq!(image(&buffer, &[1]), Some(vec![5, 5, 5, 5]));
        assert_eq!(image(&buffer, &[1, 2]), Some(vec![6, 5, 5, 5]));
    }
}
