//! Wiping a disk that becomes a member or a spare: an older file system, or a record of an older
//! log, must not be found there.

use block::{BlockDevice, Buffer, IoError, clear};

use crate::label::{LABEL_SIZE, Label, places};

/// Clears, durably, the space between the first label and the data area, the log included, and the
/// space behind the second label.
///
/// # Errors
/// [`IoError`] when it cannot be written.
pub(crate) async fn wipe(device: &dyn BlockDevice, data_start: u64) -> Result<(), IoError> {
    let size = device.geometry().size;
    clear(device, LABEL_SIZE..data_start.min(size)).await?;
    clear(device, places(size)[1] + LABEL_SIZE..size).await?;
    device.flush().await
}

/// Clears the labels of a former member on which something else was made, durably. A label's place
/// that holds other bytes stays as it is.
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
