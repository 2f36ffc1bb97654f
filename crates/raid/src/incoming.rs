//! The new disk of a replacement; [`crate::replace`] drives it.

use std::rc::Rc;

use block::BlockDevice;

use crate::watch::Calls;

/// The new disk; see the module.
pub(crate) struct Incoming {
    /// The slot, whose member is still the old disk.
    pub(crate) slot: usize,
    pub(crate) device: Rc<dyn BlockDevice>,
    pub(crate) calls: Rc<Calls>,
    /// Number of stripes that the disk has.
    pub(crate) stripes: u64,
}
