//! Blocks that the live tree has lost and snapshots hold, and that are on no list yet.
//!
//! The log records which blocks of files a change has freed, and not whether a snapshot holds them:
//! that follows from the age of their rows, because a row is wholly on one side of each snapshot.
//! So a start finds the same deaths again. A checkpoint puts them on lists.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use cow::{Run, Span};

/// Dead runs that are on no list, by the snapshots that hold them.
#[derive(Default)]
pub(crate) struct Deaths {
    runs: RefCell<BTreeMap<Span, Vec<Run>>>,
    count: Cell<u64>,
}

impl Deaths {
    pub(crate) fn note(&self, run: Run, span: Span) {
        self.runs.borrow_mut().entry(span).or_default().push(run);
        self.count.set(self.count.get() + 1);
    }

    /// They are alive again.
    pub(crate) fn forget(&self) {
        self.runs.take();
        self.count.set(0);
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Run> {
        self.runs.borrow().values().flatten().copied().collect()
    }

    /// Units of each span.
    pub(crate) fn units(&self) -> BTreeMap<Span, u64> {
        let runs = self.runs.borrow();
        let units = |runs: &Vec<Run>| runs.iter().map(|run| run.length).sum();
        runs.iter().map(|(&span, runs)| (span, units(runs))).collect()
    }

    /// The dead runs.
    pub(crate) fn now(&self) -> BTreeMap<Span, Vec<Run>> {
        self.runs.borrow().clone()
    }

    /// Number of runs, and of spans.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.count.get(), self.runs.borrow().len() as u64)
    }

    /// Removes the runs of some spans.
    pub(crate) fn remove(&self, is_one: impl Fn(Span) -> bool) -> Vec<Run> {
        let mut runs = self.runs.borrow_mut();
        let spans: Vec<Span> = runs.keys().copied().filter(|&span| is_one(span)).collect();
        let gone: Vec<Run> = spans.iter().filter_map(|span| runs.remove(span)).flatten().collect();
        self.count.set(self.count.get() - gone.len() as u64);
        gone
    }
}
