//! A buffer: the current image of a metadata block, and the deltas of it that are not durable yet.
//!
//! Every reader sees the image. Each change that an Update makes is remembered as a [`Delta`] with
//! the old value of its field, until the policy has seen it reach the platter. To write the block
//! in place, the buffer copies the image and undoes, newest first, every delta in the copy that
//! must not be on the disk yet. So no block is ever unwritable because it is hot, and the policies
//! differ in when a delta may land.
//!
//! Only the pages from the first changed one to the last are copied and written, of most blocks one
//! or two. Where many blocks change a little, that saves most of the work.
//!
//! Invariants:
//! 1. Deltas are in the order in which they were applied.
//! 2. A delta lands only if every earlier delta on the same field has landed or lands with it;
//!    hence, per field, the disk always shows a state that the image once had.
//! 3. An inode is one field: the inode on disk is always some past state of it, whole. Where its
//!    parts land independently ([`Edit::Inode`]), this holds for its kind, and for its extent.
//! 4. A directory entry is undone to inode 0 or the old inode, never by layout: record lengths and
//!    names in the image are written as they are, and a name under a pending delta stays in place.
//! 5. Counts, runs, clusters and hashes of a group are derived in the copy, after the undoing, and
//!    so is the hash of an inode of which a part was undone.
//! 6. Outside of `stale` and `landing` the image equals the block on the disk.
//! 7. A buffer with pending deltas, or with a write under way, is not evicted.
//!
//! Not asserted: 2, which takes comparing every two deltas; 3, which an Update asserts; 4 and 5,
//! which undoing and sealing ensure; 6, which takes reading the disk; 7, which the block cache
//! asserts.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use cache::blocks::Block;
use cache::{Budget, Meter};
use ufs2::layout::Dinode;
use vfs::Sequence;

use crate::edit::{Edit, Undo};
use crate::planted::{Bug, is_planted};
use crate::span::{Span, Union};

/// Maximum number of deltas to search for changes that cancel out.
const MOST_LOOKED_BACK: usize = 4096;

/// The content of a buffer, which decides what has to be derived when it is written.
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

/// One change that is not durable yet.
#[derive(Debug)]
pub struct Delta {
    /// The Update that made it.
    pub sequence: Sequence,
    /// The policy's tag for it ([`crate::policy::Policy::tags`]).
    pub tag: u32,
    undo: Undo,
    in_flight: bool,
    /// A write has included it, whatever the outcome of that write.
    was_written: bool,
}

impl Delta {
    /// Whether `other` cannot land while this delta is undone.
    fn holds_up(&self, other: &Self) -> bool {
        let (over, under) = (other.undo.stands_on(), self.undo.holds_up());
        over.iter().any(|over| under.iter().any(|under| overlaps(over, under)))
    }

    /// Approximate bytes of memory that it takes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.undo.bytes_beside()
    }
}

/// A block of metadata in memory.
pub struct Buffer {
    address: u64,
    role: Role,
    image: RefCell<block::Buffer>,
    deltas: RefCell<Vec<Delta>>,
    /// Counts the bytes of the deltas, once the block is in the cache.
    meter: OnceCell<Meter>,
    /// Counts the bytes of the block as long as it has deltas.
    pinned: OnceCell<Meter>,
    /// Bytes that this block has added to `pinned`.
    pinned_bytes: Cell<usize>,
    /// Changed without a delta: access times, search hints. Written at leisure.
    dirty: Cell<bool>,
    /// Bytes changed since the last write, or undone in it; and bytes that the write in flight
    /// covers.
    stale: Cell<Span>,
    landing: Cell<Span>,
}

impl Block for Buffer {
    fn memory(&self) -> usize {
        self.image.borrow().memory()
    }

    fn may_go(&self) -> bool {
        !self.is_pending() && !self.is_dirty() // invariant 7
    }

    fn into_memory(self) -> block::Buffer {
        self.image.into_inner()
    }
}

/// A copy of the stale part of a buffer that may go to the disk now.
pub struct WriteImage {
    /// Where the block begins, in fragments.
    pub address: u64,
    /// Where in the block the copy begins, in bytes.
    pub from: usize,
    /// The bytes.
    pub data: Bytes,
}

/// A part of a copy that is derived from the rest and has to be brought up to date.
pub enum Derived<'a> {
    /// In the block of this group.
    Group(u64, &'a mut [u8]),
    /// In an inode.
    Inode(&'a mut Dinode),
}

impl Buffer {
    /// A buffer for the block at fragment `address`. The disk has the same content, or the block
    /// begins with an Update ([`Edit::Whole`]).
    pub fn new(address: u64, role: Role, image: block::Buffer) -> Rc<Self> {
        Rc::new(Self {
            address,
            role,
            image: RefCell::new(image),
            deltas: RefCell::default(),
            meter: OnceCell::new(),
            pinned: OnceCell::new(),
            pinned_bytes: Cell::new(0),
            dirty: Cell::new(false),
            stale: Cell::default(),
            landing: Cell::default(),
        })
    }

    /// The fragment at which the block begins.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Role of the block.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Bytes of the block.
    pub fn size(&self) -> usize {
        self.image.borrow().len()
    }

    /// Passes the image to `look`.
    pub fn read<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.image.borrow())
    }

    /// Changes the image of a block that no other task can see, or a field that needs no order.
    pub fn write_unordered(&self, offset: usize, bytes: &[u8]) {
        self.dirty.set(true);
        self.note_stale(Span::from(offset..offset + bytes.len()));
        self.image.borrow_mut()[offset..][..bytes.len()].copy_from_slice(bytes);
    }

    fn note_stale(&self, span: Span) {
        self.stale.set(self.stale.get().join(span));
    }

    /// Makes a directory run longer in place; the new bytes are zero until an Update fills them.
    pub fn grow(&self, size: usize) {
        let mut image = self.image.borrow_mut();
        assert!(size >= image.len(), "a run in place only grows");
        self.note_stale(Span::from(image.len()..size));
        *image = block::Buffer::padded(&image, size);
        drop(image);
        self.count_pinned();
    }

    /// Applies `edit` for an Update and keeps its undo record.
    pub fn apply(&self, sequence: Sequence, tag: u32, edit: Edit) {
        let mut image = self.image.borrow_mut();
        self.note_stale(edit.extent().span(image.len()));
        let undo = edit.apply(&mut image);
        let delta = Delta { sequence, tag, undo, in_flight: false, was_written: false };
        self.count(|meter| meter.add(delta.bytes()));
        let mut deltas = self.deltas.borrow_mut();
        let is_last = deltas.last().is_none_or(|last| last.sequence <= sequence);
        assert!(is_last, "invariant 1: deltas stand in the order in which they were applied");
        deltas.push(delta);
        if deltas.len() == 1 {
            drop((deltas, image));
            self.count_pinned();
        }
    }

    /// Makes the meters of `budget` count the memory of deltas applied from now on, and the memory
    /// that they pin. There are no deltas yet.
    pub(crate) fn count_deltas(&self, budget: &Budget) {
        assert!(!self.is_pending(), "a block comes home before it changes");
        let _ = self.meter.set(budget.deltas().clone()); // it may have been here before
        let _ = self.pinned.set(budget.pinned().clone());
    }

    /// Counts the block as pinned as long as it is pending.
    fn count_pinned(&self) {
        let Some(pinned) = self.pinned.get() else { return };
        let now = if self.is_pending() { self.memory() } else { 0 };
        pinned.add(now);
        pinned.subtract(self.pinned_bytes.replace(now));
    }

    fn count(&self, how: impl FnOnce(&Meter)) {
        if let Some(meter) = self.meter.get() {
            how(meter);
        }
    }

    /// Whether any change in the buffer is not durable yet.
    pub fn is_pending(&self) -> bool {
        !self.deltas.borrow().is_empty()
    }

    /// The newest Update that changed this buffer and is not durable yet.
    pub fn pending_sequence(&self) -> Option<Sequence> {
        self.deltas.borrow().last().map(|delta| delta.sequence)
    }

    /// Whether a write would land a change of an Update that `is_old`. No such change comes behind
    /// one of an Update that is not old.
    pub(crate) fn has_landing(
        &self,
        holds: impl Fn(&Delta) -> bool,
        is_old: impl Fn(Sequence) -> bool,
    ) -> bool {
        let deltas = self.deltas.borrow();
        let mut blocked = Union::default();
        deltas.iter().take_while(|delta| is_old(delta.sequence)).any(|delta| {
            let lands = holds(delta) && is_free(&blocked, &delta.undo);
            block(&mut blocked, &delta.undo);
            lands
        })
    }

    /// All Updates that changed this buffer and are not durable yet.
    pub(crate) fn sequences(&self) -> BTreeSet<Sequence> {
        self.deltas.borrow().iter().map(|delta| delta.sequence).collect()
    }

    /// The last Update before `sequence` that changed the entry at `offset` and is not durable.
    pub(crate) fn entry_before(&self, offset: usize, sequence: Sequence) -> Option<Sequence> {
        let deltas = self.deltas.borrow();
        let mut of_entry = deltas.iter().rev().filter(|delta| delta.undo.is_of_entry(offset));
        of_entry.find(|delta| delta.sequence < sequence).map(|delta| delta.sequence)
    }

    /// The Updates with a pending change that holds up a change of the newest Update, `sequence`.
    pub(crate) fn stands_on(&self, sequence: Sequence) -> BTreeSet<Sequence> {
        let deltas = self.deltas.borrow();
        let (before, own) =
            deltas.split_at(deltas.partition_point(|delta| delta.sequence < sequence));
        let holds_up = |one: &&Delta| own.iter().any(|own| one.holds_up(own));
        before.iter().filter(holds_up).map(|delta| delta.sequence).collect()
    }

    /// Cancels two changes of the entry at `offset`, when the Update `sequence` has just undone the
    /// effect of an earlier one. Both are forgotten if no write has included the earlier one and it
    /// `may` be forgotten. Returns the sequence and the tag of the earlier change.
    pub(crate) fn cancel_entry(
        &self,
        offset: usize,
        sequence: Sequence,
        may: impl FnOnce(Sequence) -> bool,
    ) -> Option<(Sequence, u32)> {
        let mut deltas = self.deltas.borrow_mut();
        let mut of_entry =
            (0..deltas.len()).rev().filter(|&at| deltas[at].undo.is_of_entry(offset));
        let (last, other) = (of_entry.next()?, of_entry.next()?);
        drop(of_entry);
        let (own, before) = (&deltas[last], &deltas[other]);
        let is_back = self.read(|image| before.undo.is_undone_in(image));
        let may = own.sequence == sequence
            && is_back
            && !before.was_written
            && before.sequence < sequence
            && may(before.sequence);
        if !may {
            return None;
        }
        // The rest of the entry is in memory alone; a name that comes back needs it.
        self.dirty.set(true);
        let bytes = deltas.remove(last).bytes();
        let before = deltas.remove(other);
        self.count(|meter| meter.subtract(bytes + before.bytes()));
        drop(deltas);
        self.count_pinned();
        Some((before.sequence, before.tag))
    }

    /// The pending deltas of these fields (ranges of bits), from the newest back to the point where
    /// all of them together leave the fields unchanged. `None` if a write has included one of them,
    /// a delta reaches beyond the fields, or the point is too far back. The indices are valid until
    /// the next change.
    pub(crate) fn void_deltas(&self, fields: &[Range<usize>]) -> Option<Vec<usize>> {
        let deltas = self.deltas.borrow();
        let mut open = match self.role {
            Role::Inodes => Open::Inode,
            _ => Open::Bits(BTreeSet::new()),
        };
        let mut found = Vec::new();
        for (index, delta) in deltas.iter().enumerate().rev().take(MOST_LOOKED_BACK) {
            let field = delta.undo.field();
            if matches!(delta.undo, Undo::Whole) || !fields.iter().any(|of| overlaps(of, &field)) {
                continue; // a new block does not land before its content
            }
            let is_within = fields.iter().any(|of| of.start <= field.start && field.end <= of.end);
            if delta.was_written && !is_planted(Bug::WrittenVoids) || !is_within {
                return None;
            }
            found.push(index);
            if open.is_closed_by(&delta.undo) {
                return Some(found);
            }
        }
        None
    }

    /// Undoes and forgets these deltas, and returns their sequences and tags.
    pub(crate) fn forget_void(&self, found: Vec<usize>) -> Vec<(Sequence, u32)> {
        let (mut deltas, mut image) = (self.deltas.borrow_mut(), self.image.borrow_mut());
        let mut forgotten = Vec::with_capacity(found.len());
        for index in found {
            let delta = deltas.remove(index); // from the newest on
            delta.undo.apply(&mut image, 0);
            self.count(|meter| meter.subtract(delta.bytes()));
            forgotten.push((delta.sequence, delta.tag));
        }
        drop((deltas, image));
        self.count_pinned();
        forgotten
    }

    /// The Updates with a delta that does not `hold` yet and blocks one that does and whose Update
    /// is `wanted`.
    pub(crate) fn blockers(
        &self,
        holds: impl Fn(&Delta) -> bool,
        wanted: impl Fn(Sequence) -> bool,
    ) -> BTreeSet<Sequence> {
        let deltas = self.deltas.borrow();
        let (mut blocked, mut undone) = (Union::default(), Vec::new());
        let mut blockers = BTreeSet::new();
        for delta in deltas.iter() {
            let holds = holds(delta);
            if holds && is_free(&blocked, &delta.undo) {
                continue;
            }
            if holds && wanted(delta.sequence) {
                let in_the_way = undone.iter().filter(|other: &&&Delta| other.holds_up(delta));
                blockers.extend(in_the_way.map(|other| other.sequence));
            }
            block(&mut blocked, &delta.undo);
            undone.push(delta);
        }
        blockers
    }

    /// Whether the byte range has a delta of an Update after `durable`, which may still be undone.
    pub fn is_pending_at(&self, range: Range<usize>, durable: Sequence) -> bool {
        let bits = range.start * 8..range.end * 8;
        let deltas = self.deltas.borrow();
        let mut open = deltas.iter().filter(|delta| delta.sequence > durable);
        open.any(|delta| overlaps(&delta.undo.field(), &bits))
    }

    /// Whether the buffer was changed without a delta.
    pub fn is_dirty(&self) -> bool {
        self.dirty.get()
    }

    /// Marks the buffer dirty because the last copy was not written.
    pub fn write_again(&self) {
        self.dirty.set(true);
    }

    /// A copy in which every delta that does not `hold` yet is undone, or `None` if that copy would
    /// land nothing. `derive` brings derived parts of the copy up to date: in the block of a group,
    /// which is always whole, and in an inode of which a part was undone (invariant 5). Marks the
    /// deltas that land.
    pub fn write_image(
        &self,
        holds: impl Fn(&Delta) -> bool,
        derive: impl Fn(Derived<'_>),
    ) -> Option<WriteImage> {
        let mut deltas = self.deltas.borrow_mut();
        let mut blocked = Union::default();
        let mut undone = Vec::new();
        for (index, delta) in deltas.iter_mut().enumerate() {
            let free = is_free(&blocked, &delta.undo) || is_planted(Bug::UnorderedFields);
            delta.in_flight = free && holds(delta); // invariant 2
            delta.was_written |= delta.in_flight;
            if !delta.in_flight {
                if matches!(delta.undo, Undo::Whole) {
                    return None; // every other delta is on a block that is not there yet
                }
                block(&mut blocked, &delta.undo);
                undone.push(index);
            }
        }
        if undone.len() == deltas.len() && !self.dirty.get() {
            return None;
        }
        if is_planted(Bug::OldestFirst) {
            undone.reverse();
        }
        let image = self.image.borrow();
        let stale = self.stale.get().join(self.landing.get());
        let range = match self.role {
            Role::Group(_) => 0..image.len(),
            _ => stale.whole(block::ALIGNMENT, image.len()),
        };
        let mut copy = block::Buffer::copied(&image[range.clone()]);
        let mut left = Span::NONE;
        for &index in undone.iter().rev() {
            let undo = &deltas[index].undo;
            undo.apply(&mut copy, range.start);
            left = left.join(undo.span());
        }
        if let Role::Group(group) = self.role {
            derive(Derived::Group(group, &mut copy));
        }
        for inode in undone.iter().filter_map(|&index| deltas[index].undo.unseals()) {
            derive(Derived::Inode(Dinode::at_mut(&mut copy, inode - range.start)));
        }
        self.dirty.set(false);
        self.landing.set(range.clone().into());
        self.stale.set(if is_planted(Bug::ForgottenUndoes) { Span::NONE } else { left });
        Some(WriteImage { address: self.address, from: range.start, data: copy.freeze() })
    }

    /// For the copy of the last [`Buffer::write_image`]: whether it lands a change of an Update
    /// that `is_awaited`, and how many changes are undone in it. Call it before any other change is
    /// applied.
    pub(crate) fn landing(&self, is_awaited: impl Fn(Sequence) -> bool) -> (bool, usize) {
        let deltas = self.deltas.borrow();
        let brings = deltas.iter().any(|delta| delta.in_flight && is_awaited(delta.sequence));
        (brings, deltas.iter().filter(|delta| !delta.in_flight).count())
    }

    /// The copy of the last [`Buffer::write_image`] is durable: forgets the deltas marked there,
    /// and returns their sequences and tags.
    pub fn landed(&self) -> Vec<(Sequence, u32)> {
        self.landing.set(Span::NONE);
        let mut landed = Vec::new();
        let mut deltas = self.deltas.borrow_mut();
        deltas.retain(|delta| {
            if delta.in_flight {
                self.count(|meter| meter.subtract(delta.bytes()));
                landed.push((delta.sequence, delta.tag));
            }
            !delta.in_flight
        });
        if deltas.is_empty() {
            *deltas = Vec::new(); // for new inodes it outgrows the block
            drop(deltas);
            self.count_pinned();
        }
        landed
    }

    /// The block was given up: forgets all deltas, and returns their sequences.
    pub fn drain_block(&self) -> Vec<Sequence> {
        self.dirty.set(false);
        let deltas = self.deltas.take();
        self.count(|meter| meter.subtract(deltas.iter().map(Delta::bytes).sum()));
        self.count_pinned();
        deltas.into_iter().map(|delta| delta.sequence).collect()
    }
}

/// The net effect of the newer deltas on some fields.
enum Open {
    /// Bits that changed an odd number of times.
    Bits(BTreeSet<usize>),
    /// An inode that has ended, without its beginning.
    Inode,
}

impl Open {
    /// Whether nothing is left after this delta.
    fn is_closed_by(&mut self, undo: &Undo) -> bool {
        match self {
            Self::Bits(bits) => {
                for bit in undo.field() {
                    if !bits.remove(&bit) {
                        bits.insert(bit);
                    }
                }
                bits.is_empty()
            }
            Self::Inode => undo.begins_inode(),
        }
    }
}

/// Whether a change may land while the changes that block these fields are undone.
fn is_free(blocked: &Union, undo: &Undo) -> bool {
    undo.stands_on().iter().all(|field| !blocked.meets(field))
}

/// Adds the fields that an undone change blocks.
fn block(blocked: &mut Union, undo: &Undo) {
    undo.holds_up().into_iter().for_each(|field| blocked.add(field));
}

fn overlaps(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;
    use crate::edit::entry_at;

    fn bytes(offset: usize, new: &[u8]) -> Edit {
        Edit::Bytes { offset, new: new.into() }
    }

    fn block(role: Role, image: &[u8]) -> Rc<Buffer> {
        Buffer::new(8, role, block::Buffer::copied(image))
    }

    fn image(buffer: &Buffer, ready: &[u64]) -> Option<Vec<u8>> {
        buffer
            .write_image(|delta| ready.contains(&delta.sequence.0), |_| ())
            .map(|write| write.data.to_vec())
    }

    #[test]
    fn what_does_not_hold_is_undone_and_the_rest_lands() {
        let buffer = block(Role::Inodes, &[0; 8]);
        buffer.apply(Sequence(1), 0, bytes(0, &[1, 1]));
        buffer.apply(Sequence(2), 0, bytes(4, &[2, 2]));
        assert_eq!(image(&buffer, &[2]), Some(vec![0, 0, 0, 0, 2, 2, 0, 0]));
        assert_eq!(buffer.landed(), [(Sequence(2), 0)]);
        assert_eq!(buffer.read(<[u8]>::to_vec), [1, 1, 0, 0, 2, 2, 0, 0]);
        assert_eq!(image(&buffer, &[1]), Some(vec![1, 1, 0, 0, 2, 2, 0, 0]));
    }

    #[test]
    fn pages_are_written_from_the_first_that_changed_to_the_last() {
        const PAGE: usize = block::ALIGNMENT;
        let buffer = block(Role::Inodes, &[0; 8 * PAGE]);
        let pages = |ready: &[u64]| {
            let write = buffer.write_image(|delta| ready.contains(&delta.sequence.0), |_| ());
            write.map(|write| (write.from / PAGE, write.data.len() / PAGE))
        };
        buffer.apply(Sequence(1), 0, bytes(PAGE + 9, &[1]));
        buffer.apply(Sequence(2), 0, bytes(6 * PAGE, &[2]));
        assert_eq!(pages(&[1]), Some((1, 6)), "the second is undone there");
        buffer.landed();
        buffer.apply(Sequence(3), 0, bytes(5 * PAGE - 1, &[3, 3]));
        assert_eq!(pages(&[2]), Some((4, 3)));
        // That write failed, or its outcome is unknown.
        buffer.write_unordered(0, &[4]);
        assert_eq!(pages(&[2, 3]), Some((0, 7)));
        buffer.landed();
        buffer.write_unordered(7 * PAGE, &[4]);
        assert_eq!(pages(&[]), Some((7, 1)));
        buffer.grow(9 * PAGE);
        buffer.write_unordered(8 * PAGE, &[4]);
        assert_eq!(pages(&[]), Some((7, 2)));
    }

    #[test]
    fn a_group_is_written_as_a_whole() {
        let buffer = block(Role::Group(3), &[0; 3 * block::ALIGNMENT]);
        buffer.apply(Sequence(1), 0, bytes(200, &[1]));
        let seal = |derived: Derived<'_>| {
            let Derived::Group(group, copy) = derived else { panic!("it is a group's") };
            copy[0] = group as u8;
        };
        let write = buffer.write_image(|_| true, seal).expect("it lands");
        assert_eq!((write.from, write.data.len(), write.data[0]), (0, 3 * block::ALIGNMENT, 3));
    }

    #[test]
    fn a_later_delta_on_the_same_field_waits_for_the_earlier_one() {
        let buffer = block(Role::Inodes, &[0; 4]);
        buffer.apply(Sequence(1), 0, bytes(0, &[1, 1]));
        buffer.apply(Sequence(2), 0, bytes(1, &[2, 2]));
        assert_eq!(image(&buffer, &[2]), None);
        assert_eq!(image(&buffer, &[1]), Some(vec![1, 1, 0, 0]));
        assert_eq!(image(&buffer, &[1, 2]), Some(vec![1, 2, 2, 0]));
    }

    #[test]
    fn an_entry_is_undone_by_inode_and_keeps_its_layout() {
        let buffer = block(Role::Directory, &[0; 32]);
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
        let buffer = block(Role::Group(0), &[7, 0, 0, 0]);
        for (sequence, change) in [(1, 1), (2, -1), (3, 1)] {
            buffer.apply(Sequence(sequence), 0, Edit::Count { offset: 0, change });
        }
        assert_eq!(image(&buffer, &[2, 3]), Some(vec![7, 0, 0, 0]));
        assert_eq!(image(&buffer, &[1, 3]), Some(vec![9, 0, 0, 0]));
    }

    /// A block with one inode, of one link and size 100, and nothing else.
    fn inode_block() -> (Rc<Buffer>, Dinode) {
        let mut inode = Dinode::zeroed();
        inode.mode.set(0o100_644);
        inode.links.set(1);
        inode.size.set(100);
        let mut image = vec![0; 512];
        *Dinode::at_mut(&mut image, 256) = inode;
        (block(Role::Inodes, &image), inode)
    }

    fn set(inode: &Dinode) -> Edit {
        Edit::Bytes { offset: 256, new: inode.as_bytes().into() }.by_parts()
    }

    #[test]
    fn the_parts_of_an_inode_land_by_themselves_and_it_is_sealed_anew() {
        let (buffer, mut inode) = inode_block();
        let landed = |ready: &[u64]| {
            let seal = |derived: Derived<'_>| {
                let Derived::Inode(inode) = derived else { panic!("it is an inode's") };
                inode.check_hash.set(77);
            };
            let write = buffer.write_image(|delta| ready.contains(&delta.sequence.0), seal);
            write.map(|write| {
                let inode = Dinode::at(&write.data, 256);
                let (links, size) = (inode.links.get(), inode.size.get());
                (links, size, inode.uid.get(), inode.check_hash.get())
            })
        };
        inode.links.set(2);
        buffer.apply(Sequence(1), 0, set(&inode));
        inode.size.set(200);
        inode.uid.set(5);
        buffer.apply(Sequence(2), 0, set(&inode));
        inode.links.set(1);
        buffer.apply(Sequence(3), 0, set(&inode));
        inode.size.set(300);
        buffer.apply(Sequence(4), 0, set(&inode));
        inode.uid.set(6);
        buffer.apply(Sequence(5), 0, set(&inode));
        assert_eq!(landed(&[]), None);
        assert_eq!(landed(&[3]), Some((0, 100, 6, 77)), "links commute, attributes stay");
        assert_eq!(landed(&[4]), None, "the extent before it has not landed");
        assert_eq!(landed(&[5]), Some((1, 100, 6, 77)));
        assert_eq!(landed(&[1, 2]), Some((2, 200, 6, 77)));
        assert_eq!(landed(&[1, 2, 3, 4, 5]), Some((1, 300, 6, 0)), "nothing was undone");
        assert_eq!(buffer.landed().len(), 5);
    }

    #[test]
    fn an_inode_begins_and_ends_as_a_whole() {
        let (buffer, mut inode) = inode_block();
        let kind = |ready: &[u64]| {
            let write = buffer.write_image(|delta| ready.contains(&delta.sequence.0), |_| ());
            write.map(|write| Dinode::at(&write.data, 256).kind())
        };
        inode.links.set(2);
        buffer.apply(Sequence(1), 0, set(&inode));
        buffer.apply(Sequence(2), 0, set(&Dinode::zeroed()));
        assert_eq!(kind(&[2]), None, "its links have not landed");
        assert_eq!(kind(&[1]), Some(Some(vfs::FileKind::Regular)));
        inode.mode.set(0o040_755);
        buffer.apply(Sequence(3), 0, set(&inode));
        inode.uid.set(9);
        buffer.apply(Sequence(4), 0, set(&inode));
        inode.links.set(3);
        buffer.apply(Sequence(5), 0, set(&inode));
        assert_eq!(kind(&[1, 2]), Some(None));
        buffer.landed();
        assert_eq!(kind(&[4, 5]), None, "there is no such inode yet");
        assert_eq!(kind(&[3]), Some(Some(vfs::FileKind::Directory)));
    }

    #[test]
    fn bits_are_fields_of_their_own() {
        let buffer = block(Role::Group(0), &[0; 4]);
        let bits = |first| Edit::Bits { map: 1, first, count: 2, value: true };
        buffer.apply(Sequence(1), 0, bits(0));
        buffer.apply(Sequence(2), 0, bits(2));
        assert_eq!(image(&buffer, &[2]), Some(vec![0, 0b1100, 0, 0]));
    }

    #[test]
    fn a_new_block_is_not_written_before_its_time() {
        let buffer = block(Role::Indirect, &[5; 4]);
        buffer.apply(Sequence(1), 1, Edit::Whole);
        buffer.apply(Sequence(2), 0, bytes(0, &[6]));
        assert_eq!(image(&buffer, &[2]), None);
        assert_eq!(image(&buffer, &[1]), Some(vec![5, 5, 5, 5]));
        assert_eq!(image(&buffer, &[1, 2]), Some(vec![6, 5, 5, 5]));
    }
}
