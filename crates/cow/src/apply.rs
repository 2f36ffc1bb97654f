//! Applying an Update: everything visible to readers changes at once, in memory.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use directory::chunk;
use directory::entry::{CHUNK_SIZE, EntryHeader, kind_bits};
use vfs::{FileKind, Sequence};
use vnode::EntryChange;
use zerocopy::IntoBytes;

use crate::balance::Balance;
use crate::edits::Edits;
use crate::floor::{File, Floor};
use crate::format::inode::Record;
use crate::format::pointer::Pointer;
use crate::format::{FIRST, INODES};
use crate::inode::Inode;
use crate::layout::Layout;
use crate::node::{Node, Parent, Stem, offset_of_child};
use crate::planted::{Bug, is_planted};
use crate::update::{Cut, Placed, Source, Update};

/// An Update that is visible to all readers, and the rest of it.
pub struct Applied<L: Layout> {
    /// Its position in the order of all Updates.
    pub sequence: u64,
    /// Units that it has taken and lost.
    pub balance: Balance,
    /// Its changes of blocks of metadata.
    pub edits: Edits,
    /// Blocks of data that were written, with their checksums.
    pub written: Vec<(u64, u64)>,
    /// Data that goes out with the blocks of metadata.
    pub riding: Vec<(u64, Bytes)>,
    /// Files that ended.
    pub ended: Vec<u64>,
    /// Further work, of the engine alone.
    pub work: Option<L::Work>,
    /// Pointers to wrong blocks that were removed.
    pub given_up: u64,
    /// Whether it may wait for other changes.
    pub may_wait: bool,
}

impl<L: Layout> Floor<L> {
    /// Applies an Update: nothing waits.
    pub fn apply_all(
        &self,
        mut update: Update<L>,
        mut see: impl FnMut(&File, Sequence),
    ) -> Applied<L> {
        let sequence = self.next.replace(self.next.get() + 1);
        let (mut gone, mut edits) = (Balance::default(), Edits::default());
        self.take_blocks(std::mem::take(&mut update.blocks), &mut edits, &mut gone);
        for (address, data) in update.riding.iter().filter(|_| !is_planted(Bug::UnseenRiders)) {
            self.path.hold(self.byte_of(*address), data.clone());
        }
        let given_up = update.cut.lost.len() as u64;
        self.cut(std::mem::take(&mut update.cut), &mut edits, &mut gone);
        self.change_chunks(&mut update, &mut edits);
        for (&ino, (file, inode)) in &update.inodes {
            let is_ended = update.ended.contains(&ino);
            let before = if update.born.contains(&ino) { 0 } else { file.look(units_of) };
            let now = if is_ended { 0 } else { inode.facts.units };
            let others = self.live.units.get().saturating_sub(before);
            self.live.units.set(others + now);
            set_inode(&mut edits, inode, is_ended);
            self.nodes.mark(&inode.home);
        }
        for ino in &update.ended {
            self.vacate(&update.inodes[ino].1.home, &mut edits, &mut gone);
        }
        self.count_files(&update);
        if let Some(&last) = update.born.iter().max() {
            let behind = (last + 1).next_multiple_of(INODES);
            self.live.next_ino.set(self.live.next_ino.get().max(behind));
        }
        for (file, inode) in std::mem::take(&mut update.inodes).into_values() {
            file.set_inode(|old| *old = inode);
            see(&file, Sequence(sequence));
        }
        if let Some(link) = update.manner.chain {
            self.live.chains.note(link, self.layout.number());
        }
        gone.taken = update.taken.keep();
        let ended = std::mem::take(&mut update.ended);
        self.leaving.borrow_mut().extend(&ended);
        let (written, riding) = (std::mem::take(&mut update.written), update.riding);
        let (work, may_wait) = (update.work.take(), update.manner.may_wait_for_batch);
        let balance = gone;
        Applied { sequence, balance, edits, written, riding, ended, work, given_up, may_wait }
    }

    /// Counts files that begin and end.
    fn count_files(&self, update: &Update<L>) {
        let count = |counted: &Cell<u64>, what: fn(&File) -> bool| {
            let of = |inos: &[u64]| {
                inos.iter().filter(|&ino| what(&update.inodes[ino].0)).count() as u64
            };
            counted.set(counted.get() + of(&update.born) - of(&update.ended));
        };
        count(&self.live.files, |_| true);
        count(&self.live.directories, |file| file.kind == FileKind::Directory);
    }

    /// Sets pointers to new blocks of data, and frees the old ones.
    fn take_blocks(&self, blocks: Vec<Placed>, edits: &mut Edits, gone: &mut Balance) {
        let birth = self.layout.number() + u64::from(is_planted(Bug::WrongBirths));
        for Placed { parent, index, address, sum, was } in blocks {
            let old = self.nodes.child_of(&parent, index);
            assert!(was.is_none_or(|was| was == old), "what is moved was written meanwhile");
            gone.lose(old, self.per_block(), &self.pins);
            self.point(edits, &parent, index, Pointer::new(address, birth, sum));
        }
    }

    /// Sets a pointer of a file.
    fn point(&self, edits: &mut Edits, parent: &Parent, index: u64, pointer: Pointer) {
        let (node, at) = match parent {
            Parent::Node(node) => (node, offset_of_child(index)),
            Parent::Stem(Stem::File(_, home, slot)) => {
                let root = Record::offset(*slot) + Record::TREE[1].start;
                (home, root + index as usize * size_of::<Pointer>())
            }
            Parent::Stem(_) => unreachable!("an Update changes pointers of files"),
        };
        edits.set(node, at, pointer.as_bytes());
        self.nodes.mark(node);
    }

    /// Frees a block of metadata that was removed from the live tree.
    fn lose_node(&self, old: Pointer, gone: &mut Balance) {
        if !old.is_null() {
            self.pins.uncount_node(old.birth.get(), false);
        }
        gone.lose(old, 1, &self.pins);
    }

    /// Removes leaves, and blocks of metadata that then have no children.
    fn cut(&self, cut: Cut, edits: &mut Edits, gone: &mut Balance) {
        for (parent, index, pointer) in cut.leaves {
            gone.lose(pointer, self.per_block(), &self.pins);
            self.point(edits, &parent, index, Pointer::NULL);
        }
        for (parent, index, pointer) in cut.lost {
            self.pins.uncount_node(pointer.birth.get(), false);
            self.point(edits, &parent, index, Pointer::NULL);
        }
        // From the top down, so that a block that goes with its parent changes nothing there.
        for node in cut.nodes.iter().rev() {
            self.lose_node(edits.remove(&self.nodes, node), gone);
        }
    }

    /// Removes a block of inodes that is empty. Its numbers are for new files.
    fn vacate(&self, home: &Rc<Node>, edits: &mut Edits, gone: &mut Balance) {
        let block = home.place.index;
        let range = block * INODES..(block + 1) * INODES;
        let is_promised = self.live.promised.inos.borrow().range(range).next().is_some();
        let is_empty = || (0..INODES).all(|slot| home.inode(slot, Record::is_free));
        if block * INODES >= FIRST && !is_promised && !home.is_gone() && is_empty() {
            self.lose_node(edits.remove(&self.nodes, home), gone);
            self.vacant.borrow_mut().insert(block);
        }
    }

    fn change_chunks(&self, update: &mut Update<L>, edits: &mut Edits) {
        let (to_new, to_old): (Vec<_>, Vec<_>) = std::mem::take(&mut update.entries)
            .into_iter()
            .partition(|(source, _)| matches!(source, Source::New(_)));
        for (source, entry) in to_new {
            if let Source::New(chunk) = source {
                let mut chunk = chunk.borrow_mut();
                change_entry(&entry, |at, piece| {
                    chunk[at..at + piece.len()].copy_from_slice(piece);
                });
                assert_named(&*chunk, &entry);
            }
        }
        for new in update.chunks.drain(..) {
            edits.set(&new.node, new.at, &*new.bytes.borrow());
            self.nodes.mark(&new.node);
        }
        for (source, entry) in to_old {
            if let Source::Node(node, start) = source {
                change_entry(&entry, |at, piece| edits.set(&node, start + at, piece));
                node.read(|bytes| assert_named(&bytes[start..start + CHUNK_SIZE], &entry));
                self.nodes.mark(&node);
            }
        }
    }
}

/// Writes an inode into its block, except the place of its tree; an ended one is cleared.
fn set_inode(edits: &mut Edits, inode: &Inode, is_ended: bool) {
    let Inode { facts, home, slot, target } = inode;
    let (start, mut record) = (Record::offset(*slot), home.inode(*slot, |record| *record));
    if is_ended {
        record.clear();
        edits.set(home, start, record.as_bytes());
        return;
    }
    record.set(facts);
    let [height, root] = Record::TREE;
    for range in [0..height.start, height.end..root.start] {
        edits.set(home, start + range.start, &record.as_bytes()[range]);
    }
    if let Some(target) = target {
        edits.set(home, start + root.start, target);
    }
}

fn units_of(inode: &Inode) -> u64 {
    inode.facts.units
}

/// Changes an entry of a chunk: `set` gets the new bytes, and where they are in the chunk.
fn change_entry(entry: &EntryChange, mut set: impl FnMut(usize, &[u8])) {
    for (at, piece) in &entry.layout {
        set(*at, piece);
    }
    let ino = entry.target.map_or(0, |(ino, _)| ino as u32);
    set(entry.offset, &ino.to_le_bytes());
    if let Some((_, kind)) = entry.target {
        set(entry.offset + EntryHeader::KIND_OFFSET, &[kind_bits(kind)]);
    }
}

fn assert_named(chunk: &[u8], entry: &EntryChange) {
    debug_assert!(
        entry.target.is_none() || chunk::name_at(chunk, entry.offset).is_some(),
        "a name stands where it was put"
    );
}

/// The first chunk of a directory.
pub fn first_chunk(ino: u64, parent: u64) -> [u8; CHUNK_SIZE] {
    chunk::first_chunk(ino as u32, parent as u32, kind_bits(FileKind::Directory))
}
