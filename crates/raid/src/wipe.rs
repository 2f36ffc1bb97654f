//! What stood on a disk before it became a member or a spare: an older file system, or a record of
//! an older log, would be found there.

use block::{BlockDevice, Buffer, IoError, clear};

use crate::label::{LABEL_SIZE, Label, places};

/// Has a disk forget what stood between its first label and the data, the log as well, and what
/// stood behind its second label. Durably.
///
/// # Errors
/// [`IoError`] when it cannot be written.
pub(crate) async fn wipe(device: &dyn BlockDevice, data_start: u64) -> Result<(), IoError> {
    let size = device.geometry().size;
    clear(device, LABEL_SIZE..data_start.min(size)).await?;
    clear(device, places(size)[1] + LABEL_SIZE..size).await?;
    device.flush().await
}

/// Has a disk on which something else was made be no member any more: what stands there of its
/// labels is gone, durably. A place with other bytes stays as it is.
///
/// # Errors
/// [`IoError`].
pub async fn forget_member(device: &dyn BlockDevice) -> Result<(), IoError> {
    let size = device.geometry().size;
    for at in places(size).into_iter().filter(|at| at + LABEL_SIZE <= size) {
        let bytes = device.read(at, Buffer::unfilled(LABEL_SIZE as usize)).await?;
        if Label::decode(&bytes).is_ok() {
            clear(device, at..at + LABEL_SIZE).await?;
            device.flush().await?;
        }
    }
    Ok(())
}
