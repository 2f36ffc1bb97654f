//! Whether the scrub of a volume that is open is under way, of which there is one at a time.

use std::cell::Cell;

/// See the module's prose.
#[derive(Default)]
pub(crate) struct Scrubbing {
    pub(crate) is_under_way: Cell<bool>,
    /// It is to end: a stop is near.
    pub(crate) ends: Cell<bool>,
}
