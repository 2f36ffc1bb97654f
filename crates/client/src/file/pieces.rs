//! The pieces of a file that are not durable: which may be sent, and the effect of each reply.
//!
//! A piece is *unanswered* (it waits, or is in flight) or *answered*: the server has it, and may
//! lose it until a COMMIT covers it. A piece that the server has lost is unanswered again. A failed
//! piece is given up; its error is kept until it is reported.
//!
//! Invariants:
//! 1. At most [`Bounds::under_way`] pieces are in flight.
//! 2. No two overlapping pieces are in flight together: so the server gets them in the order in
//!    which they were sent.
//! 3. Answered pieces do not overlap: where a newer one was answered, older ones have ended,
//!    whether the server has them or they wait. So no overwritten byte is sent again.
//! 4. A piece is durable when its own reply says FILE_SYNC, or when a COMMIT that began after that
//!    reply returns the same verifier. Only then is it forgotten without an error.
//! 5. `answered_bytes` and `unanswered_bytes` are the sums over the pieces. Together they are at
//!    most `uncommitted_max` and `under_way` pieces.
//!
//! Not asserted: 4, which is about the promises of a server.
//!
//! Commit point: `commit_answered`, where durable bytes are dropped.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use nfs::nfs3::{Stability, Verifier};

use super::calls::Written;
use crate::call::CallError;
use crate::planted::{Bug, is_planted};

/// The most answered pieces that wait for a COMMIT, however small they are.
const ANSWERED_MAX: usize = 4096;

/// A piece that was lost this often is sent FILE_SYNC: otherwise a server whose verifier changes
/// with each reply would be written to for ever.
const LOSSES_MAX: u32 = 2;

/// Limits of the pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The most pieces in flight; at least 1.
    pub(super) under_way: usize,
    /// The longest piece, in bytes.
    pub(super) piece: usize,
    /// The most answered bytes that wait for a COMMIT; half of them force one.
    pub(super) uncommitted_max: u64,
}

/// The identity of a piece: the number of its write, and its offset. Older ones are smaller.
pub(super) type Key = (u64, u64);

struct Unanswered {
    data: Bytes,
    losses: u32,
    is_under_way: bool,
}

struct Answered {
    number: u64,
    data: Bytes,
    losses: u32,
    verifier: Verifier,
    /// The number of its reply.
    answer: u64,
}

/// A piece to send.
pub(super) struct Sending {
    pub(super) key: Key,
    pub(super) data: Bytes,
    pub(super) stable: Stability,
}

/// The pieces of a file.
pub(super) struct Pieces {
    bounds: Bounds,
    unanswered: BTreeMap<Key, Unanswered>,
    /// By offset.
    answered: BTreeMap<u64, Answered>,
    under_way: BTreeMap<Key, u64>,
    unanswered_bytes: u64,
    answered_bytes: u64,
    next_number: u64,
    answers: u64,
    /// The replies that the COMMIT in flight covers.
    committing: Option<u64>,
    error: Option<CallError>,
}

impl Pieces {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            unanswered: BTreeMap::new(),
            answered: BTreeMap::new(),
            under_way: BTreeMap::new(),
            unanswered_bytes: 0,
            answered_bytes: 0,
            next_number: 0,
            answers: 0,
            committing: None,
            error: None,
        }
    }

    /// Bytes that are held.
    pub(super) fn held_bytes(&self) -> u64 {
        self.unanswered_bytes + self.answered_bytes
    }

    /// The most bytes that may be held.
    fn held_max(&self) -> u64 {
        self.bounds.uncommitted_max + (self.bounds.under_way * self.bounds.piece) as u64
    }

    /// Whether all written data is durable, or given up.
    pub(super) fn is_clean(&self) -> bool {
        self.is_answered() && self.answered.is_empty() && self.committing.is_none()
    }

    /// Whether no piece waits or is in flight.
    pub(super) fn is_answered(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Whether a piece of this length may be added.
    pub(super) fn has_room(&self, length: usize) -> bool {
        let is_within = self.unanswered.len() < self.bounds.under_way
            && self.answered.len() < ANSWERED_MAX
            && self.held_bytes() + length as u64 <= self.held_max();
        is_within || is_planted(Bug::BoundlessWriters)
    }

    /// Adds a piece, for which there must be room.
    pub(super) fn add(&mut self, offset: u64, data: Bytes) {
        assert!(!data.is_empty() && data.len() <= self.bounds.piece, "a piece is cut to size");
        let number = self.next_number;
        self.next_number += 1;
        self.put_back((number, offset), data, 0);
        debug_assert!(
            self.held_bytes() <= self.held_max() || is_planted(Bug::BoundlessWriters),
            "invariant 5"
        );
    }

    fn put_back(&mut self, key: Key, data: Bytes, losses: u32) {
        self.unanswered_bytes += data.len() as u64;
        let piece = Unanswered { data, losses, is_under_way: false };
        let replaced = self.unanswered.insert(key, piece);
        assert!(replaced.is_none(), "invariant 3: a write has one piece in a place");
    }

    /// The next piece that may be sent, if any. From here on it is in flight.
    pub(super) fn take_ready(&mut self) -> Option<Sending> {
        if self.under_way.len() >= self.bounds.under_way {
            return None;
        }
        let key = self.first_ready()?;
        let piece = self.unanswered.get_mut(&key)?;
        piece.is_under_way = true;
        self.under_way.insert(key, key.1 + piece.data.len() as u64);
        assert!(self.under_way.len() <= self.bounds.under_way, "invariant 1");
        let is_restless = piece.losses >= LOSSES_MAX;
        let stable = if is_restless { Stability::FileSync } else { Stability::Unstable };
        Some(Sending { key, data: piece.data.clone(), stable })
    }

    /// The oldest waiting piece that overlaps none in flight (invariant 2).
    fn first_ready(&self) -> Option<Key> {
        let is_free = |start: u64, end: u64| {
            let mut taken = self.under_way.iter().map(|(key, end)| key.1..*end);
            !taken.any(|other| overlap(&other, &(start..end)))
        };
        let mut waiting = self.unanswered.iter().filter(|(_, piece)| !piece.is_under_way);
        let ready = waiting.find(|(key, piece)| {
            is_free(key.1, key.1 + piece.data.len() as u64) || is_planted(Bug::RacingPieces)
        });
        ready.map(|(key, _)| *key)
    }

    /// Handles the reply to a piece in flight.
    pub(super) fn write_answered(&mut self, key: Key, sending: Result<Written, CallError>) {
        self.under_way.remove(&key).expect("it was under way");
        let piece = self.unanswered.remove(&key).expect("what is under way is unanswered");
        let Unanswered { mut data, losses, .. } = piece;
        self.unanswered_bytes -= data.len() as u64;
        let asked_for = losses >= LOSSES_MAX;
        let written = match sending.and_then(|written| plausible(written, data.len(), asked_for)) {
            Ok(written) => written,
            Err(error) if is_planted(Bug::SwallowedErrors) => return drop(error),
            Err(error) => return self.note(error),
        };
        let rest = data.split_off(written.count as usize);
        let (number, offset) = key;
        self.supersede(number, offset..offset + data.len() as u64);
        if !rest.is_empty() && !is_planted(Bug::ForgottenRests) {
            self.put_back((number, offset + data.len() as u64), rest, losses);
        }
        if written.committed == Stability::FileSync || is_planted(Bug::BelievedAnswers) {
            return; // invariant 4
        }
        self.answers += 1;
        let (verifier, answer) = (written.verifier, self.answers);
        self.hold(offset, Answered { number, data, losses, verifier, answer });
    }

    fn hold(&mut self, offset: u64, piece: Answered) {
        self.answered_bytes += piece.data.len() as u64;
        let replaced = self.answered.insert(offset, piece);
        assert!(replaced.is_none() || is_planted(Bug::RevivedBytes), "invariant 3");
        if let Some(replaced) = replaced {
            self.answered_bytes -= replaced.data.len() as u64;
        }
    }

    /// Invariant 3: ends older pieces that this write covers, where the server has it.
    fn supersede(&mut self, number: u64, range: Range<u64>) {
        if is_planted(Bug::RevivedBytes) {
            return;
        }
        let before = self.answered.range(..range.start).next_back();
        let reaching =
            before.filter(|(start, piece)| *start + piece.data.len() as u64 > range.start);
        let first = reaching.map_or(range.start, |(start, _)| *start);
        let covered: Vec<u64> =
            self.answered.range(first..range.end).map(|(start, _)| *start).collect();
        for start in covered {
            let piece = self.answered.remove(&start).expect("it was just found");
            assert!(piece.number <= number || is_planted(Bug::RacingPieces), "invariant 2");
            self.answered_bytes -= piece.data.len() as u64;
            for (offset, data) in outside(start, &piece.data, &range) {
                self.hold(offset, Answered { data, ..piece });
            }
        }
        let older = self.unanswered.range(..(number, 0)).filter(|(key, piece)| {
            let end = key.1 + piece.data.len() as u64;
            !piece.is_under_way && overlap(&(key.1..end), &range)
        });
        for key in older.map(|(key, _)| *key).collect::<Vec<_>>() {
            let piece = self.unanswered.remove(&key).expect("it was just found");
            self.unanswered_bytes -= piece.data.len() as u64;
            for (offset, data) in outside(key.1, &piece.data, &range) {
                self.put_back((key.0, offset), data, piece.losses);
            }
        }
    }

    /// Whether enough bytes wait for a COMMIT that one is due: half of the maximum, so that writers
    /// find room while it is in flight.
    pub(super) fn is_commit_due(&self) -> bool {
        let is_much = self.answered_bytes >= self.bounds.uncommitted_max / 2
            || self.answered.len() >= ANSWERED_MAX / 2;
        self.may_commit() && is_much
    }

    /// Whether a COMMIT has pieces to cover, and none is in flight.
    pub(super) fn may_commit(&self) -> bool {
        self.committing.is_none() && !self.answered.is_empty()
    }

    /// Notes that a COMMIT begins.
    pub(super) fn commit_begins(&mut self) {
        assert!(self.committing.is_none(), "one COMMIT is under way at a time");
        self.committing = Some(self.answers);
    }

    /// Handles the reply to the COMMIT: the pieces that it covers are durable, lost, or given up.
    pub(super) fn commit_answered(&mut self, result: Result<Verifier, CallError>) {
        let covered = self.committing.take().expect("a COMMIT was under way");
        let is_late = |answer| answer > covered && !is_planted(Bug::LateCoverage);
        for (offset, piece) in std::mem::take(&mut self.answered) {
            if is_late(piece.answer) {
                self.answered.insert(offset, piece);
                continue;
            }
            self.answered_bytes -= piece.data.len() as u64;
            let is_durable = |verifier: &Verifier| {
                *verifier == piece.verifier || is_planted(Bug::BelievedCommits)
            };
            if result.as_ref().is_ok_and(|verifier| !is_durable(verifier)) {
                self.put_back((piece.number, offset), piece.data, piece.losses + 1);
            }
        }
        if let Err(error) = result
            && !is_planted(Bug::SwallowedCommits)
        {
            self.note(error);
        }
    }

    fn note(&mut self, error: CallError) {
        self.error.get_or_insert(error);
    }

    /// The first error that was not reported yet. Later errors until then count as reported with
    /// it.
    pub(super) fn take_error(&mut self) -> Result<(), CallError> {
        if is_planted(Bug::ToldTwice) {
            return self.error.clone().map_or(Ok(()), Err);
        }
        self.error.take().map_or(Ok(()), Err)
    }
}

/// Checks that a reply to a WRITE is possible.
fn plausible(written: Written, length: usize, is_sync: bool) -> Result<Written, CallError> {
    if written.count == 0 {
        Err(CallError::Wrong("it wrote nothing"))
    } else if written.count as usize > length {
        Err(CallError::Wrong("it wrote more than it was given"))
    } else if is_sync && written.committed != Stability::FileSync {
        Err(CallError::Wrong("it is less stable than it should be"))
    } else {
        Ok(written)
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The parts of a piece before a range, and behind it.
fn outside(start: u64, data: &Bytes, range: &Range<u64>) -> impl Iterator<Item = (u64, Bytes)> {
    let length = data.len();
    let at = |place: u64| (place.saturating_sub(start) as usize).min(length);
    let (before, behind) = (at(range.start), at(range.end));
    let parts = [(start, data.slice(..before)), (start + behind as u64, data.slice(behind..))];
    parts.into_iter().filter(|(_, part)| !part.is_empty())
}
