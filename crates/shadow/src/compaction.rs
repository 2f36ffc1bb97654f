//! State of the compaction, of which there is one at a time, and its totals.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use runtime::sync::Signal;

/// See the module's prose.
#[derive(Default)]
pub(crate) struct Compaction {
    pub(crate) is_under_way: Cell<bool>,
    /// The compaction is to end because a stop is near.
    ends: Cell<bool>,
    ending: Signal,
    pub(crate) moved_bytes: Cell<u64>,
    /// Zones that could not be emptied: units in use, and the update at that time.
    pub(crate) vain: RefCell<BTreeMap<u64, (u64, u64)>>,
}

impl Compaction {
    /// Makes it end as soon as it can, and lets none begin.
    pub(crate) fn end(&self) {
        self.ends.set(true);
        self.ending.notify();
    }

    /// Whether it is to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.ends.get()
    }

    /// Completes when it is to end.
    pub(crate) async fn ended(&self) {
        while !self.ends.get() {
            self.ending.wait().await;
        }
    }

    /// Counts moved bytes.
    pub(crate) fn count(&self, bytes: u64) {
        self.moved_bytes.set(self.moved_bytes.get() + bytes);
    }
}
