//! Rebuilding a member from the others while the set is in use.
//!
//! The new device gets a label that says that it is rebuilding, before the labels of the others say
//! so. Then it is filled stripe by stripe, each one locked meanwhile; stripes that were never
//! written are skipped. A write to a stripe that the device already has goes to it as well. The
//! device also gets its checksums, and the checksums that it holds for other members: they change
//! in memory and are written in place like all others. The disk itself is a source as well
//! ([`crate::sources`]): a returning disk has most of its contents. A block that no disk returns is
//! not written, and keeps its checksum; an unknown checksum is marked. If a disk that could not be
//! read may have the block, it is retried ([`crate::refill`]).
//!
//! When the device has all stripes, the log drops its older records: one may be for the slot's
//! previous member, or lack this one. That makes everything durable, and the device is in by its
//! own label first and then by those of the others. A cut before that leaves it out, to be rebuilt
//! from the beginning, or to catch up with everything that it has missed by then.
//!
//! A member that comes back unchanged *catches up*: it gets the stripes that it may have missed
//! ([`crate::missed`]). On any other device, earlier contents do not count. The device's log is
//! cleared first: an old one may have records of this set.
//!
//! While clients call, it leaves them the members half of the time ([`crate::pace`]).
//!
//! [`crate::replace`] replaces a member that is still in.
//!
//! **Commit point**: the labels of all other members say that it is in.

use std::pin::pin;
use std::rc::Rc;

use block::{BlockDevice, Verb};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::FuturesOrdered;

use runtime::sync::yield_now;

use crate::array::Array;
use crate::blocks::BLOCK;
use crate::interrupts::Work;
use crate::label::{Id, Slot, Standing, rows_of};
use crate::labels::{Read, read_labels};
use crate::layout::Level;
use crate::planted::{Bug, is_planted};
use crate::sources::{Expected, SOURCE_PATIENCE};
use crate::stripe::{Column, Given};
use crate::sums::TableUnread;
use crate::wipe::wipe;

/// Stripes in flight at once: a batch.
const AT_ONCE: usize = 32;
/// Stripes passed before other tasks get a turn.
const PASSED: u64 = 256;
/// Bytes of a member after which changed checksums are written in place.
pub(crate) const FILLED: u64 = 256 << 20;

/// What a disk has before it is filled.
#[derive(Clone, Copy, Default)]
pub(crate) struct Has {
    /// Everything but what it has missed.
    pub(crate) all_but_missed: bool,
    /// The data of so many stripes. Tables that it stores may have changed since.
    pub(crate) stripes: u64,
}

/// Reason why a member was not rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RebuildError {
    /// The set has no such slot, or nothing to rebuild it from.
    #[error("the set has no slot {0} that could be made again")]
    NoSlot(usize),
    /// The member id is empty, or another member has it.
    #[error("a new member needs a number of its own")]
    Known,
    /// The slot has a member that is in or being filled.
    #[error("slot {0} has a member already")]
    Taken(usize),
    /// The disk has less space than a member needs.
    #[error("the disk has room for {has} stripes, and {needed} are needed")]
    TooSmall {
        /// Stripes that fit on the disk.
        has: u64,
        /// Stripes of a member.
        needed: u64,
    },
    /// The disk is read-only, or its sectors are larger than a block.
    #[error("the disk is read-only, or has sectors of more than {BLOCK} bytes")]
    Unfit,
    /// The device has failed.
    #[error("the new disk has failed")]
    Failed,
    /// Nobody can read checksums that the disk is verified by, or is to store.
    #[error("no disk can read a table of checksums at the moment")]
    Unread,
    /// A person cancelled it.
    #[error("it was cancelled")]
    Cancelled,
    /// The set has too few members, or was closed.
    #[error("the set has stopped")]
    Stopped,
}

impl Array {
    /// As [`crate::Set::rebuild`].
    pub(crate) async fn rebuild(
        &self,
        slot: usize,
        device: Rc<dyn BlockDevice>,
        member: Id,
        progress: impl FnMut(u64, u64),
    ) -> Result<(), RebuildError> {
        self.alone(slot, self.make_again(slot, device, member, progress)).await
    }

    /// Runs a fill of a slot, unless another fill is under way.
    pub(crate) async fn alone(
        &self,
        slot: usize,
        fill: impl Future<Output = Result<(), RebuildError>>,
    ) -> Result<(), RebuildError> {
        if self.is_rebuilding.replace(true) {
            return Err(RebuildError::Taken(slot));
        }
        self.interrupts.begin(Work::Fill);
        let mut filled = fill.await;
        let end = match filled {
            Err(_) if self.interrupts.is_cancelled(Work::Fill) => Some(RebuildError::Cancelled),
            Err(RebuildError::Unread) => Some(RebuildError::Unread),
            _ => None,
        };
        if let Some(end) = end {
            self.members.abandon_fill();
            filled = self.settled().await.and(Err(end));
        }
        self.is_rebuilding.set(false);
        filled
    }

    pub(crate) async fn settled(&self) -> Result<(), RebuildError> {
        let settled = self.members.settled(Verb::Write).await;
        settled.map_err(|_| RebuildError::Stopped)
    }

    pub(crate) async fn make_again(
        &self,
        slot: usize,
        device: Rc<dyn BlockDevice>,
        member: Id,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), RebuildError> {
        self.check(slot, &*device, member)?;
        let slots = || self.members.label().slots;
        let before = slots()[slot];
        let has_most = self.has_all_but_missed(slot, &*device, member).await;
        // A person may have taken the disk out meanwhile.
        let is_another = slots()[slot] != before && !is_planted(Bug::HastyReturns);
        if is_another || self.interrupts.is_cancelled(Work::Fill) {
            return Err(RebuildError::Cancelled);
        }
        let standing = if has_most { Standing::CatchingUp } else { Standing::Rebuilding };
        self.sums.copied_to.set(None);
        self.members.begin(slot, device, Slot { member, standing });
        self.settled().await?; // no member by itself from here on
        self.empty(slot).await?;
        self.sums.come_back(slot);
        self.log.copy_map(slot).await.map_err(|_| RebuildError::Stopped)?;
        let has = Has { all_but_missed: has_most, ..Has::default() };
        self.fill_and_admit(slot, has, &mut progress).await
    }

    /// Wipes the disk that is being filled for a slot. It may hang: a fill that is cancelled does
    /// not wait for it.
    pub(crate) async fn empty(&self, slot: usize) -> Result<(), RebuildError> {
        let Some(device) = self.members.filled_disk(slot) else {
            return Err(RebuildError::Failed); // the fill has ended
        };
        let wiping = wipe(&*device, self.data_start);
        let wiped = self.members.answer(slot, &device, wiping, Verb::Write).await;
        if wiped.is_err() && self.members.is_used(slot, &device) {
            self.members.lose(slot, &device);
        }
        wiped.map_err(|_| RebuildError::Failed)
    }

    /// Fills a member with what it lacks, and then admits it.
    pub(crate) async fn fill_and_admit(
        &self,
        slot: usize,
        has: Has,
        progress: &mut impl FnMut(u64, u64),
    ) -> Result<(), RebuildError> {
        let needed = self.layout.rows;
        let mut next = self.fill(slot, 0, has, progress).await?;
        while next < needed {
            // Write its checksums in place before they take much memory.
            self.log.settle_sums().await.map_err(|_| RebuildError::Stopped)?;
            next = self.fill(slot, next, has, progress).await?;
        }
        self.fill_again(slot).await;
        // Every stripe was locked since the fill began, so cached blocks of the slot's last member,
        // and all records for it, are older than this.
        self.blocks.forget(slot);
        if is_planted(Bug::OldRecords) {
            self.members.flush().await;
        } else if !is_planted(Bug::HastyMembers) {
            self.log.forget_old().await.map_err(|_| RebuildError::Stopped)?;
        }
        if self.members.coming() != Some(slot) {
            return Err(RebuildError::Failed);
        }
        self.members.admit(slot);
        self.settled().await?;
        self.members.is_settled_in();
        self.missed.are_whole(self.log.home());
        if self.members.has(slot) { Ok(()) } else { Err(RebuildError::Failed) }
    }

    /// Whether a device is the slot's last member, unchanged since it went when all were in or
    /// partly caught up since, and what it lacks is known. A disk that does not answer is not.
    async fn has_all_but_missed(&self, slot: usize, device: &dyn BlockDevice, member: Id) -> bool {
        let patience = self.interrupts.wait(Work::Fill, SOURCE_PATIENCE, &self.members);
        let reading = pin!(read_labels(device));
        let Either::Left((Ok(Read { label, is_overwritten: false, .. }), _)) =
            select(reading, pin!(patience)).await
        else {
            return false;
        };
        let ours = self.members.label().slots[slot].member;
        [label.member(), ours] == [member; 2] && self.missed.names_all_that_lacks(&label, slot)
    }

    /// Fills a new member from stripe `first` on, with a limited number of stripes in flight, until
    /// [`FILLED`] bytes are written. Returns the stripe behind the last one filled.
    pub(crate) async fn fill(
        &self,
        slot: usize,
        first: u64,
        has: Has,
        progress: &mut impl FnMut(u64, u64),
    ) -> Result<u64, RebuildError> {
        let rows = self.layout.rows;
        // A stripe stays locked until the member counts as having it and all before it.
        let give = async |stripe| {
            let alone = self.stripes.alone(stripe).await;
            let is_missed = !has.all_but_missed || self.missed.has(stripe);
            let is_written = self.written.has(stripe);
            let mut given = Ok(());
            // A stripe that needs no data any more may stand for what a table has missed.
            let is_due = is_missed && (is_written || has.all_but_missed);
            if is_due && (!is_written || stripe < has.stripes) {
                self.sums.read_held_by(slot, stripe).await;
            } else if is_due && self.members.is_replaced(slot) {
                self.copy_unit(slot, stripe).await;
            } else if is_due {
                given = self.give_unit(slot, stripe).await;
            }
            (alone, is_due, given)
        };
        let (mut begun, mut come, mut filled) = (first, first, 0);
        let (mut under_way, mut done) = (FuturesOrdered::new(), Ok(()));
        let is_cancelled = || self.interrupts.is_cancelled(Work::Fill);
        let pace = &self.members.pace;
        let mut batch = pace.begin();
        loop {
            if under_way.is_empty() && done.is_ok() {
                pace.rest(&batch).await;
                self.interrupts.while_paused(Work::Fill, &self.members).await;
                if is_cancelled() {
                    done = Err(RebuildError::Cancelled);
                }
            }
            // If clients call, the stripes in flight finish first.
            let is_held_up = pace.is_shared(&batch) || self.interrupts.is_paused();
            if under_way.is_empty() || !is_held_up {
                batch = pace.begin();
                while done.is_ok() && begun < rows && filled < FILLED && under_way.len() < AT_ONCE {
                    under_way.push_back(give(begun));
                    begun += 1;
                }
            }
            // Work that has begun finishes, whatever becomes of the member.
            let Some((_alone, is_due, given)) = under_way.next().await else { break };
            come += 1;
            done = done.and(given.map_err(|TableUnread| RebuildError::Unread));
            filled += if is_due { self.layout.unit } else { 0 };
            if self.members.are_closed() {
                done = Err(RebuildError::Stopped);
            } else if done.is_ok() && !self.members.has_come(slot, come.max(has.stripes)) {
                done = Err(RebuildError::Failed);
            }
            if done.is_ok() && is_cancelled() {
                done = Err(RebuildError::Cancelled);
            }
            if done.is_ok() {
                progress(come, rows);
            }
            if come % PASSED == 0 {
                yield_now().await; // stripes never written do not wait
            }
        }
        done.map(|()| come)
    }

    /// Checks that a device may become the member of a slot.
    fn check(&self, slot: usize, device: &dyn BlockDevice, member: Id) -> Result<(), RebuildError> {
        let label = self.members.label();
        let standing = label.slots.get(slot).map(|slot| slot.standing);
        let Some(standing) = standing.filter(|_| self.layout.level != Level::Striped) else {
            return Err(RebuildError::NoSlot(slot));
        };
        if standing == Standing::InSync || self.members.coming().is_some() {
            return Err(RebuildError::Taken(slot));
        }
        let mut others = label.slots.iter().enumerate().filter(|(other, _)| *other != slot);
        if member == Id::default() || others.any(|(_, other)| other.member == member) {
            return Err(RebuildError::Known);
        }
        self.fits(device)
    }

    /// Implements [`crate::Set::fits`].
    pub(crate) fn fits(&self, device: &dyn BlockDevice) -> Result<(), RebuildError> {
        let needed = self.layout.rows;
        let has = rows_of(device.geometry().size, self.data_start, self.layout.unit);
        if has < needed {
            return Err(RebuildError::TooSmall { has, needed });
        }
        let geometry = device.geometry();
        if geometry.read_only || u64::from(geometry.logical_sector_size) > BLOCK {
            return Err(RebuildError::Unfit);
        }
        Ok(())
    }

    /// Writes a new member's unit of a written stripe, with its checksums and those that it holds
    /// for other members. A block that no present disk gives is left as it is on the disk, and
    /// keeps its checksum.
    ///
    /// # Errors
    /// [`TableUnread`] when there is such a block, and its checksum cannot be read: later nothing
    /// might tell what the member has missed.
    pub(crate) async fn give_unit(&self, slot: usize, stripe: u64) -> Result<(), TableUnread> {
        let length = self.layout.unit;
        let column = Column { stripe, from: 0, to: length };
        let offset = column.offset(&self.layout);
        let given = self.unit_of(slot, &column).await;
        let sums = self.sums.of(slot, offset, length).await;
        let sums = match sums {
            // What the others prove fits the checksum that cannot be read.
            Err(TableUnread) if (0..column.blocks()).all(|block| given.is_known(block)) => None,
            sums => Some(sums?),
        };
        let take = |at, bytes| sums.iter().for_each(|sums| sums.take(at, bytes));
        let block_at = |block: usize| offset + block as u64 * BLOCK;
        let (mut writes, mut from) = (Vec::new(), 0);
        let found: Vec<bool> = (0..column.blocks()).map(|block| given.has(block)).collect();
        for run in found.chunk_by(|one, next| one == next) {
            let (at, blocks) = (block_at(from), from..from + run.len());
            let bytes = &given.bytes[(at - offset) as usize..][..run.len() * BLOCK as usize];
            from = blocks.end;
            if run[0] {
                take(at, bytes);
                self.members.unread.forget_range(slot, at, bytes.len() as u64);
                writes.push((at, Bytes::copy_from_slice(bytes)));
                continue;
            }
            if is_planted(Bug::ReplacedSums) {
                take(at, bytes);
                continue;
            }
            let is_overwritten = is_planted(Bug::UnaskedReturns);
            if is_overwritten {
                writes.push((at, Bytes::copy_from_slice(bytes)));
            }
            for block in blocks {
                if given.is_unread(block) {
                    self.members.unread.note(slot, block_at(block));
                } else if !is_planted(Bug::UntoldFills) {
                    self.members.counts.note(|done| done.lost_blocks += 1);
                }
                let expected = self.stripe().expected(slot, stripe, block_at(block)).await;
                if matches!(expected, Expected::Unknown | Expected::Lost) || is_overwritten {
                    sums.iter().for_each(|sums| sums.lose(block_at(block)));
                }
            }
        }
        self.sums.read_held_by(slot, stripe).await;
        for (at, bytes) in writes {
            let at = self.data_start + at;
            self.members.fill(slot, at, vec![bytes]).await;
        }
        Ok(())
    }

    /// A slot's unit of a column, from all present disks.
    pub(crate) async fn unit_of(&self, slot: usize, column: &Column) -> Given {
        if self.layout.level == Level::Mirrored {
            return self.stripe().mirrors(column).await;
        }
        let all = self.layout.members_of(column.stripe);
        let place = all.iter().position(|&member| member == slot).expect("it is one of them");
        self.stripe().all(column).await.swap_remove(place)
    }
}
