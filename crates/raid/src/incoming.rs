//! The new disk of a replacement: [`crate::replace`] says what becomes of it.

use std::rc::Rc;

use block::BlockDevice;

use crate::watch::Calls;

/// See the module's prose.
pub(crate) struct Incoming {
    /// The slot, of which the old disk is the member.
    pub(crate) slot: usize,
    pub(crate) device: Rc<dyn BlockDevice>,
    pub(crate) calls: Rc<Calls>,
    /// How many stripes it has.
    pub(crate) stripes: u64,
}
