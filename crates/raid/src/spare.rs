//! What a disk says that waits to become a member: of which set it is a spare.
//!
//! It stands where the labels of a member stand, so that none of both is left when the disk becomes
//! the other; but it is no label, and no set is ever opened on it.

use std::mem::offset_of;

use block::{BlockDevice, Buffer, Durability, IoError};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::label::{Id, LABEL_SIZE, places, sum_of};

/// The first bytes of a spare.
pub const MAGIC: [u8; 16] = *b"duramen spare\0\0\0";
/// The version of its format.
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
    let mut bytes = raw.as_bytes().to_vec();
    bytes.resize(LABEL_SIZE as usize, 0);
    let sum = sum_of(&bytes).to_le_bytes();
    bytes[offset_of!(Raw, checksum)..][..sum.len()].copy_from_slice(&sum);
    bytes
}

/// Says on a disk that it is a spare of a set, durably.
///
/// # Errors
/// [`IoError`] when it cannot be written.
pub async fn make_spare(device: &dyn BlockDevice, set: &Id) -> Result<(), IoError> {
    for at in places(device.geometry().size) {
        device.write(at, vec![encode(set).into()], Durability::Through).await?;
    }
    Ok(())
}

/// The set of which a disk is a spare, as both places have it. `None` if it is none.
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
