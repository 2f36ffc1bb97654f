//! Scrubbing: verifies a whole set, to find rot while the other disks can still repair it.
//!
//! It goes stripe by stripe, each one locked meanwhile. Every member is read, and each block is
//! verified by its checksum ([`crate::stripe`]); a wrong block is repaired. If all blocks of a
//! column fit their checksums but their exclusive or is not zero, a write was lost together with
//! its checksum: the parity is then recomputed from the data. An unknown checksum is computed. The
//! checksum tables are read on both members that have them. One stripe at a time is a small load:
//! more than half of the members' time stays with clients.

use futures::future::join_all;
use runtime::sync::yield_now;

use crate::array::Array;
use crate::blocks::BLOCK;
use crate::interrupts::Work;
use crate::layout::Level;
use crate::parity::missing;
use crate::planted::{Bug, is_planted};
use crate::rebuild::FILLED;
use crate::stripe::{Column, Given};
use crate::table::tables_of;

/// Stripes passed before other tasks get a turn.
const AT_ONCE: u64 = 256;

/// Result of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Blocks of 4 KiB, or their checksums, that were wrong or unreadable on a member and were
    /// repaired.
    pub mended: u64,
    /// Members' blocks whose checksums were made anew: see [`crate::Set::renew_sums`].
    pub renewed: u64,
    /// Members' blocks that had no known checksum.
    pub unknown: u64,
    /// Lost ranges of the set, as byte offset and length: whole blocks of 4 KiB, in order.
    pub lost: Vec<(u64, u64)>,
    /// Ranges, in the same form, that are not lost: a disk that could not be read may have them.
    pub unread: Vec<(u64, u64)>,
}

/// Reason why a scrub did not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScrubError {
    /// It keeps no checksums.
    #[error("a striped set keeps no checksums")]
    Striped,
    /// Another scrub is under way.
    #[error("the set is being scrubbed already")]
    Busy,
    /// A person cancelled it.
    #[error("it was cancelled")]
    Cancelled,
    /// The set has too few members, or was closed.
    #[error("the set has stopped")]
    Stopped,
}

impl Array {
    /// As [`crate::Set::scrub`]; it may make checksums anew.
    pub(crate) async fn scrub(
        &self,
        renews_sums: bool,
        progress: impl FnMut(u64, u64, &Scrubbed),
    ) -> Result<Scrubbed, ScrubError> {
        if self.layout.level == Level::Striped {
            return Err(ScrubError::Striped);
        }
        if self.is_scrubbing.replace(true) {
            return Err(ScrubError::Busy);
        }
        self.interrupts.begin(Work::Scrub);
        let scrubbed = self.scrub_all(renews_sums, progress).await;
        self.is_scrubbing.set(false);
        scrubbed
    }

    async fn scrub_all(
        &self,
        renews_sums: bool,
        mut progress: impl FnMut(u64, u64, &Scrubbed),
    ) -> Result<Scrubbed, ScrubError> {
        let settle = async || self.log.settle_sums().await.map_err(|_| ScrubError::Stopped);
        let (mut scrubbed, before) = (Scrubbed::default(), self.mended());
        let (mut looked_at, mut next_table) = (0, 0);
        for stripe in 0..self.layout.rows {
            self.interrupts.while_paused(Work::Scrub, &self.members).await;
            if self.interrupts.is_cancelled(Work::Scrub) {
                return Err(ScrubError::Cancelled);
            }
            if self.members.are_closed() || self.members.have_stopped() {
                return Err(ScrubError::Stopped);
            }
            if self.written.has(stripe) {
                let alone = self.stripes.alone(stripe).await;
                let tables = tables_of(stripe * self.layout.unit, self.layout.unit);
                for number in next_table.max(tables.start)..tables.end {
                    self.scrub_table(number).await;
                }
                next_table = tables.end;
                if renews_sums {
                    scrubbed.renewed += self.renew_stripe(stripe).await;
                }
                self.scrub_stripe(stripe, &mut scrubbed).await;
                drop(alone);
                looked_at += self.layout.unit;
                // Count blocks that reads repaired meanwhile as well.
                scrubbed.mended = self.mended() - before;
            }
            progress(stripe + 1, self.layout.rows, &scrubbed);
            let is_pressed = looked_at >= FILLED / 16 && self.sums.are_pressed();
            if looked_at >= FILLED || is_pressed {
                looked_at = 0;
                settle().await?; // changed checksums take memory
            }
            if stripe % AT_ONCE == 0 {
                yield_now().await; // stripes never written do not wait
            }
        }
        settle().await?;
        Ok(scrubbed)
    }

    /// Verifies one table of each member, on both members that have it.
    async fn scrub_table(&self, number: u64) {
        let members = (0..self.layout.members).filter(|&slot| self.members.has(slot));
        join_all(members.map(|slot| self.sums.check(slot, number))).await;
    }

    fn mended(&self) -> u64 {
        self.members.counts.met().iter().map(|met| met.mended).sum()
    }

    pub(crate) async fn scrub_stripe(&self, stripe: u64, scrubbed: &mut Scrubbed) {
        let column = Column { stripe, from: 0, to: self.layout.unit };
        let offset = column.offset(&self.layout);
        let members = 0..self.layout.members;
        members.clone().for_each(|slot| self.blocks.forget_range(slot, offset, self.layout.unit));
        let units = match self.layout.level {
            Level::Mirrored => {
                let slots: Vec<usize> = members.clone().collect();
                let there = self.stripe();
                let given = join_all(slots.iter().map(|&slot| there.give(&column, slot))).await;
                vec![there.agree(&column, &slots, given).await]
            }
            _ => self.scrub_units(&column).await,
        };
        for (index, unit) in units.iter().enumerate() {
            for block in (0..column.blocks()).filter(|&block| !unit.has(block)) {
                let is_unread = unit.is_unread(block) && !is_planted(Bug::GivenUpFills);
                let unit = stripe * self.layout.width() + index as u64;
                let at = unit * self.layout.unit + block as u64 * BLOCK;
                let all = if is_unread { &mut scrubbed.unread } else { &mut scrubbed.lost };
                match all.last_mut() {
                    Some((from, length)) if *from + *length == at => *length += BLOCK,
                    _ => all.push((at, BLOCK)),
                }
            }
        }
        for slot in members.filter(|&slot| self.members.has(slot)) {
            let Ok(sums) = self.sums.of(slot, offset, self.layout.unit).await else { continue };
            let unknown = sums.unknown(offset, self.layout.unit);
            scrubbed.unknown += unknown;
            if unknown > 0 {
                let given = self.stripe().give(&column, slot).await;
                if given.is_good() {
                    sums.take(offset, &given.bytes);
                }
            }
        }
    }

    /// The data units of a stripe with parity, after repairs.
    async fn scrub_units(&self, column: &Column) -> Vec<Given> {
        let width = self.layout.width() as usize;
        let all = self.layout.members_of(column.stripe);
        let there = self.stripe();
        let mut given = there.all(column).await;
        let parity = given.pop().expect("there is parity");
        for block in 0..column.blocks() {
            let are_known = given.iter().all(|unit| unit.has(block));
            let unknown: Vec<usize> = (0..width).filter(|&it| !given[it].is_known(block)).collect();
            if let ([unknown], true, true) = (&unknown[..], parity.is_known(block), are_known) {
                // All others are known, so they determine this one.
                let others = given.iter().enumerate().filter(|(place, _)| place != unknown);
                let others = others.map(|(_, unit)| unit.block(block));
                let made = missing(BLOCK as usize, others.chain([parity.block(block)]));
                if made != given[*unknown].block(block) {
                    let at = column.offset(&self.layout) + block as u64 * BLOCK;
                    there.put(all[*unknown], at, &made).await;
                    self.blocks.forget_range(all[*unknown], at, BLOCK);
                }
                continue;
            }
            let sum = missing(BLOCK as usize, given.iter().map(|unit| unit.block(block)));
            let is_wrong = !parity.has(block) || parity.block(block) != sum;
            if are_known && is_wrong && self.members.has(all[width]) {
                let at = column.offset(&self.layout) + block as u64 * BLOCK;
                there.put(all[width], at, &sum).await;
                self.blocks.forget_range(all[width], at, BLOCK);
            }
        }
        given
    }
}
