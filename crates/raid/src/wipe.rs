//! What stood on a disk before it became a member or a spare: an older file system, or a record of
//! an older log, would be found there.

use block::{BlockDevice, IoError, clear};

use crate::label::{LABEL_SIZE, places};

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
