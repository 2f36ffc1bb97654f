//! An arm with its heads, above a spinning disk.

use super::seek::SeekCurve;
use super::{Place, Platters};

/// See the module's prose.
#[derive(Clone, Copy, Debug)]
pub struct Arm {
    platters: Platters,
    curve: SeekCurve,
    /// Rotation of the spindle at time 0, as a time.
    phase_ns: u64,
    cylinder: u64,
    track: u64,
    seeks: u64,
}

impl Arm {
    /// An arm over the first track of a disk; `phase_ns` is the rotation of the spindle at time 0.
    pub fn new(platters: Platters, phase_ns: u64) -> Self {
        let curve = SeekCurve::fit(platters.seek_ns, platters.cylinders());
        Self { platters, curve, phase_ns, cylinder: 0, track: 0, seeks: 0 }
    }

    /// Number of seeks to another cylinder. Going on to the next cylinder within a transfer is
    /// none.
    pub fn seeks(&self) -> u64 {
        self.seeks
    }

    /// Time until the first byte of a sector is under its head, if the arm starts now.
    pub fn positioning_ns(&self, now_ns: u64, sector: u64) -> u64 {
        let place = self.platters.place(sector);
        let move_ns = self.move_ns(&place);
        move_ns + self.platters.wait_ns(now_ns + move_ns, self.phase_ns, &place)
    }

    /// The cylinder at which the arm is.
    pub fn cylinder(&self) -> u64 {
        self.cylinder
    }

    /// Sets the arm and the spindle to the end of the sector before this one, which has just
    /// passed.
    pub fn has_passed(&mut self, now_ns: u64, sector: u64) {
        let place = self.platters.place(sector - 1);
        let turn_ns = self.platters.rotation_ns;
        let at_ns = self.platters.angle_ns(&place) + self.platters.pass_ns(&place, 1);
        self.phase_ns = (at_ns + turn_ns - now_ns % turn_ns) % turn_ns;
        self.is_behind(sector);
    }

    /// Sets the arm to the sector before this one, at whatever angle.
    pub fn is_behind(&mut self, sector: u64) {
        let place = self.platters.place(sector - 1);
        (self.cylinder, self.track) = (place.cylinder, place.track);
    }

    /// Seek time to the cylinder of a sector, or switch time to its head.
    pub fn seek_ns(&self, sector: u64) -> u64 {
        self.move_ns(&self.platters.place(sector))
    }

    /// Starts for the sectors `first..end` and returns the time at which the last one has passed.
    pub fn transfer(&mut self, now_ns: u64, first: u64, end: u64) -> u64 {
        self.seeks += u64::from(self.platters.place(first).cylinder != self.cylinder);
        self.stream(now_ns, first, end, u64::MAX).1
    }

    /// Passes over the sectors from `first` until `end`, or as far as it gets by `until_ns`:
    /// returns the sector after the last that has passed, and the time at which that had.
    pub fn stream(&mut self, mut now_ns: u64, first: u64, end: u64, until_ns: u64) -> (u64, u64) {
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

#[cfg(test)]
mod tests {
    use super::super::Zone;
    use super::*;

    #[test]
    fn who_sees_a_transfer_end_foretells_the_next() {
        let platters = Platters {
            zones: &[Zone { cylinders: 100, sectors_per_track: 72 }],
            heads: 11,
            rotation_ns: 16_666_666,
            head_switch_ns: 1_000_000,
            seek_ns: [4_000_000, 17_000_000, 35_000_000],
            bus_bytes_per_second: 4_096_000,
            are_turns_known: true,
            first: 0,
        };
        let mut arm = Arm::new(platters, 7_654_321);
        let mut host = Arm::new(platters, 0);
        let ended_ns = arm.transfer(123_456_789, 5000, 5100);
        host.has_passed(ended_ns, 5100);
        for (first, end) in [(5110, 5120), (5120, 5300), (70_000, 70_001), (3, 800)] {
            let begun_ns = ended_ns + first;
            let [there, foretold] = [arm, host].map(|mut arm| arm.transfer(begun_ns, first, end));
            assert!(there.abs_diff(foretold) <= 1, "{first}: {there} and {foretold}");
        }
        assert_eq!(host.cylinder(), 5099 / 792);
    }
}
