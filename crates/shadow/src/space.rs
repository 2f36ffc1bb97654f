//! Free units, and the order in which they are taken.
//!
//! A unit is in use as long as a superblock that an opening may choose needs it, or the tree in
//! memory, or a write on its way. Blocks of files are whole groups of units. Metadata takes
//! adjacent units, as many as an update needs; if whole groups are few, or many are broken, it
//! takes units of groups that are broken already, as long as the zone at hand has some.
//!
//! Invariants:
//! 1. A unit that is taken was free, and a unit that is freed was in use.
//! 2. The counts are those of the bits.
//! 3. Blocks claimed for UNSTABLE data stay free for it.
//! 4. While no update is on its way, the units in use, except planned ones, are those in the map,
//!    its log and the records of the last superblock.
//!
//! Not asserted: 2, which tests compare; 3, which [`Space::has_blocks`] is asked for; 4, which is
//! tested with rot in blocks of the map.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use cow::{BODY, Run};

use crate::format::MAPPED;
use crate::format::anchor::Shape;
use crate::placement::{Free, Placement, Slots};
use crate::planted::{Bug, is_planted};
use crate::zones::Zones;

/// Units of a volume that are reserved for changes which free more than they take.
pub(crate) fn pool(shape: &Shape) -> u64 {
    // The whole map has room, for going back to a snapshot.
    let map = shape.units.div_ceil(MAPPED);
    (shape.units / 32).clamp(48, 4096).max(map + map / 16)
}

/// Adjacent units that are looked for at most.
const LONGEST: u64 = 256;
/// Units behind data for the metadata that leads to it, so that both go out together.
const COMPANY: u64 = 16;
/// More groups may break while the free units of broken groups are less than this part of all
/// units.
const BROKEN_PART: u64 = 128;
/// The same, as a part of the units of whole groups, if snapshots hold blocks
const BROKEN_OF_WHOLE: u64 = 8;
/// and the volume has at least this many units: on a smaller one, the scattered units that are
/// always in use would break more groups than the other limit allows when the snapshots are gone.
const LARGE: u64 = 1 << 16;

/// Zones on either side in which units side by side are looked for.
const NEAR: u64 = 2;

/// See the module's prose.
pub(crate) struct Space {
    shape: Shape,
    /// A bit for each unit; set if it is in use, or never usable.
    bits: RefCell<Vec<u64>>,
    /// Free units of broken groups: other units of the group are in use.
    singles: RefCell<BTreeSet<u64>>,
    /// Groups that are free as a whole, in each zone and in all.
    whole: RefCell<Vec<u32>>,
    all_whole: Cell<u64>,
    /// The unit behind the one taken last.
    cursor: Cell<u64>,
    claimed: Cell<u64>,
    /// Runs in use that are in no record yet, by their first units: those of planned and staged
    /// Updates.
    planned: RefCell<BTreeMap<u64, u64>>,
    /// Whether snapshots hold blocks: small ones stay where they are then, scattered over the disk.
    is_held: Cell<bool>,
    pool: u64,
    pub(crate) zones: Zones,
    /// Set if the position of the device's arm is known.
    placement: OnceCell<Rc<Placement>>,
}

impl Space {
    /// The space of an empty volume.
    pub(crate) fn empty(shape: Shape) -> Self {
        let zones = shape.zones();
        let per_zone = ((shape.usable(0).end - shape.usable(0).start) / shape.block) as u32;
        let space = Self {
            shape,
            bits: RefCell::new(vec![u64::MAX; shape.units.div_ceil(64) as usize]),
            singles: RefCell::default(),
            whole: RefCell::new(vec![per_zone; zones as usize]),
            all_whole: Cell::new(zones * u64::from(per_zone)),
            cursor: Cell::new(shape.usable(0).start),
            claimed: Cell::new(0),
            planned: RefCell::default(),
            is_held: Cell::new(false),
            pool: pool(&shape),
            zones: Zones::new(zones),
            placement: OnceCell::new(),
        };
        let mut bits = space.bits.borrow_mut();
        for zone in 0..zones {
            words(shape.usable(zone)).for_each(|(word, mask, _)| bits[word] &= !mask);
        }
        drop(bits);
        space
    }

    /// The shape of the volume.
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The same, with places chosen by the position of the device's arm, if it is known.
    pub(crate) fn placed_by(self, placement: Option<Rc<Placement>>) -> Self {
        Self { placement: placement.map_or_else(OnceCell::new, OnceCell::from), ..self }
    }

    /// The choice of places by the position of the device's arm, if it is known.
    pub(crate) fn placement(&self) -> Option<&Rc<Placement>> {
        self.placement.get()
    }

    /// Units of all groups, in use or free.
    pub(crate) fn total(&self) -> u64 {
        let usable = self.shape.usable(0);
        self.shape.zones() * (usable.end - usable.start)
    }

    /// Number of free units.
    pub(crate) fn free_units(&self) -> u64 {
        self.all_whole.get() * self.shape.block + self.singles.borrow().len() as u64
    }

    /// Number of maximal runs of free units.
    pub(crate) fn free_runs(&self) -> u64 {
        let (mut runs, mut was_free) = (0, false);
        for word in self.bits.borrow().iter() {
            let free = !word;
            let begins = free & !(free << 1 | u64::from(was_free));
            runs += u64::from(begins.count_ones());
            was_free = free >> 63 != 0;
        }
        runs
    }

    /// Claimed blocks.
    pub(crate) fn claimed(&self) -> u64 {
        self.claimed.get()
    }

    /// Units that are reserved for changes which free more than they take.
    pub(crate) fn pool(&self) -> u64 {
        self.pool
    }

    fn is_used(&self, unit: u64) -> bool {
        self.bits.borrow()[unit as usize / 64] & 1 << (unit % 64) != 0
    }

    fn set(&self, unit: u64, used: bool) {
        assert_ne!(self.is_used(unit), used, "invariant 1: unit {unit}");
        let group = unit / self.shape.block * self.shape.block;
        let others = group..group + self.shape.block;
        let free = others.clone().filter(|&unit| !self.is_used(unit)).count() as u64;
        let mut singles = self.singles.borrow_mut();
        let whole = &mut self.whole.borrow_mut()[self.shape.zone_of(unit) as usize];
        self.bits.borrow_mut()[unit as usize / 64] ^= 1 << (unit % 64);
        if used {
            if free == self.shape.block {
                (*whole, _) = (*whole - 1, self.all_whole.set(self.all_whole.get() - 1));
                singles.extend(others.filter(|&other| other != unit));
            } else {
                singles.remove(&unit);
            }
        } else if free + 1 == self.shape.block {
            (*whole, _) = (*whole + 1, self.all_whole.set(self.all_whole.get() + 1));
            others.for_each(|other| _ = singles.remove(&other));
        } else {
            singles.insert(unit);
        }
    }

    /// Notes runs that a planned Update has taken.
    pub(crate) fn plan(&self, runs: &[Run]) {
        self.planned.borrow_mut().extend(runs.iter().map(|run| (run.start, run.length)));
    }

    /// The runs are in a record from now on, or their Update was cancelled.
    pub(crate) fn end_plan(&self, runs: &[Run]) {
        let mut planned = self.planned.borrow_mut();
        runs.iter().for_each(|run| _ = planned.remove(&run.start));
    }

    /// The body that a block of the map would have on the disk if it were up to date (invariant 4).
    pub(crate) fn recorded(&self, leaf: u64) -> Vec<u8> {
        let mut body = vec![0; BODY];
        let units = leaf * MAPPED..((leaf + 1) * MAPPED).min(self.shape.units);
        let mut set = |unit: u64, is_used: bool| {
            let (byte, bit) = ((unit % MAPPED) as usize / 8, 1 << (unit % 8));
            if is_used { body[byte] |= bit } else { body[byte] &= !bit }
        };
        let is_used = |&unit: &u64| self.shape.may_hold(&Run::of(unit)) && self.is_used(unit);
        units.clone().filter(is_used).for_each(|unit| set(unit, true));
        let planned = self.planned.borrow();
        for (&start, &length) in planned.iter().filter(|_| !is_planted(Bug::RecordedPlans)) {
            let run = start..start + length;
            run.filter(|unit| units.contains(unit)).for_each(|unit| set(unit, false));
        }
        body
    }

    /// Takes the units of a lost block of the map that trees hold; all of its units, if some of the
    /// trees cannot be read.
    pub(crate) fn take_held(&self, leaf: u64, held: Option<&Self>) {
        for unit in leaf * MAPPED..((leaf + 1) * MAPPED).min(self.shape.units) {
            let run = Run::of(unit);
            if self.shape.may_hold(&run) && held.is_none_or(|held| held.is_used(unit)) {
                let _is_new = self.take(run);
            }
        }
    }

    /// Takes the units that a part of the map, from unit `first` on, has as used, a bit each: false
    /// if one of them is never usable. [`Space::count`] comes afterwards.
    #[must_use]
    pub(crate) fn take_mapped(&self, first: u64, bits: &[u8]) -> bool {
        let mut all = self.bits.borrow_mut();
        for (start, byte) in (first..).step_by(8).zip(bits).filter(|(_, byte)| **byte != 0) {
            for unit in (0..8).filter(|bit| byte & 1 << bit != 0).map(|bit| start + bit) {
                let word = all.get_mut(unit as usize / 64);
                let Some(word) = word.filter(|word| **word & 1 << (unit % 64) == 0) else {
                    return false;
                };
                *word |= 1 << (unit % 64);
            }
        }
        true
    }

    /// Applies a line of the log: false if some of the units had that state before, or are never
    /// usable.
    #[must_use]
    pub(crate) fn take_logged(&self, run: Run, is_used: bool) -> bool {
        let mut bits = self.bits.borrow_mut();
        self.shape.may_hold(&run)
            && words(run.start..run.end()).all(|(word, mask, _)| {
                let before = if is_used { 0 } else { mask };
                let is_new = bits[word] & mask == before;
                bits[word] ^= mask;
                is_new
            })
    }

    /// Recomputes the counts from the bits.
    pub(crate) fn count(&self) {
        let (singles, whole) = self.counted();
        self.all_whole.set(whole.iter().map(|&zone| u64::from(zone)).sum());
        self.singles.replace(singles);
        self.whole.replace(whole);
    }

    /// Free units of broken groups, and the number of whole groups of each zone, from the bits.
    fn counted(&self) -> (BTreeSet<u64>, Vec<u32>) {
        let (mut singles, mut whole) = (BTreeSet::new(), Vec::new());
        for zone in 0..self.shape.zones() {
            let mut of_zone = 0;
            for (word, mask, units) in words(self.shape.usable(zone)) {
                let used = self.bits.borrow()[word] & mask;
                if used == 0 {
                    of_zone += ((units.end - units.start) / self.shape.block) as u32;
                } else if used != mask {
                    of_zone += self.count_groups(units, &mut singles);
                }
            }
            whole.push(of_zone);
        }
        (singles, whole)
    }

    /// Counts the whole groups, and adds the free units of the others to `singles`.
    fn count_groups(&self, units: Range<u64>, singles: &mut BTreeSet<u64>) -> u32 {
        let mut whole = 0;
        for group in units.step_by(self.shape.block as usize) {
            if self.is_whole(group) {
                whole += 1;
            } else {
                let units = group..group + self.shape.block;
                singles.extend(units.filter(|&unit| !self.is_used(unit)));
            }
        }
        whole
    }

    /// Takes a run; false if one of its units was in use, or is never usable.
    #[must_use]
    pub(crate) fn take(&self, run: Run) -> bool {
        let are_free =
            self.shape.may_hold(&run) && (run.start..run.end()).all(|unit| !self.is_used(unit));
        if are_free {
            self.hold(run);
        }
        are_free
    }

    /// Frees a run.
    pub(crate) fn free(&self, run: Run) {
        (run.start..run.end()).for_each(|unit| self.set(unit, false));
    }

    /// The same for a run in a record: false if one of its units was not in use.
    #[must_use]
    pub(crate) fn try_free(&self, run: Run) -> bool {
        let are_used = self.may_free(run);
        if are_used {
            self.free(run);
        }
        are_used
    }

    /// Whether all units of a run are in use, and may be.
    pub(crate) fn may_free(&self, run: Run) -> bool {
        self.shape.may_hold(&run) && self.has_all(run)
    }

    /// Whether a run is in use as a whole.
    pub(crate) fn has_all(&self, run: Run) -> bool {
        (run.start..run.end()).all(|unit| self.is_used(unit))
    }

    /// Whether this many blocks are free in addition to `units` for metadata, and, if
    /// `keeps_claims`, in addition to claimed blocks.
    pub(crate) fn has_blocks(&self, blocks: u64, units: u64, keeps_claims: bool) -> bool {
        let broken = units.saturating_sub(self.singles.borrow().len() as u64);
        let claimed =
            if keeps_claims && !is_planted(Bug::EatenClaims) { self.claimed.get() } else { 0 };
        blocks + claimed + broken.div_ceil(self.shape.block) <= self.all_whole.get()
    }

    /// Claims blocks.
    pub(crate) fn claim(&self, blocks: u64) {
        self.claimed.set(self.claimed.get() + blocks);
    }

    /// Releases claimed blocks.
    pub(crate) fn release(&self, blocks: u64) {
        self.claimed.set(self.claimed.get() - blocks);
    }

    /// Takes units for metadata, adjacent ones if there is room; none if too few are free.
    pub(crate) fn take_units(&self, count: u64, slots: Slots<'_>) -> Option<Vec<u64>> {
        if count > self.free_units() {
            return None;
        }
        if let Some(placement) = self.placement.get().filter(|_| self.may_break(count))
            && let Some(runs) = placement.take_before(self, count, 1, slots)
        {
            runs.last().iter().for_each(|last| self.cursor.set(last.end()));
            return Some(runs.iter().flat_map(|run| run.start..run.end()).collect());
        }
        let mut units = Vec::with_capacity(count as usize);
        let mut most = LONGEST;
        while (units.len() as u64) < count {
            most = most.min(count - units.len() as u64);
            match self.find_run(most) {
                Some(run) => {
                    self.hold(run);
                    self.cursor.set(run.end());
                    units.extend(run.start..run.end());
                }
                None if most > 1 => most /= 2,
                None => units.push(self.take_unit().expect("so many are free")),
            }
        }
        Some(units)
    }

    /// Whether whole groups are plenty, and broken ones few.
    fn may_break(&self, length: u64) -> bool {
        let broken = self.singles.borrow().len() as u64;
        let spared = self.claimed.get() + self.pool + length;
        let whole = self.all_whole.get() * self.shape.block;
        let may_more = self.is_held.get() && self.total() >= LARGE;
        let more = if may_more { whole / BROKEN_OF_WHOLE } else { 0 };
        self.all_whole.get() > spared && broken <= more.max(self.total() / BROKEN_PART)
    }

    /// Free units of broken groups beyond `kept` and beyond the part of all units that may always
    /// be broken: there is no room for data in them, and metadata does not need them. 0 on a volume
    /// on which no more than that part may be broken.
    pub(crate) fn lost_to_data(&self, kept: u64) -> u64 {
        if self.total() < LARGE {
            return 0;
        }
        let singles = self.singles.borrow().len() as u64;
        singles.saturating_sub(kept + self.total() / BROKEN_PART)
    }

    /// Sets whether snapshots hold blocks.
    pub(crate) fn set_held(&self, is_held: bool) {
        self.is_held.set(is_held);
    }

    /// A run of free units of this length, from the cursor on, in its zone or the next that has
    /// enough. None if whole groups are few, or many are broken.
    fn find_run(&self, length: u64) -> Option<Run> {
        if !self.may_break(length) {
            return None;
        }
        let at = self.cursor.get();
        let here = self.shape.usable(self.shape.zone_of(at));
        let at = at.clamp(here.start, here.end);
        self.first_run(at..here.end, length)
            .or_else(|| self.first_run(here.start..here.end.min(at + length), length))
            .or_else(|| self.first_run(self.shape.usable(self.next_zone()?), length))
    }

    /// The first run of free units of this length in a range.
    fn first_run(&self, range: Range<u64>, length: u64) -> Option<Run> {
        let bits = self.bits.borrow();
        let mut start = range.start;
        let mut unit = range.start;
        while unit < range.end {
            let word = bits[unit as usize / 64];
            if word == u64::MAX {
                unit = (unit / 64 + 1) * 64;
                start = unit;
                continue;
            }
            unit += 1;
            if word & 1 << ((unit - 1) % 64) != 0 {
                start = unit;
            } else if unit - start == length {
                return Some(Run { start, length });
            }
        }
        None
    }

    /// Takes a unit for metadata: near the last one, and in a broken group if there is one.
    pub(crate) fn take_unit(&self) -> Option<u64> {
        let zone = self.shape.zone_of(self.cursor.get());
        let usable = self.shape.usable(zone);
        let single = {
            let singles = self.singles.borrow();
            let near = singles.range(self.cursor.get()..usable.end).next();
            near.or_else(|| singles.range(usable.clone()).next()).copied()
        };
        let far = || self.singles.borrow().first().copied();
        // If whole groups are few, none is broken as long as there are broken ones.
        let are_few = self.all_whole.get() <= self.claimed.get() + self.pool;
        let unit = single
            .or_else(|| if are_few { far() } else { None })
            .or_else(|| self.find_group())
            .or_else(far)?;
        self.set(unit, true);
        self.cursor.set(unit + 1);
        Some(unit)
    }

    /// Takes units for second copies of metadata: in other zones than these if they have room, near
    /// them, and in broken groups. That many units are free.
    pub(crate) fn take_apart(&self, count: u64, zones: &BTreeSet<u64>) -> Vec<u64> {
        if let Some(placement) = self.placement.get().filter(|_| self.may_break(count))
            && let Some(runs) = placement.take(&Apart { space: self, zones }, count, 1)
        {
            return runs.iter().flat_map(|run| run.start..run.end()).collect();
        }
        if let Some(run) = self.run_apart(count, zones) {
            self.hold(run);
            return (run.start..run.end()).collect();
        }
        let take = |_| {
            let unit = self.single_apart(zones).or_else(|| self.group_apart(zones));
            let unit = unit.or_else(|| self.singles.borrow().first().copied());
            let unit = unit.or_else(|| self.find_group()).expect("so many are free");
            self.set(unit, true);
            unit
        };
        (0..count).map(take).collect()
    }

    /// The zones within `most` zones of these, the nearest first.
    fn zones_near(&self, zones: &BTreeSet<u64>, most: u64) -> Option<impl Iterator<Item = u64>> {
        let (first, last, end) = (*zones.first()?, *zones.last()?, self.shape.zones());
        let near = (1..=most).flat_map(move |step| [Some(last + step), first.checked_sub(step)]);
        Some(near.flatten().filter(move |&zone| zone < end))
    }

    /// Several adjacent units in a zone near these: one write covers them all.
    fn run_apart(&self, count: u64, zones: &BTreeSet<u64>) -> Option<Run> {
        if count < 2 || !self.may_break(count) {
            return None;
        }
        let mut near = self.zones_near(zones, NEAR)?.filter(|&zone| !self.zones.is_emptied(zone));
        near.find_map(|zone| self.first_run(self.shape.usable(zone), count))
    }

    /// The free unit of a broken group that is nearest to these zones, but in none of them.
    fn single_apart(&self, zones: &BTreeSet<u64>) -> Option<u64> {
        let (start, end) = self.around(zones)?;
        let singles = self.singles.borrow();
        let stays = |unit: &&u64| !self.zones.is_emptied(self.shape.zone_of(**unit));
        let behind = singles.range(end..).find(stays).map(|&unit| (unit - end, unit));
        let before = singles.range(..start).rev().find(stays).map(|&unit| (start - unit, unit));
        let nearest = behind.into_iter().chain(before).min();
        let is_apart = |unit: &&u64| !zones.contains(&self.shape.zone_of(**unit));
        let any = || singles.iter().find(is_apart).copied();
        nearest.map(|(_, unit)| unit).or_else(any)
    }

    /// The first unit of a whole group in a zone near these, if one more may break.
    fn group_apart(&self, zones: &BTreeSet<u64>) -> Option<u64> {
        let last = *zones.last()?;
        if !self.may_break(1) {
            return None;
        }
        let has_one = |zone: &u64| !zones.contains(zone) && self.whole_of(*zone) > 0;
        let all = || (last + 1..self.shape.zones()).chain((0..last).rev());
        let stays = |zone: &u64| has_one(zone) && !self.zones.is_emptied(*zone);
        let near = self.zones_near(zones, self.shape.zones())?.find(stays);
        let zone = near.or_else(|| all().find(has_one))?;
        self.whole_group(self.shape.usable(zone))
    }

    /// The first unit of the range that spans these zones, and the unit behind it.
    fn around(&self, zones: &BTreeSet<u64>) -> Option<(u64, u64)> {
        Some((self.shape.zone(*zones.first()?).start, self.shape.zone(*zones.last()?).end))
    }

    /// The next zone that is not being emptied and has nearly as many whole groups as the best.
    fn next_zone(&self) -> Option<u64> {
        let here = self.shape.zone_of(self.cursor.get());
        let zones = self.shape.zones();
        let whole = |zone: u64| u64::from(self.whole.borrow()[zone as usize]);
        let others = || (1..zones).map(|step| (here + step) % zones);
        let stay = || others().filter(|&zone| !self.zones.is_emptied(zone));
        let enough = stay().map(whole).max().unwrap_or(0) * 7 / 8;
        let zone = stay().find(|&zone| whole(zone) >= enough.max(1));
        zone.or_else(|| others().max_by_key(|&zone| whole(zone)))
    }

    /// Takes blocks for data, in as few runs as possible; none if too few are free.
    pub(crate) fn take_blocks(&self, mut blocks: u64) -> Option<Vec<Run>> {
        if blocks > self.all_whole.get() {
            return None;
        }
        if let Some(placement) = self.placement.get()
            && let Some(runs) = placement.take(self, blocks * self.shape.block, self.shape.block)
        {
            runs.last().iter().for_each(|last| self.cursor.set(last.end()));
            return Some(runs);
        }
        let mut runs: Vec<Run> = Vec::new();
        while blocks > 0 {
            let follows = runs.last().map(Run::end).filter(|&next| self.is_whole(next));
            let start = follows.or_else(|| self.find_groups(blocks)).or_else(|| self.find_group());
            let start = start.expect("so many are whole");
            let run = Run { start, length: self.shape.block };
            self.hold(run);
            self.cursor.set(run.end());
            match runs.last_mut() {
                Some(last) if last.end() == start => last.length += run.length,
                _ => runs.push(run),
            }
            blocks -= 1;
        }
        Some(runs)
    }

    /// The first of several adjacent whole groups, up to the length that is looked for, with room
    /// behind them for the metadata that leads to them.
    fn find_groups(&self, groups: u64) -> Option<u64> {
        let block = self.shape.block;
        let run = self.find_run((groups * block).min(LONGEST) + COMPANY + block - 1)?;
        Some(run.start.next_multiple_of(block))
    }

    /// A whole group: in the zone at hand, or in the next that has enough of them, or in any.
    fn find_group(&self) -> Option<u64> {
        let here = self.shape.zone_of(self.cursor.get());
        let whole = |zone: u64| u64::from(self.whole.borrow()[zone as usize]);
        if whole(here) > 0 {
            return self.first_in(here);
        }
        let zone = self.next_zone()?;
        if whole(zone) > 0 { self.first_in(zone) } else { None }
    }

    /// The first whole group of a range.
    pub(crate) fn whole_group(&self, units: Range<u64>) -> Option<u64> {
        let first = units.start.next_multiple_of(self.shape.block);
        let groups = (first..units.end).step_by(self.shape.block as usize);
        groups.into_iter().find(|&group| self.is_whole(group))
    }

    /// Takes a free run.
    pub(crate) fn hold(&self, run: Run) {
        (run.start..run.end()).for_each(|unit| self.set(unit, true));
    }

    /// Number of whole groups in a zone.
    pub(crate) fn whole_of(&self, zone: u64) -> u64 {
        self.whole.borrow()[zone as usize].into()
    }

    /// Number of units in use in a zone.
    pub(crate) fn used_of(&self, zone: u64) -> u64 {
        let usable = self.shape.usable(zone);
        usable.end - usable.start - self.free_in(usable)
    }

    /// The zone that the next blocks go to as long as it has room.
    pub(crate) fn zone_at_hand(&self) -> u64 {
        self.shape.zone_of(self.cursor.get())
    }

    fn is_whole(&self, group: u64) -> bool {
        let run = Run { start: group, length: self.shape.block };
        self.shape.may_hold(&run) && (run.start..run.end()).all(|unit| !self.is_used(unit))
    }

    /// The first whole group of a zone from the cursor on, or from its start.
    fn first_in(&self, zone: u64) -> Option<u64> {
        let usable = self.shape.usable(zone);
        let from = self.cursor.get().next_multiple_of(self.shape.block);
        let from = if usable.contains(&from) { from } else { usable.start };
        let groups = |range: Range<u64>| range.step_by(self.shape.block as usize);
        groups(from..usable.end)
            .chain(groups(usable.start..from))
            .find(|&group| self.is_whole(group))
    }

    /// Asserts invariant 2.
    #[cfg(test)]
    fn check(&self) {
        let (singles, whole) = self.counted();
        let all: u64 = whole.iter().map(|&zone| u64::from(zone)).sum();
        assert_eq!((singles, all), (self.singles.borrow().clone(), self.all_whole.get()));
        assert_eq!(whole, *self.whole.borrow());
        let is_free = |unit: u64| unit < self.shape.units && !self.is_used(unit);
        let begins =
            (0..self.shape.units).filter(|&it| is_free(it) && !(it > 0 && is_free(it - 1)));
        assert_eq!(begins.count() as u64, self.free_runs());
    }
}

impl Free for Space {
    fn free_in(&self, units: Range<u64>) -> u64 {
        let (start, end) = (units.start, units.end.min(self.shape.units));
        if start >= end {
            return 0;
        }
        let bits = self.bits.borrow();
        let free = |(word, mask, _): (usize, u64, _)| u64::from((!bits[word] & mask).count_ones());
        words(start..end).map(free).sum()
    }

    fn free_runs_in(&self, units: Range<u64>, group: u64) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let end = units.end.min(self.shape.units);
        let mut start = units.start.next_multiple_of(group);
        while start + group <= end {
            if (start..start + group).all(|unit| !self.is_used(unit)) {
                match runs.last_mut() {
                    Some(last) if last.end() == start => last.length += group,
                    _ => runs.push(Run { start, length: group }),
                }
            }
            start += group;
        }
        runs
    }

    fn take_run(&self, run: Run) -> bool {
        self.take(run)
    }

    fn give_back(&self, run: Run) {
        self.free(run);
    }
}

/// The free space outside some zones.
struct Apart<'a> {
    space: &'a Space,
    zones: &'a BTreeSet<u64>,
}

impl Apart<'_> {
    /// The parts of a range of units outside the zones.
    fn parts(&self, units: Range<u64>) -> [Range<u64>; 2] {
        let (start, end) = self.space.around(self.zones).unwrap_or((units.end, units.end));
        [units.start..units.end.min(start), units.start.max(end)..units.end]
    }
}

impl Free for Apart<'_> {
    fn free_in(&self, units: Range<u64>) -> u64 {
        self.parts(units).map(|part| self.space.free_in(part)).iter().sum()
    }

    fn free_runs_in(&self, units: Range<u64>, group: u64) -> Vec<Run> {
        self.parts(units).map(|part| self.space.free_runs_in(part, group)).concat()
    }

    fn take_run(&self, run: Run) -> bool {
        self.space.take(run)
    }

    fn give_back(&self, run: Run) {
        self.space.free(run);
    }
}

/// The words of bits that cover some units, each with the mask of their bits and the units of
/// these. A group is never in two words.
fn words(units: Range<u64>) -> impl Iterator<Item = (usize, u64, Range<u64>)> {
    let Range { start, end } = units;
    (start / 64..end.div_ceil(64)).map(move |word| {
        let part = start.max(word * 64)..end.min((word + 1) * 64);
        let mask = u64::MAX >> (64 - (part.end - part.start)) << (part.start % 64);
        (word as usize, mask, part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_at_random_is_counted() {
        for (block, zone) in [(1, 32), (2, 32), (4, 32), (2, 128), (4, 16)] {
            let space = Space::empty(Shape { units: 300, zone, block });
            let all = space.free_units();
            assert_eq!(all, space.total());
            let mut held: Vec<Run> = Vec::new();
            let mut chance = 12_345_u64;
            for _ in 0..3000 {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                match chance >> 61 {
                    0..=2 => held.extend(space.take_unit().map(|start| Run { start, length: 1 })),
                    3 | 4 => held.extend(space.take_blocks(chance >> 40 & 3).into_iter().flatten()),
                    5 => {
                        let units = space
                            .take_units(chance >> 40 & 7, &|_| Vec::new())
                            .into_iter()
                            .flatten();
                        held.extend(units.map(|start| Run { start, length: 1 }));
                    }
                    _ if held.is_empty() => {}
                    _ => space.free(held.swap_remove((chance >> 33) as usize % held.len())),
                }
                space.check();
                let taken: u64 = held.iter().map(|run| run.length).sum();
                assert_eq!(space.free_units() + taken, all);
            }
            held.into_iter().for_each(|run| space.free(run));
            assert_eq!((space.free_units(), space.singles.borrow().len()), (all, 0));
        }
    }

    #[test]
    fn what_is_claimed_is_for_nobody_else() {
        let space = Space::empty(Shape { units: 300, zone: 32, block: 2 });
        let blocks = space.free_units() / 2;
        space.claim(blocks - 3);
        assert!(space.has_blocks(3, 0, true) && !space.has_blocks(4, 0, true));
        assert!(space.has_blocks(2, 2, true) && !space.has_blocks(2, 3, true));
        assert!(space.has_blocks(blocks, 0, false));
    }
}
