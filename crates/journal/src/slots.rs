//! The two slots of a log, which name its epoch.

use block::BlockDevice;
use bytes::Bytes;
use zerocopy::IntoBytes;

use crate::error::JournalError;
use crate::format::{AREA, SEGMENT, SLOTS, SMALLEST, Slot, UNIT};

/// Size of the circle on a device of `size` bytes, in bytes.
///
/// # Errors
/// [`JournalError::TooSmall`].
pub(crate) fn capacity_of(size: u64) -> Result<u64, JournalError> {
    if size < SMALLEST {
        return Err(JournalError::TooSmall { size, smallest: SMALLEST });
    }
    Ok((size - AREA) / SEGMENT * SEGMENT)
}

/// The two slots, if they are intact.
pub(crate) async fn slots(device: &dyn BlockDevice) -> Result<[Option<Slot>; 2], JournalError> {
    let mut found = [None, None];
    for (slot, offset) in found.iter_mut().zip(SLOTS) {
        let bytes = read(device, offset, sector(device)).await?;
        if let Some(version) = Slot::later_version(&bytes) {
            return Err(JournalError::Version(version));
        }
        *slot = Slot::read(&bytes);
    }
    if found[0] == found[1] {
        found[1] = None; // two equal slots are one: the next one goes beside it
    }
    Ok(found)
}

/// The newest slot, of any epoch; `None` if this is no log.
///
/// # Errors
/// [`JournalError`].
pub async fn peek(device: &dyn BlockDevice) -> Result<Option<Slot>, JournalError> {
    capacity_of(device.geometry().size)?;
    let found = slots(device).await?;
    Ok(found.into_iter().flatten().max_by_key(|slot| slot.number.get()))
}

/// The newest slot of each epoch, newest first.
///
/// # Errors
/// [`JournalError`].
pub async fn epochs(device: &dyn BlockDevice) -> Result<Vec<Slot>, JournalError> {
    capacity_of(device.geometry().size)?;
    let mut found: Vec<Slot> = slots(device).await?.into_iter().flatten().collect();
    found.sort_by_key(|slot| std::cmp::Reverse(slot.number.get()));
    found.dedup_by_key(|slot| slot.epoch.get());
    Ok(found)
}

/// The sector that holds a slot.
pub(crate) fn slot_image(device: &dyn BlockDevice, slot: &Slot) -> Bytes {
    let size = u64::from(device.geometry().logical_sector_size).max(UNIT);
    let mut image = block::Buffer::zeroed(size as usize);
    image[..size_of::<Slot>()].copy_from_slice(slot.as_bytes());
    image.freeze()
}

/// Minimum size of a read, in bytes.
pub(crate) fn sector(device: &dyn BlockDevice) -> u64 {
    u64::from(device.geometry().logical_sector_size).max(UNIT)
}

pub(crate) async fn read(
    device: &dyn BlockDevice,
    offset: u64,
    length: u64,
) -> Result<Bytes, JournalError> {
    Ok(device.read(offset, block::Buffer::unfilled(length as usize)).await?.freeze())
}
