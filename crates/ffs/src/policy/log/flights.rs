//! Updates that are not obsolete, in order.
//!
//! Invariants:
//! 1. Sequences follow each other: an Update's place in the queue is its sequence less the first's.
//! 2. The first is needed. Later ones may be obsolete already, and go when they are the first.

use std::collections::VecDeque;

/// The remaining work of an Update.
#[derive(Default)]
pub(super) struct Flight {
    /// Recno of its entry, once it has a place.
    pub(super) recno: Option<u64>,
    /// Deltas that have not landed.
    pub(super) holds: u32,
    /// Whether its entry holds payload that is not known to be in place.
    pub(super) payload: bool,
}

impl Flight {
    fn is_needed(&self) -> bool {
        self.holds > 0 || self.payload
    }
}

/// See the module's prose.
#[derive(Default)]
pub(super) struct Flights {
    first: u64,
    flights: VecDeque<Flight>,
}

impl Flights {
    pub(super) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Sequence of the oldest needed Update.
    pub(super) fn first(&self) -> Option<u64> {
        (!self.flights.is_empty()).then_some(self.first)
    }

    /// The oldest needed Update.
    pub(super) fn oldest(&self) -> Option<&Flight> {
        let oldest = self.flights.front();
        debug_assert!(oldest.is_none_or(Flight::is_needed), "invariant 2: the first is needed");
        oldest
    }

    /// Adds the Update that comes after all others, or is the first of all.
    pub(super) fn push(&mut self, sequence: u64, flight: Flight) {
        match self.flights.len() as u64 {
            0 => self.first = sequence,
            count => {
                assert_eq!(
                    self.first + count,
                    sequence,
                    "invariant 1: sequences follow each other"
                );
            }
        }
        self.flights.push_back(flight);
        self.drop_obsolete();
    }

    /// The flight of a staged Update, if it or an earlier one is needed.
    pub(super) fn get(&mut self, sequence: u64) -> Option<&mut Flight> {
        self.flights.get_mut(sequence.checked_sub(self.first)? as usize)
    }

    /// A delta of an Update has landed, or was dropped.
    ///
    /// # Panics
    /// If the Update has none left: a delta belongs to a flight.
    pub(super) fn land(&mut self, sequence: u64) {
        let flight = self.get(sequence).expect("a delta belongs to a flight");
        flight.holds = flight.holds.checked_sub(1).expect("each delta lands once");
    }

    /// The payload of all Updates before `covered` is in place.
    pub(super) fn bring_payload_home(&mut self, covered: u64) {
        let count = covered.saturating_sub(self.first) as usize;
        self.flights.iter_mut().take(count).for_each(|flight| flight.payload = false);
    }

    /// Forgets obsolete Updates at the front.
    pub(super) fn drop_obsolete(&mut self) {
        while self.flights.front().is_some_and(|flight| !flight.is_needed()) {
            self.flights.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_is_needed_holds_what_comes_after() {
        let mut flights = Flights::default();
        assert!(flights.is_empty() && flights.get(7).is_none());
        flights.push(7, Flight { holds: 2, ..Flight::default() });
        flights.push(8, Flight { holds: 1, recno: Some(80), payload: true });
        flights.push(9, Flight::default());
        flights.push(10, Flight { payload: true, ..Flight::default() });
        flights.bring_payload_home(9);
        flights.land(7);
        flights.land(8);
        flights.drop_obsolete();
        assert!(flights.get(7).is_some(), "a delta of it is under way");
        flights.land(7);
        flights.drop_obsolete();
        assert!([7, 8, 9].iter().all(|&gone| flights.get(gone).is_none()));
        assert!(flights.oldest().is_some_and(|flight| flight.payload), "that of 10");
        flights.bring_payload_home(11);
        flights.drop_obsolete();
        assert!(flights.is_empty());
        flights.push(11, Flight::default());
        assert!(flights.is_empty(), "there is nothing to do for it");
    }
}
