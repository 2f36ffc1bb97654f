//! Replacing a member that is in with another disk.
//!
//! The new disk is *incoming*. Until it has everything, the old one stays the member, and the first
//! source of the new one: all writes, flushes and records of the slot go to both, and the fill goes
//! to the new disk alone. The labels name both disks.
//!
//! The new disk is filled from the old one, and from the others where the old one cannot give a
//! block. Unproven bytes are copied as they are: they may prove something later. Tables change only
//! between rounds of the log or when they get their places, so they are copied as they are, and
//! what is known of the places on one disk holds for both.
//!
//! A failure of the new disk ends the replacement. A failure of the old one ends its membership:
//! the new disk is then rebuilt like any other, starting with the stripes that it has, and the old
//! one is still a source. A start with both disks restarts the replacement from the beginning; one
//! with the old disk alone gives it up. A start with the new disk alone calls the old one out,
//! which may come back: until then the new one is not a member, but a source of what the others
//! cannot give.
//!
//! **Commit point**: the labels of all other members call the new disk in. Those labels name the
//! old one, which gets every write until they are durable, and is released then.
//!
//! Invariants:
//! 1. The new disk is called in when it has every stripe, and all of that is durable.
//! 2. The slot of an incoming disk has a member that is in.
//! 3. The old disk is released when the labels that call the new one in are durable.
//! 4. Nothing that fills the new disk is written to the old one.
//! 5. A disk that left its slot stays a source until the slot has a member that is in.
//!
//! Not asserted: 4, which separates two kinds of writes: one of them goes to the incoming disk
//! only; 5, which is what [`Members::release_leaving`] does.

use std::rc::Rc;

use block::{BlockDevice, Buffer, Durability, IoError, Verb};
use bytes::Bytes;

use crate::array::Array;
use crate::blocks::BLOCK;
use crate::incoming::Incoming;
use crate::label::{Id, Label, Replacement, Slot, Standing};
use crate::layout::Level;
use crate::members::{Members, watched};
use crate::planted::{Bug, is_planted};
use crate::rebuild::{Has, RebuildError};
use crate::sources::Expected;
use crate::stripe::Column;
use crate::sums::TableUnread;

impl Members {
    /// Whether the member of a slot is being replaced: it is in, and another disk gets its writes
    /// as well.
    pub(crate) fn is_replaced(&self, slot: usize) -> bool {
        self.incoming.borrow().as_ref().is_some_and(|it| it.slot == slot)
    }

    /// The new disk of a slot whose member is still in.
    pub(crate) fn incoming(&self, slot: usize) -> Option<Rc<dyn BlockDevice>> {
        let incoming = self.incoming.borrow();
        incoming.as_ref().filter(|it| it.slot == slot).map(|it| it.device.clone())
    }

    /// Begins replacing a slot's member with a device. The replacement has begun once the labels
    /// are settled.
    pub(crate) fn begin_replacing(&self, slot: usize, device: Rc<dyn BlockDevice>, other: Id) {
        assert!(self.has(slot) && self.rebuild().is_none(), "invariant 2");
        let (device, calls) = watched(Some(device), &self.clock);
        let device = device.expect("there is one");
        self.incoming.replace(Some(Incoming { slot, device, calls, stripes: 0 }));
        // The leaving disk of this slot may be the same disk.
        let leaving = self.leaving.take().filter(|(of, _)| *of != slot);
        leaving.into_iter().for_each(|(of, device)| self.has_stranger(of, device));
        let mut label = self.label.borrow_mut();
        label.replacement = Some(Replacement { slot, other, is_done: false });
        label.generation += 1;
    }

    /// Makes the incoming disk, which has everything durably, the member once the labels are
    /// settled; until then both get every write.
    pub(crate) fn admit_incoming(&self, slot: usize) {
        let rows = self.label.borrow().layout.rows;
        let has_all = |it: &Incoming| it.slot == slot && it.stripes == rows;
        assert!(self.incoming.borrow().as_ref().is_some_and(has_all), "invariant 1");
        self.exchange(true);
    }

    /// Releases the old disk once the labels that call the new one in are durable. Does nothing if
    /// one of the two has failed meanwhile.
    fn take_over(&self, slot: usize) {
        if !self.is_replaced(slot) {
            return;
        }
        let is_done = self.label.borrow().replacement.is_some_and(|it| it.is_done);
        assert!(is_done && self.are_settled(), "invariant 3");
        self.label.borrow_mut().replacement = None; // the next labels need not name the old disk
        self.put_in_place();
    }

    /// Puts the incoming disk in the old one's place.
    fn put_in_place(&self) {
        let Some(Incoming { slot, device, calls, .. }) = self.incoming.take() else { return };
        self.calls.borrow_mut()[slot] = calls;
        self.health.forget(slot);
        let old = self.devices.borrow_mut()[slot].replace(device);
        self.leaves(old.map(|old| (slot, old)));
        self.left.notify();
    }

    /// Swaps the member of the slot with the other disk of the replacement; `is_done` if that makes
    /// the new one the member.
    fn exchange(&self, is_done: bool) {
        let mut label = self.label.borrow_mut();
        let Some(replacement) = &label.replacement else { return };
        let Replacement { slot, other, .. } = *replacement;
        let member = label.slots[slot].member;
        label.replacement = Some(Replacement { slot, other: member, is_done });
        label.slots[slot].member = other;
        label.generation += 1;
    }

    /// Ends a replacement whose new disk has failed: the old one is the member, as before.
    pub(crate) fn end_replacement(&self) {
        let is_done = self.label.borrow().replacement.is_some_and(|it| it.is_done);
        if is_done {
            self.exchange(false);
        }
        let new = self.incoming.take();
        self.leaves(new.map(|new| (new.slot, new.device)));
        let mut label = self.label.borrow_mut();
        label.replacement = None;
        label.generation += 1;
        drop(label);
        self.left.notify();
    }

    /// Ends a fill without admitting its disk: a good member that it was to replace stays.
    pub(crate) fn abandon_fill(&self) {
        if self.incoming.borrow().is_some() {
            self.end_replacement();
        } else if let Some(slot) = self.coming() {
            self.call_out(slot);
        }
    }

    /// Turns a replacement whose old disk has failed into a rebuild from the others.
    pub(crate) fn give_up_old(&self) {
        let stripes = self.incoming.borrow().as_ref().map_or(0, |it| it.stripes);
        let replacement = self.label.borrow_mut().replacement.take();
        let Some(Replacement { slot, other, is_done }) = replacement else {
            return;
        };
        self.put_in_place();
        if is_done {
            return; // the new disk has everything, and is called in
        }
        self.coming.set(Some((slot, stripes)));
        let mut label = self.label.borrow_mut();
        label.slots[slot] = Slot { member: other, standing: Standing::Rebuilding };
        label.generation += 1;
    }

    /// Keeps a disk that left its slot, or did not come in, as a source. An earlier one stays a
    /// source too.
    pub(crate) fn leaves(&self, leaving: Option<(usize, Rc<dyn BlockDevice>)>) {
        let before = self.leaving.replace(leaving);
        before.into_iter().for_each(|(of, device)| self.has_stranger(of, device));
    }

    /// Disks of a slot that are not members and may have blocks that the members cannot give.
    pub(crate) fn bystanders(&self, slot: usize) -> Vec<Rc<dyn BlockDevice>> {
        let leaving = self.leaving.borrow();
        let leaving = leaving.iter().filter(|(of, _)| *of == slot);
        let leaving = leaving.map(|(_, device)| device.clone());
        self.incoming(slot).into_iter().chain(leaving).chain(self.strangers(slot)).collect()
    }

    /// Adds the new disk of a replacement that is not resumed yet.
    pub(crate) fn has_bystander(&self, slot: usize, device: Rc<dyn BlockDevice>) {
        self.leaves(Some((slot, device)));
    }

    /// Takes the disk that left its slot, or never came in, from the sources. It stays one while
    /// the slot lacks blocks that it may have, and while a replacement is to be resumed with it. A
    /// disk that never came in has no such block: the member got each one that was found.
    pub(crate) fn release_leaving(&self, has_come: bool) -> Option<Rc<dyn BlockDevice>> {
        let (slot, device) = self.leaving.take()?;
        let is_resumed = self.label.borrow().replacement.is_some_and(|it| it.slot == slot);
        let is_in = self.has(slot) || is_planted(Bug::HastyReleases);
        if !is_in || is_resumed {
            self.leaving.replace(Some((slot, device)));
            return None;
        }
        if self.unread.is_empty(slot) || !has_come {
            return Some(device);
        }
        self.has_stranger(slot, device);
        None
    }

    /// The device of a slot that gets a label, the new disk or the member, and whether it is the
    /// label of an incoming disk.
    pub(crate) fn labelled(
        &self,
        slot: usize,
        is_new: bool,
        label: &Label,
    ) -> Option<(Rc<dyn BlockDevice>, bool)> {
        if self.label.borrow().slots[slot].member != label.slots[slot].member {
            return None; // one of the two disks has failed meanwhile: another label follows
        }
        let is_done = label.replacement.is_some_and(|it| it.slot == slot && it.is_done);
        match self.incoming(slot) {
            Some(incoming) if is_new || is_done => Some((incoming, !is_done)),
            _ => self.writable(slot).map(|device| (device, false)),
        }
    }

    /// The disk that is being filled for a slot.
    pub(crate) fn filled_disk(&self, slot: usize) -> Option<Rc<dyn BlockDevice>> {
        let coming = || self.writable(slot).filter(|_| self.coming() == Some(slot));
        self.incoming(slot).or_else(coming)
    }

    pub(crate) async fn write_incoming(
        &self,
        slot: usize,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) {
        let Some(device) = self.incoming(slot) else { return };
        let write = device.write(offset, data, durability);
        let written = self.answer(slot, &device, write, Verb::Write).await;
        if written.is_err() && self.is_used(slot, &device) {
            self.lose(slot, &device);
        }
    }
}

impl Array {
    /// As [`crate::Set::replace`].
    pub(crate) async fn replace(
        &self,
        slot: usize,
        device: Rc<dyn BlockDevice>,
        member: Id,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), RebuildError> {
        self.alone(slot, self.copy_member(slot, device, member, &mut progress)).await
    }

    async fn copy_member(
        &self,
        slot: usize,
        device: Rc<dyn BlockDevice>,
        member: Id,
        progress: &mut impl FnMut(u64, u64),
    ) -> Result<(), RebuildError> {
        self.check_replaced(slot, &*device, member)?;
        if is_planted(Bug::EarlyDismissals) {
            self.members.call_out(slot);
            self.settled().await?;
            return self.make_again(slot, device, member, progress).await;
        }
        self.sums.copied_to.set(None);
        self.members.begin_replacing(slot, device, member);
        let copied = self.copy_all(slot, progress).await;
        if self.members.coming() == Some(slot) {
            return self.go_on_from_others(slot, progress).await; // the old disk has failed
        }
        copied?;
        self.members.take_over(slot);
        self.blocks.forget(slot);
        let is_member = self.members.label().slots[slot].member == member;
        if is_member && self.members.has(slot) { Ok(()) } else { Err(RebuildError::Failed) }
    }

    /// Fills an incoming disk, and calls it in.
    async fn copy_all(
        &self,
        slot: usize,
        progress: &mut impl FnMut(u64, u64),
    ) -> Result<(), RebuildError> {
        let stopped = |_| RebuildError::Stopped;
        let is_replaced = || {
            let is_it = self.members.is_replaced(slot);
            if is_it { Ok(()) } else { Err(RebuildError::Failed) }
        };
        self.settled().await?; // all disks know of it from here on
        self.empty(slot).await?;
        self.log.copy_map(slot).await.map_err(stopped)?;
        for (of, group) in self.sums.groups_of(slot) {
            is_replaced()?;
            self.log.copy_tables(slot, (of, group)).await.map_err(|error| {
                let is_unread = error == IoError::from(TableUnread);
                if is_unread { RebuildError::Unread } else { RebuildError::Stopped }
            })?;
            if self.sums.are_pressed() {
                self.log.settle_sums().await.map_err(stopped)?; // many were damaged
            }
        }
        is_replaced()?;
        self.sums.copied_to.set(Some(slot));
        let mut next = 0;
        while next < self.layout.rows {
            is_replaced()?;
            next = self.fill(slot, next, Has::default(), progress).await?;
        }
        if is_planted(Bug::HastyReplacements) {
            is_replaced()?;
            self.members.admit_incoming(slot);
            return self.settled().await;
        }
        self.fill_again(slot).await;
        // Records that the log still needs may be on disks of which one is the old one. This also
        // makes everything that the new disk was given durable.
        self.log.forget_old().await.map_err(stopped)?;
        is_replaced()?;
        self.members.admit_incoming(slot);
        self.settled().await
    }

    /// Fills the new disk of a replacement whose old disk has failed with the stripes that it
    /// lacks.
    async fn go_on_from_others(
        &self,
        slot: usize,
        progress: &mut impl FnMut(u64, u64),
    ) -> Result<(), RebuildError> {
        self.settled().await?;
        // The known state of tables is that of the old disk.
        self.sums.come_back(slot);
        self.log.copy_map(slot).await.map_err(|_| RebuildError::Stopped)?;
        let (_, stripes) = self.members.rebuild().ok_or(RebuildError::Failed)?;
        let has = Has { stripes, ..Has::default() };
        self.fill_and_admit(slot, has, progress).await
    }

    /// Checks that a device may replace a slot's member, which is in.
    fn check_replaced(
        &self,
        slot: usize,
        device: &dyn BlockDevice,
        member: Id,
    ) -> Result<(), RebuildError> {
        let slots = self.members.label().slots;
        if self.layout.level == Level::Striped || slot >= slots.len() || !self.members.has(slot) {
            return Err(RebuildError::NoSlot(slot));
        }
        if self.members.rebuild().is_some() {
            return Err(RebuildError::Taken(slot));
        }
        if member == Id::default() || slots.iter().any(|it| it.member == member) {
            return Err(RebuildError::Known);
        }
        self.fits(device)
    }

    /// Writes an incoming disk's unit of a written stripe: the old disk's bytes, or a
    /// reconstruction from the others. A block that no present disk gives is copied as it is on the
    /// old disk.
    pub(crate) async fn copy_unit(&self, slot: usize, stripe: u64) {
        let column = Column { stripe, from: 0, to: self.layout.unit };
        let at = self.data_start + column.offset(&self.layout);
        let own = self.stripe().give(&column, slot).await;
        let are_known = (0..column.blocks()).all(|block| own.is_known(block));
        let mut given = if are_known { own } else { self.unit_of(slot, &column).await };
        let mut are_there: Vec<bool> = (0..column.blocks()).map(|it| given.has(it)).collect();
        let mut unread = Vec::new();
        for (block, is_there) in are_there.iter_mut().enumerate().filter(|(_, it)| !**it) {
            let within = block as u64 * BLOCK;
            let offset = at + within - self.data_start;
            let room = Buffer::unfilled(BLOCK as usize);
            let read = self.members.read(slot, at + within, room).await;
            *is_there = read.is_some();
            if given.is_unread(block) || read.is_none() {
                unread.push(offset);
            } else if !is_planted(Bug::UntoldFills) {
                self.members.counts.note(|done| done.lost_blocks += 1);
            }
            if let Some(bytes) = read {
                given.bytes[within as usize..][..bytes.len()].copy_from_slice(&bytes);
                continue;
            }
            let expected = self.stripe().expected(slot, stripe, offset).await;
            if matches!(expected, Expected::Unknown | Expected::Lost)
                && let Ok(sums) = self.sums.of(slot, offset, BLOCK).await
            {
                sums.lose(offset); // the bytes there on the new disk are meaningless
            }
        }
        let (bytes, mut from) = (Bytes::from(given.bytes), 0);
        for run in are_there.chunk_by(|one, next| one == next) {
            let length = run.len() * BLOCK as usize;
            if run[0] {
                let piece = bytes.slice(from..from + length);
                let offset = at + from as u64 - self.data_start;
                self.members.unread.forget_range(slot, offset, length as u64);
                self.members.fill(slot, at + from as u64, vec![piece]).await;
            }
            from += length;
        }
        // A disk may later give a block that was copied unproven.
        unread.into_iter().for_each(|offset| self.members.unread.note(slot, offset));
    }
}
