//! Which stripes were ever written.
//!
//! What was never written reads as zeros, whatever stands on the members: so a new set needs no
//! first look at its disks, and a member that is made again gets only what there is. A bit for each
//! stripe stands on each member, behind its data. The first write of a stripe makes all of the
//! stripe what it then is, zeros where nothing is written; its record has the bit as well.
//!
//! Records become durable one after the other, and each has the bits of all before it. So the map
//! on a member only ever gains bits, whichever of two writes of one block comes last: rounds bring
//! it home themselves, before the next begins.
//!
//! Invariants:
//! 1. A bit is in the log with what the stripe is, or on all members when that is at home.
//! 2. Readers go by the bits of stripes that are at home.
//!
//! Not asserted: 1, which is about what a cut leaves: torture's campaign `contract` cuts there; 2,
//! which is what the functions are named for.

use std::cell::RefCell;
use std::collections::BTreeSet;

use bytes::Bytes;

use crate::label::{MAP_BLOCK, map_size};
use crate::layout::Layout;
use crate::record::{Change, Slots};

/// See the module's prose.
pub(crate) struct Written {
    /// Where the map is in the data area of each member, in bytes.
    start: u64,
    /// The bits that are in durable records, or at home.
    logged: RefCell<Vec<u8>>,
    /// The bits of stripes that are at home.
    home: RefCell<Vec<u8>>,
}

/// Where the map of a set is in the data area of each member, and how long, in bytes.
pub(crate) fn place(layout: &Layout) -> (u64, u64) {
    (layout.rows * layout.unit, map_size(layout.rows))
}

impl Written {
    /// What a member has of it.
    pub(crate) fn new(layout: &Layout, bits: Vec<u8>) -> Self {
        let (start, length) = place(layout);
        assert_eq!(bits.len() as u64, length, "all of the map");
        Self { start, logged: RefCell::new(bits.clone()), home: RefCell::new(bits) }
    }

    /// Whether a stripe was written.
    pub(crate) fn has(&self, stripe: u64) -> bool {
        self.home.borrow()[stripe as usize / 8] >> (stripe % 8) & 1 == 1
    }

    /// A stripe that was written for the first time is at home.
    pub(crate) fn come_home(&self, stripe: u64) {
        self.home.borrow_mut()[stripe as usize / 8] |= 1 << (stripe % 8);
    }

    /// What a record has of the map that writes these stripes for the first time.
    pub(crate) fn changes(&self, stripes: &[u64], slots: Slots) -> Vec<Change> {
        let logged = self.logged.borrow();
        let blocks: BTreeSet<u64> = stripes.iter().map(|stripe| stripe / 8 / MAP_BLOCK).collect();
        let block = |block: u64| {
            let mut bits = logged[(block * MAP_BLOCK) as usize..][..MAP_BLOCK as usize].to_vec();
            let first = block * MAP_BLOCK * 8;
            let here = stripes.iter().filter(|stripe| **stripe / 8 / MAP_BLOCK == block);
            set(&mut bits, &here.map(|stripe| stripe - first).collect::<Vec<_>>());
            let (offset, data) = (self.start + block * MAP_BLOCK, vec![Bytes::from(bits)]);
            Change { slots, offset, data, is_zeros: false }
        };
        blocks.into_iter().map(block).collect()
    }

    /// That record is durable.
    pub(crate) fn are_logged(&self, stripes: &[u64]) {
        set(&mut self.logged.borrow_mut(), stripes);
    }

    /// All of it, as it is in durable records.
    pub(crate) fn all(&self, slots: Slots) -> Change {
        let data = vec![Bytes::from(self.logged.borrow().clone())];
        Change { slots, offset: self.start, data, is_zeros: false }
    }
}

fn set(bits: &mut [u8], stripes: &[u64]) {
    stripes.iter().for_each(|&stripe| bits[stripe as usize / 8] |= 1 << (stripe % 8));
}
