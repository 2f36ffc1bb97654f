//! Choice of the slot for a superblock, and of the zones that anchors name.
//!
//! If the position of the device's arm is known, the slot is one that the arm reaches soon, and
//! zones around it are named ahead.
//!
//! Invariants:
//! 1. A superblock never goes to the slot of the last durable one.
//! 2. A zone leaves the anchors only when the last two durable superblocks, each of its own update
//!    since the opening, are in zones that stay: so they are newer than all in that zone.
//!
//! Not asserted: 2, which is tested by the superblocks on the disk.

use block::IoError;
use cow::Run;

use crate::commit::Commits;
use crate::format::SLOTS;
use crate::format::anchor::ZONES;
use crate::placement::{Free, Slot};
use crate::planted::{Bug, is_planted};

/// A zone with less than this part free is not named ahead.
const ROOMY_PART: u64 = 4;

impl Commits {
    /// Slots near the run that is the last of an update.
    pub(crate) fn slots_for(&self, run: Run) -> Vec<Slot> {
        let zone = self.shape.zone_of(run.start);
        let [last, _] = self.durable.get();
        let zones = (zone.saturating_sub(1)..=zone + 1).filter(|&zone| zone < self.shape.zones());
        let slots = zones.flat_map(|zone| (0..SLOTS).map(move |slot| (zone, slot)));
        let places = slots.map(|(zone, slot)| self.shape.slot(zone, slot));
        let slot = |at| Slot { at, is_named: self.names_zone(at) };
        places.filter(|&at| at != last).map(slot).collect()
    }

    /// The slot for a superblock behind this unit: one that the arm of the device reaches soon, if
    /// its position is known.
    pub(crate) fn placed_slot(&self, unit: u64) -> u64 {
        let slots = || self.slots_for(Run::of(unit));
        let placed = self.space.placement().and_then(|placement| placement.slot(&slots()));
        let at = placed.unwrap_or_else(|| self.slot_for(unit));
        let has_room = self.anchor.borrow().zones.len() < ZONES;
        // The zone of the last durable superblock is named, and has two slots.
        let [last, _] = self.durable.get();
        if has_room || self.names_zone(at) || self.may_leave() { at } else { self.slot_for(last) }
    }

    /// Whether zones may leave the anchors: two updates are durable since the opening. The
    /// superblock of the opening counts for one, and there may be no other.
    fn may_leave(&self) -> bool {
        self.counts().updates >= 2 || is_planted(Bug::OneTwice)
    }

    /// Names zones around the one that is named next: an arm goes to the nearest with room.
    pub(crate) fn name_ahead(&self, zone: u32, named: &mut Vec<u32>) {
        let (zone, zones) = (u64::from(zone), self.shape.zones());
        let around = (1..zones).flat_map(|step| [zone.checked_sub(step), Some(zone + step)]);
        let others = around.flatten().filter(|&zone| zone < zones);
        let is_roomy = |&zone: &u64| {
            self.space.free_in(self.shape.usable(zone)) * ROOMY_PART >= self.shape.zone
        };
        for zone in others.filter(is_roomy).map(|zone| zone as u32) {
            if named.len() + 1 >= ZONES {
                return;
            }
            if !named.contains(&zone) {
                named.push(zone);
            }
        }
    }

    /// The slot for a superblock, in the zone of this unit.
    pub(crate) fn slot_for(&self, unit: u64) -> u64 {
        let zone = self.shape.zone_of(unit);
        let [last, _] = self.durable.get();
        let slots = (0..SLOTS).map(|slot| self.shape.slot(zone, slot));
        let mut free = slots.filter(|&at| (at != last) ^ is_planted(Bug::SameSlot));
        let at = free.next().unwrap_or(last);
        assert!(at != last || is_planted(Bug::SameSlot), "invariant 1: {at} is the last durable");
        at
    }

    pub(crate) fn names_zone(&self, at: u64) -> bool {
        self.anchor.borrow().zones.contains(&(self.shape.zone_of(at) as u32))
    }

    /// Makes sure that a durable anchor names the zone of a slot (invariant 6 of `commit`).
    pub(crate) async fn name_zone(&self, at: u64) -> Result<(), IoError> {
        let zone = self.shape.zone_of(at) as u32;
        if self.names_zone(at) || is_planted(Bug::LateAnchors) {
            return Ok(());
        }
        let mut anchor = self.anchor.borrow().clone();
        let stay = self.durable.get().map(|at| self.shape.zone_of(at) as u32);
        if self.space.placement().is_some() {
            anchor.zones.retain(|zone| stay.contains(zone) || !self.may_leave());
            self.name_ahead(zone, &mut anchor.zones);
        } else if anchor.zones.len() == ZONES {
            let may_leave = |zone: &u32| !stay.contains(zone) ^ is_planted(Bug::ForgottenZones);
            let leaves = anchor.zones.iter().position(may_leave);
            anchor.zones.remove(leaves.expect("two stay at most"));
        }
        anchor.zones.push(zone);
        self.write_anchor(anchor).await
    }
}
