//! Mending: what does not fit its pointer is asked for in another version.
//!
//! A mirror has a second copy of everything, and a set with parity can make what one member has of
//! the others. The checksum of the pointer says which version is the right one. The device writes
//! it where another stands, and lets no write come in between ([`BlockDevice::mend`]): so where a
//! block has gone meanwhile, and its place is another's, no version is right, and nothing is
//! written.

use std::rc::Rc;

use block::{BlockDevice, Buffer};

use crate::format::pointer::Pointer;
use crate::format::{UNIT, sum};
use crate::planted::{Bug, is_planted};

/// The block that a pointer leads to, of so many units, where a read gave another; nothing if no
/// version of it is left.
pub(crate) async fn mend(device: &dyn BlockDevice, pointer: Pointer, units: u64) -> Option<Buffer> {
    let right = pointer.sum.get();
    let is_right = move |bytes: &[u8]| sum(bytes) == right || is_planted(Bug::BelievedVersions);
    let at = pointer.address.get().checked_mul(UNIT as u64)?;
    device.mend(at, units * UNIT as u64, Rc::new(is_right)).await.ok()?
}
