//! What a write to a stripe changes on which members.
//!
//! What is written is whole blocks: so a record says what their sums become. What a caller writes
//! of a block in part is filled up with what stood there. New data of some units needs the parity
//! of its column. If all of the column is written, that follows from what is new alone. Else either
//! what was there is read, with the old parity, or the units that are not written; whichever is
//! less. With a member missing that is to be written, its old bytes are made of the others'.
//!
//! What is planned for a member that is out does not go there, but its checksums change as those of
//! any other: so bytes from before it went do not pass for what belongs there. Parity that such a
//! member misses is not computed; its checksums become [`crate::table::MARK`].
//!
//! To be called by a task that is alone with the stripe.

use block::{Buffer, IoError, Verb, length_of, zeros};
use bytes::Bytes;
use futures::future::join_all;

use crate::blocks::BLOCK;
use crate::layout::Level;
use crate::members::lost;
use crate::parity::add;
use crate::planted::{Bug, is_planted};
use crate::prelog::Group;
use crate::record::{Change, Slots};
use crate::stripe::{Column, Given, Stripe};

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
    fn put_on(&self, unit: &mut Given, column: &Column) {
        let first = (self.within - column.from) / BLOCK;
        let bytes = Buffer::joined(&self.data);
        for (block, bytes) in (first as usize..).zip(bytes.chunks_exact(BLOCK as usize)) {
            unit.put(block, bytes);
        }
    }

    /// Whether it has a block of the column.
    fn has(&self, column: &Column, block: usize) -> bool {
        let at = column.from + block as u64 * BLOCK;
        self.within <= at && at < self.end()
    }
}

/// The smallest column that has all these parts.
fn column_of(stripe: u64, parts: &[Part]) -> Column {
    let from = parts.iter().map(|part| part.within).min().unwrap_or_default();
    let to = parts.iter().map(Part::end).max().unwrap_or_default();
    Column::around(stripe, from, to)
}

impl Stripe<'_> {
    /// The same parts as whole blocks: what a part has not of a block is as it was, or zeros if the
    /// stripe was never written.
    ///
    /// # Errors
    /// [`IoError`] when what stood there is lost.
    pub(crate) async fn whole(
        &self,
        stripe: u64,
        parts: Vec<Part>,
        is_first: bool,
    ) -> Result<Vec<Part>, IoError> {
        let mut all = Vec::new();
        for mut part in parts {
            let column = Column::around(stripe, part.within, part.end());
            let (before, behind) = (part.within - column.from, column.to - part.end());
            let old = async |at: u64| -> Result<Bytes, IoError> {
                if is_first {
                    return Ok(zeros(BLOCK as usize));
                }
                let block = Column { from: at, to: at + BLOCK, ..column };
                Ok(self.unit(&block, part.index).await?.into())
            };
            let ends = (
                if before > 0 { Some(old(column.from).await?) } else { None },
                if behind > 0 { Some(old(column.to - BLOCK).await?) } else { None },
            );
            if let Some(block) = ends.0 {
                part.data.insert(0, block.slice(..before as usize));
            }
            if let Some(block) = ends.1 {
                part.data.push(block.slice((BLOCK - behind) as usize..));
            }
            part.within = column.from;
            all.push(part);
        }
        Ok(all)
    }

    /// What is to be written to which member.
    ///
    /// # Errors
    /// [`IoError`] when what is new of a member that is out could not be told by the others.
    pub(crate) async fn plan(&self, stripe: u64, parts: &[Part]) -> Result<Group, IoError> {
        let of_part = |part: &Part, slots: Slots| {
            Change::new(slots, stripe * self.layout.unit + part.within, part.data.clone())
        };
        if self.layout.level == Level::Mirrored {
            let all = (0..self.layout.members).collect();
            return Ok(parts.iter().map(|part| of_part(part, all)).collect());
        }
        let member = |part: &Part| self.layout.member_of(stripe, part.index);
        let mut group: Group =
            parts.iter().map(|part| of_part(part, Slots::one(member(part)))).collect();
        let parity = self.layout.parity_of(stripe).expect("there is parity, or there are mirrors");
        if self.members.takes(parity, stripe) {
            let column = column_of(stripe, parts);
            let (sum, is_lost) = self.new_parity(&column, parity, parts).await;
            let mut out = parts.iter().filter(|part| !self.members.takes(member(part), stripe));
            let is_nowhere = |part: &Part| {
                (0..column.blocks()).any(|block| is_lost[block] && part.has(&column, block))
            };
            if out.any(is_nowhere) && !is_planted(Bug::WrittenNowhere) {
                return Err(lost(Verb::Write));
            }
            let (sum, mut block) = (Bytes::from(sum), 0);
            // Of what is lost nothing can be made any more.
            for run in is_lost.chunk_by(|one, next| one == next) {
                let (from, to) = (block * BLOCK, (block + run.len() as u64) * BLOCK);
                let (slots, offset) = (Slots::one(parity), column.offset(self.layout) + from);
                let data = vec![sum.slice(from as usize..to as usize)];
                group.push(Change { is_lost: run[0], ..Change::new(slots, offset, data) });
                block += run.len() as u64;
            }
        } else {
            group.push(self.missed_parity(&column_of(stripe, parts), parity));
        }
        Ok(group)
    }

    /// That a member that is out misses new parity: of what it has there nothing can be made.
    fn missed_parity(&self, column: &Column, parity: usize) -> Change {
        let (slots, offset) = (Slots::one(parity), column.offset(self.layout));
        let missed = Change::zeros(slots, offset, column.length() as u64);
        Change { is_lost: true, ..missed }
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
            let new = Change::new(slots, start + from, data);
            group.extend([before, new, behind].into_iter().filter(|it| it.length() > 0));
        };
        if self.layout.level == Level::Mirrored {
            let slots = (0..self.layout.members).collect();
            parts.iter().for_each(|part| fill(slots, part.within, part.data.clone()));
            return group;
        }
        for index in 0..self.layout.width() as usize {
            let member = self.layout.member_of(stripe, index);
            match parts.iter().find(|part| part.index == index) {
                Some(part) => fill(Slots::one(member), part.within, part.data.clone()),
                None => fill(Slots::one(member), 0, Vec::new()),
            }
        }
        if let Some(parity) = self.layout.parity_of(stripe) {
            let column = column_of(stripe, parts);
            let mut sum = vec![0; column.length()];
            parts.iter().for_each(|part| part.add_to(&mut sum, &column));
            fill(Slots::one(parity), column.from, vec![sum.into()]);
        }
        group
    }

    /// The parity of a column when these parts are new, and block by block whether something of the
    /// column is lost, so that it says nothing.
    async fn new_parity(
        &self,
        column: &Column,
        parity: usize,
        parts: &[Part],
    ) -> (Vec<u8>, Vec<bool>) {
        let known = |sum: Vec<u8>| (sum, vec![false; column.blocks()]);
        let width = self.layout.width() as usize;
        let member = |index| self.layout.member_of(column.stripe, index);
        let covered = |index| parts.iter().any(|part| part.index == index && part.covers(column));
        let others: Vec<usize> = (0..width).filter(|&index| !covered(index)).collect();
        let mut sum = vec![0; column.length()];
        if others.is_empty() {
            parts.iter().for_each(|part| part.add_to(&mut sum, column));
            return known(sum);
        }
        let changed: Vec<usize> = parts.iter().map(|part| part.index).collect();
        let are_there = |indices: &[usize]| indices.iter().all(|&i| self.members.has(member(i)));
        if are_there(&changed) && (changed.len() < others.len() || !are_there(&others)) {
            let changed = self.by_change(column, parity, parts).await;
            if let Some(sum) = changed {
                return known(sum);
            }
        }
        let mut units = self.units(column, &others).await;
        for part in parts {
            part.put_on(&mut units[part.index], column);
        }
        let sum = Given::sum(column, &units);
        let lost = (0..column.blocks()).map(|block| !sum.has(block)).collect();
        (sum.bytes, lost)
    }

    /// The new parity from the old one and what was where the parts go. `None` when that cannot be
    /// read.
    async fn by_change(&self, column: &Column, parity: usize, parts: &[Part]) -> Option<Vec<u8>> {
        let old_parity = self.good(column, parity);
        let olds = parts.iter().map(|part| {
            let own = Column { from: part.within, to: part.end(), ..*column };
            let member = self.layout.member_of(column.stripe, part.index);
            async move { self.good(&own, member).await }
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

    /// What a member has of a column, if all of it is known.
    async fn good(&self, column: &Column, member: usize) -> Option<Vec<u8>> {
        let given = self.give(column, member).await;
        given.is_good().then_some(given.bytes)
    }
}
