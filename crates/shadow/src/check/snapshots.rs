//! Checking snapshots: their lines, their trees, and the lists of blocks that the live tree has
//! lost.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cow::format::snapshot::{Died, LINES, LISTS, Line, List, Snapshots, Told};
use cow::{Listing, Occupied, Pins, Run, Span, Stem, Which, coalesced};

use super::facts::Count;
use super::{Goes, Law, Look, Tree};
use crate::format::record::Change;
use crate::format::superblock::Superblock;
use crate::runs::Unfolded;

impl Look<'_> {
    /// The snapshots and lists, as far as their lines can be read and make sense.
    pub(crate) async fn pins(&mut self, said: &Snapshots) -> Pins {
        if !said.makes_sense(self.held.shape().units) {
            self.wrong(Law::Line, None, "numbers of lines that no volume has", "fewer");
            return Pins::default();
        }
        let mut found: BTreeMap<u64, (Told, u64)> = BTreeMap::new();
        for block in 0..said.line_slots.div_ceil(LINES) {
            let read = self.nodes.get(&Stem::Snapshots, 0, block).await;
            let Ok(Some(lines)) = read else { continue };
            for slot in block * LINES..(block + 1) * LINES {
                let told = lines.read(|bytes| Line::read(bytes, slot));
                let is_new = match &told {
                    Ok(None) => true,
                    Ok(Some(told)) => found.insert(told.number, (told.clone(), slot)).is_none(),
                    Err(()) => false,
                };
                if slot >= said.line_slots && matches!(told, Ok(Some(_))) {
                    let found = format!("a line of a snapshot, {slot}");
                    let expected = format!("none from {} on", said.line_slots);
                    self.wrong(Law::Counts, None, found, expected);
                }
                if !is_new {
                    let found = format!("line {slot}, which makes no sense");
                    self.wrong(Law::Line, None, found, "that of a snapshot, or none");
                }
            }
        }
        let (mut last, mut all) = (0, BTreeMap::new());
        for (number, (told, slot)) in found {
            let sizes = [told.files, told.directories, told.units, told.nodes];
            let are_small = sizes.iter().all(|&size| size >> 48 == 0);
            let follows = last < told.update && told.update <= self.tree.newest;
            if are_small && follows && number <= said.last {
                last = told.update;
                all.insert(number, (told, slot));
            } else {
                let found = format!("snapshot {}, of update {}", name_of(&told), told.update);
                let expected = format!("one of an update behind {last}, with a number up to {}", {
                    said.last
                });
                self.wrong(Law::Line, None, found, expected);
            }
        }
        let lists = self.lines_of_lists(said).await;
        self.slots(said).await;
        let mut died = Occupied::default(); // no place is handed out here
        died.note(0..said.died_slots);
        let pins = Pins::new(said, all, lists, died);
        let newest = pins.holding().last().map_or(0, |told| told.update);
        if said.pinned_until < newest {
            let found = format!("update {}, up to which blocks are pinned", said.pinned_until);
            self.wrong(Law::Counts, None, found, format!("{newest} at least"));
        }
        pins
    }

    /// Checks that there is nothing behind the ends that the superblock has.
    async fn slots(&mut self, said: &Snapshots) {
        let ends = [
            (Stem::Snapshots, said.line_slots.div_ceil(LINES), "lines of snapshots"),
            (Stem::Lists, said.list_slots.div_ceil(LISTS), "lines of lists"),
            (Stem::Died, said.died_slots, "lists"),
        ];
        for (stem, end, what) in ends {
            if let Some(leaf) = self.nodes.leaf_from(&stem, None, end, Which::Last).await {
                let found = format!("block {leaf} of {what}");
                self.wrong(Law::Counts, None, found, format!("none from {end} on"));
            }
        }
    }

    async fn lines_of_lists(&mut self, said: &Snapshots) -> BTreeMap<Span, Listing> {
        let mut lists = BTreeMap::new();
        for block in 0..said.list_slots.div_ceil(LISTS) {
            let Ok(Some(lines)) = self.nodes.get(&Stem::Lists, 0, block).await else { continue };
            for slot in block * LISTS..(block + 1) * LISTS {
                let Some(list) = lines.read(|bytes| List::read(bytes, slot)) else { continue };
                let Span { first, end } = list.span;
                let is_span = 0 < first && first < end && end <= said.last + 1;
                let is_there = slot < said.list_slots;
                let makes_sense = is_span && is_there && list.last < said.died_slots;
                if !makes_sense || lists.insert(list.span, Listing { slot, list }).is_some() {
                    let found = format!("a list of what snapshots {first} to {end} hold");
                    self.wrong(Law::Listed, None, found, "one that makes sense, and is not twice");
                }
            }
        }
        lists
    }

    /// Checks the trees of all snapshots, the newest first. The live tree was checked before.
    pub(crate) async fn held(&mut self, pins: &Pins) {
        let holding = pins.holding();
        self.holders = holding.iter().map(|told| (told.number, told.update)).collect();
        let mut before = Stem::Inodes;
        for told in holding.into_iter().rev() {
            let inodes = Stem::Pinned(Rc::new(told.inodes));
            let snapshot = Some((told.number, name_of(&told)));
            let tree = Tree { snapshot, inodes: inodes.clone(), newest: told.update };
            let goes = if told.orphans_since > 0 { Goes::Nameless } else { Goes::Nothing };
            self.look_at(tree, Some(before), goes).await;
            let there = self.says.count;
            let Count { files, directories, units, nodes, .. } = there;
            self.compare_counts([
                ("files", told.files, files),
                ("directories", told.directories, directories),
                ("units of files", told.units, units),
                ("blocks of metadata of files", told.nodes, nodes),
            ]);
            self.counts.insert(told.number, there);
            before = inodes;
        }
        self.tree.snapshot = None;
    }

    /// The snapshots that hold a block with this birth, up to the current one, which holds it last.
    pub(super) fn span_of(&self, birth: u64) -> Span {
        let last = self.tree.snapshot.as_ref().map_or(0, |&(number, _)| number);
        let at = self.holders.partition_point(|&(_, update)| update < birth);
        let first = self.holders.get(at).map_or(last, |&(number, _)| number.min(last));
        Span { first, end: last + 1 }
    }

    /// Takes the dead runs that no snapshot holds any more, since a deletion has still to free
    /// them. Returns those that snapshots hold, by the snapshots that are left of their spans.
    pub(super) async fn hold_loose(
        &mut self,
        pins: &Pins,
        unfolded: &Unfolded,
    ) -> BTreeMap<Span, Vec<Run>> {
        let mut listed: BTreeMap<Span, Vec<Run>> = BTreeMap::new();
        for (run, span) in self.runs_of_lists(pins, unfolded).await {
            if !self.held.shape().may_hold(&run) {
                let found = format!("{} units from {} on, listed as dead", run.length, run.start);
                self.wrong(Law::Listed, None, found, "units that may be held");
                continue;
            }
            match pins.holders_of(span) {
                Some(span) => listed.entry(span).or_default().push(run),
                None => _ = self.hold(run, None),
            }
        }
        listed
    }

    /// Checks the lists: blocks that snapshots alone hold are on them, once.
    pub(super) async fn lists(&mut self, pins: &Pins, unfolded: &Unfolded) {
        let mut listed = self.hold_loose(pins, unfolded).await;
        let mut held: BTreeMap<Span, Vec<Run>> = BTreeMap::new();
        for &(span, run) in self.died.values() {
            held.entry(span).or_default().push(run);
        }
        let all: BTreeMap<u64, String> =
            pins.holding().iter().map(|told| (told.number, name_of(told))).collect();
        let spans: BTreeSet<Span> = held.keys().chain(listed.keys()).copied().collect();
        for span in spans {
            let of = |runs: &mut BTreeMap<Span, Vec<Run>>| runs.remove(&span).unwrap_or_default();
            let (listed, held) = (coalesced(of(&mut listed)), coalesced(of(&mut held)));
            let name = |number: u64| all.get(&number).map_or("", String::as_str);
            let (first, last) = (name(span.first), name(span.end - 1));
            let whose = if span.first + 1 == span.end {
                format!("snapshot {first} holds alone")
            } else {
                format!("snapshots {first} to {last} hold alone")
            };
            let strange = beside(&listed, &held);
            if let Some((units, start)) = strange {
                let found = format!("{units} units, the first of them {start}, listed as dead");
                self.wrong(Law::Listed, None, found, format!("what {whose}, once"));
            }
            if let Some((units, start)) = beside(&held, &listed) {
                let found =
                    format!("{units} units, the first of them {start}, that {whose}, on no list");
                self.wrong(Law::Listed, None, found, "them to be listed");
            }
        }
    }

    /// The snapshots that hold something, and the runs that they alone hold according to lists and
    /// records, in the order of the units.
    pub(crate) async fn held_alone(
        &mut self,
        superblock: &Superblock,
        unfolded: &Unfolded,
    ) -> (Vec<Told>, Vec<Run>) {
        self.tree.newest = superblock.number;
        let pins = self.pins(&superblock.snapshots).await;
        let runs = self.runs_of_lists(&pins, unfolded).await;
        (pins.holding(), coalesced(runs.into_iter().map(|(run, _)| run).collect()))
    }

    /// The dead runs of lists and records, with their spans.
    async fn runs_of_lists(&mut self, pins: &Pins, unfolded: &Unfolded) -> Vec<(Run, Span)> {
        let mut all = Vec::new();
        for change in &unfolded.changes {
            if let Change::Died(run, span) = change {
                all.push((*run, *span));
            }
        }
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
                next = died.previous;
                let most = pins.died_slots().min(self.held.shape().units);
                if next.is_some_and(|next| next >= pins.died_slots() || blocks >= most) {
                    let found = "a list that goes on where there is none, or in a circle";
                    self.wrong(Law::Listed, None, found, "one that ends");
                    break;
                }
            }
            if units != list.units {
                let found = format!("{units} units on a list of what died");
                self.wrong(Law::Counts, None, found, list.units.to_string());
            }
        }
        all
    }
}

/// The name of a snapshot, for people.
fn name_of(told: &Told) -> String {
    told.name.as_bytes().escape_ascii().to_string()
}

/// Number of units of these runs that the others do not have, or that are in several of these, and
/// the first of them. Both are sorted.
fn beside(runs: &[Run], others: &[Run]) -> Option<(u64, u64)> {
    let (mut count, mut first, mut end, mut next) = (0, None, 0, 0);
    let mut note = |start: u64, units: u64| {
        if units > 0 {
            count += units;
            first.get_or_insert(start);
        }
    };
    for run in runs {
        let mut at = run.start;
        let twice = end.min(run.end()).saturating_sub(at);
        note(at, twice);
        at += twice;
        while at < run.end() {
            while others.get(next).is_some_and(|other| other.end() <= at) {
                next += 1;
            }
            let other = others.get(next).copied().filter(|other| other.start < run.end());
            let until = other.map_or(run.end(), |other| other.start.max(at));
            note(at, until - at);
            at = other.map_or(run.end(), |other| other.end().min(run.end()));
        }
        end = end.max(run.end());
    }
    first.map(|first| (count, first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_has_beside_the_other_is_counted() {
        let runs = |all: &[(u64, u64)]| -> Vec<Run> {
            all.iter().map(|&(start, length)| Run { start, length }).collect()
        };
        for (some, others, right) in [
            (runs(&[(5, 3)]), runs(&[(5, 3)]), None),
            (runs(&[(5, 3), (9, 2)]), runs(&[(1, 2), (4, 9)]), None),
            (runs(&[(5, 3)]), runs(&[]), Some((3, 5))),
            (runs(&[(5, 6)]), runs(&[(6, 2), (9, 1)]), Some((3, 5))),
            (runs(&[(5, 6), (8, 4)]), runs(&[(5, 7)]), Some((3, 8))),
            (runs(&[(5, 2), (5, 2)]), runs(&[(5, 2)]), Some((2, 5))),
            (runs(&[(5, 2), (20, 2)]), runs(&[(6, 15)]), Some((2, 5))),
        ] {
            assert_eq!(beside(&some, &others), right, "{some:?} {others:?}");
        }
    }
}
