//! Further attempts to give a member the blocks that no disk gave when it was filled.
//!
//! A fill that lacks blocks ([`crate::unread`]) tries some times to get them, and ends. The member
//! is in then. The disk that has the blocks stays a source until they are written.
//!
//! Invariants:
//! 1. A fill waits a bounded time for such blocks.
//!
//! Not asserted: 1, which is about time.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::array::Array;
use crate::scrub::Scrubbed;

/// Pauses before the attempts of a fill, in seconds.
const PAUSES_S: [u64; 3] = [1, 4, 15];
/// Longest sleep without a look at whether the set was closed.
const STEP: Duration = Duration::from_secs(1);

impl Array {
    /// Tries blocks again that no disk gave when a disk was filled, some times.
    pub(crate) async fn fill_again(&self, slot: usize) {
        for pause in PAUSES_S {
            for _ in 0..pause {
                if self.members.unread.of(slot).is_empty() || self.members.are_closed() {
                    return;
                }
                self.members.clock.sleep(STEP).await;
            }
            self.fill_unread(slot).await;
        }
    }

    /// Tries them once.
    pub(crate) async fn fill_unread(&self, slot: usize) {
        let unit = self.layout.unit;
        let stripes = self.members.unread.of(slot).into_iter().map(|at| at / unit);
        for stripe in stripes.collect::<BTreeSet<u64>>() {
            if self.members.are_closed() || self.members.have_stopped() {
                return;
            }
            let _alone = self.stripes.alone(stripe).await;
            if !self.written.has(stripe) {
                self.members.unread.forget_range(slot, stripe * unit, unit); // it was vacated
            } else if self.members.is_replaced(slot) {
                self.copy_unit(slot, stripe).await;
            } else if self.members.coming() == Some(slot) {
                self.give_unit(slot, stripe).await;
            } else if self.members.has(slot) {
                self.scrub_stripe(stripe, &mut Scrubbed::default()).await;
            }
        }
    }
}
