//! Writes and discards.
//!
//! A write goes to fresh buffers, and is answered when the NVRAM has it: durably, if it was written
//! through. A large one passes by, unless a buffer holds one of its blocks: an entry that the
//! medium has would come back over it after a crash. None to pinned blocks does: whoever pins them
//! waits for no disk.
//!
//! Invariants:
//! 1. Of one block one write or discard is under way at a time.
//! 2. A write passes by only where the medium has no entry that is not durably void.
//! 3. An entry has all sectors of its block that are dirty, and knows those that are lost.
//!
//! Not asserted: 1, which `Cache::hold` keeps; 2 and 3, which a cut shows to the model of
//! `tests/it`.

use std::ops::Range;

use block::{Buffer as Memory, Durability, IoError, Verb, gather, length_of, slices};
use bytes::Bytes;

use crate::cache::{AT_ONCE, Cache};
use crate::directory::{Buffer, Entry, EntryState};
use crate::format::{BLOCK, SECTOR, WHOLE, sum};
use crate::planted::{Bug, is_planted};

/// Writes of so many bytes pass by, if they can.
pub(crate) const LARGE: u64 = 128 << 10;

/// The blocks that a range touches.
pub(crate) fn places(offset: u64, length: u64) -> Range<u64> {
    offset / BLOCK..(offset + length).div_ceil(BLOCK)
}

/// The sectors of a block that a range of bytes has, a bit for each.
pub(crate) fn sectors(place: u64, range: &Range<u64>) -> u8 {
    let start = range.start.clamp(place * BLOCK, (place + 1) * BLOCK) - place * BLOCK;
    let end = range.end.clamp(place * BLOCK, (place + 1) * BLOCK) - place * BLOCK;
    let below = |bytes: u64| ((1_u32 << (bytes / SECTOR)) - 1) as u8;
    below(end) & !below(start)
}

impl Cache {
    pub(crate) async fn write(
        &self,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> Result<(), IoError> {
        let length = length_of(&data);
        self.below.geometry().check(Verb::Write, offset, length)?;
        if length == 0 {
            return Ok(());
        }
        let _open = self.gate.shared().await;
        self.check(Verb::Write)?;
        if self.passes() {
            return self.below.write(offset, data, durability).await;
        }
        if self.distrusts() {
            return self.write_past(offset, data, durability).await;
        }
        let all = places(offset, length);
        if length >= LARGE && !self.directory.borrow().pins(&all) {
            let held = self.hold(all.clone()).await;
            let is_held = self.directory.borrow().holds(all.clone());
            if !is_held || is_planted(Bug::BlindBypass) {
                return self.pass(offset, data, durability).await;
            }
            drop(held);
        }
        self.write_held(offset, &data, durability).await
    }

    /// Writes to the device below, past the memory.
    pub(crate) async fn pass(
        &self,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> Result<(), IoError> {
        let done = self.below.write(offset, data, durability).await;
        self.counts.borrow_mut().passes += 1;
        if done.is_ok() && durability == Durability::Plain {
            self.has_passed();
        }
        done
    }

    /// Writes to buffers.
    pub(crate) async fn write_held(
        &self,
        offset: u64,
        data: &[Bytes],
        durability: Durability,
    ) -> Result<(), IoError> {
        let range = offset..offset + length_of(data);
        let all = places(offset, length_of(data));
        for first in all.clone().step_by(AT_ONCE as usize) {
            let some = first..(first + AT_ONCE).min(all.end);
            self.write_some(some, &range, data, durability).await?;
        }
        // The battery may have become bad meanwhile.
        if durability == Durability::Through && self.distrusts() {
            self.bring_below(all.collect()).await?;
        }
        Ok(())
    }

    async fn write_some(
        &self,
        places: Range<u64>,
        range: &Range<u64>,
        data: &[Bytes],
        durability: Durability,
    ) -> Result<(), IoError> {
        let _held = self.hold(places.clone()).await;
        let count = (places.end - places.start) as usize;
        let buffers = self.take(count, range.start).await?;
        let mut composed = Vec::with_capacity(count);
        for place in places {
            match self.compose(place, range, data).await {
                Ok(block) => composed.push(block),
                Err(error) => {
                    self.directory.borrow_mut().give_back(buffers);
                    self.step();
                    return Err(error);
                }
            }
        }
        let entries: Vec<(Buffer, Entry, Bytes)> = {
            let mut directory = self.directory.borrow_mut();
            let begin = |((entry, bytes), buffer): ((Entry, Bytes), Buffer)| {
                let sequence = directory.begin(buffer, entry.place);
                (buffer, Entry { sequence, ..entry }, bytes)
            };
            composed.into_iter().zip(buffers).map(begin).collect()
        };
        let written = self.write_entries(&entries, durability).await;
        let mut directory = self.directory.borrow_mut();
        for (buffer, entry, _) in entries {
            match written {
                Ok(()) => directory.written(buffer, entry, durability == Durability::Through),
                Err(_) => directory.failed(buffer),
            }
        }
        drop(directory);
        self.step();
        if let Err(error) = &written {
            self.fail_memory(error);
        }
        if self.is_high() {
            self.wake.notify();
        }
        written
    }

    /// What a block is to hold: the new sectors, and the old ones that are dirty.
    async fn compose(
        &self,
        place: u64,
        range: &Range<u64>,
        data: &[Bytes],
    ) -> Result<(Entry, Bytes), IoError> {
        let mask = sectors(place, range);
        let start = range.start.max(place * BLOCK);
        let end = range.end.min((place + 1) * BLOCK);
        let (skip, length) = ((start - range.start) as usize, (end - start) as usize);
        let mut entry = Entry { place, sequence: 0, mask, lost: 0, data_sum: 0 };
        let current = self.directory.borrow().current(place);
        if let Some((_, _, state)) = current {
            let mut counts = self.counts.borrow_mut();
            match state {
                EntryState::Clean => counts.clean_hits += 1,
                _ => counts.dirty_hits += 1,
            }
        }
        if mask == WHOLE {
            let bytes = gather(data, skip, length);
            entry.data_sum = sum(&bytes);
            return Ok((entry, bytes));
        }
        let mut block = Memory::zeroed(BLOCK as usize);
        if let Some((buffer, old, state)) = current {
            entry.lost = if is_planted(Bug::ForgottenLoss) { 0 } else { old.lost & !mask };
            let is_dirty = matches!(state, EntryState::Dirty | EntryState::Destaging);
            let kept = old.mask & !mask;
            if is_dirty && kept != 0 && !is_planted(Bug::ForgottenSectors) {
                self.directory.borrow_mut().hold(buffer);
                let read = self.read_entry(buffer, &old).await;
                self.directory.borrow_mut().release(buffer);
                match read? {
                    Some(bytes) => {
                        entry.mask |= kept;
                        block.copy_from_slice(&bytes);
                    }
                    None => entry.lost |= kept,
                }
            }
        }
        let mut at = (start - place * BLOCK) as usize;
        for piece in slices(data, skip, length) {
            block[at..at + piece.len()].copy_from_slice(&piece);
            at += piece.len();
        }
        entry.data_sum = sum(&block);
        Ok((entry, block.freeze()))
    }

    pub(crate) async fn discard(&self, offset: u64, length: u64) -> Result<(), IoError> {
        self.below.geometry().check(Verb::Discard, offset, length)?;
        let _open = self.gate.shared().await;
        self.check(Verb::Discard)?;
        let whole = offset.div_ceil(BLOCK)..(offset + length) / BLOCK;
        if whole.start < whole.end {
            let _held = self.hold(whole.clone()).await;
            let drop_idle = || {
                let mut directory = self.directory.borrow_mut();
                for place in whole.clone() {
                    if !directory.is_destaging(place..place + 1) {
                        directory.drop_block(place);
                    }
                }
            };
            drop_idle();
            while self.directory.borrow().is_destaging(whole.clone()) {
                self.moved.wait().await;
            }
            drop_idle();
            self.step();
            return self.below.discard(offset, length).await;
        }
        self.below.discard(offset, length).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_sectors_of_each_block() {
        let range = 1024..9216;
        let masks: Vec<u8> = places(1024, 8192).map(|place| sectors(place, &range)).collect();
        assert_eq!(masks, [0b1111_1100, WHOLE, 0b0000_0011]);
        assert_eq!(sectors(7, &range), 0, "it does not touch that block");
    }
}
