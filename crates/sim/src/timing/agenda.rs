//! Known answers, by their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Tickets by the time of their answers; for one time in the order of their numbers.
#[derive(Default)]
pub(super) struct Agenda(BinaryHeap<Reverse<(u64, u64)>>);

impl Agenda {
    pub(super) fn add(&mut self, at_ns: u64, ticket: u64) {
        self.0.push(Reverse((at_ns, ticket)));
    }

    pub(super) fn next_at(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// Removes and returns the tickets that are due.
    pub(super) fn due(&mut self, now_ns: u64) -> Vec<u64> {
        let mut tickets = Vec::new();
        while let Some(Reverse((at_ns, ticket))) = self.0.peek().copied() {
            if at_ns > now_ns {
                break;
            }
            self.0.pop();
            tickets.push(ticket);
        }
        tickets
    }
}
