//! Changes of lines and dead lists, in memory: an engine decides with which update they go out.
//!
//! Invariants:
//! 1. No snapshot holds the blocks that a step frees.
//! 2. A list that grows has room for its new runs in blocks that were prepared.
//!
//! Not asserted: 1, which [`Pins`] asserts.

use std::collections::BTreeSet;
use std::rc::Rc;

use vfs::{FsError, SnapshotNumber};

use crate::format::run::{Run, Span};
use crate::format::snapshot::{Died, LINES, LISTS, Line, List, is_empty};
use crate::layout::Disk;
use crate::node::{Node, Stem};
use crate::nodes::Nodes;
use crate::pins::{Listing, Pins};

/// A snapshot, and the slot of its line.
pub struct Lined {
    /// The snapshot.
    pub number: SnapshotNumber,
    /// The block with its line.
    pub leaf: Rc<Node>,
    /// The slot of its line.
    pub slot: u64,
}

/// The last block of a list, which a deletion frees.
pub struct Step {
    /// The snapshot that is being deleted.
    pub of: Lined,
    /// The list.
    pub listing: Listing,
    /// The block with the line of the list.
    pub line: Rc<Node>,
    /// The last block of the list,
    pub block: Rc<Node>,
    /// and its contents.
    pub died: Died,
}

/// A list that gets runs, with the blocks for them.
pub struct Growing {
    /// The snapshots that hold them.
    pub span: Span,
    /// The slot of its line.
    pub slot: u64,
    /// The block with its line.
    pub line: Rc<Node>,
    /// The last block of the list, if there is one,
    pub last: Option<Rc<Node>>,
    /// or the place of that block, if it cannot be read now: the list goes on behind it.
    pub unread: Option<u64>,
    /// New blocks. Those that are not needed stay as they are.
    pub next: Vec<Rc<Node>>,
}

impl Growing {
    /// Number of runs for which there is room.
    pub fn room(&self) -> usize {
        self.last.iter().chain(&self.next).map(|block| block.read(Died::room)).sum()
    }
}

/// The list without its last block.
pub fn rest_of(list: List, last: &Died) -> Option<List> {
    let units = last.runs.iter().map(|run| run.length).sum::<u64>();
    let units = list.units.saturating_sub(units);
    last.previous.map(|last| List { last, units, ..list })
}

/// The lines and lists of a volume.
pub struct Lists<'a, D: Disk> {
    /// Its blocks.
    pub nodes: &'a Nodes<D>,
    /// Its snapshots.
    pub pins: &'a Pins,
}

impl<D: Disk> Lists<'_, D> {
    /// Writes the line of a snapshot as memory has it.
    pub fn write_line(&self, of: &Lined) {
        let told = self.pins.told(of.number);
        of.leaf.change(|bytes| Line::write(bytes, of.slot, told.as_ref().map(|(told, _)| told)));
        self.nodes.mark(&of.leaf);
    }

    /// Marks a changed block of lines, or removes it if it is empty.
    fn mark_or_remove(&self, leaf: &Rc<Node>, freed: &mut Vec<Run>) {
        if leaf.read(is_empty) {
            self.remove_way(leaf, freed);
        } else {
            self.nodes.mark(leaf);
        }
    }

    fn remove_way(&self, node: &Rc<Node>, freed: &mut Vec<Run>) {
        let stood = self.nodes.remove_way(node).into_iter();
        freed.extend(stood.map(|pointer| Run::of(pointer.address.get())));
    }

    /// Removes the last block of a list.
    pub fn shorten(
        &self,
        listing: Listing,
        (line, block): (&Rc<Node>, &Rc<Node>),
        died: &Died,
        freed: &mut Vec<Run>,
    ) {
        let rest = rest_of(listing.list, died);
        self.remove_way(block, freed);
        line.change(|bytes| List::write(bytes, listing.slot, rest.as_ref()));
        self.mark_or_remove(line, freed);
        self.pins.shorten(listing, rest);
    }

    /// Forgets the slots of lines and blocks if there is no list any more. `is_sure` forgets those
    /// of blocks though remains of a rotten list have some.
    pub fn clear(&self, is_sure: bool) {
        if self.pins.has_lists() {
            return;
        }
        if self.nodes.clear(&Stem::Lists) {
            self.pins.clear_list_slots();
        }
        if self.nodes.clear(&Stem::Died) || is_sure {
            self.pins.clear_died_slots();
        }
    }

    /// Frees the blocks on the last block of a list.
    pub fn take_step(&self, step: Step, freed: &mut Vec<Run>) {
        let Step { of, listing, line, block, died } = step;
        self.pins.assert_loose(listing.list.span); // invariant 1
        self.pins.count_freed(of.number, died.runs.iter().map(|run| run.length).sum());
        self.shorten(listing, (&line, &block), &died, freed);
        freed.extend(died.runs);
        self.write_line(&of);
    }

    /// Removes a snapshot of which nothing is left.
    pub fn end(&self, of: &Lined, freed: &mut Vec<Run>) {
        self.pins.end(of.number);
        of.leaf.change(|bytes| Line::write(bytes, of.slot, None));
        self.mark_or_remove(&of.leaf, freed);
        if self.pins.count() == 0 {
            self.nodes.clear(&Stem::Snapshots);
        }
    }

    /// Adds runs to a list.
    pub fn grow(&self, list: &Growing, runs: &[Run]) {
        let Growing { span, slot, line, last, unread, next } = list;
        let mut blocks = last.iter().chain(next).peekable();
        let mut full = None;
        for run in runs {
            while let Some(block) = blocks.next_if(|block| block.read(Died::room) == 0) {
                full = Some(block.place.index);
            }
            let block = blocks.peek().expect("invariant 2: there is room");
            if block.pointer().is_null() && !block.is_dirty() {
                block.change(|bytes| Died::begin(bytes, full.or(*unread)));
            }
            block.change(|bytes| Died::add(bytes, *run));
            self.nodes.mark(block);
        }
        let end = match blocks.next() {
            Some(end) if !runs.is_empty() => end.place.index,
            _ => return,
        };
        let known = self.pins.list(*span).filter(|_| last.is_some() || unread.is_some());
        let before = known.map_or(0, |known| known.list.units);
        let units = before + runs.iter().map(|run| run.length).sum::<u64>();
        let list = List { span: *span, last: end, units };
        line.change(|bytes| List::write(bytes, *slot, Some(&list)));
        self.nodes.mark(line);
        let used = next.len() - blocks.count();
        let new: Vec<u64> = next[..used].iter().map(|one| one.place.index).collect();
        self.pins.set_list(Listing { slot: *slot, list }, &new);
    }

    /// Rewrites unreadable blocks of lines, of snapshots or of lists, from memory, which has them
    /// all.
    ///
    /// # Errors
    /// [`FsError::Io`] if a block cannot be read, and may come back.
    pub async fn renew_lines(&self, stem: &Stem) -> Result<(), FsError> {
        let (snapshots, lists) = (self.pins.lines(), self.pins.listings());
        let is_of_lists = matches!(stem, Stem::Lists);
        let leaves: BTreeSet<u64> = if is_of_lists {
            lists.iter().map(|it| it.slot / LISTS).collect()
        } else {
            snapshots.values().map(|(_, slot)| slot / LINES).collect()
        };
        for leaf in leaves {
            match self.nodes.get(stem, 0, leaf).await {
                Ok(Some(_)) => continue,
                Err(FsError::Io) => return Err(FsError::Io),
                Ok(None) | Err(_) => self.nodes.renew(stem, leaf).await?,
            }
            let node = self.nodes.get(stem, 0, leaf).await?.ok_or(FsError::Corrupt)?;
            node.change(|bytes| {
                for it in lists.iter().filter(|it| is_of_lists && it.slot / LISTS == leaf) {
                    List::write(bytes, it.slot, Some(&it.list));
                }
                let of_leaf = |slot: u64| !is_of_lists && slot / LINES == leaf;
                for (told, slot) in snapshots.values().filter(|(_, slot)| of_leaf(*slot)) {
                    Line::write(bytes, *slot, Some(told));
                }
            });
        }
        Ok(())
    }
}
