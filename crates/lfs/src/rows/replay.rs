//! Rows as summaries and roll-backs change them.

use cow::Run;

use super::{Row, Rows, State, split};
use crate::format::ROW;
use crate::format::summary::LoggedRow;
use crate::format::table::{self, Owner};

impl Rows {
    /// A summary names a row: it exists from now on.
    pub(crate) fn replay_row(&self, logged: &LoggedRow) -> Result<(), &'static str> {
        let LoggedRow { row, place, present } = *logged;
        let last = place.checked_add(present.count().max(1) - 1);
        let segment = self.shape.segment_of(place);
        let is_whole =
            segment.is_some() && last.and_then(|at| self.shape.segment_of(at)) == segment;
        if !is_whole || row == 0 || u64::from(row) >= self.shape.rows() {
            return Err("a row of the log is in no segment");
        }
        let segment = segment.expect("it is one");
        self.note_log(segment);
        let inner = &mut *self.inner.borrow_mut();
        while inner.rows.len() <= row as usize {
            let next = inner.rows.len() as u32;
            inner.free_rows.insert(next);
            inner.rows.push(Row::default());
            inner.dirty.insert(u64::from(next) / table::ROWS as u64);
        }
        inner.free_rows.remove(&row);
        let at = &mut inner.rows[row as usize];
        let is_new = !at.is_begun;
        if !is_new && (at.line.place != place || !at.line.present.is_within(&present)) {
            return Err("a row of the log is in two places");
        }
        at.is_begun = true;
        (at.line.place, at.line.present) = (place, present);
        if is_new {
            at.line.born = self.number.get();
        }
        inner.segments[segment as usize].rows.insert(row);
        inner.emptied.insert(row);
        Ok(())
    }

    /// A summary says that these units are in use: they were planned, and taken.
    pub(crate) fn replay_take(&self, run: Run) -> Result<(), &'static str> {
        let are_free =
            (run.start..run.start + run.length).all(|at| self.has(at) && !self.is_used(at));
        let (row, first) = split(run.start);
        if !are_free || first + run.length > ROW as u64 {
            return Err("a block of the log has no place");
        }
        {
            let inner = &mut *self.inner.borrow_mut();
            let at = &mut inner.rows[row as usize];
            at.planned += run.length;
            let segment = self.shape.segment_of(at.line.place).expect("a row is in one");
            inner.planned += run.length;
            inner.segments[segment as usize].live += run.length;
        }
        self.take(run);
        Ok(())
    }

    /// A part of the chain is in this segment: it is in use until the next checkpoint.
    pub(crate) fn note_log(&self, segment: u64) {
        let number = self.number.get();
        let inner = &mut *self.inner.borrow_mut();
        let at = &mut inner.segments[segment as usize];
        at.state = State::Closed;
        at.closed_in = number;
        inner.clean.remove(&segment);
        inner.dead.insert(segment);
    }

    /// Frees all blocks of files and of their metadata in rows that were begun after this
    /// checkpoint.
    pub(crate) fn void(&self, checkpoint: u64) {
        assert_eq!(self.inner.borrow().planned, 0, "nobody uses the volume");
        let all = self.inner.borrow().rows.len() as u32;
        for row in 0..all {
            let line = self.inner.borrow().rows[row as usize].line;
            if line.owner != Owner::Volume && line.born > checkpoint {
                for index in line.used.indexes() {
                    assert!(self.lose(Run::of(super::joined(row, index))), "invariant 5");
                }
            }
        }
    }

    /// Makes the units in use those that are held, as far as rows have them.
    pub(crate) fn recount(&self, is_held: impl Fn(u64) -> bool) {
        let all = self.inner.borrow().rows.len() as u32;
        for row in 0..all {
            let line = self.inner.borrow().rows[row as usize].line;
            for index in line.present.indexes() {
                let unit = Run::of(super::joined(row, index));
                match (is_held(unit.start), line.used.has(index)) {
                    (true, false) => self.replay_take(unit).expect("it is there, and not in use"),
                    (false, true) => assert!(self.lose(unit), "invariant 5"),
                    _ => {}
                }
            }
        }
    }
}
