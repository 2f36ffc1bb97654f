//! Units that an update takes and loses.

use crate::format::pointer::Pointer;
use crate::format::run::{Run, Span};
use crate::pins::Pins;

/// Units that an update takes and frees, and units that died: snapshots alone hold them.
#[derive(Default)]
pub struct Balance {
    /// Taken runs.
    pub taken: Vec<Run>,
    /// Freed runs.
    pub freed: Vec<Run>,
    /// Dead runs, each with the snapshots that hold it.
    pub died: Vec<(Run, Span)>,
}

impl Balance {
    /// Notes that the live tree loses a block of this length. If a snapshot holds it, it is not
    /// free.
    pub fn lose(&mut self, old: Pointer, length: u64, pins: &Pins) {
        let run = Run { start: old.address.get(), length };
        match pins.span_of(old.birth.get()) {
            _ if old.is_null() => {}
            Some(span) => self.died.push((run, span)),
            None => self.freed.push(run),
        }
    }

    /// Leaves out freed and dead runs that are not in use, or that are freed twice: the pointers to
    /// them were wrong. Returns the number of these.
    pub fn leave_out_wrong(&mut self, may_free: impl Fn(Run) -> bool) -> usize {
        let count = self.freed.len() + self.died.len();
        self.freed.sort_unstable();
        let mut end = 0;
        self.freed.retain(|run| {
            let is_right = end <= run.start && may_free(*run);
            end = if is_right { run.end() } else { end };
            is_right
        });
        self.died.retain(|(run, _)| may_free(*run));
        count - self.freed.len() - self.died.len()
    }
}

/// Runs in the order of their units, with adjacent ones joined.
pub fn coalesced(mut runs: Vec<Run>) -> Vec<Run> {
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
