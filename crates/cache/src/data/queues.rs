//! The eviction order of data: a short queue, a long one, and a memory of recent evictions from the
//! short one.
//!
//! Invariants:
//! 1. A turn is in one queue, once, and names a stretch that is kept.
//! 2. No more evictions are remembered than the long queue has places for.

use std::collections::{BTreeMap, BTreeSet};

/// One part in this many of the cache is for new data.
const SHORT_PART: usize = 4;
/// Evictions that are always remembered.
const REMEMBERED_LEAST: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// For new data.
    Short,
    /// For data that was used again.
    Long,
}

#[derive(Default)]
struct Line {
    /// Stretches by their turn.
    turns: BTreeMap<u64, u64>,
    bytes: usize,
}

#[derive(Default)]
pub(super) struct Queues {
    short: Line,
    long: Line,
    /// Stretches evicted from the short queue, by turn and by position.
    left: BTreeMap<u64, u64>,
    left_places: BTreeSet<u64>,
    next_turn: u64,
}

impl Queues {
    /// Bytes in the queues.
    pub(super) fn bytes(&self) -> usize {
        self.short.bytes + self.long.bytes
    }

    /// Adds a stretch at the end; returns its turn.
    pub(super) fn push(&mut self, queue: Queue, start: u64, bytes: usize) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        let line = self.line(queue);
        line.turns.insert(turn, start);
        line.bytes += bytes;
        turn
    }

    /// Removes a stretch.
    pub(super) fn take(&mut self, queue: Queue, turn: u64, bytes: usize) {
        let line = self.line(queue);
        let start = line.turns.remove(&turn);
        assert!(start.is_some(), "what is kept has a turn (invariant 1)");
        line.bytes -= bytes;
    }

    /// The next stretch to evict, where `most` bytes are to stay.
    pub(super) fn next(&self, most: usize) -> Option<(Queue, u64)> {
        let first = |line: &Line| line.turns.first_key_value().map(|(_, &start)| start);
        let short = first(&self.short).map(|start| (Queue::Short, start));
        let long = first(&self.long).map(|start| (Queue::Long, start));
        if self.short.bytes > most / SHORT_PART { short.or(long) } else { long.or(short) }
    }

    /// Remembers a stretch that left the short queue without having been used again.
    pub(super) fn remember(&mut self, start: u64) {
        if self.left_places.insert(start) {
            self.left.insert(self.next_turn, start);
            self.next_turn += 1;
        }
        while self.left.len() > self.long.turns.len().max(REMEMBERED_LEAST) {
            if let Some((_, start)) = self.left.pop_first() {
                self.left_places.remove(&start);
            }
        }
        let (turns, places) = (self.left.len(), self.left_places.len());
        assert_eq!(turns, places, "invariant 2: what is remembered has a turn to be forgotten");
    }

    /// Whether the stretch at `start` left the short queue recently.
    pub(super) fn left_lately(&self, start: u64) -> bool {
        self.left_places.contains(&start)
    }

    fn line(&mut self, queue: Queue) -> &mut Line {
        match queue {
            Queue::Short => &mut self.short,
            Queue::Long => &mut self.long,
        }
    }
}
