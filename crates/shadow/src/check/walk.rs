//! Walking through the differences of two trees.
//!
//! Two trees are walked side by side. If both have the same pointer, everything below it is the
//! same. Else a block *goes*, or *comes*, or both; the facts about the first tree then change by
//! the contents of the two blocks.
//!
//! If a block cannot be read, everything below it is *lost*: it is removed from the facts. The next
//! tree may still have it, and so may the tree before. So a block that comes there is compared with
//! the last tree that could be read there: blocks that both have are held already, but not in the
//! facts.

use std::ops::Range;
use std::rc::Rc;

use block::Buffer;
use cow::{FAN, Node, Parent, Pointer, Run, Stem, UNIT, WIDTH, sum};
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::{Law, Look, Wrong};
use crate::planted::{Bug, is_planted};
use crate::units::Nodes;

/// A tree, and a position in it.
#[derive(Clone)]
pub(super) struct Side {
    /// None for an empty tree.
    stem: Option<Stem>,
    /// The parent of the current places; none at the root, and above it.
    above: Option<Rc<Node>>,
    /// Whether the blocks below are missing from the facts, because this tree, or one between it
    /// and the current tree, cannot be read here.
    pub(super) is_lost: bool,
}

impl Side {
    pub(super) fn at_root(stem: Option<Stem>) -> Self {
        Self { stem, above: None, is_lost: false }
    }

    /// The root of a file whose inode is here, or of nothing.
    pub(super) fn of_file(&self, stem: Option<Stem>) -> Self {
        Self { stem, above: None, is_lost: self.is_lost }
    }

    fn below(&self, above: Option<Rc<Node>>) -> Self {
        Self { stem: self.stem.clone(), above, is_lost: self.is_lost }
    }

    /// The parent of the current places; for a leaf, the leaf itself.
    pub(super) fn block(&self) -> Option<&Rc<Node>> {
        self.above.as_ref()
    }

    fn height(&self, nodes: &Nodes) -> Option<u8> {
        self.stem.as_ref().map(|stem| nodes.height(stem))
    }

    /// The parent of the places of a level.
    fn parent(&self, nodes: &Nodes, level: u8) -> Option<Parent> {
        let stem = self.stem.as_ref()?;
        if nodes.height(stem) == level {
            return Some(Parent::Stem(stem.clone()));
        }
        self.above.clone().map(Parent::Node)
    }
}

/// The pointer at a place.
fn pointer(nodes: &Nodes, parent: Option<&Parent>, index: u64) -> Pointer {
    match parent {
        None => Pointer::NULL,
        Some(Parent::Stem(_)) if index >= WIDTH as u64 => Pointer::NULL,
        Some(parent) => nodes.child_of(parent, index),
    }
}

/// The block at a place of the live tree, if a repair has changed it in memory: its pointer is
/// still that of the old block.
fn changed(nodes: &Nodes, side: &Side, level: u8, index: u64) -> Option<Rc<Node>> {
    let stem = side.stem.as_ref().filter(|stem| matches!(stem, Stem::Inodes))?;
    nodes.find(stem, level, index).filter(|node| node.is_dirty())
}

/// The block at a place of the live tree, if a repair has made it in memory: nothing points to it
/// yet.
fn made(nodes: &Nodes, side: &Side, level: u8, index: u64) -> Option<Rc<Node>> {
    let stem = side.stem.as_ref().filter(|stem| !stem.is_held())?;
    let is_new = |node: &Rc<Node>| node.is_dirty() && node.pointer().is_null();
    nodes.find(stem, level, index).filter(is_new)
}

/// The birth of the block that contains a pointer, if a block contains it.
fn birth_above(parent: &Parent) -> Option<u64> {
    match parent {
        Parent::Node(node) | Parent::Stem(Stem::File(_, node, _)) => {
            Some(node.pointer().birth.get())
        }
        Parent::Stem(_) => None,
    }
}

/// The file that a tree belongs to, if any.
fn file_of(stem: &Stem) -> Option<u64> {
    match stem {
        Stem::File(ino, ..) => Some(*ino),
        _ => None,
    }
}

/// Whether a tree is one that snapshots hold: of inodes, or of a file.
fn is_pinnable(stem: &Stem) -> bool {
    matches!(stem, Stem::Inodes | Stem::Pinned(_) | Stem::File(..))
}

/// Description of a block, for people.
fn block_of(stem: &Stem, level: u8, index: u64) -> String {
    let of = match stem {
        Stem::Snapshots => " of the lines of snapshots",
        Stem::Lists => " of the lines of lists",
        Stem::Died => " of the lists of what died",
        _ => "",
    };
    format!("block {index} of level {level}{of}")
}

impl Look<'_> {
    /// Walks through the blocks that only one of the two trees has.
    pub(super) async fn differ_from(&mut self, was: &Side, is: &Side) {
        let heights = [was, is].into_iter().filter_map(|side| side.height(&self.nodes));
        let Some(level) = heights.max() else { return };
        self.differ_at(was, is, level, 0..WIDTH as u64).await;
    }

    fn differ_at<'s>(
        &'s mut self,
        was: &'s Side,
        is: &'s Side,
        level: u8,
        places: Range<u64>,
    ) -> LocalBoxFuture<'s, ()> {
        async move {
            let nodes = self.nodes.clone();
            // A lower tree has its root below the first place.
            let is_lower = |side: &Side| side.height(&nodes).is_some_and(|height| height < level);
            let (left, met) = (was.parent(&nodes, level), is.parent(&nodes, level));
            for index in places {
                let before = pointer(&nodes, left.as_ref(), index);
                let now = pointer(&nodes, met.as_ref(), index);
                let (mut old, mut new) = (was.below(None), is.below(None));
                if before != now {
                    let twin = left.as_ref().map_or(0, |left| nodes.twin_of(left, index));
                    let before = (before, twin > 0);
                    old = self.leave((was, before), (is, met.is_some()), level, index).await;
                    new = self.meet((is, met.as_ref()), level, index, now).await;
                } else if was.is_lost && !now.is_null() {
                    (old, new) = self.find_again(was, is, level, index, now).await;
                } else if let Some(changed) = changed(&nodes, was, level, index)
                    && let Some(stem) = &is.stem
                {
                    old = was.below(Some(changed));
                    new = is.below(nodes.get(stem, level, index).await.ok().flatten());
                }
                if before.is_null() {
                    old.above = made(&nodes, was, level, index);
                }
                if now.is_null() {
                    new.above = made(&nodes, is, level, index);
                }
                if new.is_lost && !is.is_lost {
                    self.pass((is, level, index), &old);
                }
                let has_lower = index == 0 && (is_lower(&old) || is_lower(&new));
                let leads_on = old.above.is_some() || new.above.is_some() || has_lower;
                if leads_on && !(old.is_lost && new.is_lost) {
                    self.differ_below(&old, &new, level, index).await;
                }
            }
        }
        .boxed_local()
    }

    async fn differ_below(&mut self, was: &Side, is: &Side, level: u8, index: u64) {
        if level > 0 {
            return self.differ_at(was, is, level - 1, index * FAN..(index + 1) * FAN).await;
        }
        match is.stem.as_ref().or(was.stem.as_ref()) {
            Some(Stem::Inodes | Stem::Pinned(_)) => self.inodes(was, is, index).await,
            Some(Stem::File(ino, ..)) => self.names(*ino, index, was, is),
            _ => {}
        }
    }

    /// Adds a block at a place of a tree to the facts, or removes it.
    fn count(&mut self, stem: &Stem, level: u8, pointer: Pointer, comes: bool) {
        let is_data = level == 0 && stem.holds_data();
        if !is_data && is_pinnable(stem) {
            self.says.count_node(pointer.birth.get() <= self.pinned_until, comes);
        }
        if level == 0 {
            let leaves = &mut self.says.leaves;
            *leaves = if comes { *leaves + 1 } else { leaves.saturating_sub(1) };
        }
    }

    /// The same for the other copy of a block, if it has one.
    fn count_twin(&mut self, is_twice: bool, pointer: Pointer, comes: bool) {
        if is_twice {
            self.says.count_node(pointer.birth.get() <= self.pinned_until, comes);
        }
    }

    /// Notes that this tree has an unreadable block: a block that comes at its place in another
    /// tree is compared with the block that was there before, if that is known.
    fn pass(&mut self, (side, level, index): (&Side, u8, u64), before: &Side) {
        let Some(stem) = &side.stem else { return };
        let before = before.stem.clone().filter(|_| !is_planted(Bug::PassedOver));
        self.passed.insert((stem.owner(), level, index), before);
    }

    /// Handles a block of the tree before that the current tree does not have. Returns the side to
    /// compare with. If the current tree's block at this place is known, the old block must be
    /// newer than the current tree.
    async fn leave(
        &mut self,
        (was, (pointer, is_twice)): (&Side, (Pointer, bool)),
        (is, is_known): (&Side, bool),
        level: u8,
        index: u64,
    ) -> Side {
        let nothing = was.below(None);
        let Some(stem) = was.stem.as_ref().filter(|_| !pointer.is_null()) else { return nothing };
        let newest = self.tree.newest;
        if is_known && pointer.birth.get() <= newest {
            let found = format!("nothing of a block that update {} wrote", pointer.birth);
            let expected = format!("that one, or one behind update {newest} in the tree after it");
            self.wrong(Law::Birth, file_of(stem), found, expected);
        }
        if !was.is_lost {
            self.count(stem, level, pointer, false);
            self.count_twin(is_twice, pointer, false);
        }
        let nodes = self.nodes.clone();
        let place = (stem.owner(), level, index);
        if level == 0 && stem.holds_data() || is.is_lost && self.passed.contains_key(&place) {
            return nothing;
        }
        let Some(before) = self.passed.remove(&place) else {
            return was.below(nodes.get(stem, level, index).await.ok().flatten());
        };
        let above = match &before {
            Some(stem) => nodes.get(stem, level, index).await.ok().flatten(),
            None => None,
        };
        Side { stem: before, above, is_lost: true }
    }

    /// Handles a block of the current tree that the one before does not have. Returns its side, if
    /// it can be read.
    async fn meet(
        &mut self,
        (side, parent): (&Side, Option<&Parent>),
        level: u8,
        index: u64,
        pointer: Pointer,
    ) -> Side {
        let nothing = side.below(None);
        let Some(stem) = side.stem.as_ref().filter(|_| !pointer.is_null()) else { return nothing };
        self.born(file_of(stem), pointer, parent.and_then(birth_above));
        self.count(stem, level, pointer, true);
        if level == 0 && stem.holds_data() {
            if self.hold_data(stem, index, pointer) {
                self.data(stem, index, pointer).await;
            }
            return nothing;
        }
        let found = self.hold_node(stem, (level, index), pointer).await;
        let twin = parent.map_or(0, |parent| self.nodes.twin_of(parent, index));
        if twin > 0 {
            self.count_twin(true, pointer, true);
            self.hold_twin(stem, (level, index), pointer, twin).await;
        }
        Side { is_lost: found.is_none(), ..side.below(found) }
    }

    /// Handles a block that was lost between the tree of `was` and the current one: it is held
    /// already, and is added to the facts. Returns it as a side of both.
    async fn find_again(
        &mut self,
        was: &Side,
        is: &Side,
        level: u8,
        index: u64,
        pointer: Pointer,
    ) -> (Side, Side) {
        let (mut old, mut new) = (was.below(None), is.below(None));
        if let (Some(before), Some(now)) = (&was.stem, &is.stem) {
            self.count(now, level, pointer, true);
            let parent = is.parent(&self.nodes, level);
            let twin = parent.map_or(0, |parent| self.nodes.twin_of(&parent, index));
            self.count_twin(twin > 0, pointer, true);
            if level > 0 || !now.holds_data() {
                let nodes = self.nodes.clone();
                old.above = nodes.get(before, level, index).await.ok().flatten();
                new.above = nodes.get(now, level, index).await.ok().flatten();
            }
        }
        (old, new)
    }

    /// Takes a block of data of a file, if nothing else holds its place.
    fn hold_data(&mut self, stem: &Stem, lbn: u64, pointer: Pointer) -> bool {
        let run = Run { start: pointer.address.get(), length: self.block };
        let units = run.start..run.end();
        // A block that is not the one of its pointer does not hold its place against this one.
        let unfound: Vec<u64> = self.unfound.range(units.clone()).copied().collect();
        for unit in unfound {
            self.unfound.remove(&unit);
            self.died.remove(&unit);
            self.held.free(Run::of(unit));
        }
        let is_live = self.tree.snapshot.is_none();
        let is_claimed = is_live && self.claimed.range(units.clone()).next().is_some();
        let is_held = !is_claimed && self.held.take(run);
        self.done.0 += run.length;
        if is_held {
            self.note_death(pointer, run);
            return true;
        }
        self.held_twice(run, file_of(stem));
        match file_of(stem).filter(|_| is_live) {
            Some(ino) => _ = self.strays.insert((ino, lbn), run),
            // Data that a snapshot reads is not freed by the live tree.
            None if self.held.shape().may_hold(&run) => self.claims.extend(units),
            None => {}
        }
        false
    }

    /// Takes a block of metadata of a tree. It identifies its owner itself: so it is read even if
    /// something else holds its place, which is then claimed.
    async fn hold_node(
        &mut self,
        stem: &Stem,
        (level, index): (u8, u64),
        pointer: Pointer,
    ) -> Option<Rc<Node>> {
        let run = Run::of(pointer.address.get());
        let is_new = self.held.take(run);
        self.done.0 += run.length;
        // Once more at most, however many pointers lead to it.
        let may_be = is_new || !self.claims.contains(&run.start);
        let found = if may_be { self.look_into(stem, level, index, pointer).await } else { None };
        if is_new && found.is_none() {
            self.unfound.insert(run.start);
        }
        let is_first = is_new || found.is_some() && self.unfound.remove(&run.start);
        if is_first {
            self.note_death(pointer, run);
        } else {
            self.held_twice(run, file_of(stem));
            self.claims.extend(found.as_ref().map(|_| run.start));
        }
        found
    }

    /// Takes the other copy of a block of a tree. If one of the two has rotted, the other is all
    /// that is left.
    async fn hold_twin(
        &mut self,
        stem: &Stem,
        (level, index): (u8, u64),
        pointer: Pointer,
        twin: u64,
    ) {
        let other = pointer.at(twin);
        let is_right = self.nodes.has_copy(other).await;
        if is_right != self.nodes.has_copy(pointer).await {
            let at = if is_right { pointer.address.get() } else { twin };
            let expected = format!("{}, which stands twice", block_of(stem, level, index));
            self.wrong(Law::Twice, None, format!("another block in unit {at}"), expected);
        }
        let run = Run::of(twin);
        let is_new = self.held.take(run);
        self.done.0 += run.length;
        if is_new && !is_right {
            self.unfound.insert(twin);
        }
        if is_new || is_right && self.unfound.remove(&twin) {
            self.note_death(pointer, run);
        } else {
            self.held_twice(run, None);
            self.claims.extend(is_right.then_some(twin));
        }
    }

    /// Notes that a block of a snapshot died: no later tree holds it.
    fn note_death(&mut self, pointer: Pointer, run: Run) {
        if self.tree.snapshot.is_some() {
            let span = self.span_of(pointer.birth.get());
            self.died.insert(run.start, (span, run));
        }
    }

    async fn look_into(
        &mut self,
        stem: &Stem,
        level: u8,
        index: u64,
        pointer: Pointer,
    ) -> Option<Rc<Node>> {
        let nodes = self.nodes.clone();
        let why = match nodes.get(stem, level, index).await {
            Ok(Some(node)) => return Some(node),
            Ok(None) => String::new(),
            Err(error) => {
                // A repair makes lists anew.
                let is_rebuilt = matches!(stem, Stem::Lists | Stem::Died);
                self.has_unread |= !is_rebuilt && !stem.goes_without(error);
                format!(": {error}")
            }
        };
        let found = format!("another block in unit {}{why}", pointer.address);
        self.wrong(Law::Block, file_of(stem), found, block_of(stem, level, index));
        None
    }

    /// Checks that a block is not younger than its parent.
    fn born(&mut self, ino: Option<u64>, pointer: Pointer, above: Option<u64>) {
        let newest = above.unwrap_or(self.tree.newest);
        if pointer.birth.get() > newest {
            let found = format!("a block that update {} wrote", pointer.birth);
            self.wrong(Law::Birth, ino, found, format!("one of update {newest}, or before"));
        }
    }

    async fn data(&mut self, stem: &Stem, lbn: u64, pointer: Pointer) {
        if !self.reads_data {
            return;
        }
        let (unit, room) = (pointer.address.get(), Buffer::unfilled(self.block as usize * UNIT));
        let found = match self.device.read(unit * UNIT as u64, room).await {
            Ok(bytes) if sum(&bytes) == pointer.sum.get() => return,
            _ if self.nodes.mend(pointer, self.block).await.is_some() => return,
            Ok(_) => "other data".to_owned(),
            Err(error) => error.to_string(),
        };
        let expected = "the data that was written".to_owned();
        let (ino, block) = (file_of(stem), Some((lbn, unit)));
        let snapshot = self.tree.snapshot.as_ref().map(|(_, name)| name.clone());
        self.add(Wrong { law: Law::Data, snapshot, ino, path: None, block, found, expected });
    }

    /// Checks that the last block of a file is zero behind its end.
    pub(super) async fn tail(&mut self, stem: &Stem, ino: u64, lbn: u64, there: usize) {
        if !self.reads_data {
            return;
        }
        let pointer = self.nodes.leaf(stem, lbn).await.unwrap_or_default();
        if pointer.is_null() {
            return;
        }
        let room = Buffer::unfilled(self.block as usize * UNIT);
        let read = self.device.read(pointer.offset(), room).await;
        // Other data is reported elsewhere.
        let read = read.ok().filter(|bytes| sum(bytes) == pointer.sum.get());
        if read.is_some_and(|bytes| bytes[there..].iter().any(|&byte| byte != 0)) {
            let expected = "zeros up to the end of its last block";
            self.wrong(Law::Size, Some(ino), "something behind its end", expected);
        }
    }
}
