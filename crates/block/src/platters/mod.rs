//! The geometry and timing of a disk's platters: knowledge for a host that places blocks by the
//! position of the heads.
//!
//! Sectors are numbered along a track, then over the heads of a cylinder, then inwards. Each track
//! begins later than the one before by as much as a switch takes (the *skew*), so that a sequential
//! transfer meets the next sector and does not wait for a turn. No device reports the rotation of
//! its spindle: a host that sees when a transfer has ended knows it from then on.
//!
//! Invariant: the angles of a track are `position * rotation / sectors`, rounded down, for every
//! position and beyond one turn. A sector ends at the very nanosecond at which the next one begins,
//! and nothing ever misses its sector by a rounding.

mod arm;
mod seek;

use std::ops::Range;

pub use arm::Arm;

/// Bytes of a sector.
pub const SECTOR: u64 = 512;

/// Neighbouring cylinders whose tracks hold the same number of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Number of cylinders.
    pub cylinders: u32,
    /// Sectors of 512 bytes on each track.
    pub sectors_per_track: u32,
}

/// The surfaces of a disk, and the arm above them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platters {
    /// The cylinders, the outermost first.
    pub zones: &'static [Zone],
    /// Surfaces, each with its head.
    pub heads: u64,
    /// Time of one turn.
    pub rotation_ns: u64,
    /// Time to switch to another head on the same cylinder.
    pub head_switch_ns: u64,
    /// Seek times from a cylinder to the next, the mean over all pairs, and from the first to the
    /// last.
    pub seek_ns: [u64; 3],
    /// Speed of the bus to the host.
    pub bus_bytes_per_second: u64,
    /// Whether the disk executes one call after the other, a write once its data is there, and
    /// replies when the sector has passed: so that a host can follow its turns.
    pub are_turns_known: bool,
    /// Sectors of the disk in front of the device.
    pub first: u64,
}

/// The location of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its cylinder, the outermost being 0.
    pub cylinder: u64,
    /// Its track, counted over the whole disk.
    pub track: u64,
    /// Sectors from here to the end of the track, including this one.
    pub left_on_track: u64,
    /// Sectors on the track.
    per_track: u64,
    /// Its position in the turn, in sectors.
    position: u64,
}

impl Platters {
    /// Number of cylinders.
    pub fn cylinders(&self) -> u64 {
        self.zones.iter().map(|zone| u64::from(zone.cylinders)).sum()
    }

    /// Number of sectors of the whole disk.
    pub fn sectors(&self) -> u64 {
        let tracks = |zone: &Zone| u64::from(zone.cylinders) * self.heads;
        self.zones.iter().map(|zone| tracks(zone) * u64::from(zone.sectors_per_track)).sum()
    }

    /// The sectors of a cylinder that are on the device.
    pub fn sectors_of(&self, cylinder: u64) -> Range<u64> {
        let (mut start, mut left) = (0, cylinder);
        for zone in self.zones {
            let per_cylinder = u64::from(zone.sectors_per_track) * self.heads;
            let here = left.min(zone.cylinders.into());
            start += here * per_cylinder;
            left -= here;
            if here < zone.cylinders.into() {
                return start.saturating_sub(self.first)
                    ..(start + per_cylinder).saturating_sub(self.first);
            }
        }
        0..0
    }

    /// Time to send this many bytes to the disk, rounded up.
    pub fn transfer_ns(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * 1_000_000_000).div_ceil(self.bus_bytes_per_second.into()) as u64
    }

    /// The location of a sector of the device.
    ///
    /// # Panics
    /// When the disk has no such sector.
    pub fn place(&self, sector: u64) -> Place {
        let (mut within, mut first_cylinder) = (self.first + sector, 0);
        for zone in self.zones {
            let per_track = u64::from(zone.sectors_per_track);
            let per_cylinder = per_track * self.heads;
            let in_zone = u64::from(zone.cylinders) * per_cylinder;
            if within < in_zone {
                let cylinder = first_cylinder + within / per_cylinder;
                let head = within % per_cylinder / per_track;
                let on_track = within % per_track;
                let skew = self.skew(cylinder, head, per_track);
                return Place {
                    cylinder,
                    track: cylinder * self.heads + head,
                    left_on_track: per_track - on_track,
                    per_track,
                    position: (skew + on_track) % per_track,
                };
            }
            within -= in_zone;
            first_cylinder += u64::from(zone.cylinders);
        }
        unreachable!("a disk is no larger than its platters, which is checked when it is made")
    }

    /// Distance of the start of a track from the index mark, in sectors.
    fn skew(&self, cylinder: u64, head: u64, per_track: u64) -> u64 {
        let covering = |time_ns: u64| ((time_ns + 1) * per_track).div_ceil(self.rotation_ns);
        let of_heads = covering(self.head_switch_ns);
        let of_cylinder =
            covering(self.seek_ns[0].max(self.head_switch_ns)) + (self.heads - 1) * of_heads;
        (cylinder * of_cylinder + head * of_heads) % per_track
    }

    /// The angle at which a sector begins, as a time.
    pub fn angle_ns(&self, place: &Place) -> u64 {
        place.position * self.rotation_ns / place.per_track
    }

    /// Time until the sector comes under its head; `phase_ns` is the spindle's rotation.
    pub fn wait_ns(&self, now_ns: u64, phase_ns: u64, place: &Place) -> u64 {
        let target_ns = self.angle_ns(place);
        let current_ns = (now_ns + phase_ns) % self.rotation_ns;
        (target_ns + self.rotation_ns - current_ns) % self.rotation_ns
    }

    /// Time for `count` sectors of one track to pass, from the start of the given one.
    pub fn pass_ns(&self, place: &Place, count: u64) -> u64 {
        let angle = |position| position * self.rotation_ns / place.per_track;
        angle(place.position + count) - angle(place.position)
    }

    /// Number of sectors of one track that pass within a time of less than a turn.
    pub fn passed(&self, place: &Place, time_ns: u64) -> u64 {
        let about = time_ns * place.per_track / self.rotation_ns;
        if self.pass_ns(place, about) > time_ns { about - 1 } else { about }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLATTERS: Platters = Platters {
        zones: &[
            Zone { cylinders: 3, sectors_per_track: 70 },
            Zone { cylinders: 5, sectors_per_track: 47 },
        ],
        heads: 4,
        rotation_ns: 11_111_111,
        head_switch_ns: 1_000_000,
        seek_ns: [2_000_000, 3_000_000, 4_000_000],
        bus_bytes_per_second: 4_096_000,
        are_turns_known: true,
        first: 0,
    };

    #[test]
    fn sectors_fill_tracks_cylinders_and_zones_in_turn() {
        assert_eq!(PLATTERS.sectors(), 3 * 4 * 70 + 5 * 4 * 47);
        let at = |sector| {
            let place = PLATTERS.place(sector);
            (place.cylinder, place.track, place.left_on_track)
        };
        assert_eq!(at(0), (0, 0, 70));
        assert_eq!(at(69), (0, 0, 1));
        assert_eq!(at(70), (0, 1, 70));
        assert_eq!(at(4 * 70), (1, 4, 70));
        assert_eq!(at(12 * 70 + 1), (3, 12, 46));
        assert_eq!(at(PLATTERS.sectors() - 1), (7, 31, 1));
    }

    #[test]
    fn a_cylinder_has_its_sectors_and_a_part_of_a_disk_those_that_are_its_own() {
        for cylinder in 0..8 {
            let sectors = PLATTERS.sectors_of(cylinder);
            assert_eq!(PLATTERS.place(sectors.start).cylinder, cylinder);
            assert_eq!(PLATTERS.place(sectors.end - 1).cylinder, cylinder);
        }
        assert_eq!([PLATTERS.sectors_of(0).start, PLATTERS.sectors_of(7).end], [0, 1780]);
        assert_eq!(PLATTERS.sectors_of(8), 0..0);
        let part = Platters { first: 300, ..PLATTERS };
        assert_eq!(part.place(0), PLATTERS.place(300));
        assert_eq!([part.sectors_of(0), part.sectors_of(1)], [0..0, 0..260]);
    }

    #[test]
    fn the_sector_after_any_other_begins_when_that_one_ends_or_a_change_over_later() {
        for sector in 0..PLATTERS.sectors() - 1 {
            let (this, next) = (PLATTERS.place(sector), PLATTERS.place(sector + 1));
            let start_ns = PLATTERS.wait_ns(0, 77, &this);
            let end_ns = start_ns + PLATTERS.pass_ns(&this, 1);
            let change_ns = match (this.track == next.track, this.cylinder == next.cylinder) {
                (true, _) => 0,
                (false, true) => PLATTERS.head_switch_ns,
                (false, false) => PLATTERS.seek_ns[0],
            };
            let wait_ns = PLATTERS.wait_ns(end_ns + change_ns, 77, &next);
            let sector_ns = PLATTERS.rotation_ns / next.per_track;
            let slack = if change_ns == 0 { 0 } else { sector_ns + 1 };
            let zone_ends = this.per_track != next.per_track;
            assert!(zone_ends || wait_ns <= slack, "sector {sector} waits for {wait_ns} ns");
        }
    }
}
