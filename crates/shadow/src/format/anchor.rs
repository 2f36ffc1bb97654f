//! Anchors: the parameters of a volume, and the zones in which its superblocks may be.
//!
//! There are two, written in turn, each at both ends of the disk. An anchor is durable before a
//! superblock goes to a zone that it adds.

use std::collections::BTreeSet;
use std::ops::Range;

use cow::format::head::{alone, is, is_read, seal, seal_alone, seal_as, secret};
use cow::{END, Head, Place, Run, Secret, UNIT, view, view_mut};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::kind;
use super::{ANCHORS, FRONT, SLOTS};

/// Zones that an anchor names at most.
pub const ZONES: usize = 32;
/// Bytes of a label at most.
pub const LABEL: usize = 64;
/// Zones of up to this many units, 256 MiB, may have any size. The size of larger ones is a power
/// of two, so that the end of the first one can be found if no anchor is left.
pub const ANY_ZONE: u64 = 1 << 16;

/// The shape of a volume: it never changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Units of the disk.
    pub units: u64,
    /// Units of a zone: whole blocks.
    pub zone: u64,
    /// Units of a block of a file.
    pub block: u64,
}

impl Shape {
    /// Whether a volume of this shape can exist.
    pub fn is_legal(&self) -> bool {
        self.has_whole_blocks() && self.units < 1 << 47 && self.zones() > 0
    }

    /// Whether mkfs makes zones and blocks of these sizes.
    pub fn is_possible(&self) -> bool {
        self.has_whole_blocks() && (self.zone <= ANY_ZONE || self.zone.is_power_of_two())
    }

    /// Whether zones and blocks may have these sizes.
    fn has_whole_blocks(&self) -> bool {
        self.block.is_power_of_two()
            && self.zone <= 1 << 24
            && self.zone.is_multiple_of(self.block)
            && self.block <= FRONT / 2 // so whole blocks are in front of the first zone
            && self.zone >= (4 * self.block).max(8 * SLOTS)
    }

    /// Number of zones. The rest of the disk behind the last one is not used.
    pub fn zones(&self) -> u64 {
        self.units.saturating_sub(FRONT + ANCHORS) / self.zone
    }

    /// The units of a zone.
    pub fn zone(&self, zone: u64) -> Range<u64> {
        let start = FRONT + zone * self.zone;
        start..start + self.zone
    }

    /// The zone of a unit.
    pub fn zone_of(&self, unit: u64) -> u64 {
        (unit - FRONT) / self.zone
    }

    /// The units of a zone that hold data and metadata: whole blocks.
    pub fn usable(&self, zone: u64) -> Range<u64> {
        let Range { start, end } = self.zone(zone);
        start..end - SLOTS.next_multiple_of(self.block)
    }

    /// The units of all zones that hold data and metadata.
    pub fn capacity(&self) -> u64 {
        let usable = self.usable(0);
        self.zones() * (usable.end - usable.start)
    }

    /// A slot of a zone.
    pub fn slot(&self, zone: u64, slot: u64) -> u64 {
        self.zone(zone).end - SLOTS + slot
    }

    /// Whether all of a run may hold data and metadata.
    pub fn may_hold(&self, run: &Run) -> bool {
        let zones = self.zones();
        let is_inside = |unit: u64| {
            unit >= FRONT && {
                let zone = self.zone_of(unit);
                zone < zones && self.usable(zone).contains(&unit)
            }
        };
        run.length > 0
            && run.start.checked_add(run.length).is_some_and(|end| end <= self.units)
            && is_inside(run.start)
            && self.usable(self.zone_of(run.start)).end >= run.end()
    }

    /// Units of the two copies of an anchor.
    pub fn anchor(&self, number: u64) -> [u64; 2] {
        let turn = number % ANCHORS;
        [turn, self.units - ANCHORS + turn]
    }
}

/// Contents of an anchor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The higher of two is the newer.
    pub number: u64,
    /// The volume.
    pub shape: Shape,
    /// The volume's secret.
    pub secret: Secret,
    /// The volume's label.
    pub label: String,
    /// Zones in which superblocks may be; the newest last.
    pub zones: Vec<u32>,
    /// The last update of a volume that was stopped: none before it is the newest. 0 if it is
    /// unknown because no anchor was left; no anchor on a disk has that.
    pub rest: u64,
    /// Free units at that time.
    pub free: u64,
    /// The version of the format that the volume has.
    pub version: u16,
}

/// The block in the places of anchors while a volume is being made.
pub fn begun() -> Box<[u8; UNIT]> {
    let mut block = Box::new([0; UNIT]);
    let place = Place { kind: kind::BEGUN, owner: 0, level: 0, index: 0 };
    seal(&mut *block, place, 0, &Secret::default());
    seal_alone(&mut *block);
    block
}

/// Whether a disk with these first bytes has a volume whose making was cut off.
pub fn is_begun(head: &[u8]) -> bool {
    head.get(..UNIT).is_some_and(|unit| alone(unit, kind::BEGUN).is_some())
}

/// Why a block is not an anchor of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnchor {
    /// The block is something else, or torn.
    Other,
    /// The block is whole, and has this other version.
    Version(u16),
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OnDisk {
    head: Head,
    units: U64,
    zone: U64,
    block: U64,
    zones: U16,
    label: U16,
    reserved: U32,
    rest: U64,
    free: U64,
    text: [u8; LABEL],
    list: [U32; ZONES],
}

impl Anchor {
    /// Both copies have the same place.
    fn place(&self) -> Place {
        Place { kind: kind::ANCHOR, owner: 0, level: 0, index: self.number % ANCHORS }
    }

    /// Whether a disk with these first bytes has an anchor in its first units.
    pub fn begins(head: &[u8]) -> bool {
        let units = head.chunks_exact(UNIT).take(ANCHORS as usize);
        !is_begun(head) && units.into_iter().any(|unit| alone(unit, kind::ANCHOR).is_some())
    }

    /// Whether it was made from superblocks: the disk has no anchor, or none of one turn.
    pub fn is_rebuilt(&self) -> bool {
        self.rest == 0
    }

    /// Encodes it as a block.
    pub fn write(&self) -> Box<[u8; UNIT]> {
        let mut block = Box::new([0; UNIT]);
        let disk: &mut OnDisk = view_mut(&mut *block);
        let Shape { units, zone, block: unit } = self.shape;
        (disk.units, disk.zone, disk.block) = (units.into(), zone.into(), unit.into());
        assert!(self.zones.len() <= ZONES && self.label.len() <= LABEL, "they have room");
        disk.zones = (self.zones.len() as u16).into();
        disk.list.iter_mut().zip(&self.zones).for_each(|(line, &zone)| line.set(zone));
        (disk.rest, disk.free) = (self.rest.into(), self.free.into());
        disk.label = (self.label.len() as u16).into();
        disk.text[..self.label.len()].copy_from_slice(self.label.as_bytes());
        seal_as(&mut *block, self.place(), self.number, &self.secret, self.version);
        seal_alone(&mut *block);
        block
    }

    /// Decodes a block.
    ///
    /// # Errors
    /// [`NoAnchor`].
    pub fn read(block: &[u8]) -> Result<Self, NoAnchor> {
        let (number, version) = alone(block, kind::ANCHOR).ok_or(NoAnchor::Other)?;
        if !is_read(version) {
            return Err(NoAnchor::Version(version));
        }
        let disk: &OnDisk = view(block);
        let shape =
            Shape { units: disk.units.get(), zone: disk.zone.get(), block: disk.block.get() };
        let label = disk.text.get(..disk.label.get().into()).ok_or(NoAnchor::Other)?;
        let label = String::from_utf8(label.to_vec()).map_err(|_| NoAnchor::Other)?;
        let zones = disk.list.get(..disk.zones.get().into()).ok_or(NoAnchor::Other)?;
        let anchor = Self {
            number,
            shape,
            secret: secret(block),
            label,
            zones: zones.iter().map(|zone| zone.get()).collect(),
            rest: disk.rest.get(),
            free: disk.free.get(),
            version,
        };
        let are_there = || anchor.zones.iter().all(|&zone| u64::from(zone) < shape.zones());
        let is_it = number < END
            && shape.is_legal()
            && !anchor.zones.is_empty()
            && anchor.zones.iter().collect::<BTreeSet<_>>().len() == anchor.zones.len()
            && are_there()
            && !anchor.is_rebuilt()
            && is(block, anchor.place(), number, &anchor.secret);
        if is_it { Ok(anchor) } else { Err(NoAnchor::Other) }
    }
}

const _: () = assert!(size_of::<OnDisk>() <= UNIT);

#[cfg(test)]
mod tests {
    use cow::VERSION;

    use super::*;

    fn sample() -> Anchor {
        Anchor {
            number: 12,
            shape: Shape { units: 256, zone: 16, block: 1 },
            secret: [3; 16],
            label: "äpfel".to_owned(),
            zones: vec![3, 4],
            rest: 9,
            free: 77,
            version: VERSION,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Anchor::read(&*sample().write()), Ok(sample()));
        for byte in 0..UNIT {
            let mut rotten = sample().write();
            rotten[byte] ^= 1 << (byte % 8);
            assert_eq!(Anchor::read(&*rotten), Err(NoAnchor::Other), "byte {byte}");
        }
    }

    #[test]
    fn one_of_a_number_that_none_reaches_is_none() {
        for (number, is_one) in [(END - 1, true), (END, false), (u64::MAX, false)] {
            let anchor = Anchor { number, ..sample() };
            assert_eq!(Anchor::read(&*anchor.write()).is_ok(), is_one, "{number}");
        }
    }

    #[test]
    fn one_that_names_a_zone_twice_is_none() {
        let twice = Anchor { zones: vec![3, 4, 3], ..sample() };
        assert_eq!(Anchor::read(&*twice.write()), Err(NoAnchor::Other));
    }

    #[test]
    fn one_that_knows_of_no_update_is_none() {
        let unknown = Anchor { rest: 0, ..sample() };
        assert_eq!(Anchor::read(&*unknown.write()), Err(NoAnchor::Other));
    }

    #[test]
    fn one_of_a_later_version_says_so() {
        let mut later = sample().write();
        later[4] = VERSION as u8 + 1;
        later[56..64].fill(0);
        seal_alone(&mut *later);
        assert_eq!(Anchor::read(&*later), Err(NoAnchor::Version(VERSION + 1)));
    }

    #[test]
    fn slots_and_anchors_hold_nothing_else() {
        for shape in [
            Shape { units: 256, zone: 16, block: 1 },
            Shape { units: 260, zone: 64, block: 2 },
            Shape { units: 400, zone: 99, block: 1 },
            Shape { units: 1000, zone: 102, block: 2 },
            Shape { units: 1 << 20, zone: 1 << 14, block: 16 },
        ] {
            assert!(shape.is_legal(), "{shape:?}");
            let may = |start| shape.may_hold(&Run { start, length: 1 });
            let anchors = [0, 1].into_iter().flat_map(|number| shape.anchor(number));
            assert!(anchors.into_iter().all(|unit| !may(unit)), "{shape:?}");
            for zone in 0..shape.zones() {
                assert!((0..SLOTS).all(|slot| !may(shape.slot(zone, slot))));
                let usable = shape.usable(zone);
                assert!(usable.start % shape.block == 0 && usable.end % shape.block == 0);
                assert!(may(usable.start) && may(usable.end - 1) && !may(usable.end));
            }
        }
    }
}
