//! Reads, verifies and repairs a stripe.
//!
//! A *column* is the same blocks of each unit of a stripe; their exclusive or is zero. A member's
//! bytes are verified block by block against the checksums. A block that cannot be read, or does
//! not fit, is reconstructed from the others; the result must fit the checksum and is then
//! rewritten on the member. If a block that does not fit equals what the others give, the checksum
//! is wrong and is corrected. A block that neither its member nor the others can give is lost until
//! it is written anew.
//!
//! The caller must hold the stripe lock.

use std::collections::BTreeSet;

use block::{Buffer, IoError, Verb};
use bytes::Bytes;
use futures::future::{join, join_all};

use crate::blocks::{BLOCK, Blocks};
use crate::layout::{Layout, Level};
use crate::members::{Members, lost, unread};
use crate::missed::Missed;
use crate::parity::missing;
use crate::planted::{Bug, is_planted};
use crate::sums::Sums;
use crate::table::sum_of;

/// The same blocks of each unit of a stripe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) stripe: u64,
    /// Byte range in the units: whole blocks.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Column {
    /// The smallest column that has these bytes of a unit.
    pub(crate) fn around(stripe: u64, from: u64, to: u64) -> Self {
        Self { stripe, from: from / BLOCK * BLOCK, to: to.next_multiple_of(BLOCK) }
    }

    pub(crate) fn length(&self) -> usize {
        (self.to - self.from) as usize
    }

    /// Offset in a member's data area.
    pub(crate) fn offset(&self, layout: &Layout) -> u64 {
        self.stripe * layout.unit + self.from
    }

    pub(crate) fn blocks(&self) -> usize {
        self.length() / BLOCK as usize
    }
}

/// Verdict on a block of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It fits its checksum, or was reconstructed.
    Good,
    /// Its checksum is unknown.
    Unknown,
    /// It does not fit its checksum.
    Wrong,
    /// It is marked as lost.
    Lost,
    /// It cannot be read.
    Unread,
    /// It was read, and its checksum cannot be read at the moment.
    Untold,
    /// Its member is out.
    Absent,
}

/// Checksum of a mirror's block by the tables of all active members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreed {
    /// All tables that know the checksum agree on this.
    On(u32),
    /// No table knows it.
    Unknown,
    /// No table that can be read knows it.
    Untold,
    /// The tables contradict each other.
    Not,
}

/// A member's bytes of a column, with a verdict on each block.
#[derive(Clone)]
pub(crate) struct Given {
    pub(crate) bytes: Vec<u8>,
    found: Vec<Found>,
    /// Blocks that a disk may have that could not be read.
    waiting: BTreeSet<usize>,
}

impl Given {
    fn all(bytes: Vec<u8>, found: Found) -> Self {
        let blocks = bytes.len() / BLOCK as usize;
        Self { bytes, found: vec![found; blocks], waiting: BTreeSet::new() }
    }

    /// The exclusive or of units. A block missing in one unit is missing in the result.
    pub(crate) fn sum(column: &Column, units: &[Self]) -> Self {
        let bytes = missing(column.length(), units.iter().map(|unit| unit.bytes.as_slice()));
        let mut sum = Self::all(bytes, Found::Good);
        for (block, found) in sum.found.iter_mut().enumerate() {
            if !units.iter().all(|unit| unit.has(block)) {
                *found = Found::Unread;
                // Otherwise it would reproduce the very bytes that are wrong.
                sum.bytes[block * BLOCK as usize..][..BLOCK as usize]
                    .iter_mut()
                    .for_each(|byte| *byte = !*byte);
            }
        }
        sum
    }

    /// Whether all blocks are there.
    pub(crate) fn is_good(&self) -> bool {
        (0..self.found.len()).all(|block| self.has(block))
    }

    /// Whether a block is there.
    pub(crate) fn has(&self, block: usize) -> bool {
        self.is_known(block) || self.found[block] == Found::Unknown
    }

    /// Whether a block is there and proven by its checksum.
    pub(crate) fn is_known(&self, block: usize) -> bool {
        self.found[block] == Found::Good
    }

    /// Verdict on a block.
    pub(crate) fn found(&self, block: usize) -> Found {
        self.found[block]
    }

    /// Whether the bytes were read from the member, right or wrong.
    pub(crate) fn is_read(&self, block: usize) -> bool {
        !matches!(self.found[block], Found::Unread | Found::Absent)
    }

    /// Whether a disk that could not be read may have a block, or its checksum.
    pub(crate) fn is_unread(&self, block: usize) -> bool {
        matches!(self.found[block], Found::Unread | Found::Untold) || self.waiting.contains(&block)
    }

    /// Whether a block was read, and nothing proves or refutes it.
    fn is_untold(&self, block: usize) -> bool {
        self.found[block] == Found::Untold
    }

    /// Marks a block as one that an unreadable disk may have.
    pub(crate) fn wait_for(&mut self, block: usize) {
        self.waiting.insert(block);
    }

    pub(crate) fn block(&self, block: usize) -> &[u8] {
        &self.bytes[block * BLOCK as usize..][..BLOCK as usize]
    }

    pub(crate) fn put(&mut self, block: usize, bytes: &[u8]) {
        self.bytes[block * BLOCK as usize..][..BLOCK as usize].copy_from_slice(bytes);
        self.found[block] = Found::Good;
    }

    /// Sets a block that none of these copies proves, if those that were read are one.
    fn put_untold(&mut self, block: usize, copies: &[Self]) {
        let mut read = copies.iter().filter(|it| it.is_read(block)).peekable();
        let Some(first) = read.peek().map(|it| it.block(block).to_vec()) else { return };
        if read.all(|it| it.is_untold(block) && it.block(block) == first) {
            self.put(block, &first);
            self.found[block] = Found::Untold;
        }
    }

    /// Sets a block for which no checksum is known.
    pub(crate) fn put_unknown(&mut self, block: usize, bytes: &[u8]) {
        self.put(block, bytes);
        self.found[block] = Found::Unknown;
    }
}

/// Access to the stripes of a set.
pub(crate) struct Stripe<'s> {
    pub(crate) members: &'s Members,
    pub(crate) layout: &'s Layout,
    pub(crate) data_start: u64,
    pub(crate) blocks: &'s Blocks,
    pub(crate) sums: &'s Sums,
    pub(crate) missed: &'s Missed,
}

impl Stripe<'_> {
    /// A data unit's bytes of a column. If checksums cannot be read, and nothing else refutes them,
    /// the bytes of a member that is in count: it has missed nothing.
    ///
    /// # Errors
    /// [`lost`] when a block of it is lost, [`unread`] when disks may give all of them later.
    pub(crate) async fn unit(&self, column: &Column, index: usize) -> Result<Vec<u8>, IoError> {
        let given = self.given_unit(column, index).await;
        let is_missing = |&block: &usize| !given.has(block) && !given.is_untold(block);
        let mut missing = (0..column.blocks()).filter(is_missing).peekable();
        if missing.peek().is_none() {
            Ok(given.bytes)
        } else if missing.any(|block| !given.is_unread(block)) || is_planted(Bug::HastyReads) {
            Err(lost(Verb::Read))
        } else {
            Err(unread(Verb::Read))
        }
    }

    /// A data unit's bytes of a column, with a verdict on each block.
    pub(crate) async fn given_unit(&self, column: &Column, index: usize) -> Given {
        match self.layout.level {
            Level::Mirrored => self.mirrors(column).await,
            _ => self.units(column, &[index]).await.swap_remove(index),
        }
    }

    /// Bytes of the `needed` data units of a column; the other units' bytes are undefined.
    pub(crate) async fn units(&self, column: &Column, needed: &[usize]) -> Vec<Given> {
        let width = self.layout.width() as usize;
        let all = &self.layout.members_of(column.stripe)[..];
        let reads = all[..width].iter().enumerate().map(|(index, &member)| async move {
            if needed.contains(&index) {
                return self.give(column, member).await;
            }
            Given::all(vec![0; column.length()], Found::Good)
        });
        let units = join_all(reads).await;
        if units.iter().all(Given::is_good) {
            return units;
        }
        let units = units.into_iter().map(Some).chain([None]).enumerate();
        let rest = units.map(|(place, unit)| async move {
            match unit.filter(|_| needed.contains(&place)) {
                Some(given) => given,
                None => self.give(column, all[place]).await,
            }
        });
        let mut given = join_all(rest).await;
        self.mend(column, all, &mut given).await;
        given.truncate(width);
        given
    }

    /// All members' bytes of a column with parity, parity last.
    pub(crate) async fn all(&self, column: &Column) -> Vec<Given> {
        let all = self.layout.members_of(column.stripe);
        let mut given = join_all(all.iter().map(|&member| self.give(column, member))).await;
        self.mend(column, &all, &mut given).await;
        given
    }

    /// A mirror's bytes of a column.
    pub(crate) async fn mirrors(&self, column: &Column) -> Given {
        let count = self.layout.members;
        let slots: Vec<usize> =
            (0..count).map(|place| (column.stripe as usize + place) % count).collect();
        let first = self.give(column, slots[0]).await;
        if first.is_good() {
            return first;
        }
        let others = join_all(slots[1..].iter().map(|&slot| self.give(column, slot))).await;
        self.agree(column, &slots, [vec![first], others].concat()).await
    }

    /// Merges the copies of these mirrors; a copy that is missing or differs is rewritten.
    pub(crate) async fn agree(
        &self,
        column: &Column,
        slots: &[usize],
        mut given: Vec<Given>,
    ) -> Given {
        let mut all = Given::all(vec![0; column.length()], Found::Absent);
        for block in 0..column.blocks() {
            let first = &given[0];
            if given.iter().all(|it| it.is_known(block) && it.block(block) == first.block(block)) {
                let good = first.block(block).to_vec();
                all.put(block, &good);
                continue;
            }
            let good = match self.choose(column, &given, block).await {
                Ok(good) => good,
                Err((is_unread, agreed)) => {
                    if is_unread {
                        all.wait_for(block);
                    }
                    if agreed == Agreed::Untold {
                        all.put_untold(block, &given);
                    }
                    continue;
                }
            };
            for (&slot, given) in slots.iter().zip(&mut given) {
                if given.has(block) && given.block(block) != good {
                    given.found[block] = Found::Unread; // missed a write and its checksum
                }
                self.settle(column, block, slot, given, &good).await;
            }
            all.put(block, &good);
        }
        all
    }

    /// Chooses the valid copy of a mirror's block, or else asks other disks. The error says whether
    /// a disk that could not be read may have it, and what the tables say.
    async fn choose(
        &self,
        column: &Column,
        given: &[Given],
        block: usize,
    ) -> Result<Vec<u8>, (bool, Agreed)> {
        if let Some(known) = given.iter().find(|it| it.is_known(block)) {
            return Ok(known.block(block).to_vec());
        }
        let agreed = self.agreed(self.offset(column, block)).await;
        // A mirror whose own table lacks the checksum, or calls it lost, may have the block that
        // others know.
        let is_right = |it: &&Given| match agreed {
            Agreed::On(_) if is_planted(Bug::LonelyTables) && !it.has(block) => false,
            Agreed::On(sum) => it.is_read(block) && sum_of(it.block(block)) == sum,
            Agreed::Unknown | Agreed::Untold | Agreed::Not => it.has(block),
        };
        if let Some(right) = given.iter().find(is_right) {
            return Ok(right.block(block).to_vec());
        }
        let mut wrong = given.iter().filter(|it| it.found[block] == Found::Wrong);
        let is_marked = given.iter().any(|it| it.found[block] == Found::Lost);
        let are_one = wrong.clone().count() > 1 && is_one(wrong.clone().map(|it| it.block(block)));
        // Disks may be wrong in the same way; then tables that agree are right.
        let are_tables_wrong = agreed == Agreed::Not || is_planted(Bug::AgreedLosses);
        if are_one && !is_marked && are_tables_wrong {
            return Ok(wrong.next().expect("some").block(block).to_vec());
        }
        let of_others = self.mirror_of_others(column, block, agreed).await;
        let is_unread = given.iter().any(|it| it.is_unread(block)) || agreed == Agreed::Untold;
        of_others.map_err(|why| (is_unread || why == Found::Unread, agreed))
    }

    /// Replaces the wrong checksum of a block whose bytes are proven, if its table can be read.
    pub(crate) async fn correct_sum(&self, slot: usize, offset: u64, bytes: &[u8]) {
        if let Ok(sums) = self.sums.of(slot, offset, BLOCK).await
            && self.sums.takes_mends()
        {
            sums.take(offset, bytes);
            self.members.counts.meet(slot, |met| met.mended += 1);
        }
    }

    /// Writes a known block to a member, with its checksum.
    pub(crate) async fn put(&self, slot: usize, offset: u64, bytes: &[u8]) {
        let (at, data) = (self.data_start + offset, Bytes::copy_from_slice(bytes));
        // Bytes that its checksum may refute are the only ones that it may prove.
        let Ok(sums) = self.sums.of(slot, offset, BLOCK).await else { return };
        // Without space the block stays as it is: readers do not wait for space, not even for that
        // of tables.
        if !self.sums.takes_mends() {
            return;
        }
        if self.members.write_if_room(slot, at, data).await {
            sums.take(offset, bytes);
            if self.members.reads_back(slot, at, bytes).await {
                self.members.unread.forget_range(slot, offset, BLOCK);
                self.members.counts.meet(slot, |met| met.mended += 1);
            }
        }
    }

    /// Writes a known block to a mirror, unless the mirror has it.
    async fn settle(
        &self,
        column: &Column,
        block: usize,
        slot: usize,
        given: &mut Given,
        good: &[u8],
    ) {
        let found = given.found[block];
        if found == Found::Good || found == Found::Unknown && given.block(block) == good {
            return;
        }
        if self.members.has(slot) {
            let offset = self.offset(column, block);
            if found == Found::Wrong && given.block(block) == good {
                self.correct_sum(slot, offset, good).await;
            } else {
                self.put(slot, offset, good).await;
            }
        }
        given.put(block, good);
    }

    /// A member's bytes of a column, verified.
    pub(crate) async fn give(&self, column: &Column, member: usize) -> Given {
        let (offset, length) = (column.offset(self.layout), column.length());
        if !self.members.has(member) {
            return Given::all(vec![0; length], Found::Absent);
        }
        if let Some(known) = self.blocks.find(member, offset, length as u64) {
            return Given::all(known, Found::Good);
        }
        let sums = self.sums.of(member, offset, length as u64);
        let (mut given, in_hand) = join(self.read(column, member), sums).await;
        let Ok(in_hand) = in_hand else {
            let read = (0..column.blocks()).filter(|&block| given.found[block] == Found::Good);
            for block in read.collect::<Vec<_>>() {
                let is_lacking = self.members.unread.has(member, self.offset(column, block));
                given.found[block] = if is_lacking { Found::Unread } else { Found::Untold };
            }
            return given;
        };
        let fits: Vec<bool> = in_hand.fit(offset, &given.bytes).collect();
        for (block, fits) in fits.into_iter().enumerate() {
            let at = offset + block as u64 * BLOCK;
            given.found[block] = match given.found[block] {
                Found::Good if fits && in_hand.unknown(at, BLOCK) > 0 => Found::Unknown,
                Found::Good if !fits && in_hand.is_marked(at, given.block(block)) => Found::Lost,
                Found::Good if !fits => {
                    self.members.counts.meet(member, |met| met.checksum_errors += 1);
                    Found::Wrong
                }
                found => found,
            };
        }
        if (0..column.blocks()).all(|block| given.is_known(block)) {
            self.blocks.tell(member, offset, &given.bytes);
        }
        given
    }

    /// Reads a member's bytes of a column, block by block if need be.
    async fn read(&self, column: &Column, member: usize) -> Given {
        let at = self.data_start + column.offset(self.layout);
        let room = Buffer::unfilled(column.length());
        if let Some(read) = self.members.read(member, at, room).await {
            return Given::all(read.to_vec(), Found::Good);
        }
        let mut given = Given::all(vec![0; column.length()], Found::Unread);
        for block in 0..column.blocks() {
            let at = at + block as u64 * BLOCK;
            let room = Buffer::unfilled(BLOCK as usize);
            if let Some(read) = self.members.read(member, at, room).await {
                given.put(block, &read);
            }
        }
        given
    }
}

/// Whether all of these blocks are equal.
fn is_one<'b>(mut blocks: impl Iterator<Item = &'b [u8]>) -> bool {
    let first = blocks.next();
    blocks.all(|block| Some(block) == first)
}
