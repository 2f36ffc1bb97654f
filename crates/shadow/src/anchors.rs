//! Anchors on the disk, and the superblocks in their zones.
//!
//! If several volumes have anchors, only those under which there are superblocks count. If there
//! are no anchors, superblocks alone identify the volume.
//!
//! Invariants:
//! 1. The copies of an anchor are written one after the other: at any cut, one of each turn is
//!    whole. So if a turn has none, both have rotted, and they may have been the newest. An older
//!    anchor may lack zones of newer superblocks: the slots of all zones are read.
//!
//! Not asserted: 1, which is about disks that were cut off.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use block::{BlockDevice, Buffer, Durability, IoError};
use cow::UNIT;
use cow::format::head::has_magic;
use futures::future::join_all;

use crate::error::OpenError;
use crate::format::anchor::{Anchor, NoAnchor, is_begun};
use crate::format::superblock::Superblock;
use crate::format::{ANCHORS, FRONT, SLOTS};
use crate::lost::{self, Lost};
use crate::mend::mended_superblock;
use crate::planted::{Bug, is_planted};

pub(crate) async fn read_unit(device: &dyn BlockDevice, unit: u64) -> Result<Buffer, IoError> {
    device.read(unit * UNIT as u64, Buffer::unfilled(UNIT)).await
}

/// The contents of the places of anchors.
#[derive(Default)]
struct Places {
    /// Whole anchors.
    whole: Vec<Anchor>,
    /// The version of an anchor that has another one.
    other: Option<u16>,
    /// The error for one that cannot be read.
    failed: Option<IoError>,
    /// Whether a volume is begun.
    is_begun: bool,
    /// Whether a block is there that was never an anchor.
    is_foreign: bool,
}

async fn read_places(device: &dyn BlockDevice, units: u64) -> Result<Places, OpenError> {
    let mut places = Places::default();
    for unit in (0..ANCHORS).chain(units - ANCHORS..units) {
        let block = match read_unit(device, unit).await {
            Ok(block) if unit == 0 && is_begun(&block) => return Err(OpenError::Unfinished),
            Ok(block) => block,
            Err(error) => {
                places.failed = Some(error); // as good as torn
                continue;
            }
        };
        match Anchor::read(&block) {
            Ok(anchor) => places.whole.push(anchor),
            Err(NoAnchor::Version(version)) => places.other = Some(version),
            Err(NoAnchor::Other) => {
                places.is_begun |= is_begun(&block);
                places.is_foreign |= !has_magic(&block) && block.iter().any(|&byte| byte != 0);
            }
        }
    }
    Ok(places)
}

/// The newest anchor of the disk, or a rebuilt one if there is none.
pub(crate) async fn find_anchor(device: &dyn BlockDevice) -> Result<Anchor, OpenError> {
    let size = device.geometry().size;
    let units = size / UNIT as u64;
    if units < 2 * ANCHORS {
        return Err(OpenError::NoVolume);
    }
    let places = read_places(device, units).await?;
    if places.whole.is_empty() {
        return without_anchors(device, units, places).await;
    }
    let turns = |secret| {
        let of_volume = places.whole.iter().filter(move |anchor| anchor.secret == secret);
        of_volume.map(|anchor| anchor.number % ANCHORS).collect::<BTreeSet<_>>().len()
    };
    let anchor = newest(device, &places.whole).await?;
    let volume = anchor.shape.units * UNIT as u64;
    if volume > size {
        return Err(OpenError::CutOff { volume, disk: size });
    }
    if turns(anchor.secret) == ANCHORS as usize || is_planted(Bug::LeftAnchors) {
        return Ok(anchor);
    }
    Ok(lost::succeeded(device, anchor).await?)
}

/// Makes an anchor durable at the end of the disk, and then at the front, where a volume begins.
///
/// # Errors
/// Those of the device: then the previous anchor may still be the newest.
pub(crate) async fn write(device: &dyn BlockDevice, anchor: &Anchor) -> Result<(), IoError> {
    let block = Buffer::copied(&*anchor.write()).freeze();
    for unit in anchor.shape.anchor(anchor.number).into_iter().rev() {
        device.write(unit * UNIT as u64, vec![block.clone()], Durability::Through).await?;
    }
    Ok(())
}

/// The newest of these under which there are superblocks: a disk may have anchors of another volume
/// at one of its ends. If there are superblocks under several, the one whose superblock went out
/// last. Its successors have higher numbers than all of these, and the next one overwrites none of
/// its own.
async fn newest(device: &dyn BlockDevice, whole: &[Anchor]) -> Result<Anchor, OpenError> {
    let mut whole = whole.to_vec();
    whole.sort_by_key(|anchor| Reverse(anchor.number));
    let number = whole[0].number;
    let mut secrets = BTreeSet::new();
    whole.retain(|anchor| secrets.insert(anchor.secret));
    let (mut chosen, mut last) = (0, None);
    if whole.len() > 1 && !is_planted(Bug::NewestAnchor) {
        for (index, anchor) in whole.iter().enumerate() {
            if anchor.shape.units * UNIT as u64 > device.geometry().size {
                continue;
            }
            let found = superblocks(device, anchor).await?;
            let seconds = found.values().map(|superblock| superblock.seconds).max();
            if seconds > last {
                (chosen, last) = (index, seconds);
            }
        }
    }
    let anchor = whole.swap_remove(chosen);
    let number = number + (number - anchor.number) % ANCHORS;
    Ok(Anchor { number, ..anchor })
}

/// Rebuilds the anchor of a disk without anchors.
async fn without_anchors(
    device: &dyn BlockDevice,
    units: u64,
    places: Places,
) -> Result<Anchor, OpenError> {
    match places {
        Places { other: Some(version), .. } => return Err(OpenError::Version(version)),
        Places { failed: Some(error), .. } => return Err(OpenError::Io(error)),
        Places { is_begun: true, .. } => return Err(OpenError::Unfinished),
        Places { is_foreign: true, .. } => return Err(OpenError::NoVolume),
        _ if units < FRONT + ANCHORS => return Err(OpenError::NoVolume),
        _ => {}
    }
    lost::rebuilt(device).await.map_err(|lost| match lost {
        Lost::Nothing => OpenError::NoVolume,
        Lost::Several => OpenError::Several,
        Lost::Io(error) => OpenError::Io(error),
    })
}

/// All superblocks that match their checksums, by number and unit. An unreadable one may be the
/// last: without it the last is unknown.
pub(crate) async fn superblocks(
    device: &dyn BlockDevice,
    anchor: &Anchor,
) -> Result<BTreeMap<(u64, u64), Superblock>, IoError> {
    let of_zone = |&zone: &u32| async move {
        let at = anchor.shape.slot(zone.into(), 0);
        let room = Buffer::unfilled(SLOTS as usize * UNIT);
        Ok::<_, IoError>((at, device.read(at * UNIT as u64, room).await?))
    };
    let mut found = BTreeMap::new();
    for read in join_all(anchor.zones.iter().map(of_zone)).await {
        let (first, blocks) = match read {
            Ok(read) => read,
            Err(_) if is_planted(Bug::PassedReads) => continue,
            Err(error) => return Err(error),
        };
        for (at, block) in (first..).zip(blocks.chunks(UNIT)) {
            let read = match Superblock::read(block, at, &anchor.secret) {
                None => mended_superblock(device, block, (at, &anchor.secret)).await,
                read => read,
            };
            if let Some(superblock) = read {
                found.insert((superblock.number, at), superblock);
            }
        }
    }
    Ok(found)
}
