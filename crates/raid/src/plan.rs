//! What a write to a stripe changes on which members, and what of a stripe is there.
//!
//! A *column* is the same bytes of each unit of a stripe: they come to zeros together. New data of
//! some units needs the parity of its column. If all of the column is written, that follows from
//! what is new alone. Else either what was there is read, with the old parity, or the units that
//! are not written; whichever is less. With a member missing that is to be written, its old bytes
//! are made of the others'.
//!
//! To be called by a task that is alone with the stripe.

use block::{Buffer, Durability, IoError, Verb, length_of};
use bytes::Bytes;
use futures::future::join_all;

use crate::blocks::{BLOCK, Blocks};
use crate::layout::{Layout, Level};
use crate::members::{Members, lost};
use crate::parity::{add, missing};
use crate::planted::{Bug, is_planted};
use crate::prelog::Group;
use crate::record::{Change, Slots};

/// New bytes of one unit.
pub(crate) struct Part {
    /// Which of the stripe's units of data.
    pub(crate) index: usize,
    /// Where in it, in bytes.
    pub(crate) within: u64,
    pub(crate) data: Vec<Bytes>,
}

impl Part {
    fn end(&self) -> u64 {
        self.within + length_of(&self.data)
    }

    /// Whether all of a column is in it.
    fn covers(&self, column: &Column) -> bool {
        self.within <= column.from && column.to <= self.end()
    }

    /// Adds it to what stands in the column.
    fn add_to(&self, sum: &mut [u8], column: &Column) {
        let mut at = (self.within - column.from) as usize;
        for piece in &self.data {
            add(&mut sum[at..][..piece.len()], piece);
            at += piece.len();
        }
    }

    /// Puts it where it belongs in a unit's part of the column.
    fn put_on(&self, unit: &mut [u8], column: &Column) {
        let mut at = (self.within - column.from) as usize;
        for piece in &self.data {
            unit[at..][..piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
    }
}

/// The same bytes of each unit of a stripe.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(crate) stripe: u64,
    /// Where in the units, in bytes.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Column {
    /// The smallest that has all these parts.
    fn of(stripe: u64, parts: &[Part]) -> Self {
        let from = parts.iter().map(|part| part.within).min().unwrap_or_default();
        let to = parts.iter().map(Part::end).max().unwrap_or_default();
        Self { stripe, from, to }
    }

    fn length(&self) -> usize {
        (self.to - self.from) as usize
    }

    /// Where it is in the data area of a member.
    fn offset(&self, layout: &Layout) -> u64 {
        self.stripe * layout.unit + self.from
    }
}

/// A stripe of a set.
pub(crate) struct Stripe<'s> {
    pub(crate) members: &'s Members,
    pub(crate) layout: &'s Layout,
    pub(crate) data_start: u64,
    pub(crate) blocks: &'s Blocks,
}

impl Stripe<'_> {
    /// What is to be written to which member.
    ///
    /// # Errors
    /// [`IoError`] when what is needed of the stripe is lost.
    pub(crate) async fn plan(&self, stripe: u64, parts: &[Part]) -> Result<Group, IoError> {
        let of_part = |part: &Part, slots: Slots| Change {
            slots,
            offset: stripe * self.layout.unit + part.within,
            data: part.data.clone(),
            is_zeros: false,
        };
        let in_set = self.members.takers(stripe);
        if self.layout.level == Level::Mirrored {
            return Ok(parts.iter().map(|part| of_part(part, in_set)).collect());
        }
        let member = |part: &Part| self.layout.member_of(stripe, part.index);
        let present = parts.iter().filter(|part| self.members.takes(member(part), stripe));
        let mut group: Group =
            present.map(|part| of_part(part, Slots::one(member(part)))).collect();
        let parity = self.layout.parity_of(stripe).expect("there is parity, or there are mirrors");
        if self.members.takes(parity, stripe) {
            let column = Column::of(stripe, parts);
            let data = vec![Bytes::from(self.new_parity(&column, parity, parts).await?)];
            let offset = column.offset(self.layout);
            group.push(Change { slots: Slots::one(parity), offset, data, is_zeros: false });
        }
        Ok(group)
    }

    /// The same of a stripe that was never written: all of it becomes these parts and zeros.
    pub(crate) fn plan_first(&self, stripe: u64, parts: &[Part]) -> Group {
        let unit = self.layout.unit;
        let mut group = Group::new();
        let mut fill = |slots: Slots, from: u64, data: Vec<Bytes>| {
            let (start, to) = (stripe * unit, from + length_of(&data));
            let zeros = |at: u64, length: u64| {
                let is_left = is_planted(Bug::UnzeroedStripes);
                Change::zeros(slots, at, if is_left { 0 } else { length })
            };
            let (before, behind) = (zeros(start, from), zeros(start + to, unit - to));
            let new = Change { slots, offset: start + from, data, is_zeros: false };
            group.extend([before, new, behind].into_iter().filter(|it| it.length() > 0));
        };
        if self.layout.level == Level::Mirrored {
            let slots = self.members.takers(stripe);
            parts.iter().for_each(|part| fill(slots, part.within, part.data.clone()));
            return group;
        }
        let taker = |member: usize| Some(member).filter(|&one| self.members.takes(one, stripe));
        for index in 0..self.layout.width() as usize {
            let Some(member) = taker(self.layout.member_of(stripe, index)) else { continue };
            match parts.iter().find(|part| part.index == index) {
                Some(part) => fill(Slots::one(member), part.within, part.data.clone()),
                None => fill(Slots::one(member), 0, Vec::new()),
            }
        }
        if let Some(parity) = self.layout.parity_of(stripe).and_then(taker) {
            let column = Column::of(stripe, parts);
            let mut sum = vec![0; column.length()];
            parts.iter().for_each(|part| part.add_to(&mut sum, &column));
            fill(Slots::one(parity), column.from, vec![sum.into()]);
        }
        group
    }

    /// The parity of a column when these parts are new.
    async fn new_parity(
        &self,
        column: &Column,
        parity: usize,
        parts: &[Part],
    ) -> Result<Vec<u8>, IoError> {
        let width = self.layout.width() as usize;
        let member = |index| self.layout.member_of(column.stripe, index);
        let covered = |index| parts.iter().any(|part| part.index == index && part.covers(column));
        let others: Vec<usize> = (0..width).filter(|&index| !covered(index)).collect();
        let mut sum = vec![0; column.length()];
        if others.is_empty() {
            parts.iter().for_each(|part| part.add_to(&mut sum, column));
            return Ok(sum);
        }
        let changed: Vec<usize> = parts.iter().map(|part| part.index).collect();
        let are_there = |indices: &[usize]| indices.iter().all(|&i| self.members.has(member(i)));
        if are_there(&changed) && (changed.len() < others.len() || !are_there(&others)) {
            let changed = self.by_change(column, parity, parts).await;
            if let Some(sum) = changed {
                return Ok(sum);
            }
        }
        let mut units = self.units(column, Some(&others)).await?;
        for part in parts {
            part.put_on(&mut units[part.index], column);
        }
        Ok(missing(column.length(), units.iter().map(Vec::as_slice)))
    }

    /// The new parity from the old one and what was where the parts go. `None` when that cannot be
    /// read.
    async fn by_change(&self, column: &Column, parity: usize, parts: &[Part]) -> Option<Vec<u8>> {
        let old_parity = self.read_member(column, parity);
        let olds = parts.iter().map(|part| {
            let own = Column { from: part.within, to: part.end(), ..*column };
            let member = self.layout.member_of(column.stripe, part.index);
            async move { self.read_member(&own, member).await }
        });
        let (old_parity, olds) = futures::future::join(old_parity, join_all(olds)).await;
        let mut sum = old_parity?;
        if is_planted(Bug::StaleParity) {
            return Some(sum);
        }
        for (part, old) in parts.iter().zip(olds) {
            let at = (part.within - column.from) as usize;
            let old = old?;
            add(&mut sum[at..][..old.len()], &old);
            part.add_to(&mut sum, column);
        }
        Some(sum)
    }

    /// A member's part of a column. Whole blocks are read, to be known.
    async fn read_member(&self, column: &Column, member: usize) -> Option<Vec<u8>> {
        if !self.members.has(member) {
            return None;
        }
        let (offset, length) = (column.offset(self.layout), column.length());
        if let Some(known) = self.blocks.find(member, offset, length as u64) {
            return Some(known);
        }
        let (from, to) = (offset / BLOCK * BLOCK, (offset + length as u64).next_multiple_of(BLOCK));
        let room = Buffer::unfilled((to - from) as usize);
        if let Some(read) = self.members.read(member, self.data_start + from, room).await {
            self.blocks.tell(member, from, &read);
            return Some(read[(offset - from) as usize..][..length].to_vec());
        }
        // A sector beside it may be the one that cannot be read.
        let room = Buffer::unfilled(length);
        let read = self.members.read(member, self.data_start + offset, room).await?;
        Some(read.to_vec())
    }

    /// The units of data of a column. If it takes these alone, others may be zeros. What a member
    /// cannot read is made of what the others have, and written there once more.
    ///
    /// # Errors
    /// [`IoError`] when two members cannot tell.
    pub(crate) async fn units(
        &self,
        column: &Column,
        needed: Option<&[usize]>,
    ) -> Result<Vec<Vec<u8>>, IoError> {
        let width = self.layout.width() as usize;
        let member = |index| self.layout.member_of(column.stripe, index);
        let is_needed = |index: &usize| needed.is_none_or(|needed| needed.contains(index));
        let reads = (0..width).map(|index| async move {
            if !is_needed(&index) {
                return Some(vec![0; column.length()]);
            }
            self.read_member(column, member(index)).await
        });
        let units: Option<Vec<Vec<u8>>> = join_all(reads).await.into_iter().collect();
        if let Some(units) = units {
            return Ok(units);
        }
        let parity = self.layout.parity_of(column.stripe).unwrap_or_default();
        let all: Vec<usize> = (0..width).map(member).chain([parity]).collect();
        let reads = all.iter().map(|&member| self.read_member(column, member));
        let mut reads = join_all(reads).await;
        let unread: Vec<usize> = (0..reads.len()).filter(|&place| reads[place].is_none()).collect();
        if let [unread] = unread[..] {
            let made = missing(column.length(), reads.iter().flatten().map(Vec::as_slice));
            if self.members.has(all[unread]) {
                let at = self.data_start + column.offset(self.layout);
                self.members.counts.meet(all[unread], |met| met.mended += 1);
                let mended = vec![Bytes::from(made.clone())];
                self.members.write(all[unread], at, mended, Durability::Plain).await;
            }
            reads[unread] = Some(made);
        }
        let units: Option<Vec<Vec<u8>>> = reads.into_iter().take(width).collect();
        units.ok_or_else(|| lost(Verb::Read))
    }
}
