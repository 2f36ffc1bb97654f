//! Administrator settings of soft updates.

use super::Ages;

/// Divisor of the memory budget that gives the default share of undo records.
const USUAL_SHARE: usize = 4;
/// Divisor that gives their maximum share: blocks need the rest.
const MOST_SHARE: usize = 2;

/// See the module's prose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoftUpdatesOptions {
    /// Maximum ages of changes.
    pub ages: Ages,
    /// Bytes that undo records may take before callers wait. The default is a quarter of the
    /// memory. It is never more than half of the memory.
    pub memory: Option<usize>,
    /// The share of the disk's time, over 0 and up to 1, that reclaiming leaked space may take from
    /// callers.
    pub reclaim_share: f64,
}

impl SoftUpdatesOptions {
    /// Maximum bytes of undo records, if the memory budget is `budget`.
    pub(super) fn most_memory(&self, budget: usize) -> usize {
        self.memory.map_or(budget / USUAL_SHARE, |memory| memory.min(budget / MOST_SHARE))
    }
}

impl Default for SoftUpdatesOptions {
    fn default() -> Self {
        Self { ages: Ages::default(), memory: None, reclaim_share: 0.1 }
    }
}
