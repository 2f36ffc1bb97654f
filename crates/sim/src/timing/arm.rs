//! An arm with its heads, somewhere above a spinning disk.

use super::platters::{Place, Platters};
use super::seek::SeekCurve;

pub(super) struct Arm {
    platters: Platters,
    curve: SeekCurve,
    /// How far the spindle was in its turn when time began.
    phase_ns: u64,
    cylinder: u64,
    track: u64,
    seeks: u64,
}

impl Arm {
    pub(super) fn new(platters: Platters, curve: SeekCurve, phase_ns: u64) -> Self {
        Self { platters, curve, phase_ns, cylinder: 0, track: 0, seeks: 0 }
    }

    /// How often it has set out for another cylinder. Going on to the next cylinder within a
    /// transfer is none.
    pub(super) fn seeks(&self) -> u64 {
        self.seeks
    }

    /// How long until the first byte of a sector is under its head, if the arm sets out now.
    pub(super) fn positioning_ns(&self, now_ns: u64, sector: u64) -> u64 {
        let place = self.platters.place(sector);
        let move_ns = self.move_ns(&place);
        move_ns + self.platters.wait_ns(now_ns + move_ns, self.phase_ns, &place)
    }

    /// Sets out for the sectors `first..end` and returns when the last one has passed.
    pub(super) fn transfer(&mut self, now_ns: u64, first: u64, end: u64) -> u64 {
        self.seeks += u64::from(self.platters.place(first).cylinder != self.cylinder);
        self.stream(now_ns, first, end, u64::MAX).1
    }

    /// Passes over the sectors from `first` until `end`, or as far as it comes by `until_ns`: the
    /// sector after the last that has passed, and when that had.
    pub(super) fn stream(
        &mut self,
        mut now_ns: u64,
        first: u64,
        end: u64,
        until_ns: u64,
    ) -> (u64, u64) {
        let mut sector = first;
        while sector < end {
            let place = self.platters.place(sector);
            let move_ns = self.move_ns(&place);
            let wait_ns = self.platters.wait_ns(now_ns + move_ns, self.phase_ns, &place);
            let start_ns = now_ns + move_ns + wait_ns;
            if start_ns > until_ns {
                break;
            }
            (self.cylinder, self.track) = (place.cylinder, place.track);
            let count = place.left_on_track.min(end - sector);
            let pass_ns = self.platters.pass_ns(&place, count);
            if pass_ns > until_ns - start_ns {
                let passed = self.platters.passed(&place, until_ns - start_ns);
                return (sector + passed, start_ns + self.platters.pass_ns(&place, passed));
            }
            sector += count;
            now_ns = start_ns + pass_ns;
        }
        (sector, now_ns)
    }

    fn move_ns(&self, place: &Place) -> u64 {
        let switch_ns = if place.track == self.track { 0 } else { self.platters.head_switch_ns };
        switch_ns.max(self.curve.time_ns(place.cylinder.abs_diff(self.cylinder)))
    }
}
