//! Selects the disks to ask for a missing block, in one place.
//!
//! *No present disk is passed over before a block is called lost.* If no member of a slot is in,
//! its blocks may be on the disk that is being filled or that has returned, on an out member that
//! is still plugged in, or on one that failed during its replacement. If another disk has taken its
//! place, or is about to, either of the two may have them. [`Stripe::sources`] returns those disks.
//! [`Stripe::mend`] and [`Stripe::mirror_of_others`] use it; reads, small writes, rebuild and scrub
//! go through these two.
//!
//! A candidate is verified against the checksum that the set has *now* for the block. Writes that
//! miss a member still change its checksums, so bytes from before the member went do not fit. If no
//! checksum is known, only a disk that cannot have missed the block is a source.
//!
//! Several blocks of a column may be missing at once, and several disks may have each of them. Then
//! all combinations of candidates are tried: a combination is right if the missing block that it
//! reconstructs fits that block's checksum. Bytes that do not fit their own checksum are candidates
//! for other blocks as well: disks that are wrong in the same way still give the right result.
//!
//! Invariants:
//! 1. The checksum of a block that is not found is not changed.
//! 2. A block that is not found is not written.
//!
//! Not asserted: 1 and 2, which are about blocks that remain unchanged.

use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer};

use crate::blocks::BLOCK;
use crate::label::Standing;
use crate::members::Members;
use crate::parity::missing;
use crate::planted::{Bug, is_planted};
use crate::stripe::{Agreed, Column, Found, Given, Stripe};
use crate::sums::TableUnread;
use crate::table::{MARK, sum_of};

/// Time to wait for a disk that is not a member. It may be out because it hangs.
pub(crate) const SOURCE_PATIENCE: Duration = Duration::from_secs(20);

/// How far to trust the bytes of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// It cannot have missed the block: its bytes count even without a known checksum.
    Member,
    /// It may have missed the block: its bytes count only if a checksum proves them.
    Checked,
}

/// A disk that may have the blocks of a slot.
struct Source {
    device: Rc<dyn BlockDevice>,
    trust: Trust,
}

/// A disk's bytes for a missing block, not proven by themselves.
#[derive(Clone)]
struct Candidate {
    bytes: Vec<u8>,
    /// Whether the bytes do not fit the block's checksum. Set also for a member's bytes of a block
    /// that was called lost.
    is_doubted: bool,
}

/// Answer of a source that was asked for a block.
enum Answer {
    Bytes(Vec<u8>),
    /// The source cannot be read, and may have the block.
    Unread,
    /// The source was closed for another use: it is no longer a source.
    Gone,
}

impl Members {
    /// Whether the disk of a slot lacks only what it is known to have missed.
    pub(crate) fn is_catching_up(&self, slot: usize) -> bool {
        self.coming() == Some(slot) && self.label().slots[slot].standing == Standing::CatchingUp
    }
}

/// Expected checksum of a block of a slot, as far as the set knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The block's checksum.
    Sum(u32),
    /// No checksum is known.
    Unknown,
    /// The checksum cannot be read at the moment.
    Untold,
    /// No disk has the block: it may be reconstructed from blocks that are all proven.
    Lost,
}

impl Stripe<'_> {
    /// The present disks of a slot that were not asked yet: its own disk if that is not in, and the
    /// other disk of a replacement.
    fn sources(&self, slot: usize, stripe: u64) -> Vec<Source> {
        let members = self.members;
        if is_planted(Bug::UnaskedReturns) {
            return Vec::new();
        }
        let others = members.bystanders(slot).into_iter();
        let others = others.map(|device| Source { device, trust: Trust::Checked });
        if members.has(slot) {
            return others.collect();
        }
        let has_missed_nothing =
            members.is_catching_up(slot) && !self.missed.has(stripe) || members.takes(slot, stripe);
        let trust = if has_missed_nothing { Trust::Member } else { Trust::Checked };
        let own = members.present(slot).map(|device| Source { device, trust });
        own.into_iter().chain(others).collect()
    }

    /// Whether the tables have the checksums of a slot's last durable bytes. Those of a member that
    /// went out under an older program may be older.
    pub(crate) fn is_current(&self, slot: usize, stripe: u64) -> bool {
        self.members.takes(slot, stripe) || self.missed.is_summed() || !self.missed.has(stripe)
    }

    /// Expected checksum of a block of a slot, as far as the set knows it.
    pub(crate) async fn expected(&self, slot: usize, stripe: u64, offset: u64) -> Expected {
        match self.sums.of(slot, offset, BLOCK).await.map(|sums| sums.sum(offset)) {
            _ if !self.is_current(slot, stripe) => Expected::Unknown,
            Err(TableUnread) => Expected::Untold,
            Ok(0) => Expected::Unknown,
            Ok(MARK) => Expected::Lost,
            Ok(sum) => Expected::Sum(sum),
        }
    }

    /// The verdict of a mirror's tables on a block.
    pub(crate) async fn agreed(&self, offset: u64) -> Agreed {
        let mut agreed = Agreed::Unknown;
        for slot in self.members.slots().iter() {
            let sum = self.sums.of(slot, offset, BLOCK).await.map(|sums| sums.sum(offset));
            agreed = match (agreed, sum) {
                (Agreed::Unknown, Err(TableUnread)) => Agreed::Untold,
                (_, Err(TableUnread) | Ok(0 | MARK)) => agreed,
                (Agreed::Unknown | Agreed::Untold, Ok(sum)) => Agreed::On(sum),
                (Agreed::On(other), Ok(sum)) if other == sum => agreed,
                (Agreed::On(_) | Agreed::Not, Ok(_)) => Agreed::Not,
            };
        }
        agreed
    }

    /// Reconstructs each block that a member does not give, from everything that the present disks
    /// give.
    pub(crate) async fn mend(&self, column: &Column, all: &[usize], given: &mut [Given]) {
        for block in 0..column.blocks() {
            if missing_of(given, block).is_empty() {
                continue;
            }
            self.make(column, all, given, block).await;
            if missing_of(given, block).is_empty() {
                continue;
            }
            let candidates = self.ask_others(column, all, given, block).await;
            self.make(column, all, given, block).await;
            for are_all in [false, true] {
                while self.combine(column, all, given, (block, &candidates, are_all)).await {}
            }
            self.make(column, all, given, block).await;
            let bad = missing_of(given, block);
            if bad.iter().any(|&place| given[place].is_unread(block)) {
                bad.iter().for_each(|&place| given[place].wait_for(block));
            }
        }
    }

    /// Reconstructs a block from the others of its column, if it is the only one missing.
    async fn make(&self, column: &Column, all: &[usize], given: &mut [Given], block: usize) {
        let [bad] = missing_of(given, block)[..] else { return };
        let others = || given.iter().enumerate().filter(|(place, _)| *place != bad);
        let made = missing(BLOCK as usize, others().map(|(_, given)| given.block(block)));
        let are_known = others().all(|(_, given)| given.is_known(block));
        let (slot, offset) = (all[bad], self.offset(column, block));
        let found = given[bad].found(block);
        if found == Found::Wrong && given[bad].block(block) == made && are_known {
            self.correct_sum(slot, offset, &made).await;
            return given[bad].put(block, &made);
        }
        let is_parity = bad + 1 == given.len();
        let is_right = match self.expected(slot, column.stripe, offset).await {
            Expected::Sum(sum) if sum == sum_of(&made) => true,
            Expected::Unknown => true,
            Expected::Lost | Expected::Untold => are_known,
            // Parity follows from proven data, and so does a block that is marked as lost.
            Expected::Sum(_) => are_known && (is_parity || found == Found::Lost),
        };
        if is_right {
            self.accept(slot, offset, &made).await;
            given[bad].put(block, &made);
        }
    }

    /// Asks the other disks of each slot whose block is missing. Returns the bytes that nothing
    /// proves by themselves, by place, and the members' own wrong bytes.
    async fn ask_others(
        &self,
        column: &Column,
        all: &[usize],
        given: &mut [Given],
        block: usize,
    ) -> Vec<Vec<Candidate>> {
        let mut candidates = vec![Vec::new(); given.len()];
        for place in missing_of(given, block) {
            if given[place].is_read(block) && !is_planted(Bug::ForgottenRot) {
                let bytes = given[place].block(block).to_vec();
                candidates[place].push(Candidate { bytes, is_doubted: true });
            }
            let (slot, offset) = (all[place], self.offset(column, block));
            let expected = self.expected(slot, column.stripe, offset).await;
            for source in self.sources(slot, column.stripe) {
                let bytes = match self.ask(&source, offset).await {
                    Answer::Bytes(bytes) => bytes,
                    Answer::Unread => {
                        given[place].wait_for(block);
                        continue;
                    }
                    Answer::Gone => continue,
                };
                match expected {
                    Expected::Sum(sum) if sum == sum_of(&bytes) => {
                        self.accept(slot, offset, &bytes).await;
                        given[place].put(block, &bytes);
                        break;
                    }
                    Expected::Unknown if source.trust == Trust::Member => {
                        given[place].put_unknown(block, &bytes);
                        break;
                    }
                    Expected::Sum(_) | Expected::Unknown | Expected::Untold | Expected::Lost => {
                        let is_doubted = matches!(expected, Expected::Sum(_));
                        candidates[place].push(Candidate { bytes, is_doubted });
                    }
                }
            }
        }
        candidates
    }

    /// Tries combinations of unproven candidates: one is right if another missing block,
    /// reconstructed from it, fits that block's checksum. `are_all` includes bytes that do not fit
    /// their own checksums, since two disks may be wrong in the same way; then only the
    /// reconstructed block is accepted. Returns whether a block was found.
    ///
    /// All targets are tried before any is accepted: the wrong bytes of one may be what another is
    /// made of.
    async fn combine(
        &self,
        column: &Column,
        all: &[usize],
        given: &mut [Given],
        (block, candidates, are_all): (usize, &[Vec<Candidate>], bool),
    ) -> bool {
        let (offset, bad) = (self.offset(column, block), missing_of(given, block));
        let mut found: Vec<(usize, Vec<u8>)> = Vec::new();
        for &target in bad.iter().filter(|_| bad.len() > 1) {
            let expected = self.expected(all[target], column.stripe, offset).await;
            let Expected::Sum(sum) = expected else { continue };
            let rest = bad.iter().filter(|&&place| place != target);
            let of_place = |&place: &usize| {
                let counts = |it: &&Candidate| are_all || !it.is_doubted;
                (place, candidates[place].iter().filter(counts).collect())
            };
            let rest: Vec<(usize, Vec<&Candidate>)> = rest.map(of_place).collect();
            for rest in combinations(&rest) {
                let good = (0..given.len()).filter(|place| !bad.contains(place));
                let good = good.map(|place| given[place].block(block));
                let made = good.chain(rest.iter().map(|(_, it)| &it.bytes[..]));
                let made = missing(BLOCK as usize, made);
                if sum_of(&made) != sum {
                    continue;
                }
                let proven = rest.iter().filter(|_| !are_all);
                found.extend(proven.map(|(place, it)| (*place, it.bytes.clone())));
                found.push((target, made));
                break;
            }
        }
        for (place, bytes) in &found {
            if !given[*place].has(block) {
                self.accept(all[*place], offset, bytes).await;
                given[*place].put(block, bytes);
            }
        }
        !found.is_empty()
    }

    /// Finds a block of a mirror that no member gives on the other disks.
    pub(crate) async fn mirror_of_others(
        &self,
        column: &Column,
        block: usize,
        agreed: Agreed,
    ) -> Result<Vec<u8>, Found> {
        let (offset, mut why) = (self.offset(column, block), Found::Absent);
        let sources = (0..self.layout.members).flat_map(|slot| self.sources(slot, column.stripe));
        for source in sources {
            let bytes = match self.ask(&source, offset).await {
                Answer::Bytes(bytes) => bytes,
                Answer::Unread => {
                    why = Found::Unread;
                    continue;
                }
                Answer::Gone => continue,
            };
            let is_right = match agreed {
                Agreed::On(sum) => sum == sum_of(&bytes),
                Agreed::Unknown => source.trust == Trust::Member,
                Agreed::Untold | Agreed::Not => false,
            };
            if is_right {
                return Ok(bytes);
            }
        }
        Err(why)
    }

    /// Reads a block from a source.
    async fn ask(&self, source: &Source, offset: u64) -> Answer {
        let (at, room) = (self.data_start + offset, Buffer::unfilled(BLOCK as usize));
        match self.members.ask(&source.device, at, room).await {
            Some(Ok(bytes)) => Answer::Bytes(bytes.to_vec()),
            Some(Err(error)) if error.kind == ErrorKind::NotConnected => Answer::Gone,
            Some(Err(_)) | None => Answer::Unread,
        }
    }

    /// Writes a block that was found to its member, if that is in.
    async fn accept(&self, slot: usize, offset: u64, bytes: &[u8]) {
        if self.members.has(slot) {
            self.put(slot, offset, bytes).await;
        }
    }

    /// Offset of a column's block in a member's data area.
    pub(crate) fn offset(&self, column: &Column, block: usize) -> u64 {
        column.offset(self.layout) + block as u64 * BLOCK
    }
}

/// All choices of one candidate for each place.
fn combinations<'c, C>(places: &[(usize, Vec<&'c C>)]) -> Vec<Vec<(usize, &'c C)>> {
    let none = vec![Vec::new()];
    places.iter().fold(none, |chosen, (place, candidates)| {
        let with = |chosen: &Vec<(usize, &'c C)>, candidate: &'c C| {
            [&chosen[..], &[(*place, candidate)]].concat()
        };
        let all = chosen.iter().flat_map(|it| candidates.iter().map(move |one| with(it, one)));
        all.collect()
    })
}

/// The places in a column whose block is missing.
fn missing_of(given: &[Given], block: usize) -> Vec<usize> {
    (0..given.len()).filter(|&place| !given[place].has(block)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_of_a_place_meets_every_candidate_of_the_others() {
        let (two, one) = (vec![&1, &2], vec![&3]);
        let all = combinations(&[(0, two.clone()), (4, one)]);
        assert_eq!(all, [[(0, &1), (4, &3)], [(0, &2), (4, &3)]]);
        assert!(combinations(&[(0, two), (4, Vec::new())]).is_empty(), "a place has none");
    }
}
