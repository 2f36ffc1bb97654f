//! Label of a spare, a disk that waits to become a member: it names the set.
//!
//! It occupies the same places as a member's labels, so writing one erases the other. It is not a
//! label: no set is ever opened on it.

use std::mem::offset_of;

use block::{BlockDevice, Buffer, Durability, IoError, clear};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::label::{DATA_START, Id, LABEL_SIZE, places, sealed};
use crate::wipe::wipe;

/// Magic bytes of a spare.
pub const MAGIC: [u8; 16] = *b"duramen spare\0\0\0";
/// Format version.
const VERSION: u32 = 1;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 16],
    version: U32,
    checksum: U32,
    set: Id,
}

fn encode(set: &Id) -> Vec<u8> {
    let raw = Raw { magic: MAGIC, version: VERSION.into(), checksum: 0.into(), set: *set };
    sealed(raw.as_bytes(), offset_of!(Raw, checksum))
}

/// Makes a disk a spare of a set, durably, and wipes what was beside the labels.
///
/// # Errors
/// [`IoError`] when it cannot be written.
pub async fn make_spare(device: &dyn BlockDevice, set: &Id) -> Result<(), IoError> {
    wipe(device, DATA_START).await?;
    for at in places(device.geometry().size) {
        device.write(at, vec![encode(set).into()], Durability::Through).await?;
    }
    Ok(())
}

/// Makes a spare an ordinary disk again, durably.
///
/// # Errors
/// [`IoError`].
pub async fn forget_spare(device: &dyn BlockDevice) -> Result<(), IoError> {
    for at in places(device.geometry().size) {
        clear(device, at..at + LABEL_SIZE).await?;
    }
    device.flush().await
}

/// The set of which a disk is a spare, if both places agree; `None` if it is not a spare.
///
/// # Errors
/// [`IoError`] when it cannot be read.
pub async fn spare_of(device: &dyn BlockDevice) -> Result<Option<Id>, IoError> {
    let size = device.geometry().size;
    let mut found = None;
    for at in places(size) {
        if at + LABEL_SIZE > size {
            return Ok(None);
        }
        let bytes = device.read(at, Buffer::unfilled(LABEL_SIZE as usize)).await?;
        let Ok((raw, _)) = Raw::read_from_prefix(&bytes) else { return Ok(None) };
        let is_other = found.is_some_and(|set| set != raw.set);
        if is_other || bytes[..] != encode(&raw.set)[..] {
            return Ok(None);
        }
        found = Some(raw.set);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use sim::{Disk, Executor, Image};

    use super::*;

    const SIZE: u64 = 4 << 20;

    #[test]
    fn a_disk_is_a_spare_if_both_places_say_so_and_no_byte_is_wrong() {
        let executor = Executor::new(1);
        executor.block_on(async {
            let disk = Disk::new(&executor, Image::zeroed(SIZE));
            assert_eq!(spare_of(&*disk).await, Ok(None), "nothing is on it");
            make_spare(&*disk, &[7; 16]).await.expect("nothing fails");
            assert_eq!(spare_of(&*disk).await, Ok(Some([7; 16])));
            let other = Disk::new(&executor, disk.contents());
            forget_spare(&*other).await.expect("nothing fails");
            let sector = other.read(0, Buffer::zeroed(4096)).await.expect("nothing fails");
            assert!(sector.iter().all(|&byte| byte == 0), "nothing is on it");
            assert_eq!(spare_of(&*other).await, Ok(None));
            let whole = disk.contents();
            for place in places(SIZE) {
                for byte in [0, 17, 20, 24, 39, 40, 511, 512, 4095] {
                    let mut image = whole.clone();
                    let mut sector = [0];
                    image.read(place + byte, &mut sector);
                    image.write(place + byte, &[sector[0] ^ 0x10]);
                    let spoilt = Disk::new(&executor, image);
                    assert_eq!(spare_of(&*spoilt).await, Ok(None), "byte {byte} at {place}");
                }
            }
            let other = Disk::new(&executor, whole);
            let bytes = encode(&[8; 16]);
            let written = other.write(places(SIZE)[1], vec![bytes.into()], Durability::Through);
            written.await.expect("nothing fails");
            assert_eq!(spare_of(&*other).await, Ok(None), "of two sets it is of none");
        });
    }
}
