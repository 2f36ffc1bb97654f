//! Inspects a disk for a volume of one design or of any.

use std::mem::offset_of;
use std::path::Path;

use block::file::DiskFile;
use block::{BlockDevice, Buffer, IoError};
use designs::{DESIGNS, Design, Found, LookError};
use futures::FutureExt;
use ufs2::layout::{SUPERBLOCK_MAGIC, SUPERBLOCK_ROOM, Superblock};

use crate::failure::Failure;
use crate::membership::{membership_of, no_volume_alone};
use crate::partitions::partition_on;
use crate::reader::Reader;

/// Inspects the volume of a design on a device.
///
/// # Errors
/// [`Failure`] if the disk cannot be read or holds no valid volume.
pub(crate) async fn found_on(
    design: &Design,
    device: &dyn BlockDevice,
    path: &Path,
) -> Result<Found, Failure> {
    let error = match (design.work().look)(device).await {
        Ok(found) => return Ok(found),
        Err(error) => error,
    };
    let path = path.to_owned();
    Err(match error {
        LookError::Device(source) => Failure::Device { path, source },
        source @ LookError::NoVolume { .. } => {
            if let Some(membership) = membership_of(device).await {
                return Err(Failure::NotAVolume { path, why: no_volume_alone(&membership) });
            }
            if has_far_superblock(device).await {
                let why = "its UFS2 superblock is at byte 262144, and only disks that have it at \
                           byte 65536 can be used"
                    .to_owned();
                return Err(Failure::NotAVolume { path, why });
            }
            let other = other_on(design, device).await;
            let partition = partition_on(device).await.map(Box::new);
            Failure::Superblock { path, source, other, partition }
        }
    })
}

/// Whether a UFS2 superblock is at the other of the two addresses that the format allows.
async fn has_far_superblock(device: &dyn BlockDevice) -> bool {
    const ADDRESS: u64 = 256 << 10;
    if device.geometry().size < ADDRESS + SUPERBLOCK_ROOM {
        return false;
    }
    let room = Buffer::unfilled(SUPERBLOCK_ROOM as usize);
    let read = device.read(ADDRESS, room).await;
    let at = offset_of!(Superblock, magic);
    read.is_ok_and(|bytes| bytes[at..at + 4] == SUPERBLOCK_MAGIC.to_le_bytes())
}

/// The engine of the volume on a device, if it is not the engine of this design. None if the volume
/// may be only a remainder of an earlier one.
pub(crate) async fn other_on(design: &Design, device: &dyn BlockDevice) -> Option<&'static str> {
    let (other, found) = DESIGNS.look(device).await?;
    let is_sure = found.has_anchors != Some(false);
    (is_sure && other.engine != design.engine).then_some(other.engine)
}

/// Inspects the volume of a design on a disk that is one file or device.
///
/// # Errors
/// As [`found_on`].
pub(crate) fn found_in(design: &Design, disk: &DiskFile, path: &Path) -> Result<Found, Failure> {
    let found = found_on(design, &Reader::of(disk), path).now_or_never();
    found.expect("a file is read at once")
}

/// Inspects a disk without knowing its design, and returns the design with the volume.
pub(crate) fn anything_in(disk: &DiskFile) -> Option<(&'static Design, Found)> {
    DESIGNS.look(&Reader::of(disk)).now_or_never().expect("a file is read at once")
}

/// Identifies a volume on a disk whose first bytes are lost.
///
/// # Errors
/// Errors of the disk.
pub(crate) fn lost_in(disk: &DiskFile) -> Result<Option<&'static str>, IoError> {
    DESIGNS.find_lost(&Reader::of(disk)).now_or_never().expect("a file is read at once")
}
