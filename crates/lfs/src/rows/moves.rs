//! Rows that the cleaner moves.

use super::{Rows, Segment, State, Which};
use crate::format::bits::Bits;
use crate::format::table::{self, Line};
use crate::planted::{Bug, is_planted};

/// A row that the cleaner moves: the indexes that go along, and where they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mover {
    pub(crate) row: u32,
    pub(crate) used: Bits,
    /// The first of its units as it is.
    pub(crate) place: u64,
    pub(crate) present: Bits,
    born: u64,
}

impl Rows {
    /// Takes units side by side for a row that moves. They hold their segment until it has come.
    pub(crate) fn hold_units(&self, units: u64, leaving: u64) -> Option<u64> {
        let place = self.take_units(Which::Beside, units, leaving)?;
        let segment = self.shape.segment_of(place).expect("it was taken there");
        if !is_planted(Bug::UnheldMoves) {
            self.inner.borrow_mut().segments[segment as usize].held += units;
        }
        Some(place)
    }

    /// Segments that the cleaner may clean, each with the units in use, and the checkpoint during
    /// which it was closed: those that were closed before this one.
    pub(crate) fn victims(&self, before: u64) -> Vec<(u64, u64, u64)> {
        let inner = self.inner.borrow();
        let is_one = |at: &(u64, &Segment)| {
            let is_early = at.1.closed_in < before;
            let is_quiet = at.1.state == State::Closed && at.1.held == 0;
            is_quiet && at.1.live > 0 && is_early && !at.1.is_unreadable
        };
        let all = (0..).zip(&inner.segments).filter(is_one);
        all.map(|(number, at)| (number, at.live, at.closed_in)).collect()
    }

    /// Notes that the cleaner cannot read a segment.
    pub(crate) fn note_unreadable(&self, segment: u64) {
        self.inner.borrow_mut().segments[segment as usize].is_unreadable = true;
    }

    /// The rows to move from a segment; none if a plan holds places there, or the next summary has
    /// to name one of them as it is.
    pub(crate) fn movers(&self, segment: u64) -> Option<Vec<Mover>> {
        let inner = self.inner.borrow();
        let mut movers = Vec::new();
        for &row in &inner.segments[segment as usize].rows {
            let at = &inner.rows[row as usize];
            if at.planned > 0 || inner.touched.contains(&row) {
                return None;
            }
            let Line { place, present, used, born, .. } = at.line;
            if !used.is_empty() {
                movers.push(Mover { row, used, place, present, born });
            }
        }
        Some(movers)
    }

    /// The units of a row were copied to `place`: it is there from now on. Nothing waits.
    pub(crate) fn move_to(&self, mover: &Mover, place: u64) {
        let to = self.shape.segment_of(place).expect("it was taken there");
        let inner = &mut *self.inner.borrow_mut();
        let of_it = &mut inner.segments[to as usize];
        of_it.held = of_it.held.saturating_sub(mover.used.count());
        inner.dead.insert(to);
        let at = &mut inner.rows[mover.row as usize];
        // It may have lost blocks meanwhile. A row that went away has none, and stays as it is.
        let is_same = at.is_begun && at.line.born == mover.born && at.planned == 0;
        if !is_same
            || at.line.place != mover.place
            || at.line.present != mover.present
            || at.line.used.is_empty()
        {
            return;
        }
        assert!(at.line.used.is_within(&mover.used), "invariant 4: all of it was copied");
        let used = at.line.used.count();
        let wrong = u64::from(is_planted(Bug::WrongRank));
        (at.line.place, at.line.present) = (place + wrong, mover.used);
        let from = self.shape.segment_of(mover.place).expect("it was there");
        for (segment, comes) in [(from, false), (to, true)] {
            let at = &mut inner.segments[segment as usize];
            if comes {
                at.live += used;
                at.rows.insert(mover.row);
            } else {
                at.live = at.live.checked_sub(used).expect("invariant 2");
                at.rows.remove(&mover.row);
            }
        }
        inner.dead.insert(from);
        inner.dirty.insert(u64::from(mover.row) / table::ROWS as u64);
    }
}
