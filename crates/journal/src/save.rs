//! What a log holds that is not obsolete, saved as a log of its own: for a volume that shares the
//! log and is not there when the others begin a new epoch.

use block::{BlockDevice, Buffer, Durability};
use zerocopy::IntoBytes;

use crate::format::{AREA, Circle, Line, SEGMENT, SEGMENT_UNITS, SLOTS, SMALLEST, Slot};
use crate::reader::{JournalError, Live};

/// Segments from the head on that hold something.
fn segments(live: &Live) -> std::ops::Range<u64> {
    live.head / SEGMENT_UNITS..live.tail.div_ceil(SEGMENT_UNITS)
}

/// Segments of the circle of what is saved.
fn circle(live: &Live) -> u64 {
    let segments = segments(live);
    (segments.end - segments.start).max((SMALLEST - AREA) / SEGMENT)
}

/// Bytes that saving it takes.
pub fn saved_size(live: &Live) -> u64 {
    AREA + circle(live) * SEGMENT
}

/// Writes what is live to another device, which nobody has written to before, durably: there it is
/// a log of the same epoch. `lines` say of whom something is needed there.
///
/// # Errors
/// [`JournalError`].
pub async fn save(
    device: &dyn BlockDevice,
    live: &Live,
    lines: &[Line],
    to: &dyn BlockDevice,
) -> Result<(), JournalError> {
    let capacity = circle(live) * SEGMENT;
    for number in segments(live) {
        let place = number * SEGMENT;
        let buffer = Buffer::zeroed(SEGMENT as usize);
        let segment = device.read(AREA + place % live.slot.capacity.get(), buffer).await?;
        to.write(AREA + place % capacity, vec![segment.freeze()], Durability::Plain).await?;
    }
    to.flush().await?;
    let start = segments(live).start * SEGMENT_UNITS;
    let (slot, circle) = (&live.slot, Circle { capacity, start });
    let (epoch, number) = (slot.epoch.get(), slot.number.get());
    let saved = Slot::new(epoch, number, circle, live.head, slot.state(), lines);
    let mut image = Buffer::zeroed(to.geometry().logical_sector_size.max(512) as usize);
    image[..size_of::<Slot>()].copy_from_slice(saved.as_bytes());
    to.write(SLOTS[0], vec![image.freeze()], Durability::Through).await?;
    Ok(to.flush().await?)
}
