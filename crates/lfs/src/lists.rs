//! Dead lists: a checkpoint puts the blocks there that snapshots alone hold.
//!
//! Invariants:
//! 1. A block that only snapshots hold is in use, and is among the deaths or on a list.
//! 2. The lists of a checkpoint have all deaths before it, those of the blocks that it replaces
//!    among them.
//!
//! Not asserted: 1, which a check tests.

use std::collections::BTreeMap;
use std::rc::Rc;

use cow::format::snapshot::{Died, LISTS, RUNS};
use cow::lists::{Growing, Lists};
use cow::{FAN, Node, Pointer, Run, Span, Stem, coalesced};
use vfs::FsError;

use crate::log::Log;
use crate::logical::Names;
use crate::planted::{Bug, is_planted};

impl Log {
    /// The lines and lists of its snapshots.
    pub(crate) fn lists(&self) -> Lists<'_, Names> {
        Lists { nodes: &self.nodes, pins: &self.pins }
    }

    /// Notes that the live tree has lost these units. They are free, unless a snapshot holds them.
    pub(crate) fn note_lost(&self, run: Run, span: Option<Span>) {
        match span.filter(|_| !is_planted(Bug::UnheldDeaths)) {
            Some(span) if run.units().all(|unit| self.rows.is_used(unit.start)) => {
                self.deaths.note(run, span);
            }
            Some(_) => self.count(|totals| totals.wrong_pointers += 1),
            None => self.free_run(run),
        }
    }

    /// Units are not in use any more.
    pub(crate) fn free_run(&self, run: Run) {
        let mut start = run.start;
        while start < run.end() {
            let end = run.end().min((start | (crate::format::ROW as u64 - 1)) + 1);
            if self.rows.lose(Run { start, length: end - start }) {
                self.is_packed.set(false);
            } else {
                self.count(|totals| totals.wrong_pointers += 1);
            }
            start = end;
        }
    }

    /// The holders of a block of files, or of their metadata, that a checkpoint replaces.
    pub(crate) fn holders_of_old(&self, node: &Node, old: Pointer) -> Option<Span> {
        self.pins.span_of(old.birth.get()).filter(|_| node.is_pinnable())
    }

    /// The deaths of a checkpoint that is sealed now.
    fn deaths_now(&self) -> BTreeMap<Span, Vec<Run>> {
        let mut all = self.deaths.now();
        if self.pins.holders() > 0 && !is_planted(Bug::UnlistedOld) {
            for node in self.nodes.dirty() {
                for old in [node.pointer(), node.twin()] {
                    let span = self.holders_of_old(&node, old).filter(|_| !old.is_null());
                    let run = Run::of(old.address.get());
                    span.into_iter().for_each(|span| all.entry(span).or_default().push(run));
                }
            }
        }
        all.values_mut().for_each(|runs| *runs = coalesced(std::mem::take(runs)));
        all
    }

    /// Blocks of metadata that lists of the next checkpoint take, at most.
    pub(crate) fn for_lists(&self) -> u64 {
        if self.pins.holders() == 0 {
            return 0;
        }
        let (runs, spans) = self.deaths.counts();
        let runs = runs + self.nodes.dirty_count();
        let blocks = runs.div_ceil(RUNS as u64 - 1) + 2 * (spans + 1);
        blocks + blocks.div_ceil(FAN) + spans / LISTS + 8
    }

    /// Reads the blocks of lists that get runs, and makes those that they need in addition.
    ///
    /// # Errors
    /// If a block cannot be read that a list needs.
    pub(crate) async fn prepare_lists(
        &self,
        made: &mut Vec<Rc<Node>>,
    ) -> Result<Vec<Growing>, FsError> {
        let mut deaths = self.deaths_now();
        deaths.retain(|span, _| self.pins.has_holder(*span));
        let is_new = |span: &&Span| self.pins.list(**span).is_none();
        let mut slots = self.pins.next_lists(deaths.keys().filter(is_new).count()).into_iter();
        // One more than is needed: calls go on meanwhile.
        let blocks = |runs: usize| runs.div_ceil(RUNS) + 1;
        let all = deaths.values().map(|runs| blocks(runs.len())).sum();
        let mut places = self.pins.next_died(all).into_iter();
        let mut lists = Vec::new();
        for (span, runs) in deaths {
            let known = self.pins.list(span);
            let slot = known.map_or_else(|| slots.next(), |known| Some(known.slot));
            let slot = slot.expect("so many were asked for");
            let line = match self.nodes.make(&Stem::Lists, 0, slot / LISTS, made).await {
                Err(FsError::Corrupt) => {
                    self.lists().renew_lines(&Stem::Lists).await?;
                    self.nodes.renew(&Stem::Lists, slot / LISTS).await?;
                    self.nodes.make(&Stem::Lists, 0, slot / LISTS, made).await?
                }
                line => line?,
            };
            let (mut last, mut unread) = (None, None);
            if let Some(known) = known {
                match self.nodes.get(&Stem::Died, 0, known.list.last).await {
                    Ok(Some(block)) => last = Some(block),
                    // The runs on it are unknown now: a check reports the loss.
                    Ok(None) | Err(FsError::Corrupt) => self.pins.note_damage(span),
                    // It may be read when the list is needed: the list goes on behind it.
                    Err(_) => unread = Some(known.list.last),
                }
            }
            let room = last.as_ref().map_or(0, |last| last.read(Died::room));
            let mut next = Vec::new();
            for _ in 0..blocks(runs.len().saturating_sub(room)) {
                let place = places.next().expect("so many were asked for");
                match self.nodes.make(&Stem::Died, 0, place, made).await {
                    Err(FsError::Corrupt) => {
                        // Blocks of pointers above it are lost, with the lists below them.
                        self.pins.pass_died(place / FAN * FAN..(place / FAN + 1) * FAN);
                        return Err(FsError::Corrupt);
                    }
                    block => next.push(block?),
                }
            }
            lists.push(Growing { span, slot, line, last, unread, next });
        }
        Ok(lists)
    }

    /// Whether these lists have room for all deaths until now.
    pub(crate) fn have_room(&self, lists: &[Growing]) -> bool {
        let has_room = |(span, runs): (Span, Vec<Run>)| {
            let list = lists.iter().find(|list| list.span == span);
            !self.pins.has_holder(span) || list.is_some_and(|list| list.room() >= runs.len())
        };
        self.deaths_now().into_iter().all(has_room)
    }

    /// Puts all deaths on lists (invariant 2); what no snapshot holds any more is free.
    pub(crate) fn list_deaths(&self, lists: &[Growing]) {
        for (span, runs) in self.deaths_now() {
            if self.pins.has_holder(span) {
                let list = lists.iter().find(|list| list.span == span);
                self.lists().grow(list.expect("invariant 2"), &runs);
            } else {
                runs.into_iter().for_each(|run| self.free_run(run));
            }
        }
        self.deaths.forget();
    }

    /// Frees deaths that no snapshot holds any more.
    pub(crate) fn free_loose(&self) {
        let loose = self.deaths.remove(|span| !self.pins.has_holder(span));
        loose.into_iter().for_each(|run| self.free_run(run));
    }
}
