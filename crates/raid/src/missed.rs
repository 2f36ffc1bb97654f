//! Dirty-region log: the regions that were written since all members were in.
//!
//! A member that went out and comes back unchanged lacks only those. A *region* is a run of
//! adjacent stripes, sized so that one bit for each region fits in one block. Every member has that
//! block, together with the generation by which all members were in.
//!
//! Memory holds the last record that touched each region, also while all members are in: a member
//! that goes may or may not have the writes that no flush has covered. A flush of all members
//! forgets the regions that it covers. While a member is out, no region is forgotten. Regions that
//! the block lacks are still in the log, and recovery takes them from there: the block is written
//! together with the checksums that follow from the same records ([`crate::sums`]), and these
//! records are needed until then. Checksums that are written in place while a member is out are
//! missed by it like data, even if the data itself was flushed long before.
//!
//! Invariant:
//! 1. Regions are forgotten only when all members are in and were flushed since they were touched.
//!
//! Not asserted: it is about the state after a cut. Torture's campaign `contract` has members catch
//! up after each cut.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;
use std::rc::Rc;

use block::{Buffer, Durability};
use bytes::Bytes;
use futures::future::join_all;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::label::{Id, Label, MAP_BLOCK, MISSED_START, Standing, is_sealed, sealed};
use crate::layout::Layout;
use crate::members::Members;
use crate::planted::{Bug, is_planted};
use crate::record::Change;
use crate::written::{has_bit, set_bits};

/// Magic of the block.
const KIND: [u8; 8] = *b"raid mis";
/// Flag: the tables have the checksums of everything that out members have missed.
const ARE_SUMMED: u32 = 1;
/// Bytes of the bitmap.
const BITS: usize = MAP_BLOCK as usize - 40;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    checksum: U32,
    flags: U32,
    kind: [u8; 8],
    set: Id,
    since: U64,
    bits: [u8; BITS],
}

/// The regions that were written since a generation by which all members were in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Regions {
    since: u64,
    /// Whether the tables have the checksums of the data written there.
    are_summed: bool,
    touched: BTreeSet<u64>,
}

impl Regions {
    fn encode(&self, set: &Id) -> Bytes {
        let mut raw = Raw::new_zeroed();
        raw.flags = if self.are_summed { ARE_SUMMED.into() } else { 0.into() };
        (raw.kind, raw.set, raw.since) = (KIND, *set, self.since.into());
        set_bits(&mut raw.bits, self.touched.iter().copied());
        sealed(raw.as_bytes(), offset_of!(Raw, checksum)).into()
    }

    fn decode(bytes: &[u8], set: &Id) -> Option<Self> {
        let raw = Raw::ref_from_bytes(bytes).ok()?;
        let is_it = raw.kind == KIND && raw.set == *set;
        let has = |&region: &u64| has_bit(&raw.bits, region);
        let touched = || (0..BITS as u64 * 8).filter(has).collect();
        let is_whole = is_it && is_sealed(bytes, offset_of!(Raw, checksum));
        let are_summed = raw.flags.get() & ARE_SUMMED != 0;
        is_whole.then(|| Self { since: raw.since.get(), are_summed, touched: touched() })
    }
}

/// The encoded block of a set that no member has missed anything of.
pub(crate) fn empty(set: &Id) -> Bytes {
    Regions::default().encode(set)
}

/// Whether the present members show that nothing was written since all were in: each has the block,
/// and it has no regions or is of an earlier generation. The log is not considered.
pub(crate) async fn is_nothing(members: &Members) -> bool {
    let Label { set, whole, .. } = members.label();
    for slot in members.slots().iter().filter(|&slot| members.device(slot).is_some()) {
        let read = members.read(slot, MISSED_START, Buffer::unfilled(MAP_BLOCK as usize)).await;
        let regions = read.and_then(|read| Regions::decode(&read, &set));
        let is_none = |it: &Regions| it.since < whole || it.since == whole && it.touched.is_empty();
        if !regions.as_ref().is_some_and(is_none) {
            return false;
        }
    }
    true
}

/// The dirty-region log; see the module.
pub(crate) struct Missed {
    members: Rc<Members>,
    set: Id,
    layout: Layout,
    /// Stripes in a region.
    each: u64,
    /// The regions that a member may have missed that is out, or that goes now, each with the last
    /// record that touched it.
    touched: RefCell<BTreeMap<u64, u64>>,
    /// The block as it is on the members.
    saved: RefCell<Regions>,
    /// Whether a member is out and its missed regions are unknown.
    is_unknown: Cell<bool>,
    /// Whether the tables have the checksums of everything written since a member is out, its own
    /// included. An older program left the member's checksums as they were.
    are_summed: Cell<bool>,
}

impl Missed {
    /// Reads the block from the members. `were_all_in` says that the labels found call all members
    /// up to date; then nothing is read.
    pub(crate) async fn read(members: Rc<Members>, were_all_in: bool) -> Self {
        let Label { set, layout, whole, .. } = members.label();
        let mut saved = Regions::default();
        let mut is_unknown = !were_all_in;
        let mut are_summed = true;
        for slot in members.slots().iter().filter(|_| !were_all_in) {
            let room = Buffer::unfilled(MAP_BLOCK as usize);
            let Some(read) = members.read(slot, MISSED_START, room).await else { continue };
            let Some(one) = Regions::decode(&read, &set) else { continue };
            if one.since == whole && whole > 0 {
                is_unknown = false;
                saved.since = whole;
                saved.touched.extend(one.touched);
                are_summed &= one.are_summed;
            }
        }
        if is_unknown && is_nothing(&members).await && !is_planted(Bug::UnknownAbsences) {
            is_unknown = false; // the log has what it missed
        }
        let touched = saved.touched.iter().map(|&region| (region, 0)).collect();
        are_summed &= !is_unknown;
        saved.are_summed = are_summed;
        Self {
            members,
            set,
            layout,
            each: layout.rows.div_ceil(BITS as u64 * 8),
            touched: RefCell::new(touched),
            saved: RefCell::new(saved),
            is_unknown: Cell::new(is_unknown),
            are_summed: Cell::new(are_summed),
        }
    }

    /// Whether a member that went when all were in has missed only the stripes that [`Missed::has`]
    /// names.
    pub(crate) fn is_known(&self) -> bool {
        !self.is_unknown.get()
    }

    /// Whether a member may have missed this stripe.
    pub(crate) fn has(&self, stripe: u64) -> bool {
        self.is_unknown.get() || self.touched.borrow().contains_key(&(stripe / self.each))
    }

    /// Whether a disk with this label, which is or was the member of this slot, lacks only the
    /// stripes that [`Missed::has`] names: it was in when all were in last, and has at most caught
    /// up in part since.
    pub(crate) fn names_all_that_lacks(&self, label: &Label, slot: usize) -> bool {
        let ours = self.members.label();
        let is_it = (label.set, label.slot) == (ours.set, slot)
            && (label.layout, label.data_start) == (ours.layout, ours.data_start)
            && !label.is_incoming;
        let is_catching_up = label.slots[label.slot].standing == Standing::CatchingUp;
        let is_as_it_went = label.is_whole() || is_catching_up;
        let is_of_then = label.whole == ours.whole && ours.whole > 0;
        let is_trusted = is_as_it_went && is_of_then || is_planted(Bug::OldReturns);
        self.is_known() && is_it && is_trusted
    }

    /// Whether the tables have the checksums of everything that was missed.
    pub(crate) fn is_summed(&self) -> bool {
        self.are_summed.get()
    }

    /// Notes that a durable record, or the next one, touches a stripe.
    pub(crate) fn touch(&self, stripe: u64, record: u64) {
        let mut touched = self.touched.borrow_mut();
        let last = touched.entry(stripe / self.each).or_default();
        *last = record.max(*last);
    }

    /// Does the same for all stripes that these changes touch.
    pub(crate) fn touch_all(&self, changes: &[Change], record: u64) {
        let Layout { rows, unit, .. } = self.layout;
        let is_of_data = |it: &&Change| it.offset < rows * unit && !it.is_vacated;
        for change in changes.iter().filter(is_of_data) {
            let end = change.offset + change.length().max(1);
            for stripe in change.offset / unit..end.div_ceil(unit) {
                self.touch(stripe, record);
            }
        }
    }

    /// Whether the block on the members lacks every region that it should have.
    pub(crate) fn is_nowhere(&self) -> bool {
        let is_of_now = || self.saved.borrow().since == self.members.whole();
        !self.members.are_whole() && !self.is_unknown.get() && !is_of_now()
    }

    /// Writes the block, durably, if a member is out and the block is outdated.
    pub(crate) async fn bring_home(&self) {
        if self.members.are_whole() || self.is_unknown.get() {
            return;
        }
        let touched = self.touched.borrow().keys().copied().collect();
        let are_summed = self.is_summed();
        let regions = Regions { since: self.members.whole(), are_summed, touched };
        if regions == *self.saved.borrow() || is_planted(Bug::OldMisses) && !self.is_nowhere() {
            return;
        }
        let bytes = regions.encode(&self.set);
        let write =
            |slot| self.members.write(slot, MISSED_START, vec![bytes.clone()], Durability::Through);
        join_all(self.members.all().iter().map(write)).await;
        self.saved.replace(regions);
    }

    /// Writes the members' version of the block to a disk that is being filled.
    pub(crate) async fn copy_to(&self, slot: usize) {
        let bytes = self.saved.borrow().encode(&self.set);
        self.members.fill(slot, MISSED_START, vec![bytes]).await;
    }

    /// Forgets regions whose last record a flush of all active members has covered, if no member is
    /// out.
    pub(crate) fn are_flushed(&self, through: u64) {
        if self.members.are_whole() {
            self.touched.borrow_mut().retain(|_, record| *record >= through);
        }
    }

    /// Resets the log when the last missing member is in; it has everything before this record.
    pub(crate) fn are_whole(&self, from: u64) {
        if self.members.are_whole() {
            self.is_unknown.set(false);
            self.are_summed.set(true);
            self.saved.take();
            self.touched.borrow_mut().retain(|_, record| *record >= from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_says_what_it_was_told_and_nothing_else_passes_for_it() {
        let set = [7; 16];
        let last = BITS as u64 * 8 - 1;
        let regions = Regions { since: 12, are_summed: true, touched: [0, 9, last].into() };
        let bytes = regions.encode(&set);
        assert_eq!(bytes.len() as u64, MAP_BLOCK);
        assert_eq!(Regions::decode(&bytes, &set), Some(regions));
        assert_eq!(Regions::decode(&bytes, &[8; 16]), None, "it is of another set");
        for byte in [0, 4, 9, 17, 33, 41, 4095] {
            let mut wrong = bytes.to_vec();
            wrong[byte] ^= 4;
            assert_eq!(Regions::decode(&wrong, &set), None, "byte {byte}");
        }
        assert_eq!(Regions::decode(&empty(&set), &set), Some(Regions::default()));
    }
}
