//! What of a stripe is there.
//!
//! A *column* is the same blocks of each unit of a stripe: they come to zeros together. What a
//! member gives is judged block by block, by its sum. A block that cannot be read, or does not fit,
//! is made of what the others give; that has to fit the sum, and is written there once more. Where
//! a block that does not fit is what the others give, the sum is the wrong one, and is changed.
//! What neither the member nor the others can tell is lost, block by block, until it is written
//! anew.
//!
//! To be called by a task that is alone with the stripe.

use block::{Buffer, IoError, Verb};
use bytes::Bytes;
use futures::future::{join, join_all};

use crate::blocks::{BLOCK, Blocks};
use crate::layout::{Layout, Level};
use crate::members::{Members, lost};
use crate::parity::missing;
use crate::sums::Sums;

/// The same blocks of each unit of a stripe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) stripe: u64,
    /// Where in the units, in bytes: whole blocks.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Column {
    /// The smallest that has these bytes of a unit.
    pub(crate) fn around(stripe: u64, from: u64, to: u64) -> Self {
        Self { stripe, from: from / BLOCK * BLOCK, to: to.next_multiple_of(BLOCK) }
    }

    pub(crate) fn length(&self) -> usize {
        (self.to - self.from) as usize
    }

    /// Where it is in the data area of a member.
    pub(crate) fn offset(&self, layout: &Layout) -> u64 {
        self.stripe * layout.unit + self.from
    }

    pub(crate) fn blocks(&self) -> usize {
        self.length() / BLOCK as usize
    }
}

/// How a block of a member was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// It fits its sum, or was made.
    Good,
    /// Nothing is known of its sum.
    Unknown,
    /// It does not fit its sum.
    Wrong,
    /// It is marked as lost.
    Lost,
    /// It cannot be read, or its member is out.
    Unread,
}

/// What a member gave of a column.
#[derive(Clone)]
pub(crate) struct Given {
    pub(crate) bytes: Vec<u8>,
    found: Vec<Found>,
}

impl Given {
    fn all(bytes: Vec<u8>, found: Found) -> Self {
        let blocks = bytes.len() / BLOCK as usize;
        Self { bytes, found: vec![found; blocks] }
    }

    /// What makes units come to zeros. What is lost of one is lost of it.
    pub(crate) fn sum(column: &Column, units: &[Self]) -> Self {
        let bytes = missing(column.length(), units.iter().map(|unit| unit.bytes.as_slice()));
        let mut sum = Self::all(bytes, Found::Good);
        for (block, found) in sum.found.iter_mut().enumerate() {
            if !units.iter().all(|unit| unit.has(block)) {
                *found = Found::Unread;
                // Else it would make the very bytes again that are wrong.
                sum.bytes[block * BLOCK as usize..][..BLOCK as usize]
                    .iter_mut()
                    .for_each(|byte| *byte = !*byte);
            }
        }
        sum
    }

    /// Whether all of it is there.
    pub(crate) fn is_good(&self) -> bool {
        (0..self.found.len()).all(|block| self.has(block))
    }

    /// Whether a block of it is.
    pub(crate) fn has(&self, block: usize) -> bool {
        self.is_known(block) || self.found[block] == Found::Unknown
    }

    /// Whether a block of it is, by its sum.
    pub(crate) fn is_known(&self, block: usize) -> bool {
        self.found[block] == Found::Good
    }

    pub(crate) fn block(&self, block: usize) -> &[u8] {
        &self.bytes[block * BLOCK as usize..][..BLOCK as usize]
    }

    pub(crate) fn put(&mut self, block: usize, bytes: &[u8]) {
        self.bytes[block * BLOCK as usize..][..BLOCK as usize].copy_from_slice(bytes);
        self.found[block] = Found::Good;
    }
}

/// A stripe of a set.
pub(crate) struct Stripe<'s> {
    pub(crate) members: &'s Members,
    pub(crate) layout: &'s Layout,
    pub(crate) data_start: u64,
    pub(crate) blocks: &'s Blocks,
    pub(crate) sums: &'s Sums,
}

impl Stripe<'_> {
    /// What a unit of data has of a column.
    ///
    /// # Errors
    /// [`IoError`] when a block of it is lost.
    pub(crate) async fn unit(&self, column: &Column, index: usize) -> Result<Vec<u8>, IoError> {
        let given = match self.layout.level {
            Level::Mirrored => self.mirrors(column).await,
            _ => self.units(column, &[index]).await.swap_remove(index),
        };
        if given.is_good() { Ok(given.bytes) } else { Err(lost(Verb::Read)) }
    }

    /// What these units of data have of a column; the others may be anything.
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

    /// What mirrors have of a column.
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

    /// What these mirrors have given comes to; what one has not is written there.
    pub(crate) async fn agree(
        &self,
        column: &Column,
        slots: &[usize],
        mut given: Vec<Given>,
    ) -> Given {
        let mut all = Given::all(vec![0; column.length()], Found::Unread);
        for block in 0..column.blocks() {
            let wrong = || given.iter().filter(|it| it.found[block] == Found::Wrong);
            let is_marked = given.iter().any(|it| it.found[block] == Found::Lost);
            let are_one =
                || !is_marked && wrong().count() > 1 && is_one(wrong().map(|it| it.block(block)));
            let known = given.iter().find(|it| it.is_known(block));
            let good = match known.or(given.iter().find(|it| it.has(block))) {
                Some(good) => good.block(block).to_vec(),
                // No disk is wrong in the same way as another.
                None if are_one() => wrong().next().expect("some").block(block).to_vec(),
                None => continue,
            };
            for (&slot, given) in slots.iter().zip(&mut given) {
                if given.has(block) && given.block(block) != good {
                    given.found[block] = Found::Unread; // it has missed a write, with its sum
                }
                self.settle(column, block, slot, given, &good, true).await;
            }
            all.put(block, &good);
        }
        all
    }

    /// Makes of each block that one member alone cannot tell what the others give.
    pub(crate) async fn mend(&self, column: &Column, all: &[usize], given: &mut [Given]) {
        for block in 0..column.blocks() {
            let bad: Vec<usize> =
                (0..given.len()).filter(|&place| !given[place].has(block)).collect();
            let [bad] = bad[..] else { continue };
            let others = given.iter().enumerate().filter(|(place, _)| *place != bad);
            let made = missing(BLOCK as usize, others.map(|(_, given)| given.block(block)));
            self.settle(column, block, all[bad], &mut given[bad], &made, false).await;
        }
    }

    /// Writes a block that is known, with its sum.
    pub(crate) async fn put(&self, slot: usize, offset: u64, bytes: &[u8]) {
        let (at, data) = (self.data_start + offset, Bytes::copy_from_slice(bytes));
        // Without room it stays as it is: who reads does not wait for that.
        if self.members.write_if_room(slot, at, data).await {
            self.sums.of(slot, offset, BLOCK).await.take(offset, bytes);
            self.members.counts.meet(slot, |met| met.mended += 1);
        }
    }

    /// A block is what others give, if its member knows nothing better. `is_sure` if they are known
    /// to give the same.
    async fn settle(
        &self,
        column: &Column,
        block: usize,
        slot: usize,
        given: &mut Given,
        good: &[u8],
        is_sure: bool,
    ) {
        let found = given.found[block];
        if found == Found::Good || found == Found::Unknown && given.block(block) == good {
            return;
        }
        if self.members.has(slot) {
            let offset = column.offset(self.layout) + block as u64 * BLOCK;
            let in_hand = self.sums.of(slot, offset, BLOCK).await;
            if found == Found::Wrong && given.block(block) == good {
                in_hand.take(offset, good);
                self.members.counts.meet(slot, |met| met.mended += 1);
            } else if is_sure || in_hand.fit(offset, good).all(|fits| fits) {
                self.put(slot, offset, good).await;
            } else {
                return; // the others are wrong as well
            }
        }
        given.put(block, good);
    }

    /// What a member has of a column.
    pub(crate) async fn give(&self, column: &Column, member: usize) -> Given {
        let (offset, length) = (column.offset(self.layout), column.length());
        if !self.members.has(member) {
            return Given::all(vec![0; length], Found::Unread);
        }
        if let Some(known) = self.blocks.find(member, offset, length as u64) {
            return Given::all(known, Found::Good);
        }
        let sums = self.sums.of(member, offset, length as u64);
        let (mut given, in_hand) = join(self.read(column, member), sums).await;
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

    /// Reads what a member has of a column, if need be block by block.
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

/// Whether all of these are the same.
fn is_one<'b>(mut blocks: impl Iterator<Item = &'b [u8]>) -> bool {
    let first = blocks.next();
    blocks.all(|block| Some(block) == first)
}
