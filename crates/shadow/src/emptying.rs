//! Choice of the zones to empty, and of the places for their blocks.
//!
//! A zone is worth emptying as in a log-structured file system (Rosenblum, 1991): the space that it
//! frees, times how long that is going to stay free, over the cost of reading all of it and writing
//! the blocks in use.

use std::collections::{BTreeMap, BTreeSet};

use cow::Run;

use crate::format::record::Change;
use crate::space::Space;

/// Zones with more than this part in use are left alone: in sixteenths.
const FULL: u64 = 13;
/// Empty zones are few if they are less than this part of all zones.
const EMPTY_PART: u64 = 32;

/// Number of empty zones, and how many there should be.
pub(crate) struct Standing {
    /// Zones without units in use.
    pub(crate) empty: u64,
    /// Number of empty zones that there should be.
    pub(crate) few: u64,
}

impl Standing {
    /// Whether there are too few empty zones.
    pub(crate) fn are_few(&self) -> bool {
        self.empty < self.few
    }

    /// Number of further zones to empty then: so that this does not begin again at once.
    pub(crate) fn missing(&self) -> u64 {
        (2 * self.few).saturating_sub(self.empty)
    }
}

impl Space {
    fn groups_of_zone(&self) -> u64 {
        let usable = self.shape().usable(0);
        (usable.end - usable.start) / self.shape().block
    }

    /// Counts empty zones.
    pub(crate) fn standing(&self) -> Standing {
        let (zones, all) = (self.shape().zones(), self.groups_of_zone());
        let empty = (0..zones).filter(|&zone| self.whole_of(zone) == all).count() as u64;
        Standing { empty, few: (zones / EMPTY_PART).max(1) }
    }

    /// Notes the zones that an update takes units in.
    pub(crate) fn note_taken(&self, changes: &[Change], update: u64) {
        for change in changes {
            if let Change::Taken(run) = change {
                self.zones.note_taken(self.shape().zone_of(run.start), update);
            }
        }
    }

    /// The zones best emptied, the best first, so that `missing` more are empty then, or as many as
    /// possible; none if not even one would be. Moved blocks go to empty zones as long as there
    /// are some, and then to holes in others. `vain` has zones that could not be emptied, with the
    /// units in use, and the update at that time.
    pub(crate) fn worth_emptying(
        &self,
        missing: u64,
        (update, vain): (u64, &BTreeMap<u64, (u64, u64)>),
    ) -> Vec<u64> {
        let (shape, all) = (self.shape(), self.groups_of_zone());
        let units = all * shape.block;
        let moved_to = self.zones.moved_to.get().map(|unit| shape.zone_of(unit));
        let (mut worth, mut empty, mut holes) = (Vec::new(), 0, 0);
        for zone in (0..shape.zones()).filter(|&zone| zone != self.zone_at_hand()) {
            if self.whole_of(zone) == all {
                empty += 1;
                continue;
            }
            holes += self.whole_of(zone);
            let used = self.used_of(zone);
            // Units that were taken there since may be moved.
            let is_vain = vain
                .get(&zone)
                .is_some_and(|&(stays, at)| used >= stays && self.zones.last_taken(zone) <= at);
            if Some(zone) == moved_to || used * 16 > units * FULL || is_vain {
                continue;
            }
            let age = update.saturating_sub(self.zones.last_taken(zone)) + 1;
            let benefit = (units - used) as f64 * age as f64;
            worth.push((benefit / (units + used) as f64, zone, used));
        }
        worth.sort_by(|one, other| other.0.total_cmp(&one.0));
        let (mut used, mut best) = (0, (0, 0));
        for (count, (_, zone, of_zone)) in (1..).zip(&worth) {
            (used, holes) = (used + of_zone, holes - self.whole_of(*zone));
            if used > empty * units + holes * shape.block || best.0 >= missing {
                break;
            }
            let gain = (count as u64).saturating_sub(empty.min(used.div_ceil(units)));
            best = best.max((gain, usize::MAX - count)); // the fewest that gain as much
        }
        let (gain, count) = (best.0, usize::MAX - best.1);
        let count = if gain == 0 { 0 } else { count };
        worth.into_iter().take(count).map(|(_, zone, _)| zone).collect()
    }

    /// Sets the zones that are being emptied.
    pub(crate) fn empty_these(&self, zones: BTreeSet<u64>) {
        self.zones.set_emptied(zones);
    }

    /// Zones that are empty by now may be used again.
    pub(crate) fn note_emptied(&self) {
        self.zones.retain_emptied(|zone| self.used_of(zone) > 0);
    }

    /// Takes blocks for moved data; none if there are not enough outside the zones that are being
    /// emptied.
    pub(crate) fn take_for_moves(&self, blocks: u64) -> Option<Vec<Run>> {
        let mut runs: Vec<Run> = Vec::new();
        for _ in 0..blocks {
            let Some(start) = self.group_for_moves() else {
                runs.into_iter().for_each(|run| self.free(run));
                return None;
            };
            let run = Run { start, length: self.shape().block };
            self.hold(run);
            self.zones.moved_to.set(Some(run.end() - 1));
            match runs.last_mut() {
                Some(last) if last.end() == start => last.length += run.length,
                _ => runs.push(run),
            }
        }
        Some(runs)
    }

    /// The next group behind the last moved block, in its zone, or else in the zone with most whole
    /// groups.
    fn group_for_moves(&self) -> Option<u64> {
        let (shape, here) = (self.shape(), self.zone_at_hand());
        if let Some(last) = self.zones.moved_to.get() {
            let zone = shape.zone_of(last);
            let rest = last + 1..shape.usable(zone).end;
            if !self.zones.is_emptied(zone)
                && let Some(group) = self.whole_group(rest)
            {
                return Some(group);
            }
        }
        let others =
            (0..shape.zones()).filter(|&zone| zone != here && !self.zones.is_emptied(zone));
        let zone = others.rev().max_by_key(|&zone| self.whole_of(zone))?;
        self.whole_group(shape.usable(zone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::anchor::Shape;

    /// A volume with a number of zones for each pair, each with a number of units in use in whole
    /// groups.
    fn with(zones: &[(u64, u64)]) -> Space {
        let count: u64 = zones.iter().map(|(count, _)| count).sum();
        let shape = Shape { units: 40 + 64 * count, zone: 64, block: 2 };
        let (space, mut zone) = (Space::empty(shape), 0);
        for &(count, used) in zones {
            for _ in 0..count {
                let start = shape.usable(zone).start;
                assert!(used == 0 || space.take(Run { start, length: used }));
                zone += 1;
            }
        }
        space
    }

    #[test]
    fn no_more_is_chosen_than_has_room_elsewhere() {
        let none = BTreeMap::new();
        let chosen = |zones: &[(u64, u64)], missing| {
            let space = with(zones);
            space.worth_emptying(missing, (9, &none)).len()
        };
        // The first zone is at hand. Zones have 62 units.
        assert_eq!(chosen(&[(60, 62), (20, 46)], 6), 5, "what is in 5 has room in 15");
        assert_eq!(chosen(&[(60, 62), (20, 46)], 3), 3);
        assert_eq!(chosen(&[(60, 62), (1, 46)], 6), 0, "nothing has room for it");
        assert_eq!(chosen(&[(60, 62), (2, 46)], 6), 0);
        assert_eq!(chosen(&[(60, 62), (2, 30)], 6), 1);
        assert_eq!(chosen(&[(60, 62), (4, 30), (1, 0)], 6), 3, "the empty one takes of two");
        assert_eq!(chosen(&[(60, 62), (1, 30), (1, 0)], 6), 0, "one for one is no gain");
    }

    #[test]
    fn what_stays_is_not_tried_again_before_some_of_it_has_gone() {
        let space = with(&[(60, 62), (20, 30)]);
        let vain = |used| (60..80).map(|zone| (zone, (used, 8))).collect::<BTreeMap<_, _>>();
        assert!(space.worth_emptying(6, (9, &vain(30))).is_empty());
        assert!(space.worth_emptying(6, (9, &vain(28))).is_empty(), "more than that is worse");
        assert_eq!(space.worth_emptying(6, (9, &vain(32))).len(), 6);
        space.note_taken(&[Change::Taken(Run::of(space.shape().usable(70).start))], 9);
        assert_eq!(space.worth_emptying(6, (9, &vain(30))), [70], "that may be moved");
    }
}
