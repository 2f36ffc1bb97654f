//! Runs of units in records and superblocks.

use std::collections::BTreeMap;
use std::rc::Rc;

use cow::{Balance, Run, Span, coalesced, sum_of_sums};

use crate::format::MAPPED;
use crate::format::anchor::Shape;
use crate::format::record::Change;
use crate::format::superblock::Listed;

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

/// The changes for the record, and the runs that are free when it is durable.
pub(crate) fn changes_for_record(mut balance: Balance) -> (Vec<Change>, Vec<Run>) {
    let (taken, freed) = (coalesced(balance.taken), coalesced(balance.freed));
    let mut changes: Vec<Change> = taken.into_iter().map(Change::Taken).collect();
    changes.extend(freed.iter().copied().map(Change::Freed));
    balance.died.sort_unstable_by_key(|&(run, span)| (span, run));
    for of_span in balance.died.chunk_by(|(_, one), (_, other)| one == other) {
        let runs = coalesced(of_span.iter().map(|(run, _)| *run).collect());
        changes.extend(runs.into_iter().map(|run| Change::Died(run, of_span[0].1)));
    }
    (changes, freed)
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
