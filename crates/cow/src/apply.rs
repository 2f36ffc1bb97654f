//! Applying an Update: everything visible to readers changes at once, in memory.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use directory::chunk;
use directory::entry::{CHUNK_SIZE, EntryHeader, kind_bits};
use vfs::{FileKind, Sequence};
use vnode::EntryChange;

use crate::balance::Balance;
use crate::floor::{File, Floor};
use crate::format::inode::Record;
use crate::format::pointer::Pointer;
use crate::format::{FIRST, INODES};
use crate::inode::Inode;
use crate::layout::Layout;
use crate::node::Node;
use crate::planted::{Bug, is_planted};
use crate::update::{Cut, Placed, Source, Update};

/// An Update that is visible to all readers, and the rest of it.
pub struct Applied<L: Layout> {
    /// Its position in the order of all Updates.
    pub sequence: u64,
    /// Units that it has taken and lost.
    pub balance: Balance,
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
        let mut gone = Balance::default();
        self.take_blocks(std::mem::take(&mut update.blocks), &mut gone);
        for (address, data) in update.riding.iter().filter(|_| !is_planted(Bug::UnseenRiders)) {
            self.path.hold(self.byte_of(*address), data.clone());
        }
        let given_up = update.cut.lost.len() as u64;
        self.cut(std::mem::take(&mut update.cut), &mut gone);
        self.change_chunks(&mut update);
        for (&ino, (file, inode)) in &update.inodes {
            let is_ended = update.ended.contains(&ino);
            let before = if update.born.contains(&ino) { 0 } else { file.look(units_of) };
            let now = if is_ended { 0 } else { inode.facts.units };
            let others = self.live.units.get().saturating_sub(before);
            self.live.units.set(others + now);
            inode.home.change(|bytes| {
                let record = Record::of_mut(bytes, inode.slot);
                if is_ended {
                    record.clear();
                } else {
                    record.set(&inode.facts);
                    inode.target.iter().for_each(|target| record.set_target(target));
                }
            });
            self.nodes.mark(&inode.home);
        }
        for ino in &update.ended {
            self.vacate(&update.inodes[ino].1.home, &mut gone);
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
        Applied { sequence, balance: gone, written, riding, ended, work, given_up, may_wait }
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
    fn take_blocks(&self, blocks: Vec<Placed>, gone: &mut Balance) {
        let birth = self.layout.number() + u64::from(is_planted(Bug::WrongBirths));
        for Placed { parent, index, address, sum, was } in blocks {
            let old = self.nodes.child_of(&parent, index);
            assert!(was.is_none_or(|was| was == old), "what is moved was written meanwhile");
            gone.lose(old, self.per_block(), &self.pins);
            self.nodes.set_child(&parent, index, Pointer::new(address, birth, sum));
            self.nodes.mark_parent(&parent);
        }
    }

    /// Frees a block of metadata that was removed from the live tree.
    fn lose_node(&self, old: Pointer, gone: &mut Balance) {
        if !old.is_null() {
            self.pins.uncount_node(old.birth.get(), false);
        }
        gone.lose(old, 1, &self.pins);
    }

    /// Removes leaves, and blocks of metadata that then have no children.
    fn cut(&self, cut: Cut, gone: &mut Balance) {
        for (parent, index, pointer) in cut.leaves {
            gone.lose(pointer, self.per_block(), &self.pins);
            self.nodes.set_child(&parent, index, Pointer::NULL);
            self.nodes.mark_parent(&parent);
        }
        for (parent, index, pointer) in cut.lost {
            self.pins.uncount_node(pointer.birth.get(), false);
            self.nodes.set_child(&parent, index, Pointer::NULL);
            self.nodes.mark_parent(&parent);
        }
        // From the top down, so that a block that goes with its parent changes nothing there.
        for node in cut.nodes.iter().rev() {
            self.lose_node(self.nodes.remove(node), gone);
        }
    }

    /// Removes a block of inodes that is empty. Its numbers are for new files.
    fn vacate(&self, home: &Rc<Node>, gone: &mut Balance) {
        let block = home.place.index;
        let range = block * INODES..(block + 1) * INODES;
        let is_promised = self.live.promised.inos.borrow().range(range).next().is_some();
        let is_empty = || (0..INODES).all(|slot| home.inode(slot, Record::is_free));
        if block * INODES >= FIRST && !is_promised && !home.is_gone() && is_empty() {
            self.lose_node(self.nodes.remove(home), gone);
            self.vacant.borrow_mut().insert(block);
        }
    }

    fn change_chunks(&self, update: &mut Update<L>) {
        let (to_new, to_old): (Vec<_>, Vec<_>) = std::mem::take(&mut update.entries)
            .into_iter()
            .partition(|(source, _)| matches!(source, Source::New(_)));
        for (source, entry) in to_new {
            if let Source::New(bytes) = source {
                change_entry(&mut *bytes.borrow_mut(), &entry);
            }
        }
        for new in update.chunks.drain(..) {
            let chunk = new.bytes.borrow();
            new.node.change(|bytes| bytes[new.at..new.at + CHUNK_SIZE].copy_from_slice(&*chunk));
            self.nodes.mark(&new.node);
        }
        for (source, entry) in to_old {
            if let Source::Node(node, at) = source {
                node.change(|bytes| change_entry(&mut bytes[at..at + CHUNK_SIZE], &entry));
                self.nodes.mark(&node);
            }
        }
    }
}

fn units_of(inode: &Inode) -> u64 {
    inode.facts.units
}

/// Changes an entry of a chunk.
fn change_entry(chunk: &mut [u8], entry: &EntryChange) {
    for (at, piece) in &entry.layout {
        chunk[*at..at + piece.len()].copy_from_slice(piece);
    }
    let header = EntryHeader::at_mut(chunk, entry.offset);
    header.inode.set(entry.target.map_or(0, |(ino, _)| ino as u32));
    if let Some((_, kind)) = entry.target {
        header.kind = kind_bits(kind);
        debug_assert!(
            chunk::name_at(chunk, entry.offset).is_some(),
            "a name stands where it was put"
        );
    }
}

/// The first chunk of a directory.
pub fn first_chunk(ino: u64, parent: u64) -> [u8; CHUNK_SIZE] {
    chunk::first_chunk(ino as u32, parent as u32, kind_bits(FileKind::Directory))
}
