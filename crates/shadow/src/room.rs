//! Upper bounds for the room that updates take, and the room that is reserved for them.
//!
//! Invariants:
//! 1. The room that an update takes is there when it is sealed: each change has asked for it.
//!
//! Not asserted: 1, which `Commits::units_for` would find out.

use std::collections::BTreeSet;

use cow::format::snapshot::{LISTS, RUNS};
use cow::{BODY, FAN, HIGHEST, Stem};

use crate::commit::Commits;
use crate::format::MAPPED;
use crate::format::anchor::Shape;
use crate::format::log::LINES;
use crate::format::record;
use crate::format::superblock::Superblock;
use crate::planted::{Bug, is_planted};
use crate::runs::most_records;
use crate::space_log;
use crate::units::MAP;

/// Blocks of replies at most.
const RING: u64 = 4096;
/// Blocks that an update writes twice, at most.
pub(crate) const TWINS: u64 = HIGHEST as u64 + 1;

impl Commits {
    /// Units that the open update takes for metadata, at most, with a fold, if this many more
    /// blocks may die.
    pub(crate) fn needs(&self, deaths: u64) -> u64 {
        let (open, unfolded) = (self.open.borrow(), self.unfolded.borrow());
        // Changes come to at most two lines for each leaf they touch; waiting lines may join them.
        let lines = 2 * unfolded.leaves + self.log.borrow().leaves();
        let all = self.shape.units / MAPPED + 1;
        let leaves = all.min(lines + self.lost_leaves.borrow().len() as u64);
        let map = leaves + leaves.min(all.div_ceil(FAN)) + u64::from(self.nodes.height(&MAP));
        let logged = (lines / LINES as u64 + 2).min(space_log::ring(&self.shape));
        let answers: usize = unfolded.answers.iter().map(|answer| answer.len() + 2).sum();
        let deaths = deaths + self.nodes.dirty_count() + self.most_twins();
        let spans: BTreeSet<_> = open.spans.keys().chain(unfolded.died.keys()).collect();
        let runs = unfolded.died.values().chain(open.spans.values()).sum::<u64>();
        // Blocks that die from now on have at most one span for each holder, all with the same end.
        let next = self.pins.next_number();
        let others = spans.iter().filter(|span| span.end != next).count();
        let holders = self.pins.holders() as u64;
        let lists = (spans.len() as u64 + deaths).min(others as u64 + holders);
        let more = if holders == 0 { 0 } else { deaths };
        let lists = self.needs_for_lists(lists, runs + more);
        drop((open, unfolded));
        let answers = 2 * (answers / BODY) as u64;
        let folded = map + 2 * logged + answers + lists;
        // Each block is taken, and frees its old place: two lines of the record.
        self.needs_without_fold() + folded + 2 * folded / LINES as u64
    }

    /// The same for the next update, which folds if a fold is due.
    pub(crate) fn needs_now(&self) -> u64 {
        if self.is_fold_due() { self.needs(0) } else { self.needs_without_fold() }
    }

    /// The same without a fold.
    fn needs_without_fold(&self) -> u64 {
        let open = self.open.borrow();
        let dirty = self.nodes.dirty_count();
        let died = 2 * open.died.len(); // with its span
        let twins = self.most_twins();
        let runs = open.taken.len() + open.freed.len() + died + 3 * (dirty + twins) as usize;
        dirty
            + twins
            + record::blocks_for(runs + most_records(&self.shape), &open.answers) as u64
            + 8
    }

    /// Blocks that an update writes twice, at most.
    pub(crate) fn most_twins(&self) -> u64 {
        u64::from(self.nodes.height(&Stem::Inodes)) + 1
    }

    /// Units that this many lists take when this many runs are added, at most: the last block of
    /// each, new blocks, the blocks that lead to them, and their lines.
    fn needs_for_lists(&self, lists: u64, runs: u64) -> u64 {
        if lists == 0 {
            return 0;
        }
        let height = |stem: &Stem| u64::from(self.nodes.height(stem)) + 1;
        let blocks = runs / RUNS as u64 + 2 * lists;
        let of_lines = (self.pins.list_slots() + lists).div_ceil(LISTS);
        let lines = lists.min(of_lines) + of_lines.div_ceil(FAN) + height(&Stem::Lists);
        // The last blocks may be anywhere; new ones have the lowest free places, which may be as
        // well.
        blocks * (1 + u64::from(self.nodes.height(&Stem::Died) > 0)) + height(&Stem::Died) + lines
    }

    /// Units that will be needed for records and replies, and for the blocks that snapshots hold.
    pub(crate) fn keeps(&self) -> u64 {
        let blocks = self.live.units.get() / self.shape.block;
        let held = if is_planted(Bug::UnkeptRoom) { 0 } else { self.pins.keeps(blocks) };
        to_come(&self.shape, self.recorded()) + held
    }

    /// The sizes of the records, and of what they are folded into.
    pub(crate) fn recorded(&self) -> Recorded {
        let records = self.unfolded.borrow().units.len() as u64;
        let logged = self.log.borrow().range().end;
        Recorded { records, answers: self.superblock.borrow().answers_begun, logged }
    }
}

/// Number of blocks of records; and of blocks ever begun, of replies and of the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recorded {
    records: u64,
    answers: u64,
    logged: u64,
}

impl Recorded {
    /// From a superblock.
    pub(crate) fn of(superblock: &Superblock) -> Self {
        let Superblock { records, answers_begun, log_blocks, .. } = superblock;
        Self { records: (*records).into(), answers: *answers_begun, logged: log_blocks.end }
    }
}

/// Units that will be needed for records, replies and the log.
fn to_come(shape: &Shape, recorded: Recorded) -> u64 {
    let Recorded { records, answers, logged } = recorded;
    let records = (most_records(shape) as u64).saturating_sub(records);
    let answers = ring(shape).saturating_sub(answers);
    records + answers + space_log::ring(shape).saturating_sub(logged)
}

/// The same, plus the needs of any update.
pub(crate) fn kept(shape: &Shape, recorded: Recorded) -> u64 {
    2 * (shape.units / MAPPED + 1) + 14 + to_come(shape, recorded)
}

/// Number of blocks of replies before the oldest is overwritten.
pub(crate) fn ring(shape: &Shape) -> u64 {
    (shape.units / 64).clamp(8, RING)
}
