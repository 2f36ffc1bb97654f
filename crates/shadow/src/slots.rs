//! Slots and zones for superblocks where the arm of the device can be followed.

use crate::commit::Commits;
use crate::format::SLOTS;
use crate::format::anchor::ZONES;
use crate::format::record::Run;
use crate::placement::{Free, Slot};

/// A zone of which less than such a part is free is not named ahead.
const ROOMY_PART: u64 = 4;

impl Commits {
    /// Slots near a run that is the last of an update.
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
    /// it can be followed.
    pub(crate) fn placed_slot(&self, unit: u64) -> u64 {
        let slots = || self.slots_for(Run::of(unit));
        let placed = self.space.placement().and_then(|placement| placement.slot(&slots()));
        placed.unwrap_or_else(|| self.slot_for(unit))
    }

    /// Names zones around one that is named next: an arm goes to the nearest with room.
    pub(crate) fn name_ahead(&self, zone: u32, named: &mut Vec<u32>) {
        let (zone, zones) = (u64::from(zone), self.shape.zones());
        let around = (1..zones).flat_map(|step| [zone.checked_sub(step), Some(zone + step)]);
        let others = around.flatten().filter(|&zone| zone < zones);
        let is_roomy = |&zone: &u64| {
            self.space.free_in(self.shape.usable(zone)) * ROOMY_PART >= self.shape.zone
        };
        for zone in others.filter(is_roomy).map(|zone| zone as u32) {
            if named.len() + 1 == ZONES {
                return;
            }
            if !named.contains(&zone) {
                named.push(zone);
            }
        }
    }
}
