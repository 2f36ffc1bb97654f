//! Retries of the blocks that no disk returned when a member was filled.
//!
//! A fill that lacks blocks ([`crate::unread`]) retries them a few times and ends; the member is in
//! from then on. The disk that has the blocks stays a source until they are written.
//!
//! Invariants:
//! 1. A fill waits a bounded time for such blocks.
//!
//! Not asserted: 1, which is about time.

use std::time::Duration;

use crate::array::Array;
use crate::blocks::BLOCK;
use crate::scrub::Scrubbed;
use crate::stripe::Column;

/// Pauses before a fill's retries, in seconds.
const PAUSES_S: [u64; 3] = [1, 4, 15];
/// Longest sleep between checks whether the set was closed.
const STEP: Duration = Duration::from_secs(1);

impl Array {
    /// Retries, a few times, the blocks that no disk returned when a disk was filled.
    pub(crate) async fn fill_again(&self, slot: usize) {
        for pause in PAUSES_S {
            for _ in 0..pause {
                if self.members.unread.is_empty(slot) || self.members.are_closed() {
                    return;
                }
                self.members.clock.sleep(STEP).await;
            }
            self.fill_unread(slot).await;
        }
    }

    /// Retries each unread block of a slot once.
    pub(crate) async fn fill_unread(&self, slot: usize) {
        let unit = self.layout.unit;
        let mut from = 0;
        while let Some(at) = self.members.unread.next(slot, from) {
            let stripe = at / unit;
            from = (stripe + 1) * unit;
            if self.members.are_closed() || self.members.have_stopped() {
                return;
            }
            let _alone = self.stripes.alone(stripe).await;
            if !self.written.has(stripe) {
                self.members.unread.forget_range(slot, stripe * unit, unit); // vacated
            } else if self.members.is_replaced(slot) {
                self.copy_unit(slot, stripe).await;
            } else if self.members.coming() == Some(slot) {
                let _ = self.give_unit(slot, stripe).await; // the blocks stay on the list
            } else if self.members.has(slot) {
                self.scrub_stripe(stripe, &mut Scrubbed::default()).await;
                self.forget_given(slot, stripe).await;
            }
        }
    }

    /// Removes the blocks of a stripe that the member itself gives from the list: it was to be
    /// replaced, and could not be read itself.
    async fn forget_given(&self, slot: usize, stripe: u64) {
        let column = Column { stripe, from: 0, to: self.layout.unit };
        let given = self.stripe().give(&column, slot).await;
        for block in (0..column.blocks()).filter(|&block| given.is_known(block)) {
            let at = column.offset(&self.layout) + block as u64 * BLOCK;
            self.members.unread.forget_range(slot, at, BLOCK);
        }
    }
}
