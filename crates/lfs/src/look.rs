//! Probing a volume, which may be open elsewhere, and changing its label or reserve at rest.

use block::BlockDevice;
use cow::floor::LAST_INO;
use cow::{INODES, UNIT, sum};

use crate::error::OpenError;
use crate::format::head::LABEL;
use crate::format::shape::Shape;
use crate::found::{Root, root};
use crate::mkfs::write_heads;
use crate::room;

/// The state of a volume that is not open. Counts are those of its last checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// A number that identifies it, from which its secret does not follow.
    pub number: u64,
    /// The newest checkpoint.
    pub checkpoint: u64,
    /// Its label.
    pub label: String,
    /// Whether it was stopped, and has not been opened since.
    pub is_at_rest: bool,
    /// Whether it has never been opened.
    pub is_fresh: bool,
    /// Bytes of the volume.
    pub size: u64,
    /// Bytes that are free for files.
    pub free: u64,
    /// Bytes of a block of a file.
    pub block_size: u64,
    /// Bytes of a segment.
    pub segment_size: u64,
    /// Number of files.
    pub files: u64,
    /// Number of directories among them.
    pub directories: u64,
    /// Number of further files for which there is room.
    pub free_files: u64,
    /// Time of the last checkpoint, in seconds since 1970.
    pub seconds: i64,
}

/// Probes a volume. Nothing is written.
///
/// # Errors
/// [`OpenError`] if there is no volume, or its state is unknown.
pub async fn look(device: &dyn BlockDevice) -> Result<Seen, OpenError> {
    let root = root(device).await?;
    let (shape, region) = (root.head.shape, &root.region);
    let unit = UNIT as u64;
    Ok(Seen {
        number: sum(&root.head.secret),
        checkpoint: region.number,
        label: root.head.label,
        is_at_rest: region.is_at_rest,
        is_fresh: region.is_at_rest && region.number == 1,
        size: shape.units * unit,
        free: room::free(&shape, region.used, region.counts.units) * unit,
        block_size: shape.block * unit,
        segment_size: shape.segment * unit,
        files: region.counts.files,
        directories: region.counts.directories,
        free_files: (room::size(&shape) * INODES).min(LAST_INO).saturating_sub(region.counts.files),
        seconds: region.counts.seconds,
    })
}

/// Sets the label of a volume at rest. A cut leaves one label or the other.
///
/// # Errors
/// [`OpenError::NotAtRest`]; [`OpenError::Label`]; others as [`look`].
pub async fn set_label(device: &dyn BlockDevice, label: &str) -> Result<(), OpenError> {
    if label.len() > LABEL {
        return Err(OpenError::Label);
    }
    change_head(device, |root| {
        root.head.label = label.to_owned();
        Ok(())
    })
    .await
}

/// Sets the part of the segments that the cleaner may need, in percent, of a volume at rest. A cut
/// leaves one or the other.
///
/// # Errors
/// [`OpenError::NotAtRest`]; [`OpenError::Reserve`] if it is no such part, or what is in use leaves
/// too little; others as [`look`].
pub async fn set_reserve(device: &dyn BlockDevice, percent: u64) -> Result<(), OpenError> {
    let refused = || OpenError::Reserve(percent);
    let reserve = u8::try_from(percent).map_err(|_| refused())?;
    change_head(device, |root| {
        let shape = Shape { reserve, ..root.head.shape };
        let kept = room::pool(shape.usable()) + shape.dirty();
        if !shape.is_legal() || root.region.used + kept > shape.usable() {
            return Err(refused());
        }
        root.head.shape = shape;
        Ok(())
    })
    .await
}

/// Changes the head of a volume at rest.
async fn change_head(
    device: &dyn BlockDevice,
    change: impl FnOnce(&mut Root) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let mut root = root(device).await?;
    if !root.region.is_at_rest {
        return Err(OpenError::NotAtRest);
    }
    change(&mut root)?;
    Ok(write_heads(device, &root.head).await?)
}
