//! Where blocks are.

use crate::format::pointer::Pointer;

/// The place of each address on the device.
pub trait Disk {
    /// The first byte of the block to which a pointer leads; none if the device has no such place.
    fn locate(&self, pointer: Pointer) -> Option<u64>;
}
