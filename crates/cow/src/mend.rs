//! Mending: a block that does not match its pointer is requested in another version.
//!
//! A mirror has a second copy of everything, and a set with parity can rebuild the blocks of one
//! member from the others. The checksum in the pointer determines the right version. The device
//! writes it over the wrong one, with no write in between ([`BlockDevice::mend`]): so if a block is
//! gone, and its place has a new owner, no version is right, and nothing is written; unless a disk
//! has lost the write of the new owner. A reader whose pointer may be old checks again before it
//! asks (`held_trees`), or does not ask ([`cache::DataPath::load_ahead`]).

use std::rc::Rc;

use block::{BlockDevice, Buffer};

use crate::format::{UNIT, sum};
use crate::planted::{Bug, is_planted};

/// Mends the block of this many units with this checksum that begins at a byte of the device; none
/// if no right version of it is left.
pub async fn mend(device: &dyn BlockDevice, at: u64, right: u64, units: u64) -> Option<Buffer> {
    let is_right = move |bytes: &[u8]| sum(bytes) == right || is_planted(Bug::BelievedVersions);
    device.mend(at, units * UNIT as u64, Rc::new(is_right)).await.ok()?
}
