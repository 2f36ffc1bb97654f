//! What is known of zones besides what is free in them: when each was written to last, which are
//! being emptied, and where that goes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// See the module's prose.
pub(crate) struct Zones {
    /// The last update that took something in each.
    taken: RefCell<Vec<u64>>,
    /// Those that are being emptied: nothing goes there as long as others have room.
    emptied: RefCell<BTreeSet<u64>>,
    /// Where what was moved last ends. What is moved is older than what else is written, and stays
    /// together.
    pub(crate) moved_to: Cell<Option<u64>>,
}

impl Zones {
    /// So many, of which nothing is known.
    pub(crate) fn new(count: u64) -> Self {
        Self {
            taken: RefCell::new(vec![0; count as usize]),
            emptied: RefCell::default(),
            moved_to: Cell::new(None),
        }
    }

    /// An update takes something in a zone.
    pub(crate) fn note_taken(&self, zone: u64, update: u64) {
        self.taken.borrow_mut()[zone as usize] = update;
    }

    /// The last update that did; 0 if none did since the volume was opened.
    pub(crate) fn last_taken(&self, zone: u64) -> u64 {
        self.taken.borrow()[zone as usize]
    }

    /// These are being emptied, and no others.
    pub(crate) fn set_emptied(&self, zones: BTreeSet<u64>) {
        self.emptied.replace(zones);
    }

    /// Of these, only some are.
    pub(crate) fn retain_emptied(&self, is_one: impl Fn(u64) -> bool) {
        self.emptied.borrow_mut().retain(|&zone| is_one(zone));
    }

    /// Whether a zone is being emptied.
    pub(crate) fn is_emptied(&self, zone: u64) -> bool {
        self.emptied.borrow().contains(&zone)
    }
}
