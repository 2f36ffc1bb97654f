//! What an administrator may set of soft updates.

use super::Ages;

/// One part in so many of the memory is for what undoes changes, if nothing else is said,
const USUAL_SHARE: usize = 4;
/// and this at most: blocks need the rest.
const MOST_SHARE: usize = 2;

/// See the module's prose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoftUpdatesOptions {
    /// How long changes wait for company.
    pub ages: Ages,
    /// Bytes that what undoes changes may take before callers wait; without, a quarter of the
    /// memory. It is never more than half of that.
    pub memory: Option<usize>,
    /// The share of the time, over 0 and up to 1, that reclaiming what leaked may take of the disk
    /// from callers.
    pub reclaim_share: f64,
}

impl SoftUpdatesOptions {
    /// The bytes that what undoes changes may take, of `budget` for all that is kept.
    pub(super) fn most_memory(&self, budget: usize) -> usize {
        self.memory.map_or(budget / USUAL_SHARE, |memory| memory.min(budget / MOST_SHARE))
    }
}

impl Default for SoftUpdatesOptions {
    fn default() -> Self {
        Self { ages: Ages::default(), memory: None, reclaim_share: 0.1 }
    }
}
