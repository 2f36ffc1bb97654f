//! New checksums after a log device was lost.
//!
//! Without its records, checksums are older than data that was written in place. Where everything
//! that is stored twice agrees, it was written completely: data and parity of a column whose
//! exclusive or is zero, or all copies of a mirror. There alone bytes become right that fit no
//! known checksum. A block that is marked as lost stays so, and all others of its column with it.

use block::IoError;
use futures::future::join_all;

use crate::array::Array;
use crate::blocks::BLOCK;
use crate::layout::Level;
use crate::parity::missing;
use crate::planted::{Bug, is_planted};
use crate::scrub::{ScrubError, Scrubbed};
use crate::stripe::{Column, Found, Given};

impl Array {
    /// As [`crate::Set::renew_sums`].
    pub(crate) async fn renew_sums(
        &self,
        progress: impl FnMut(u64, u64, &Scrubbed),
    ) -> Result<Scrubbed, ScrubError> {
        let scrubbed = self.scrub(true, progress).await?;
        let stopped = |_: IoError| ScrubError::Stopped;
        self.log.leave_apart().await.map_err(stopped)?; // the labels call for it until now
        Ok(scrubbed)
    }

    /// Makes the checksums of a stripe anew where everything agrees. Returns for how many blocks of
    /// members. The caller holds the stripe lock.
    pub(crate) async fn renew_stripe(&self, stripe: u64) -> u64 {
        let column = Column { stripe, from: 0, to: self.layout.unit };
        let offset = column.offset(&self.layout);
        let slots: Vec<usize> = (0..self.layout.members).collect();
        slots.iter().for_each(|&slot| self.blocks.forget_range(slot, offset, self.layout.unit));
        let there = self.stripe();
        let given = join_all(slots.iter().map(|&slot| there.give(&column, slot))).await;
        let mut renewed = 0;
        for block in 0..column.blocks() {
            let wrong: Vec<usize> =
                (0..slots.len()).filter(|&it| given[it].found(block) == Found::Wrong).collect();
            if wrong.is_empty() || !self.agree(&given, block) {
                continue;
            }
            let at = offset + block as u64 * BLOCK;
            for place in wrong {
                there.correct_sum(slots[place], at, given[place].block(block)).await;
                renewed += 1;
            }
        }
        renewed
    }

    /// Whether the members' blocks of a column agree, and are enough to tell.
    fn agree(&self, given: &[Given], block: usize) -> bool {
        let is_there =
            |it: &&Given| matches!(it.found(block), Found::Good | Found::Unknown | Found::Wrong);
        let is_mirror = self.layout.level == Level::Mirrored;
        // A mirror that is out has no say.
        let asked = given.iter().filter(|it| !is_mirror || it.found(block) != Found::Absent);
        let (there, asked) = (asked.clone().filter(is_there), asked.count());
        if asked < 2 || there.clone().count() < asked {
            return false;
        }
        let mut blocks = there.map(|it| it.block(block));
        if is_planted(Bug::RenewedUnasked) {
            return true;
        }
        if is_mirror {
            let first = blocks.next();
            return blocks.all(|it| Some(it) == first);
        }
        missing(BLOCK as usize, blocks).iter().all(|&byte| byte == 0)
    }
}
