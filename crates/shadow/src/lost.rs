//! Opening a volume without anchors, from its superblocks.
//!
//! The size of zones determines where slots are, and each superblock records that size. So every
//! unit at the front is searched, and behind that the slots of zones whose size is a power of two.
//! From then on only slots are read, those of all zones.
//!
//! Data of a client may look like superblocks of zones of any size, wherever there may be data. In
//! a slot there is none, so no client can hide the volume's own superblocks. One of these is always
//! found: the first zone ends within the front, or the size of zones is a power of two
//! ([`ANY_ZONE`]), and the first zone always had a superblock. Only another superblock takes the
//! place of one. So if all superblocks found agree on one size, that is the volume's; if they do
//! not, a client may have written some of them, and none is believed. A client's forgery stands
//! alone only if superblocks are lost as well as the anchors.
//!
//! A volume that was made over another leaves superblocks of the old one. The volume is the one
//! whose superblock went out last.
//!
//! A disk with anything else in the units that are for anchors alone belongs to another format.

use std::collections::BTreeMap;
use std::ops::Range;

use block::{BlockDevice, Buffer, IoError};
use cow::{Secret, UNIT};
use futures::future::join_all;

use crate::format::anchor::{ANY_ZONE, Anchor, Shape, ZONES};
use crate::format::superblock::Superblock;
use crate::format::{ANCHORS, FRONT, SLOTS};

/// Units that are read at once at the front: 1 MiB.
const PIECE: u64 = 256;
/// Zones of each size whose slots are searched behind the front.
const TRIED: u64 = 4;
/// The largest zone has two to this power of units.
const LARGEST: u32 = 24;
/// Reads of slots in flight at once,
const AT_ONCE: usize = 64;
/// and of pieces.
const PIECES_AT_ONCE: usize = 4;
/// An opening that was cut off, or a label, may have made anchors that no superblock records: this
/// many numbers are skipped.
const PASSED: u64 = 1 << 20;

/// Why there is no volume.
pub(crate) enum Lost {
    /// No superblock belongs to a volume.
    Nothing,
    /// Superblocks disagree on the volume.
    Several,
    /// The disk cannot read what may be the last superblock.
    Io(IoError),
}

impl From<IoError> for Lost {
    fn from(error: IoError) -> Self {
        Self::Io(error)
    }
}

/// Superblocks of a volume, by number and unit.
type Found = BTreeMap<(u64, u64), Superblock>;

/// Rebuilds the anchor of a disk without anchors. It names the zones of the newest superblocks.
///
/// # Errors
/// [`Lost`].
pub(crate) async fn rebuilt(device: &dyn BlockDevice) -> Result<Anchor, Lost> {
    let between = read_units(device, &(ANCHORS..FRONT)).await?;
    if between.iter().any(|&byte| byte != 0) {
        return Err(Lost::Nothing);
    }
    let mut shapes = shapes(device).await.into_values();
    let shape = shapes.next().ok_or(Lost::Nothing)?;
    if shapes.next().is_some() {
        return Err(Lost::Several);
    }
    let volumes = volumes(device, &shape).await?;
    let newest = |(_, found): &(Secret, Found)| {
        let last = found.values().map(|superblock| superblock.seconds).max();
        (last, found.last_key_value().map(|(&(number, _), _)| number))
    };
    let (secret, found) = volumes.into_iter().max_by_key(newest).ok_or(Lost::Nothing)?;
    anchor_of(secret, &found).ok_or(Lost::Nothing)
}

/// The successor of an anchor that may not be the newest: none of the other turn is left. If the
/// volume was stopped with the newest superblock in any slot, the successor has the same contents;
/// else it names the zones of the newest superblocks.
///
/// # Errors
/// Those of the disk: an unreadable slot may have the last superblock.
pub(crate) async fn succeeded(device: &dyn BlockDevice, left: Anchor) -> Result<Anchor, IoError> {
    let mut volumes = volumes(device, &left.shape).await?;
    let found = volumes.remove(&left.secret).unwrap_or_default();
    let number = left.number + ANCHORS;
    let Some(next) = anchor_of(left.secret, &found) else { return Ok(left) };
    let (last, newest) = found.last_key_value().expect("an anchor was made of it");
    if last.0 == left.rest {
        return Ok(Anchor { number, ..left });
    }
    // A label is set on a stopped volume, and superblocks get it with its next opening.
    let is_told = left.number < newest.volume.anchor;
    let label = if is_told { next.label } else { left.label };
    Ok(Anchor { number: next.number.max(number), label, ..next })
}

/// The anchor that superblocks describe.
fn anchor_of(secret: Secret, found: &Found) -> Option<Anchor> {
    let last = found.values().next_back()?;
    let shape = last.volume.shape;
    let mut zones = Vec::new();
    for (_, at) in found.keys().rev() {
        let zone = shape.zone_of(*at) as u32;
        if zones.len() < ZONES && !zones.contains(&zone) {
            zones.push(zone);
        }
    }
    zones.reverse(); // the newest last
    let anchor = found.values().map(|superblock| superblock.volume.anchor).max();
    Some(Anchor {
        number: anchor.unwrap_or(0) + PASSED,
        shape,
        secret,
        label: last.volume.label.clone(),
        zones,
        rest: 0,
        version: last.version,
        free: shape.capacity().saturating_sub(last.units.saturating_add(last.snapshots.nodes)),
    })
}

async fn read_units(device: &dyn BlockDevice, units: &Range<u64>) -> Result<Buffer, IoError> {
    let length = (units.end - units.start) as usize * UNIT;
    device.read(units.start * UNIT as u64, Buffer::unfilled(length)).await
}

/// Units of a disk.
fn units_of(device: &dyn BlockDevice) -> u64 {
    device.geometry().size / UNIT as u64
}

/// The superblocks of volumes of this disk in a range of units, with their secrets.
fn superblocks_in(
    units: u64,
    first: u64,
    bytes: &[u8],
) -> impl Iterator<Item = (u64, Secret, Superblock)> {
    let blocks = (first..).zip(bytes.chunks_exact(UNIT));
    blocks.filter_map(move |(at, block)| {
        let (secret, superblock) = Superblock::of_any(block, at)?;
        superblock.volume.makes_sense(units, at).then_some((at, secret, superblock))
    })
}

/// The pieces of the front, and the slots behind it, that are searched while the size of zones is
/// unknown.
fn places(units: u64) -> [Vec<Range<u64>>; 2] {
    let end = units - ANCHORS;
    let front = FRONT..end.min(FRONT + ANY_ZONE);
    let pieces = front.clone().step_by(PIECE as usize);
    let pieces = pieces.map(|start| start..(start + PIECE).min(front.end));
    let slots = (ANY_ZONE.ilog2()..=LARGEST).flat_map(|power| {
        (1..=TRIED).map(move |zones| FRONT + (zones << power)).map(|end| end - SLOTS..end)
    });
    [pieces.collect(), slots.filter(|slots| slots.end <= end).collect()]
}

/// The shapes in superblocks, by the size of their zones. Unreadable units are skipped.
async fn shapes(device: &dyn BlockDevice) -> BTreeMap<u64, Shape> {
    let units = units_of(device);
    let [pieces, slots] = places(units);
    let mut shapes = BTreeMap::new();
    for some in pieces.chunks(PIECES_AT_ONCE).chain(slots.chunks(AT_ONCE)) {
        let read = some.iter().map(|piece| readable(device, piece));
        for (first, bytes) in join_all(read).await.into_iter().flatten() {
            for (_, _, superblock) in superblocks_in(units, first, &bytes) {
                let shape = superblock.volume.shape;
                shapes.insert(shape.zone, shape);
            }
        }
    }
    shapes
}

/// The readable parts of a range, with their first units.
async fn readable(device: &dyn BlockDevice, piece: &Range<u64>) -> Vec<(u64, Buffer)> {
    if let Ok(bytes) = read_units(device, piece).await {
        return vec![(piece.start, bytes)];
    }
    let mut parts = Vec::new();
    for unit in piece.clone() {
        parts.extend(read_units(device, &(unit..unit + 1)).await.ok().map(|bytes| (unit, bytes)));
    }
    parts
}

/// The superblocks in all slots of zones of this size, by volume.
///
/// # Errors
/// Those of the disk: an unreadable slot may have the last superblock.
async fn volumes(
    device: &dyn BlockDevice,
    shape: &Shape,
) -> Result<BTreeMap<Secret, Found>, IoError> {
    let mut volumes: BTreeMap<Secret, Found> = BTreeMap::new();
    let mut zones = 0..shape.zones();
    while !zones.is_empty() {
        let some = zones.by_ref().take(AT_ONCE).map(async |zone| {
            let first = shape.slot(zone, 0);
            Ok::<_, IoError>((first, read_units(device, &(first..first + SLOTS)).await?))
        });
        for read in join_all(some).await {
            let (first, bytes) = read?;
            for (at, secret, superblock) in superblocks_in(shape.units, first, &bytes) {
                let is_one = superblock.volume.shape.zone == shape.zone;
                if is_one {
                    let found = volumes.entry(secret).or_default();
                    found.insert((superblock.number, at), superblock);
                }
            }
        }
    }
    Ok(volumes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_first_zone_of_a_shape_ends_is_looked_at() {
        let blocks = [1, 2, 16];
        let whole = (4..=ANY_ZONE / 16).step_by(13).map(|blocks| blocks * 16);
        let powers = (6..=LARGEST).map(|power| 1 << power);
        let around = [ANY_ZONE - 16, ANY_ZONE, ANY_ZONE + 16, 3 * ANY_ZONE, (1 << LARGEST) - 16];
        let zones: Vec<u64> = whole.chain(powers).chain(around).collect();
        let shapes = blocks.iter().flat_map(|&block| {
            // The smallest disk that has such a zone, and a large one.
            let of =
                move |&zone: &u64| [zone + FRONT + ANCHORS, 1 << 30].map(|units| (units, zone));
            zones.iter().flat_map(of).map(move |(units, zone)| Shape { units, zone, block })
        });
        let (possible, others): (Vec<Shape>, Vec<Shape>) = shapes.partition(Shape::is_possible);
        assert!(possible.len() > 1000 && others.len() == 3 * 2 * 3, "{others:?}");
        for shape in possible {
            let places = places(shape.units).concat();
            for slot in (0..SLOTS).map(|slot| shape.slot(0, slot)) {
                assert!(places.iter().any(|place| place.contains(&slot)), "{slot} of {shape:?}");
            }
        }
    }
}
