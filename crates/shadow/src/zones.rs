//! Zones, apart from the free units in them: when each was last written to, which are being
//! emptied, and where their blocks go.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// See the module's prose.
pub(crate) struct Zones {
    /// The last update that took something in each.
    taken: RefCell<Vec<u64>>,
    /// Zones that are being emptied: nothing goes there as long as others have room.
    emptied: RefCell<BTreeSet<u64>>,
    /// The end of the last blocks that were moved. Moved blocks are older than new ones, and stay
    /// together.
    pub(crate) moved_to: Cell<Option<u64>>,
}

impl Zones {
    /// This many zones, none written to.
    pub(crate) fn new(count: u64) -> Self {
        Self {
            taken: RefCell::new(vec![0; count as usize]),
            emptied: RefCell::default(),
            moved_to: Cell::new(None),
        }
    }

    /// Notes that an update takes units in a zone.
    pub(crate) fn note_taken(&self, zone: u64, update: u64) {
        self.taken.borrow_mut()[zone as usize] = update;
    }

    /// The last update that took units in a zone; 0 if none did since the volume was opened.
    pub(crate) fn last_taken(&self, zone: u64) -> u64 {
        self.taken.borrow()[zone as usize]
    }

    /// Sets the zones that are being emptied.
    pub(crate) fn set_emptied(&self, zones: BTreeSet<u64>) {
        self.emptied.replace(zones);
    }

    /// Keeps only some of the zones that are being emptied.
    pub(crate) fn retain_emptied(&self, is_one: impl Fn(u64) -> bool) {
        self.emptied.borrow_mut().retain(|&zone| is_one(zone));
    }

    /// Whether a zone is being emptied.
    pub(crate) fn is_emptied(&self, zone: u64) -> bool {
        self.emptied.borrow().contains(&zone)
    }
}
