//! Places on a disk whose arm position is known: the nearest cylinder with room, and in it the
//! sectors under the heads at that time; an update ends just before a slot.
//!
//! The writes of an update are planned in the order in which they are requested, and go out in that
//! order, one at a time ([`crate::in_order`]). So it is known, for each write, where the arm will
//! be when its turn comes, and when. Among the free places of the arm's cylinder, and of the
//! nearest one that is empty, the cheapest by time per unit is taken: the transfer of the data to
//! the disk, the seek, the rest of a rotation, and the passing of the units. If rotation is
//! unknown, it is the first long run of free units in the nearest cylinder.
//!
//! Invariants:
//! 1. A search looks at [`PLACES`] places of two cylinders, and at [`REACH`] cylinders on either
//!    side, however full the disk is.
//! 2. A planned run was free, and is taken at once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use block::platters::{Arm, Platters, SECTOR};
use cow::{Run, UNIT};
use futures::future::select;
use runtime::Clock;
use runtime::sync::Signal;

use crate::planted::{Bug, is_planted};

/// Places that a search looks at in a cylinder.
const PLACES: u64 = 128;
/// Cylinders on either side that are searched for one with room.
const REACH: u64 = 32;
/// Sectors of a unit.
const SECTORS: u64 = UNIT as u64 / SECTOR;
/// Cost of naming a zone for superblocks: the time that an anchor takes.
const NAMING_NS: u64 = 100_000_000;

/// Time that an update waits, at most, for data that is being written.
const PATIENCE: Duration = Duration::from_millis(500);
/// Time until a client that got its reply sends the next call.
const GLANCE: Duration = Duration::from_micros(20);

/// The free units.
pub(crate) trait Free {
    /// Number of free units in a range.
    fn free_in(&self, units: Range<u64>) -> u64;

    /// The free runs of whole groups in a range.
    fn free_runs_in(&self, units: Range<u64>, group: u64) -> Vec<Run>;

    /// Takes a run; false if not all of it was free.
    #[must_use]
    fn take_run(&self, run: Run) -> bool;

    /// Frees a run.
    fn give_back(&self, run: Run);
}

/// A slot for a superblock, and whether an anchor names its zone already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) at: u64,
    pub(crate) is_named: bool,
}

/// Returns the slots for an update that ends with a run.
pub(crate) type Slots<'a> = &'a dyn Fn(Run) -> Vec<Slot>;

/// See the module's prose.
pub(crate) struct Placement {
    platters: Platters,
    clock: Rc<dyn Clock>,
    heads: RefCell<Heads>,
    looked: Cell<u64>,
    /// Writes that are queued or in progress.
    writing: Cell<u64>,
    quiet: Signal,
}

/// The arm at the time when all planned writes are done.
struct Heads {
    arm: Arm,
    until_ns: u64,
    /// Whether the rotation is known.
    is_known: bool,
    /// Planned end of each write, by the unit behind it.
    planned: BTreeMap<u64, u64>,
}

/// A place for some units, and the arm behind it.
struct Found {
    run: Run,
    arm: Arm,
    until_ns: u64,
    /// Nanoseconds for a unit.
    cost: u64,
}

impl Placement {
    /// On a disk with this geometry.
    pub(crate) fn new(platters: Platters, clock: Rc<dyn Clock>) -> Self {
        let (arm, planned) = (Arm::new(platters, 0), BTreeMap::new());
        let heads = Heads { arm, until_ns: 0, is_known: false, planned };
        let (looked, writing, quiet) = Default::default();
        Self { platters, clock, heads: RefCell::new(heads), looked, writing, quiet }
    }

    /// Number of places that searches have looked at.
    pub(crate) fn looked(&self) -> u64 {
        self.looked.get()
    }

    /// Notes that a write is queued.
    pub(crate) fn begins(&self) {
        self.writing.set(self.writing.get() + 1);
    }

    /// Waits until no data is being written, so that all of it is in the next update; for a limited
    /// time.
    pub(crate) async fn quiet(&self) {
        let begun = self.clock.now();
        loop {
            self.clock.sleep(GLANCE).await; // a client that got its reply may send another call
            if self.writing.get() == 0 || self.clock.now().since(begun) >= PATIENCE {
                return;
            }
            let (quiet, late) = (pin!(self.quiet.wait()), self.clock.sleep(PATIENCE));
            select(quiet, late).await;
        }
    }

    /// Notes that a write or read has ended: the arm is behind it.
    pub(crate) fn has_passed(&self, end: u64, is_read: bool) {
        if !is_read {
            self.writing.set(self.writing.get() - 1);
            self.quiet.notify();
        }
        let heads = &mut *self.heads.borrow_mut();
        let now_ns = self.clock.now().0;
        if !is_read && let Some(expected_ns) = heads.planned.remove(&(end / UNIT as u64)) {
            // Later writes are late, or early, by the same time.
            let moved = |ns: u64| (ns + now_ns).saturating_sub(expected_ns);
            heads.until_ns = moved(heads.until_ns);
            heads.planned.values_mut().for_each(|ns| *ns = moved(*ns));
        }
        if heads.until_ns <= now_ns {
            heads.planned.clear(); // planned, but never written
        }
        if end == 0 || !heads.planned.is_empty() {
            return;
        }
        heads.until_ns = now_ns;
        if is_read {
            heads.arm.is_behind(end / SECTOR);
        } else {
            heads.arm.has_passed(now_ns, end / SECTOR);
            heads.is_known = self.platters.are_turns_known;
        }
    }

    /// Takes this many units for data, in groups of this size; none if there are not enough within
    /// reach.
    pub(crate) fn take(&self, space: &dyn Free, units: u64, group: u64) -> Option<Vec<Run>> {
        self.take_before(space, units, group, &|_| Vec::new())
    }

    /// The same for the end of an update, with its slots.
    pub(crate) fn take_before(
        &self,
        space: &dyn Free,
        units: u64,
        group: u64,
        slots: Slots<'_>,
    ) -> Option<Vec<Run>> {
        let heads = &mut *self.heads.borrow_mut();
        let mut at = (heads.arm, heads.until_ns.max(self.clock.now().0));
        let (mut runs, mut ends) = (Vec::<Run>::new(), Vec::new());
        let mut left = units;
        while left > 0 {
            let Some(found) = self.find(space, (left, group), at, heads.is_known, slots) else {
                runs.into_iter().for_each(|run| space.give_back(run));
                return None;
            };
            left -= found.run.length;
            at = (found.arm, found.until_ns);
            ends.push((found.run.end(), found.until_ns));
            assert!(space.take_run(found.run), "invariant 2: {:?}", found.run);
            runs.push(found.run);
        }
        (heads.arm, heads.until_ns) = at;
        heads.planned.extend(ends);
        Some(runs)
    }

    /// The slot that the arm reaches first, which is then planned.
    pub(crate) fn slot(&self, slots: &[Slot]) -> Option<u64> {
        let heads = &mut *self.heads.borrow_mut();
        let at = (heads.arm, heads.until_ns.max(self.clock.now().0));
        let cost = |slot: &&Slot| (self.cost_of(at, slot, heads.is_known), slot.at);
        let Slot { at: slot, .. } = slots.iter().min_by_key(cost)?;
        let run = Run { start: *slot, length: 1 };
        let (arm, until_ns) = self.write(at, run, heads.is_known);
        (heads.arm, heads.until_ns) = (arm, until_ns);
        heads.planned.insert(run.end(), until_ns);
        Some(run.start)
    }

    /// Time at which a slot is written, plus the costs of leaving the cylinder and of naming the
    /// zone.
    fn cost_of(&self, at: (Arm, u64), slot: &Slot, is_known: bool) -> u64 {
        let (arm, until_ns) = self.write(at, Run { start: slot.at, length: 1 }, is_known);
        let naming_ns = if slot.is_named { 0 } else { NAMING_NS };
        until_ns + naming_ns + self.leaving_ns(arm.cylinder() != at.0.cylinder())
    }

    /// Leaving a cylinder leaves room unused, and a short place splits the run: this has to be
    /// worth a seek.
    fn leaving_ns(&self, leaves: bool) -> u64 {
        if leaves { self.platters.seek_ns[0] } else { 0 }
    }

    /// Planned end of a run, to order writes.
    pub(crate) fn planned(&self, run: &Run) -> u64 {
        self.heads.borrow().planned.get(&run.end()).copied().unwrap_or(0)
    }

    /// The arm behind a write, and the time of its end.
    fn write(&self, (mut arm, from_ns): (Arm, u64), run: Run, is_known: bool) -> (Arm, u64) {
        let (first, end) = (run.start * SECTORS, run.end() * SECTORS);
        let bytes = if is_planted(Bug::UncountedTransfers) { 0 } else { run.length * UNIT as u64 };
        let start_ns = from_ns + self.platters.transfer_ns(bytes);
        if is_known {
            let until_ns = arm.transfer(start_ns, first, end);
            return (arm, until_ns);
        }
        let half_ns = self.platters.rotation_ns / 2;
        let until_ns = start_ns + arm.seek_ns(first) + half_ns + self.pass_ns(first, end);
        arm.is_behind(end);
        (arm, until_ns)
    }

    /// Approximate time for sectors to pass.
    fn pass_ns(&self, first: u64, end: u64) -> u64 {
        self.platters.pass_ns(&self.platters.place(first), end - first)
    }

    /// The best place within reach for at most this many units, in groups.
    fn find(
        &self,
        space: &dyn Free,
        wanted: (u64, u64),
        at: (Arm, u64),
        is_known: bool,
        slots: Slots<'_>,
    ) -> Option<Found> {
        let here = at.0.cylinder();
        let others = self.others(space, here, wanted);
        let looked = self.looked.get();
        let mut best: Option<Found> = None;
        for cylinder in [Some(here), others].into_iter().flatten() {
            let leaving_ns = self.leaving_ns(cylinder != here);
            for run in self.places(space, self.units_of(cylinder), wanted) {
                self.looked.set(self.looked.get() + 1);
                let (arm, until_ns) = self.write(at, run, is_known);
                let ends = if run.length == wanted.0 { slots(run) } else { Vec::new() };
                let of_slot = |slot: &Slot| self.cost_of((arm, until_ns), slot, is_known);
                let end_ns = ends.iter().map(of_slot).min().unwrap_or(until_ns);
                // The rest is another piece, which has its own wait.
                let piece_ns = self.leaving_ns(run.length < wanted.0);
                let cost = (end_ns - at.1 + leaving_ns + piece_ns) / run.length;
                if best.as_ref().is_none_or(|best| cost < best.cost) {
                    best = Some(Found { run, arm, until_ns, cost });
                }
            }
        }
        assert!(self.looked.get() - looked <= 2 * PLACES, "invariant 1: it is bounded");
        best
    }

    /// The units that are wholly on a cylinder.
    fn units_of(&self, cylinder: u64) -> Range<u64> {
        let Range { start, end } = self.platters.sectors_of(cylinder);
        start.div_ceil(SECTORS)..end / SECTORS
    }

    /// The nearest other cylinder with three quarters free, or else the one within reach with most
    /// free.
    fn others(&self, space: &dyn Free, here: u64, (wanted, group): (u64, u64)) -> Option<u64> {
        let last = self.platters.cylinders();
        let mut best = None;
        for step in 1..=REACH {
            for cylinder in [here.checked_add(step), here.checked_sub(step)].into_iter().flatten() {
                if cylinder >= last {
                    continue;
                }
                let units = self.units_of(cylinder);
                let all = units.end - units.start;
                let free = space.free_in(units);
                if free >= group && free * 4 >= all * 3 {
                    return Some(cylinder);
                }
                let free = free.min(wanted);
                if free >= group && best.is_none_or(|(most, _)| free > most) {
                    best = Some((free, cylinder));
                }
            }
        }
        best.map(|(_, cylinder)| cylinder)
    }

    /// Free places in a cylinder, each with as many units as wanted, or as it has.
    fn places(
        &self,
        space: &dyn Free,
        units: Range<u64>,
        (wanted, group): (u64, u64),
    ) -> impl Iterator<Item = Run> {
        let step = ((units.end - units.start) / group).div_ceil(PLACES).max(1) * group;
        let runs = space.free_runs_in(units, group);
        let at = move |run: Run| {
            (run.start..run.end()).step_by(step as usize).map(move |start| {
                let length = wanted.min(run.end() - start);
                Run { start, length }
            })
        };
        runs.into_iter().flat_map(at).take(PLACES as usize)
    }
}
