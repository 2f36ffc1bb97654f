//! Plans a write to a stripe: the changes on each member.
//!
//! A write covers whole blocks, so that a record determines their checksums. A partial block is
//! completed with its old bytes. New data in some units needs new parity for its column. If all of
//! the column is written, the new data alone determines it. Otherwise the plan reads either the old
//! bytes and the old parity, or the units that are not written, whichever is less. If a member that
//! is to be written is missing, its old bytes are reconstructed from the others. A block for which
//! one way fails is tried the other way. Blocks that no part covers stay as they are.
//!
//! A write may need old bytes that a disk has but does not return at the moment. Then it retries
//! for about two seconds ([`PAUSES_MS`]) before it counts them as lost, because the new bytes
//! overwrite what would reconstruct another member's missing block.
//!
//! Invariants:
//! 1. Parity is changed only in blocks of which a part is written.
//! 2. Parity is not overwritten while a retry is left that may read the data that it protects.
//!
//! Not asserted: 2, which is about the order of waits.
//!
//! Data planned for a member that is out is not written there, but its checksums change like any
//! other's: bytes from before it went no longer fit. The parity that such a member misses is not
//! computed; its checksums become [`crate::table::MARK`].
//!
//! The caller must hold the stripe lock.

use std::time::Duration;

use block::{Buffer, IoError, Verb, length_of, slices, zeros};
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

/// Pauses between attempts to read the data that parity is computed from, in milliseconds.
const PAUSES_MS: [u64; 4] = [100, 300, 600, 1000];

/// New bytes for one unit.
#[derive(Clone)]
pub(crate) struct Part {
    /// Index of the data unit in its stripe.
    pub(crate) index: usize,
    /// Byte offset in the unit.
    pub(crate) within: u64,
    pub(crate) data: Vec<Bytes>,
}

impl Part {
    fn end(&self) -> u64 {
        self.within + length_of(&self.data)
    }

    /// Whether the part covers the whole column.
    fn covers(&self, column: &Column) -> bool {
        self.within <= column.from && column.to <= self.end()
    }

    /// Adds the part to the sum of a column.
    fn add_to(&self, sum: &mut [u8], column: &Column) {
        let mut at = (self.within - column.from) as usize;
        for piece in &self.data {
            add(&mut sum[at..][..piece.len()], piece);
            at += piece.len();
        }
    }

    /// Copies the part into a unit's bytes of the column.
    fn put_on(&self, unit: &mut Given, column: &Column) {
        let first = (self.within - column.from) / BLOCK;
        let bytes = Buffer::joined(&self.data);
        for (block, bytes) in (first as usize..).zip(bytes.chunks_exact(BLOCK as usize)) {
            unit.put(block, bytes);
        }
    }

    /// Whether the part has a block of the column.
    fn has(&self, column: &Column, block: usize) -> bool {
        let at = column.from + block as u64 * BLOCK;
        self.within <= at && at < self.end()
    }

    /// The part's bytes that are in a column, if any.
    fn within(&self, column: &Column) -> Option<Self> {
        let (from, to) = (self.within.max(column.from), self.end().min(column.to));
        let data = || slices(&self.data, (from - self.within) as usize, (to - from) as usize);
        (from < to).then(|| Self { index: self.index, within: from, data: data() })
    }
}

/// The smallest column that covers all these parts.
fn column_of(stripe: u64, parts: &[Part]) -> Column {
    let from = parts.iter().map(|part| part.within).min().unwrap_or_default();
    let to = parts.iter().map(Part::end).max().unwrap_or_default();
    Column::around(stripe, from, to)
}

/// The columns that these parts touch, without the gaps between them, each with its parts.
fn columns_of(stripe: u64, parts: &[Part]) -> Vec<(Column, Vec<Part>)> {
    let mut sorted = parts.to_vec();
    sorted.sort_by_key(|part| part.within);
    let mut columns: Vec<(Column, Vec<Part>)> = Vec::new();
    for part in sorted {
        match columns.last_mut() {
            Some((column, parts)) if part.within <= column.to || is_planted(Bug::WideColumns) => {
                column.to = column.to.max(part.end());
                parts.push(part);
            }
            _ => columns.push((Column { stripe, from: part.within, to: part.end() }, vec![part])),
        }
    }
    columns
}

/// New parity of a column.
struct NewParity {
    bytes: Vec<u8>,
    /// For each block: whether something of the column is lost, so that its parity is meaningless.
    is_lost: Vec<bool>,
    /// Whether a disk that could not be read may have the lost data.
    is_unread: bool,
}

impl Stripe<'_> {
    /// Extends parts to whole blocks: the rest of a block keeps its old bytes, or becomes zeros if
    /// the stripe was never written.
    ///
    /// # Errors
    /// [`IoError`] when the old bytes are lost.
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
                Ok(self.unit_in_time(&block, part.index).await?.into())
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

    /// Reads a data unit's bytes of a column, with retries for a while if they are unreadable at
    /// the moment.
    ///
    /// # Errors
    /// [`IoError`] when a block of it is lost.
    async fn unit_in_time(&self, column: &Column, index: usize) -> Result<Vec<u8>, IoError> {
        for pause in PAUSES_MS.iter().filter(|_| !is_planted(Bug::HastyLosses)) {
            let given = self.given_unit(column, index).await;
            if !(0..column.blocks()).any(|block| !given.has(block) && given.is_unread(block)) {
                break;
            }
            self.members.clock.sleep(Duration::from_millis(*pause)).await;
        }
        self.unit(column, index).await.map_err(|_| lost(Verb::Read))
    }

    /// Plans the changes on each member.
    ///
    /// # Errors
    /// [`IoError`] when the other members could not give back the new data of a member that is out.
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
        for (column, parts) in columns_of(stripe, parts) {
            group.extend(self.plan_parity(&column, parity, &parts).await?);
        }
        Ok(group)
    }

    /// Plans the parity change of a column for a write to these parts.
    ///
    /// # Errors
    /// [`IoError`] when the other members could not give back the new data of a member that is out.
    async fn plan_parity(
        &self,
        column: &Column,
        parity: usize,
        parts: &[Part],
    ) -> Result<Group, IoError> {
        if !self.members.takes(parity, column.stripe) {
            return Ok(vec![self.missed_parity(column, parity)]);
        }
        let NewParity { bytes, is_lost, .. } = self.parity_in_time(column, parity, parts).await;
        let member = |part: &Part| self.layout.member_of(column.stripe, part.index);
        let mut out = parts.iter().filter(|part| !self.members.takes(member(part), column.stripe));
        let is_nowhere = |part: &Part| {
            (0..column.blocks()).any(|block| is_lost[block] && part.has(column, block))
        };
        if out.any(is_nowhere) && !is_planted(Bug::WrittenNowhere) {
            return Err(lost(Verb::Write));
        }
        let (bytes, mut block, mut group) = (Bytes::from(bytes), 0, Group::new());
        // Lost blocks cannot be reconstructed any more.
        for run in is_lost.chunk_by(|one, next| one == next) {
            let (from, to) = (block * BLOCK, (block + run.len() as u64) * BLOCK);
            let (slots, offset) = (Slots::one(parity), column.offset(self.layout) + from);
            let data = vec![bytes.slice(from as usize..to as usize)];
            group.push(Change { is_lost: run[0], ..Change::new(slots, offset, data) });
            block += run.len() as u64;
        }
        Ok(group)
    }

    /// New parity of a column, with retries for a while if data is unreadable at the moment.
    async fn parity_in_time(&self, column: &Column, parity: usize, parts: &[Part]) -> NewParity {
        let has_block = |block| parts.iter().any(|part| part.has(column, block));
        let is_gapless = (0..column.blocks()).all(has_block);
        assert!(is_gapless || is_planted(Bug::WideColumns), "invariant 1");
        for pause in PAUSES_MS.iter().filter(|_| !is_planted(Bug::HastyLosses)) {
            let made = self.new_parity(column, parity, parts).await;
            if !made.is_unread {
                return made;
            }
            self.members.clock.sleep(Duration::from_millis(*pause)).await;
        }
        self.new_parity(column, parity, parts).await
    }

    /// Change that marks parity missed by a member that is out: it reconstructs nothing any more.
    fn missed_parity(&self, column: &Column, parity: usize) -> Change {
        let (slots, offset) = (Slots::one(parity), column.offset(self.layout));
        let missed = Change::zeros(slots, offset, column.length() as u64);
        Change { is_lost: true, ..missed }
    }

    /// Plans the first write of a stripe: all of it becomes these parts and zeros.
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

    /// New parity of a column after these parts are written.
    async fn new_parity(&self, column: &Column, parity: usize, parts: &[Part]) -> NewParity {
        let known =
            |bytes| NewParity { bytes, is_lost: vec![false; column.blocks()], is_unread: false };
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
        let unread: Vec<bool> =
            (0..column.blocks()).map(|block| units.iter().any(|it| it.is_unread(block))).collect();
        for part in parts {
            part.put_on(&mut units[part.index], column);
        }
        let sum = Given::sum(column, &units);
        let is_lost = (0..column.blocks()).map(|block| !sum.has(block)).collect();
        let mut made = NewParity { bytes: sum.bytes, is_lost, is_unread: false };
        for block in (0..column.blocks()).filter(|_| !is_planted(Bug::WideColumns)) {
            if made.is_lost[block] && !self.make_by_change(column, parts, block, &mut made).await {
                made.is_unread |= unread[block];
            }
        }
        made
    }

    /// Computes a block of new parity from the old parity and old data, using all present disks.
    /// Returns whether that is possible.
    async fn make_by_change(
        &self,
        column: &Column,
        parts: &[Part],
        block: usize,
        made: &mut NewParity,
    ) -> bool {
        let from = column.from + block as u64 * BLOCK;
        let one = Column { from, to: from + BLOCK, ..*column };
        let parts: Vec<Part> = parts.iter().filter_map(|part| part.within(&one)).collect();
        let old = self.all(&one).await;
        let mut needed = parts.iter().map(|part| &old[part.index]).chain(old.last());
        let is_there = needed.all(|given| given.is_good());
        if is_there {
            let mut sum = old[old.len() - 1].bytes.clone();
            for part in &parts {
                add(&mut sum, &old[part.index].bytes);
                part.add_to(&mut sum, &one);
            }
            made.bytes[block * BLOCK as usize..][..BLOCK as usize].copy_from_slice(&sum);
            made.is_lost[block] = false;
        }
        is_there
    }

    /// New parity from the old one and the bytes that the parts overwrite. `None` if those cannot
    /// be read.
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

    /// A member's bytes of a column, if all of them are good.
    async fn good(&self, column: &Column, member: usize) -> Option<Vec<u8>> {
        let given = self.give(column, member).await;
        given.is_good().then_some(given.bytes)
    }
}
