//! Overwrites a range with zeros.

use std::ops::Range;

use crate::{BlockDevice, Durability, IoError, zeros};

/// Bytes per write.
const AT_ONCE: u64 = 1 << 20;

/// Fills a range of a device, in bytes, with zeros, by plain writes one after the other.
///
/// # Errors
/// [`IoError`] of the first write that fails.
pub async fn clear(device: &dyn BlockDevice, range: Range<u64>) -> Result<(), IoError> {
    let mut at = range.start;
    while at < range.end {
        let length = AT_ONCE.min(range.end - at);
        device.write(at, vec![zeros(length as usize)], Durability::Plain).await?;
        at += length;
    }
    Ok(())
}
