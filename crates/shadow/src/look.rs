//! Probing a volume, which may be open elsewhere, and changing its parameters at rest.
//!
//! Commit points: for a label, the first of the anchors that are written with it; for a reserve,
//! the first update of the opening that sets it.

use std::rc::Rc;

use block::BlockDevice;
use cow::{UNIT, pins, sum};
use namespace::Store;
use runtime::Runtime;

use crate::anchors::{self, find_anchor, superblocks};
use crate::error::OpenError;
use crate::format::anchor::{Anchor, LABEL};
use crate::format::superblock::MOST_RESERVE;
use crate::fullness::{free_for_files, most_files, reserved};
use crate::open::{OpenOptions, open};
use crate::room::Recorded;

/// The state of a volume that is not open. Counts are those of its last stop, if it is at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// A number that identifies it, from which its secret does not follow.
    pub number: u64,
    /// The highest update that has a superblock.
    pub update: u64,
    /// Its label.
    pub label: String,
    /// Whether it was stopped, and has not been opened since.
    pub is_at_rest: bool,
    /// Whether it has never been opened.
    pub is_fresh: bool,
    /// Whether anchors are left that name the zone of its newest superblock.
    pub has_anchors: bool,
    /// Bytes of the volume.
    pub size: u64,
    /// Bytes that are free for files,
    pub free: u64,
    /// and bytes of them that only root may fill.
    pub reserved: u64,
    /// Bytes of a block of a file.
    pub block_size: u64,
    /// Bytes of a zone.
    pub zone_size: u64,
    /// Number of files.
    pub files: u64,
    /// Number of directories among them.
    pub directories: u64,
    /// Number of further files for which there is room.
    pub free_files: u64,
    /// Time of the last change, in seconds since 1970.
    pub seconds: i64,
}

/// Probes a volume. Nothing is written.
///
/// # Errors
/// [`OpenError`] if there is no volume, or its state is unknown.
pub async fn look(device: &dyn BlockDevice) -> Result<Seen, OpenError> {
    let anchor = find_anchor(device).await?;
    let last = superblocks(device, &anchor).await?.pop_last().map(|(_, superblock)| superblock);
    let highest = last.as_ref().map_or(0, |last| last.number);
    let Some(last) = last.filter(|_| highest >= anchor.rest) else {
        return Err(OpenError::NoSuperblock { highest });
    };
    let (is_at_rest, has_anchors) = (last.number == anchor.rest, !anchor.is_rebuilt());
    let shape = anchor.shape;
    let held = pins::kept(&last.snapshots, last.snapshots.line_slots, last.units / shape.block);
    let units = (anchor.free.saturating_sub(held), Recorded::of(&last));
    let free = free_for_files(&shape, units, last.units);
    Ok(Seen {
        number: sum(&anchor.secret),
        update: last.number,
        label: anchor.label,
        is_at_rest,
        is_fresh: is_at_rest && last.number == 1,
        has_anchors,
        size: shape.units * UNIT as u64,
        free: free * UNIT as u64,
        reserved: reserved(&shape, last.reserve) * UNIT as u64,
        block_size: shape.block * UNIT as u64,
        zone_size: shape.zone * UNIT as u64,
        files: last.files,
        directories: last.directories,
        free_files: most_files(&shape).saturating_sub(last.files),
        seconds: last.seconds,
    })
}

/// Sets the label of a volume at rest: an anchor with the next number has it, at both ends of the
/// disk. A cut leaves one label or the other.
///
/// # Errors
/// [`OpenError::NotAtRest`]; [`OpenError::Label`]; others as [`look`].
pub async fn set_label(device: &dyn BlockDevice, label: &str) -> Result<(), OpenError> {
    if label.len() > LABEL {
        return Err(OpenError::Label);
    }
    if !look(device).await?.is_at_rest {
        return Err(OpenError::NotAtRest);
    }
    let anchor = find_anchor(device).await?;
    let anchor = Anchor { number: anchor.number + 1, label: label.to_owned(), ..anchor };
    Ok(anchors::write(device, &anchor).await?)
}

/// Sets the reserve for root of a volume at rest, in percent of its space. The volume is opened for
/// that, and stopped; the device stays open. A cut leaves one reserve or the other.
///
/// # Errors
/// [`OpenError::NotAtRest`]; [`OpenError::Full`]; others as [`open`].
///
/// # Panics
/// If it is more than [`MOST_RESERVE`].
pub async fn set_reserve(
    device: &Rc<dyn BlockDevice>,
    runtime: &Runtime,
    percent: u8,
) -> Result<(), OpenError> {
    assert!(percent <= MOST_RESERVE, "whoever asks for a reserve looks at it");
    if !look(&**device).await?.is_at_rest {
        return Err(OpenError::NotAtRest);
    }
    let (keeps_device, reserve) = (true, Some(percent));
    let options = OpenOptions { keeps_device, reserve, ..OpenOptions::default() };
    let files = open(device.clone(), runtime.clone(), &options).await?;
    files.shutdown().await.map_err(OpenError::of_commit)
}
