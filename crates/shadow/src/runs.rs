//! Runs of units in records and superblocks.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::format::anchor::Shape;
use crate::format::pointer::Pointer;
use crate::format::record::{Change, Run, Span};
use crate::format::superblock::Listed;
use crate::format::{MAPPED, sum};
use crate::pins::Pins;
use crate::space::Space;

/// Blocks of records that make a fold due. A small volume has few to spare.
pub(crate) fn most_records(shape: &Shape) -> usize {
    (shape.units / 64).clamp(4, 32) as usize
}

/// The contents of the records since the last fold.
#[derive(Clone, Default)]
pub(crate) struct Unfolded {
    pub(crate) changes: Vec<Change>,
    pub(crate) answers: Vec<Rc<[u8]>>,
    /// Units of the records.
    pub(crate) units: Vec<u64>,
    /// Number of dead runs of each span.
    pub(crate) died: BTreeMap<Span, u64>,
    /// Sum of the blocks of the map that each change touches.
    pub(crate) leaves: u64,
}

impl Unfolded {
    /// Adds the contents of one more record.
    pub(crate) fn extend(&mut self, changes: Vec<Change>, answers: Vec<Rc<[u8]>>) {
        for change in &changes {
            let run = change.run();
            self.leaves += run.end().saturating_sub(1) / MAPPED + 1 - run.start / MAPPED;
            if let Change::Died(_, span) = change {
                *self.died.entry(*span).or_default() += 1;
            }
        }
        self.changes.extend(changes);
        self.answers.extend(answers);
    }
}

/// Units that an update takes and frees, and units that died: snapshots alone hold them.
#[derive(Default)]
pub(crate) struct Balance {
    pub(crate) taken: Vec<Run>,
    pub(crate) freed: Vec<Run>,
    pub(crate) died: Vec<(Run, Span)>,
}

impl Balance {
    /// Notes that the live tree loses a block of this length. If a snapshot holds it, it is not
    /// free.
    pub(crate) fn lose(&mut self, old: Pointer, length: u64, pins: &Pins) {
        let run = Run { start: old.address.get(), length };
        match pins.span_of(old.birth.get()) {
            _ if old.is_null() => {}
            Some(span) => self.died.push((run, span)),
            None => self.freed.push(run),
        }
    }

    /// Leaves out freed and dead runs that are not in use, or that are freed twice: the pointers to
    /// them were wrong. Returns the number of these.
    pub(crate) fn leave_out_wrong(&mut self, space: &Space) -> usize {
        let count = self.freed.len() + self.died.len();
        self.freed.sort_unstable();
        let mut end = 0;
        self.freed.retain(|run| {
            let is_right = end <= run.start && space.may_free(*run);
            end = if is_right { run.end() } else { end };
            is_right
        });
        self.died.retain(|(run, _)| space.may_free(*run));
        count - self.freed.len() - self.died.len()
    }

    /// The changes for the record, and the runs that are free when it is durable.
    pub(crate) fn into_changes(mut self) -> (Vec<Change>, Vec<Run>) {
        let (taken, freed) = (coalesced(self.taken), coalesced(self.freed));
        let mut changes: Vec<Change> = taken.into_iter().map(Change::Taken).collect();
        changes.extend(freed.iter().copied().map(Change::Freed));
        self.died.sort_unstable_by_key(|&(run, span)| (span, run));
        for of_span in self.died.chunk_by(|(_, one), (_, other)| one == other) {
            let runs = coalesced(of_span.iter().map(|(run, _)| *run).collect());
            changes.extend(runs.into_iter().map(|run| Change::Died(run, of_span[0].1)));
        }
        (changes, freed)
    }
}

/// Runs in the order of their units, with adjacent ones joined.
pub(crate) fn coalesced(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_unstable();
    let mut all: Vec<Run> = Vec::with_capacity(runs.len());
    for run in runs {
        match all.last_mut() {
            Some(last) if last.end() == run.start => last.length += run.length,
            _ => all.push(run),
        }
    }
    all
}

/// The entries of a superblock's list for blocks of this many units with these checksums, with
/// adjacent blocks joined.
pub(crate) fn runs_of(sums: &BTreeMap<u64, u64>, units: u64) -> Vec<Listed> {
    let mut runs: Vec<(Run, Vec<u64>)> = Vec::new();
    for (&start, &sum) in sums {
        match runs.last_mut() {
            Some((run, sums)) if run.end() == start => {
                run.length += units;
                sums.push(sum);
            }
            _ => runs.push((Run { start, length: units }, vec![sum])),
        }
    }
    let listed =
        |(run, sums): (Run, Vec<u64>)| Listed { run, grain: units as u16, sum: sum_of_sums(&sums) };
    runs.into_iter().map(listed).collect()
}

/// The checksum of checksums.
pub(crate) fn sum_of_sums(sums: &[u64]) -> u64 {
    let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    sum(&bytes)
}
