//! A volume's part of a log, saved as a log of its own: for a volume that shares the log and is
//! absent when the others begin a new epoch, or has stopped while they go on.

use block::{BlockDevice, Durability};

use crate::error::JournalError;
use crate::format::{AREA, Circle, SEGMENT, SEGMENT_UNITS, SLOTS, SMALLEST, Slot};
use crate::reader::Live;
use crate::slots::{read, slot_image};

/// Live segments, from the head on.
fn segments(live: &Live) -> std::ops::Range<u64> {
    live.head / SEGMENT_UNITS..live.tail.div_ceil(SEGMENT_UNITS)
}

/// Segments of the circle of the saved log.
fn circle(live: &Live) -> u64 {
    let segments = segments(live);
    (segments.end - segments.start).max((SMALLEST - AREA) / SEGMENT)
}

/// Bytes of the saved log.
pub fn saved_size(live: &Live) -> u64 {
    AREA + circle(live) * SEGMENT
}

/// Writes the live log to another device, which was never written, durably: there it is a log of
/// the same epoch, and of one volume alone: the one with this number, unless a volume had the log
/// alone before.
///
/// # Errors
/// [`JournalError`].
pub async fn save(
    device: &dyn BlockDevice,
    live: &Live,
    number: u16,
    to: &dyn BlockDevice,
) -> Result<(), JournalError> {
    let capacity = circle(live) * SEGMENT;
    for number in segments(live) {
        let place = number * SEGMENT;
        let segment = read(device, AREA + place % live.slot.capacity.get(), SEGMENT).await?;
        let written = to.write(AREA + place % capacity, vec![segment], Durability::Plain);
        written.await.map_err(JournalError::Save)?;
    }
    to.flush().await.map_err(JournalError::Save)?;
    // If nothing is live there is no entry that could be named as the head.
    let (start, head) = match live.bytes() {
        0 => (segments(live).end * SEGMENT_UNITS, segments(live).end * SEGMENT_UNITS),
        _ => (segments(live).start * SEGMENT_UNITS, live.head),
    };
    let (slot, circle) = (&live.slot, Circle { capacity, start });
    let (epoch, serial) = (slot.epoch.get(), slot.number.get());
    let mut lines = slot.kept_lines();
    for (_, other) in lines.iter_mut().enumerate().filter(|(line, _)| *line != usize::from(number))
    {
        other.part();
    }
    let saved = Slot::new(epoch, serial, circle, head, slot.state(), &lines);
    let written = to.write(SLOTS[0], vec![slot_image(to, &saved)], Durability::Through);
    written.await.map_err(JournalError::Save)?;
    to.flush().await.map_err(JournalError::Save)
}
