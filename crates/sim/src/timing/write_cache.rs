//! The volatile write cache of a drive: answered writes that are not on the platters yet.
//!
//! Invariants:
//! 1. `bytes` is the sum of the lengths of `dirty` and of `leaving`, and at most `capacity`.
//! 2. A flush waits for every extent that was taken before it, and for none that came later.

use super::queue::Job;
use crate::SECTOR_SIZE;

pub(super) struct WriteCache {
    capacity: u64,
    bytes: u64,
    taken: u64,
    /// The dirty extents with the numbers of their arrival, which grow.
    dirty: Vec<(u64, Job)>,
    /// The extent that the arm is writing.
    leaving: Option<(u64, u64)>,
}

impl WriteCache {
    pub(super) fn new(capacity: u64) -> Self {
        Self { capacity, bytes: 0, taken: 0, dirty: Vec::new(), leaving: None }
    }

    /// Whether an empty cache could take this many bytes.
    pub(super) fn suits(&self, bytes: u64) -> bool {
        bytes <= self.capacity
    }

    /// Takes an extent, if there is room. Rewriting one that has not left takes no room.
    pub(super) fn take(&mut self, job: Job) -> bool {
        let same = |old: &Job| (old.first, old.end) == (job.first, job.end);
        if self.dirty.iter().any(|(_, old)| same(old)) {
            return true;
        }
        let bytes = bytes_of(&job);
        if self.bytes + bytes > self.capacity {
            return false;
        }
        self.bytes += bytes;
        self.taken += 1;
        let is_next = self.dirty.last().is_none_or(|&(last, _)| last < self.taken);
        assert!(is_next, "invariant 2: numbers grow, so a flush tells what came before");
        self.dirty.push((self.taken, job));
        self.check();
        true
    }

    fn check(&self) {
        let dirty = self.dirty.iter().map(|(_, job)| bytes_of(job)).sum::<u64>();
        let sum = dirty + self.leaving.map_or(0, |(_, bytes)| bytes);
        debug_assert_eq!(self.bytes, sum, "invariant 1: what it holds was counted");
        debug_assert!(sum <= self.capacity, "invariant 1: it holds no more than it can");
    }

    /// The number of the last extent taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether everything up to a number is on the platters (invariant 2).
    pub(super) fn is_clean_up_to(&self, number: u64) -> bool {
        let leaving = self.leaving.iter().map(|(leaving, _)| leaving);
        let mut left = self.dirty.iter().map(|(dirty, _)| dirty).chain(leaving);
        left.all(|&one| one > number)
    }

    /// Whether all of a range lies in one extent.
    pub(super) fn holds(&self, first: u64, end: u64) -> bool {
        self.dirty.iter().any(|(_, job)| job.first <= first && end <= job.end)
    }

    /// The dirty extents, the oldest first.
    pub(super) fn dirty(&self) -> impl Iterator<Item = &Job> {
        self.dirty.iter().map(|(_, job)| job)
    }

    /// Starts writing the extent at an index of [`WriteCache::dirty`].
    pub(super) fn start(&mut self, index: usize) -> Job {
        assert!(self.leaving.is_none(), "an arm writes one extent at a time");
        let (number, job) = self.dirty.remove(index);
        self.leaving = Some((number, bytes_of(&job)));
        job
    }

    /// Notes that the arm has written it.
    pub(super) fn written(&mut self) {
        let (_, bytes) = self.leaving.take().expect("an arm ends what it began");
        self.bytes -= bytes;
        self.check();
    }
}

fn bytes_of(job: &Job) -> u64 {
    (job.end - job.first) * SECTOR_SIZE as u64
}
