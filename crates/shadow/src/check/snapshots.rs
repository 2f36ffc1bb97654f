//! Looking at what snapshots hold, and at the lists of what the live tree has no more.
//!
//! What an older snapshot holds at the same place is not looked at again: a block is older than the
//! one that leads to it, or as old, so each is looked at where it is held first.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::{Law, Look, birth_above, file_of};
use crate::format::INODES;
use crate::format::inode::Record;
use crate::format::pointer::Pointer;
use crate::format::record::{Change, Run, Span};
use crate::format::snapshot::{Died, Told};
use crate::nodes::{Node, Stem};
use crate::pins::Pins;
use crate::runs::{Unfolded, coalesced};
use crate::space::Space;

/// What one snapshot holds, and none before it does.
struct Own<'a> {
    told: &'a Told,
    /// The update that made the one before it.
    before: u64,
    runs: Vec<Run>,
}

impl Look<'_> {
    /// Looks at all snapshots, and at lists. Of the live tree is known what it holds.
    pub(super) async fn snapshots(&mut self, pins: &Pins, unfolded: &Unfolded) {
        let mut listed = self.lists(pins).await;
        for change in &unfolded.changes {
            if let Change::Died(run, span) = change {
                listed.push((*run, *span));
            }
        }
        let mut by_holder: BTreeMap<Option<u32>, Vec<Run>> = BTreeMap::new();
        for (run, span) in listed {
            by_holder.entry(pins.first_holder(span)).or_default().push(run);
        }
        let shape = *self.held.shape();
        let (mut before, mut held) = (0, Space::empty(shape));
        for told in pins.holding() {
            let mut own = Own { told: &told, before, runs: Vec::new() };
            let stem = Stem::Pinned(Rc::new(told.inodes));
            self.held_below(&stem, None, &mut own).await;
            let died = by_holder.remove(&Some(told.number)).unwrap_or_default();
            self.compare(&told, own.runs, died, &mut held);
            before = told.update;
        }
        for run in by_holder.into_values().flatten() {
            self.hold(run, None);
        }
        for unit in (0..shape.units).filter(|&unit| shape.may_hold(&Run::of(unit))) {
            if held.has_all(Run::of(unit)) && !self.hold(Run::of(unit), None) {
                break;
            }
        }
    }

    /// What lists say that died, and while who held it.
    async fn lists(&mut self, pins: &Pins) -> Vec<(Run, Span)> {
        let mut all = Vec::new();
        for list in pins.lists() {
            let (mut next, mut units, mut blocks) = (Some(list.last), 0, 0);
            while let Some(place) = next.take() {
                blocks += 1;
                let block = self.nodes.get(&Stem::Died, 0, place).await.ok().flatten();
                let Some(died) = block.and_then(|block| block.read(Died::read)) else {
                    let expected = format!("block {place} of a list");
                    self.wrong(Law::Block, None, "another block", expected);
                    break;
                };
                units += died.runs.iter().map(|run| run.length).sum::<u64>(); // 32 bits each
                all.extend(died.runs.into_iter().map(|run| (run, list.span)));
                next = died.previous.filter(|_| blocks < pins.died_slots()); // or it is a circle
            }
            if units != list.units {
                let found = format!("{units} units on a list of what died");
                self.wrong(Law::Counts, None, found, list.units.to_string());
            }
        }
        all
    }

    /// What a snapshot holds first and the live tree has no more is what died since, and is listed.
    fn compare(&mut self, told: &Told, own: Vec<Run>, died: Vec<Run>, held: &mut Space) {
        let name = told.name.as_bytes().escape_ascii().to_string();
        let shape = *self.held.shape();
        let legal = |runs: Vec<Run>| runs.into_iter().filter(|run| shape.may_hold(run)).collect();
        let (own, all) = (coalesced(legal(own)), died.len());
        let died: Vec<Run> = legal(died);
        if own.windows(2).any(|runs| runs[1].start < runs[0].end()) {
            let found = format!("units that snapshot {name} holds twice");
            self.wrong(Law::Once, None, found, "units that are held once");
        }
        let (mut strange, mut lost) = (Vec::new(), Vec::new());
        for &run in &died {
            // Runs of its own are sorted, and none meets another.
            let at = own.partition_point(|one| one.end() <= run.start);
            let is_own =
                own.get(at).is_some_and(|one| one.start <= run.start && run.end() <= one.end());
            let is_live = run.units().any(|unit| self.held.has_all(unit));
            if !is_own || is_live || !held.take(run) {
                strange.push(run);
            }
        }
        for unit in own.into_iter().flat_map(|run| run.units()) {
            if !held.has_all(unit) && !self.held.has_all(unit) {
                lost.push(unit);
            }
        }
        if !strange.is_empty() || died.len() < all {
            let first = strange.first().map_or(0, |run| run.start);
            let count = strange.len() + all - died.len();
            let found = format!("{count} runs, one of them from unit {first} on, listed as dead");
            let expected = format!("what snapshot {name} holds first, and nothing else");
            self.wrong(Law::Listed, None, found, expected);
        }
        if let Some(Run { start: first, .. }) = lost.first() {
            let count = lost.len();
            let found = format!(
                "{count} units, the first of them {first}, that snapshot {name} holds on no list"
            );
            self.wrong(Law::Listed, None, found, "them to be listed");
            lost.iter().for_each(|&unit| _ = held.take(unit));
        }
    }

    /// Looks at what hangs from a block, or from the root, as far as no snapshot before holds it.
    fn held_below<'a>(
        &'a mut self,
        stem: &'a Stem,
        above: Option<Rc<Node>>,
        own: &'a mut Own<'_>,
    ) -> LocalBoxFuture<'a, ()> {
        async move {
            let (parent, level, places) = self.nodes.below(stem, above.as_ref());
            let newest = birth_above(&parent).unwrap_or(own.told.update);
            for index in places {
                let pointer = self.nodes.child_of(&parent, index);
                if pointer.is_null() || pointer.birth.get() <= own.before {
                    continue;
                }
                self.born(file_of(stem), pointer, newest);
                let is_data = level == 0 && stem.holds_data();
                let length = if is_data { self.block } else { 1 };
                let run = Run { start: pointer.address.get(), length };
                own.runs.push(run);
                if is_data {
                    self.data(stem, index, pointer).await;
                    continue;
                }
                let Ok(Some(node)) = self.nodes.get(stem, level, index).await else {
                    let name = own.told.name.as_bytes().escape_ascii();
                    let found = format!("another block in unit {}", pointer.address);
                    let expected = format!("block {index} of level {level} of snapshot {name}");
                    self.wrong(Law::Block, file_of(stem), found, expected);
                    continue;
                };
                if level > 0 {
                    self.held_below(stem, Some(node), own).await;
                } else if matches!(stem, Stem::Pinned(_)) {
                    self.held_files(&node, own).await;
                }
            }
        }
        .boxed_local()
    }

    async fn held_files(&mut self, home: &Rc<Node>, own: &mut Own<'_>) {
        for slot in (0..INODES).filter(|&slot| !home.inode(slot, Record::is_free)) {
            let ino = home.place.index * INODES + slot;
            let Some(facts) = home.inode(slot, Record::facts) else {
                self.wrong(Law::Inode, Some(ino), "what makes no sense", "an inode");
                continue;
            };
            if !facts.is_inline() {
                let stem = Stem::File(ino, home.clone(), slot);
                self.held_below(&stem, None, own).await;
            }
        }
    }

    /// A block is not younger than what leads to it.
    pub(super) fn born(&mut self, ino: Option<u64>, pointer: Pointer, newest: u64) {
        if pointer.birth.get() > newest {
            let found = format!("a block that update {} wrote", pointer.birth);
            self.wrong(Law::Birth, ino, found, format!("one of update {newest}, or before"));
        }
    }
}
