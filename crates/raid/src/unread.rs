//! Blocks that a member lacks because no disk returned them when the member was filled.
//!
//! Such a block is not lost: a disk that could not be read may have it. It keeps its true checksum,
//! which the bytes on the member do not fit, and reads as EIO. It stays on this list until a read,
//! a scrub, a later attempt ([`crate::refill`]) or a client writes it. If the member is to be
//! replaced and stays after all, it still lacks the block.
//!
//! Invariant:
//! 1. A block is listed from the time a fill leaves it out until it is written or its member goes.
//!
//! Not asserted: it is about calls from other files.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::blocks::BLOCK;
use crate::planted::{Bug, is_planted};

/// Blocks of members, each with its slot and its offset in the data area.
#[derive(Default)]
pub(crate) struct Unread(RefCell<BTreeSet<(usize, u64)>>);

impl Unread {
    /// Lists a block that a fill left out.
    pub(crate) fn note(&self, slot: usize, offset: u64) {
        if !is_planted(Bug::GivenUpFills) {
            self.0.borrow_mut().insert((slot, offset));
        }
    }

    /// Removes the blocks of a range that was written.
    pub(crate) fn forget_range(&self, slot: usize, offset: u64, length: u64) {
        let mut all = self.0.borrow_mut();
        if !all.is_empty() {
            all.retain(|&(of, at)| of != slot || at + BLOCK <= offset || offset + length <= at);
        }
    }

    /// Removes all blocks of a slot that another disk has taken.
    pub(crate) fn forget(&self, slot: usize) {
        self.0.borrow_mut().retain(|(of, _)| *of != slot);
    }

    /// The listed blocks of a slot.
    pub(crate) fn of(&self, slot: usize) -> Vec<u64> {
        self.0.borrow().range((slot, 0)..(slot + 1, 0)).map(|(_, at)| *at).collect()
    }
}
