//! Looking at what snapshots hold, and at the lists of what the live tree has no more.
//!
//! What an older snapshot holds at the same place is not looked at again: a block is older than the
//! one that leads to it, or as old, so each is looked at where it is held first.

use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use vfs::FileKind;

use super::{Law, Look, file_of};
use crate::commit::Unfolded;
use crate::format::inode::Record;
use crate::format::pointer::{Pointer, WIDTH};
use crate::format::record::{Change, Run, Span};
use crate::format::snapshot::{Died, Told};
use crate::format::{FAN, INODES};
use crate::nodes::{Node, Parent, Stem};
use crate::pins::Pins;
use crate::space::Space;

/// What one snapshot holds, and none before it does.
struct Own<'a> {
    told: &'a Told,
    /// The update that made the one before it.
    before: u64,
    units: Space,
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
        let shape = *self.held.shape();
        let (mut before, mut held) = (0, Space::empty(shape));
        for told in pins.holding() {
            let own = Own { told: &told, before, units: Space::empty(shape) };
            let own = self.held_by(own).await;
            let holder = |span: &Span| pins.first_holder(*span) == Some(told.number);
            let died = listed.iter().filter(|(_, span)| holder(span));
            self.compare(&told, &own.units, died.map(|(run, _)| *run), &mut held);
            before = told.update;
        }
        let loose = listed.iter().filter(|(_, span)| pins.first_holder(*span).is_none());
        loose.for_each(|(run, _)| _ = self.hold(*run, None));
        for unit in (0..shape.units).filter(|&unit| shape.may_hold(&one(unit))) {
            if held.has_all(one(unit)) && !self.hold(one(unit), None) {
                break;
            }
        }
    }

    /// What lists say that died, and while who held it.
    async fn lists(&mut self, pins: &Pins) -> Vec<(Run, Span)> {
        let mut all = Vec::new();
        for list in pins.lists() {
            let (mut next, mut units) = (Some(list.last), 0);
            while let Some(place) = next.take() {
                let block = self.nodes.get(&Stem::Died, 0, place).await.ok().flatten();
                let Some(died) = block.and_then(|block| block.read(Died::read)) else {
                    let expected = format!("block {place} of a list");
                    self.wrong(Law::Block, None, "another block", expected);
                    break;
                };
                units += died.runs.iter().map(|run| run.length).sum::<u64>();
                all.extend(died.runs.into_iter().map(|run| (run, list.span)));
                next = died.previous.filter(|_| units <= list.units); // or it is a circle
            }
            if units != list.units {
                let found = format!("{units} units on a list of what died");
                self.wrong(Law::Counts, None, found, list.units.to_string());
            }
        }
        all
    }

    /// What a snapshot holds first and the live tree has no more is what died since, and is listed.
    fn compare(
        &mut self,
        told: &Told,
        own: &Space,
        died: impl Iterator<Item = Run>,
        held: &mut Space,
    ) {
        let name = told.name.as_bytes().escape_ascii().to_string();
        for run in died {
            let is_own = self.held.shape().may_hold(&run) && own.has_all(run);
            let is_live = (run.start..run.end()).any(|unit| self.held.has_all(one(unit)));
            if !is_own || is_live || !held.take(run) {
                let Run { start, length } = run;
                let found = format!("{length} units from {start} on listed as dead");
                let expected = format!("units that snapshot {name} holds first, and nothing else");
                self.wrong(Law::Listed, None, found, expected);
            }
        }
        let shape = *self.held.shape();
        let is_lost = |&unit: &u64| {
            let unit = one(unit);
            own.has_all(unit) && !held.has_all(unit) && !self.held.has_all(unit)
        };
        let lost: Vec<u64> =
            (0..shape.units).filter(|&unit| shape.may_hold(&one(unit))).filter(is_lost).collect();
        if let Some(first) = lost.first() {
            let found = format!(
                "{} units, the first of them {first}, that snapshot {name} holds on no list",
                lost.len()
            );
            self.wrong(Law::Listed, None, found, "them to be listed");
            lost.iter().for_each(|&unit| _ = held.take(one(unit)));
        }
    }

    async fn held_by<'a>(&mut self, mut own: Own<'a>) -> Own<'a> {
        let stem = Stem::Pinned(Rc::new(own.told.inodes));
        self.held_below(&stem, None, &mut own).await;
        own
    }

    /// Looks at what hangs from a block, or from the root, as far as no snapshot before holds it.
    fn held_below<'a>(
        &'a mut self,
        stem: &'a Stem,
        above: Option<Rc<Node>>,
        own: &'a mut Own<'_>,
    ) -> LocalBoxFuture<'a, ()> {
        async move {
            let (parent, level, first, count, newest) = match &above {
                Some(node) => {
                    let (level, first) = (node.place.level - 1, node.place.index * FAN);
                    let birth = node.pointer().birth.get();
                    (Parent::Node(node.clone()), level, first, FAN, birth)
                }
                None => {
                    let newest = match stem {
                        Stem::File(_, home, _) => home.pointer().birth.get(),
                        _ => own.told.update,
                    };
                    let height = self.nodes.height(stem);
                    (Parent::Stem(stem.clone()), height, 0, WIDTH as u64, newest)
                }
            };
            for index in first..first + count {
                let pointer = self.nodes.child_of(&parent, index);
                if pointer.is_null() || pointer.birth.get() <= own.before {
                    continue;
                }
                self.born(file_of(stem), pointer, newest);
                let is_data = level == 0 && holds_data(stem);
                let length = if is_data { self.block } else { 1 };
                let run = Run { start: pointer.address.get(), length };
                if !own.units.take(run) {
                    let found = format!("{length} units from {} on held twice", run.start);
                    self.wrong(Law::Once, file_of(stem), found, "units that are held once");
                    continue;
                }
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

fn one(unit: u64) -> Run {
    Run { start: unit, length: 1 }
}

/// Whether the leaves of a tree are data.
fn holds_data(stem: &Stem) -> bool {
    let Stem::File(_, home, slot) = stem else { return false };
    let facts = home.inode(*slot, Record::facts);
    facts.is_some_and(|facts| facts.kind != FileKind::Directory)
}
