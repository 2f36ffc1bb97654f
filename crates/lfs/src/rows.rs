//! The table in memory: where each row is, which of its blocks are in use, and the segments.
//!
//! ```text
//!  segment:  clean --open--> open --close--> closed --clean (a checkpoint knows)--> clean
//!  index of a row:  free --plan--> planned --take--> used --lose--> dead, until its row is free
//! ```
//!
//! Invariants:
//! 1. A unit is the place of one index of one row at most.
//! 2. The count of a segment is the number of its indexes that are planned or used.
//! 3. A segment becomes clean when a durable checkpoint has it without a block in use, and no task
//!    reads it. The same goes for a row.
//! 4. A row is in one segment, and the indexes that are present lie there side by side.
//! 5. An index is lost once, and only if it is in use.
//! 6. The blocks of a row were all written before a snapshot, or all after it: a snapshot closes
//!    the open rows while no plan has places.
//!
//! Not asserted: 1, which a check tests.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use cow::Run;
use runtime::sync::Signal;

use crate::format::shape::Shape;
use crate::format::summary::LoggedRow;
use crate::format::table::{self, Line, Owner};
use crate::format::{INDEX_BITS, ROW};
use crate::planted::{Bug, is_planted};

mod moves;
mod replay;

pub(crate) use moves::Mover;

/// A row.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    line: Line,
    /// Indexes that plans hold.
    planned: u64,
    /// No checkpoint has freed it since it was begun.
    is_begun: bool,
}

impl Row {
    fn is_empty(&self) -> bool {
        self.planned == 0 && self.line.used.is_empty()
    }
}

/// The life-cycle state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing is there.
    Clean,
    /// A head writes there.
    Open,
    /// Full.
    Closed,
}

impl Segment {
    /// Whether nothing is there that anybody needs, except the log.
    fn is_dead(&self) -> bool {
        (self.live, self.held, self.state) == (0, 0, State::Closed)
    }
}

#[derive(Debug)]
struct Segment {
    state: State,
    /// Indexes in use, or planned.
    live: u64,
    /// Units of rows that are on their way here.
    held: u64,
    rows: BTreeSet<u32>,
    /// The checkpoint during which it was closed.
    closed_in: u64,
    /// Reads that are under way.
    readers: u64,
    /// The cleaner could not read it.
    is_unreadable: bool,
}

/// A part of the log that is written by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Blocks of files, and summaries: the chain.
    Log = 0,
    /// Blocks of metadata, and what the cleaner moves.
    Beside = 1,
}

/// The part that blocks of this owner go to.
fn which_of(owner: Owner) -> Which {
    if owner == Owner::Files { Which::Log } else { Which::Beside }
}

/// The place at which a part of the log goes on.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    segment: Option<u64>,
    /// Units of the segment that were taken.
    taken: u64,
    /// The open row, and its next index.
    row: Option<(u32, u64)>,
}

#[derive(Debug, Default)]
struct Inner {
    rows: Vec<Row>,
    free_rows: BTreeSet<u32>,
    segments: Vec<Segment>,
    /// The clean ones.
    clean: BTreeSet<u64>,
    heads: [Head; 2],
    /// The segment that the log enters next.
    ahead: Option<u64>,
    /// Rows of the chain that a summary has to name.
    touched: BTreeSet<u32>,
    /// Blocks of the table that have changed.
    dirty: BTreeSet<u64>,
    /// Rows and closed segments in which nothing is in use, perhaps.
    emptied: BTreeSet<u32>,
    dead: BTreeSet<u64>,
    used: u64,
    planned: u64,
}

/// Rows and segments that become free with a checkpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Releases {
    pub(crate) rows: Vec<u32>,
    pub(crate) segments: Vec<u64>,
}

/// A range of units at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) place: u64,
    pub(crate) units: u64,
}

/// See the module's prose.
pub(crate) struct Rows {
    pub(crate) shape: Shape,
    inner: RefCell<Inner>,
    /// The checkpoint that is open.
    pub(crate) number: Cell<u64>,
    /// Notified when the last reader of a clean segment is done.
    pub(crate) read: Signal,
}

/// The row of an address, and the index there.
pub(crate) fn split(address: u64) -> (u64, u64) {
    (address >> INDEX_BITS, address & (ROW as u64 - 1))
}

fn joined(row: u32, index: u64) -> u64 {
    u64::from(row) << INDEX_BITS | index
}

impl Rows {
    /// As the table of a checkpoint has them; the number is that of the open one. The first row is
    /// never used: an address of 0 is no block.
    pub(crate) fn new(shape: Shape, lines: &[Line], number: u64) -> Result<Self, &'static str> {
        let segment = || Segment {
            state: State::Clean,
            live: 0,
            held: 0,
            rows: BTreeSet::new(),
            closed_in: 0,
            readers: 0,
            is_unreadable: false,
        };
        let segments = (0..shape.segments()).map(|_| segment()).collect();
        let mut inner = Inner { segments, rows: vec![Row::default()], ..Inner::default() };
        for (number, line) in (0_u32..).zip(lines).skip(1) {
            let is_free = line.used.is_empty();
            inner.rows.push(Row { line: *line, planned: 0, is_begun: !is_free });
            if is_free {
                inner.rows[number as usize].line = Line::default();
                inner.free_rows.insert(number);
                continue;
            }
            let last = line.place.checked_add(line.present.count().max(1) - 1);
            let segment = shape.segment_of(line.place);
            let is_whole = segment.is_some() && last.and_then(|at| shape.segment_of(at)) == segment;
            if !is_whole || !line.used.is_within(&line.present) {
                return Err("a row is in no segment");
            }
            let used = line.used.count();
            let segment = &mut inner.segments[segment.expect("it is one") as usize];
            segment.rows.insert(number);
            segment.live += used;
            segment.state = State::Closed;
            inner.used += used;
        }
        if inner.segments.iter().any(|segment| segment.live > shape.segment) {
            return Err("two rows are in one place");
        }
        let is_clean = |(_, at): &(u64, &Segment)| at.state == State::Clean;
        inner.clean = (0..).zip(&inner.segments).filter(is_clean).map(|(at, _)| at).collect();
        let inner = RefCell::new(inner);
        Ok(Self { shape, inner, number: Cell::new(number), read: Signal::new() })
    }

    /// Number of rows that were ever in use.
    pub(crate) fn count(&self) -> u64 {
        self.inner.borrow().rows.len() as u64
    }

    /// Units in use, and units that plans hold.
    pub(crate) fn in_use(&self) -> u64 {
        let inner = self.inner.borrow();
        inner.used + inner.planned
    }

    /// Whether a plan has places.
    pub(crate) fn has_planned(&self) -> bool {
        self.inner.borrow().planned > 0
    }

    /// Closes the open rows, because a snapshot has all that is in them (invariant 6).
    pub(crate) fn close_rows(&self) {
        let inner = &mut *self.inner.borrow_mut();
        assert_eq!(inner.planned, 0, "invariant 6");
        for head in &mut inner.heads {
            inner.emptied.extend(head.row.take().map(|(row, _)| row));
        }
    }

    /// Units in use.
    pub(crate) fn used(&self) -> u64 {
        self.inner.borrow().used
    }

    /// Rows that are free, or were never used.
    pub(crate) fn free_rows(&self) -> u64 {
        let inner = self.inner.borrow();
        inner.free_rows.len() as u64 + self.shape.rows() - inner.rows.len() as u64
    }

    /// Number of clean segments, without the one that the log enters next.
    pub(crate) fn clean(&self) -> u64 {
        let inner = self.inner.borrow();
        inner.clean.len() as u64 - u64::from(inner.ahead.is_some())
    }

    /// Whether an address has a unit.
    pub(crate) fn has(&self, address: u64) -> bool {
        let (row, index) = split(address);
        let inner = self.inner.borrow();
        inner.rows.get(row as usize).is_some_and(|row| row.line.present.has(index))
    }

    /// Whether an address is in use.
    pub(crate) fn is_used(&self, address: u64) -> bool {
        let (row, index) = split(address);
        let inner = self.inner.borrow();
        inner.rows.get(row as usize).is_some_and(|row| row.line.used.has(index))
    }

    /// The units of these adjacent addresses; none if one of them has none.
    pub(crate) fn pieces(&self, address: u64, units: u64) -> Option<Vec<Piece>> {
        let inner = self.inner.borrow();
        let mut pieces: Vec<Piece> = Vec::new();
        for address in address..address + units {
            let (row, index) = split(address);
            let line = inner.rows.get(row as usize).map(|row| &row.line)?;
            if !line.present.has(index) {
                return None;
            }
            let place = line.place + line.present.rank(index); // invariant 4
            match pieces.last_mut() {
                Some(last) if last.place + last.units == place => last.units += 1,
                _ => pieces.push(Piece { place, units: 1 }),
            }
        }
        Some(pieces)
    }

    /// Notes that a read of these units begins, or ends.
    pub(crate) fn count_reader(&self, piece: Piece, begins: bool) {
        let Some(segment) = self.shape.segment_of(piece.place) else { return };
        let is_waited_for = {
            let at = &mut self.inner.borrow_mut().segments[segment as usize];
            at.readers = if begins { at.readers + 1 } else { at.readers - 1 };
            at.readers == 0 && at.state == State::Clean
        };
        if is_waited_for {
            self.read.notify();
        }
    }

    /// Takes a clean segment for a head, if more than `leaving` are clean. Its old one is closed.
    fn enter(&self, which: Which, leaving: u64) -> bool {
        let clean = self.clean();
        let inner = &mut *self.inner.borrow_mut();
        let ahead = inner.ahead.filter(|_| which == Which::Log);
        if ahead.is_none() && clean <= leaving {
            return false;
        }
        let taken = ahead.or_else(|| inner.next_clean());
        let Some(segment) = taken else { return false };
        if ahead.is_some() {
            inner.ahead = None;
        }
        let number = self.number.get();
        inner.close(which, number);
        let at = &mut inner.segments[segment as usize];
        assert_eq!((at.state, at.live, at.readers), (State::Clean, 0, 0), "invariant 3");
        at.state = State::Open;
        inner.clean.remove(&segment);
        inner.heads[which as usize] = Head { segment: Some(segment), taken: 0, row: None };
        true
    }

    /// Chooses the segment that the log enters next, if more than `leaving` are clean.
    pub(crate) fn look_ahead(&self, leaving: u64) -> Option<u64> {
        let clean = self.clean();
        let inner = &mut *self.inner.borrow_mut();
        if inner.ahead.is_none() && clean > leaving {
            inner.ahead = inner.next_clean();
        }
        inner.ahead
    }

    /// Plans places for blocks of this many units each, `most` of them at most, side by side.
    /// More than `leaving` segments must be clean if one has to be opened.
    pub(crate) fn plan(&self, owner: Owner, most: u64, step: u64, leaving: u64) -> Option<Run> {
        loop {
            if let Some(run) = self.plan_here(owner, most, step) {
                return Some(run);
            }
            if self.free_rows() == 0 || !self.enter(which_of(owner), leaving) {
                return None;
            }
        }
    }

    fn plan_here(&self, owner: Owner, most: u64, step: u64) -> Option<Run> {
        let which = which_of(owner);
        let inner = &mut *self.inner.borrow_mut();
        let head = inner.heads[which as usize];
        let segment = head.segment?;
        let room = (self.shape.segment - head.taken) / step;
        if room == 0 {
            return None;
        }
        let limit = self.shape.row();
        let fits = |&(row, next): &(u32, u64)| {
            let is_its = inner.rows[row as usize].line.owner == owner;
            is_its && next.next_multiple_of(step) + step <= limit
        };
        let (row, next) = match head.row.filter(fits) {
            Some(row) => row,
            None => {
                let place = self.shape.units_of(segment).start + head.taken;
                (inner.begin_row(&self.shape, segment, place, owner, self.number.get())?, 0)
            }
        };
        let first = next.next_multiple_of(step);
        let blocks = most.min(room).min((limit - first) / step);
        let length = blocks * step;
        let it = &mut inner.rows[row as usize];
        (first..first + length).for_each(|index| it.line.present.set(index));
        it.planned += length;
        inner.heads[which as usize].taken += length;
        inner.heads[which as usize].row = Some((row, first + length));
        inner.segments[segment as usize].live += length;
        inner.planned += length;
        inner.note(row, which);
        Some(Run { start: joined(row, first), length })
    }

    /// Takes units without an address, side by side: for a summary, or a row that moves.
    pub(crate) fn take_units(&self, which: Which, units: u64, leaving: u64) -> Option<u64> {
        loop {
            if let Some(place) = self.take_units_here(which, units) {
                return Some(place);
            }
            if !self.enter(which, leaving) {
                return None;
            }
        }
    }

    /// The same in the open segment.
    pub(crate) fn take_units_here(&self, which: Which, units: u64) -> Option<u64> {
        let inner = &mut *self.inner.borrow_mut();
        let head = inner.heads[which as usize];
        let segment = head.segment?;
        if self.shape.segment - head.taken < units {
            return None;
        }
        let place = self.shape.units_of(segment).start + head.taken;
        inner.heads[which as usize].taken += units;
        // The row goes on behind these units, which count as dead ones of it.
        inner.heads[which as usize].row = match head.row {
            Some((row, next)) if which == Which::Log && next + units <= self.shape.row() => {
                let it = &mut inner.rows[row as usize];
                (next..next + units).for_each(|index| it.line.present.set(index));
                inner.note(row, which);
                Some((row, next + units))
            }
            _ => None,
        };
        Some(place)
    }

    /// Units that the open segment of a head has left.
    pub(crate) fn left(&self, which: Which) -> u64 {
        let head = self.inner.borrow().heads[which as usize];
        head.segment.map_or(0, |_| self.shape.segment - head.taken)
    }

    /// A plan ends: its places are dead.
    pub(crate) fn end_plan(&self, run: Run) {
        let inner = &mut *self.inner.borrow_mut();
        let (row, _) = split(run.start);
        let at = &mut inner.rows[row as usize];
        at.planned = at.planned.checked_sub(run.length).expect("invariant 2");
        inner.planned -= run.length;
        inner.leave(&self.shape, row as u32, run.length);
    }

    /// Planned places are in use from now on.
    pub(crate) fn take(&self, run: Run) {
        let inner = &mut *self.inner.borrow_mut();
        let (row, first) = split(run.start);
        let at = &mut inner.rows[row as usize];
        at.planned = at.planned.checked_sub(run.length).expect("invariant 2");
        (first..first + run.length).for_each(|index| at.line.used.set(index));
        inner.planned -= run.length;
        let is_logged = at.line.owner == Owner::Files;
        inner.used += run.length;
        inner.dirty.insert(row / table::ROWS as u64);
        if is_logged {
            // A checkpoint may have come since the plan: it does not know the row.
            inner.touched.insert(row as u32);
        }
    }

    /// Places are not in use any more. Returns whether they all were: a wrong pointer may lead
    /// elsewhere.
    pub(crate) fn lose(&self, run: Run) -> bool {
        let is_right = (run.start..run.start + run.length).all(|address| self.is_used(address));
        let (row, first) = split(run.start);
        if !is_right || first + run.length > ROW as u64 {
            return false; // invariant 5
        }
        let inner = &mut *self.inner.borrow_mut();
        let at = &mut inner.rows[row as usize];
        (first..first + run.length).for_each(|index| at.line.used.clear(index));
        inner.used -= run.length;
        inner.dirty.insert(row / table::ROWS as u64);
        inner.leave(&self.shape, row as u32, run.length);
        true
    }

    /// The line of the row of an address.
    pub(crate) fn line(&self, address: u64) -> Option<Line> {
        let (row, _) = split(address);
        self.inner.borrow().rows.get(row as usize).map(|row| row.line)
    }

    /// The rows that the next summary has to name.
    pub(crate) fn take_touched(&self) -> Vec<LoggedRow> {
        let inner = &mut *self.inner.borrow_mut();
        let touched = std::mem::take(&mut inner.touched);
        let told = |row: u32| {
            let line = &inner.rows[row as usize].line;
            LoggedRow { row, place: line.place, present: line.present }
        };
        touched.into_iter().map(told).collect()
    }

    /// The blocks of the table that a checkpoint writes, and what becomes free with it, apart from
    /// the segment in which the next summary is to be. Nothing waits: it is the state of this
    /// moment.
    pub(crate) fn snapshot(&self, next: u64) -> (Vec<(u64, Vec<Line>)>, Releases) {
        let inner = &mut *self.inner.borrow_mut();
        let dirty = std::mem::take(&mut inner.dirty);
        let lines = |block: u64| {
            let rows = inner.rows.iter().skip(block as usize * table::ROWS).take(table::ROWS);
            let line =
                |row: &Row| if row.line.used.is_empty() { Line::default() } else { row.line };
            (block, rows.map(line).collect())
        };
        let blocks = dirty.into_iter().map(lines).collect();
        let open = inner.heads.map(|head| head.row.map(|(row, _)| row));
        let (emptied, dead) = (std::mem::take(&mut inner.emptied), std::mem::take(&mut inner.dead));
        let mut releases = Releases::default();
        for row in emptied {
            let at = &inner.rows[row as usize];
            if at.is_empty() && at.is_begun {
                if open.contains(&Some(row)) {
                    inner.emptied.insert(row);
                } else {
                    releases.rows.push(row);
                }
            }
        }
        let next = self.shape.segment_of(next).filter(|_| !is_planted(Bug::LostLink));
        for segment in dead {
            if inner.segments[segment as usize].is_dead() {
                if next == Some(segment) {
                    inner.dead.insert(segment);
                } else {
                    releases.segments.push(segment);
                }
            }
        }
        (blocks, releases)
    }

    /// A checkpoint is durable: what it has as free is free (invariant 3). Returns the free rows.
    pub(crate) fn release(&self, releases: &Releases) {
        let inner = &mut *self.inner.borrow_mut();
        for &row in &releases.rows {
            let at = inner.rows[row as usize];
            assert!(at.is_empty() && at.is_begun, "invariant 3: nothing was planned since");
            if let Some(segment) = self.shape.segment_of(at.line.place) {
                inner.segments[segment as usize].rows.remove(&row);
            }
            inner.rows[row as usize] = Row::default();
            inner.free_rows.insert(row);
            inner.touched.remove(&row); // only plans that ended had places there
        }
        for &segment in &releases.segments {
            let at = &mut inner.segments[segment as usize];
            assert!(at.is_dead() && at.rows.is_empty(), "invariant 3: nothing is there");
            at.state = State::Clean;
            at.is_unreadable = false;
            inner.clean.insert(segment);
        }
    }

    /// Addresses of a row.
    pub(crate) fn addresses(row: u32) -> Run {
        Run { start: joined(row, 0), length: ROW as u64 }
    }

    /// Number of closed segments in which nothing is in use: a checkpoint makes them clean.
    pub(crate) fn dead(&self) -> u64 {
        let inner = self.inner.borrow();
        inner.dead.iter().filter(|&&at| inner.segments[at as usize].is_dead()).count() as u64
    }

    /// Number of segments that are in use, and of rows.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        let inner = self.inner.borrow();
        let rows = inner.rows.iter().filter(|row| row.is_begun).count();
        (inner.segments.len() as u64, rows as u64)
    }

    /// Asserts invariant 2, and that sums are right.
    #[cfg(test)]
    pub(crate) fn audit(&self) {
        let inner = self.inner.borrow();
        let mut live = vec![0; inner.segments.len()];
        let (mut used, mut planned) = (0, 0);
        for row in inner.rows.iter().filter(|row| row.is_begun) {
            let segment = self.shape.segment_of(row.line.place).expect("a row is in one");
            live[segment as usize] += row.line.used.count() + row.planned;
            used += row.line.used.count();
            planned += row.planned;
        }
        assert_eq!((used, planned), (inner.used, inner.planned));
        assert_eq!(live, inner.segments.iter().map(|it| it.live).collect::<Vec<_>>());
    }
}

impl Inner {
    /// A clean segment: the lowest one.
    fn next_clean(&self) -> Option<u64> {
        let is_one =
            |at: &&u64| self.segments[**at as usize].readers == 0 && self.ahead != Some(**at);
        self.clean.iter().find(is_one).copied()
    }

    /// Closes the open segment of a head.
    fn close(&mut self, which: Which, number: u64) {
        let head = std::mem::take(&mut self.heads[which as usize]);
        if let Some(segment) = head.segment {
            let at = &mut self.segments[segment as usize];
            (at.state, at.closed_in) = (State::Closed, number);
            self.dead.insert(segment);
        }
        // Its last row was kept from being freed as long as it was open.
        self.emptied.extend(head.row.map(|(row, _)| row));
    }

    fn begin_row(
        &mut self,
        shape: &Shape,
        segment: u64,
        place: u64,
        owner: Owner,
        number: u64,
    ) -> Option<u32> {
        let row = match self.free_rows.pop_first() {
            Some(row) => row,
            None if (self.rows.len() as u64) < shape.rows() => {
                let row = self.rows.len() as u32;
                self.rows.push(Row::default());
                // A start that was cut may have left lines there.
                self.dirty.insert(u64::from(row) / table::ROWS as u64);
                row
            }
            None => return None,
        };
        let line = Line { place, born: number, owner, ..Line::default() };
        self.rows[row as usize] = Row { line, planned: 0, is_begun: true };
        self.segments[segment as usize].rows.insert(row);
        self.emptied.insert(row);
        Some(row)
    }

    /// Notes that a row of the chain has changed.
    fn note(&mut self, row: u32, which: Which) {
        if which == Which::Log {
            self.touched.insert(row);
        }
    }

    /// Indexes of a row are dead.
    fn leave(&mut self, shape: &Shape, row: u32, units: u64) {
        let at = &self.rows[row as usize];
        let segment = shape.segment_of(at.line.place).expect("a row is in one");
        if at.is_empty() {
            self.emptied.insert(row);
        }
        let at = &mut self.segments[segment as usize];
        at.live = at.live.checked_sub(units).expect("invariant 2");
        if at.live == 0 {
            self.dead.insert(segment);
        }
    }
}

#[cfg(test)]
mod tests;
