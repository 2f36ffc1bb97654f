//! Redundant copies of a volume at rest: anchors, one at each end of the disk, and the last
//! superblock, in both slots of its zone. A copy that has rotted is rewritten from the other.
//!
//! A cut leaves the copy that is written here old, torn or new, and the other one as it was.

use block::{BlockDevice, Buffer, Durability, IoError};
use cow::UNIT;

use crate::anchors::read_unit;
use crate::format::anchor::Anchor;
use crate::format::superblock::Superblock;
use crate::format::{ANCHORS, SLOTS};

/// Mends the copies of a volume at rest, given its newest anchor, and its newest superblock and the
/// unit of that; returns how many places were wrong.
///
/// # Errors
/// Those of the device, when it writes.
pub(crate) async fn mend(
    device: &dyn BlockDevice,
    anchor: &Anchor,
    (superblock, at): (&Superblock, u64),
) -> Result<u64, IoError> {
    let mut mended = 0;
    for number in (0..ANCHORS).map(|before| anchor.number - before) {
        let places = anchor.shape.anchor(number);
        let mut right = None;
        for unit in places {
            let read = read_unit(device, unit).await.ok();
            let read = read.and_then(|block| Anchor::read(&block).ok());
            let is_one = |it: &Anchor| it.number == number && it.secret == anchor.secret;
            right = right.or(read.filter(is_one));
        }
        // Nothing rests on the older anchor: if both of its places have rotted, this will do.
        let right = right.unwrap_or_else(|| Anchor { number, ..anchor.clone() });
        for unit in places {
            mended += put(device, unit, &right.write()).await?;
        }
    }
    if superblock.number == 1 {
        return Ok(mended); // a volume that was never opened has a single one
    }
    let zone = anchor.shape.zone_of(at);
    for unit in (0..SLOTS).map(|slot| anchor.shape.slot(zone, slot)) {
        let block = read_unit(device, unit).await.ok();
        let read = block.and_then(|block| Superblock::read(&block, unit, &anchor.secret));
        if read.is_none_or(|read| read.number != superblock.number) {
            // All of it is durable, so it lists nothing.
            let right = Superblock { listed: Vec::new(), ..superblock.clone() };
            mended += put(device, unit, &right.write(unit, &anchor.secret)).await?;
        }
    }
    Ok(mended)
}

/// Writes a block if another one is there; returns how many were written.
async fn put(device: &dyn BlockDevice, unit: u64, right: &[u8; UNIT]) -> Result<u64, IoError> {
    let is_it = read_unit(device, unit).await.is_ok_and(|bytes| bytes[..] == right[..]);
    if is_it {
        return Ok(0);
    }
    let block = vec![Buffer::copied(right).freeze()];
    device.write(unit * UNIT as u64, block, Durability::Through).await?;
    Ok(1)
}
