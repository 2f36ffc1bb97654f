//! Finds the Updates in flight that hang, have dropped their names, or are durable. Only Updates
//! whose state may have changed are looked at, so that the cost of a round depends on its changes
//! and not on the number of pending Updates.
//!
//! An Update is *touched* when it is staged, when an item of it lands or is cancelled, and when the
//! state of one of its dependencies changes. Each state is reached once, so an Update touches its
//! watchers a bounded number of times.
//!
//! Invariants:
//! 1. An untouched Update is in exactly the states that its items and its waits give it.
//! 2. `through` has each unmet wait for all Updates up to some sequence, and `payload` each Update
//!    that waits for a flush of its payload.

use std::collections::BTreeSet;

use super::{BEHIND_NAMES, DESTRUCTIVE, Flight, Flights, REVEALING, Until, first_unseen};
use crate::planted::{Bug, is_planted};

/// Maximum number of Updates in flight for which all are checked to assert invariant 1.
const MOST_ASSERTED: usize = 64;

/// The Updates whose state may have changed.
#[derive(Default)]
pub(super) struct Work {
    /// Updates to look at.
    touched: BTreeSet<u64>,
    /// Updates looked at since durable ones were last taken out.
    looked_at: BTreeSet<u64>,
    /// Pairs: the second Update waits for all Updates up to the first.
    through: BTreeSet<(u64, u64)>,
    payload: BTreeSet<u64>,
    /// Total number of Updates looked at.
    steps: u64,
}

impl Flight {
    fn is_seen(&self) -> bool {
        self.remaining[..DESTRUCTIVE].iter().all(|&count| count == 0)
    }
}

impl Flights {
    /// Number of Updates looked at since the start.
    #[cfg(test)]
    pub(super) fn steps(&self) -> u64 {
        self.1.steps
    }

    /// Adds an Update to those in flight.
    pub(super) fn insert(&mut self, flight: Flight) {
        let sequence = flight.sequence;
        let ons: BTreeSet<u64> = flight
            .waits
            .iter()
            .map(|wait| wait.on)
            .chain(flight.hangs_on.iter().copied())
            .collect();
        for on in ons {
            if let Some(on) = self.0.get_mut(&on) {
                on.watched_by.push(sequence);
            }
        }
        let through = flight.waits.iter().filter(|wait| wait.until == Until::DoneThrough);
        self.1.through.extend(through.map(|wait| (wait.on, sequence)));
        if flight.payload {
            self.1.payload.insert(sequence);
        }
        self.1.touched.insert(sequence);
        self.0.insert(sequence, flight);
    }

    /// Part of an Update was cancelled: touches it and its watchers.
    pub(super) fn touch(&mut self, sequence: u64) {
        self.1.touched.insert(sequence);
        if let Some(flight) = self.0.get(&sequence) {
            self.1.touched.extend(&flight.watched_by);
        }
    }

    /// An item of an Update is durable.
    pub(super) fn lands(&mut self, sequence: u64, rank: usize) {
        let flight = self.0.get_mut(&sequence).expect("a delta belongs to a flight");
        let was_prepared = flight.current() >= REVEALING;
        flight.remaining[rank] -= 1;
        self.1.touched.insert(sequence);
        if !was_prepared && flight.current() >= REVEALING {
            self.1.touched.extend(&flight.watched_by);
        }
    }

    /// The payload of all Updates before `covered` is durable; returns whether there was any.
    pub(super) fn payload_lands(&mut self, covered: u64) -> bool {
        let later = self.1.payload.split_off(&covered);
        let landed = std::mem::replace(&mut self.1.payload, later);
        for &sequence in &landed {
            self.0.get_mut(&sequence).expect("it is in flight").payload = false;
            self.lands(sequence, 0);
        }
        !landed.is_empty()
    }

    /// Touches Updates that waited for all up to one that is durable now.
    fn touch_met_through(&mut self) {
        let first = self.0.first_key_value().map_or(u64::MAX, |(&first, _)| first);
        let open = self.1.through.split_off(&(first, 0));
        let met = std::mem::replace(&mut self.1.through, open);
        self.1.touched.extend(met.into_iter().map(|(_, by)| by));
    }

    fn may_hang(&self, flight: &Flight) -> bool {
        let hangs = |on: &u64| self.0.get(on).is_none_or(|on| on.is_hung);
        flight.is_seen() && flight.hangs_on.iter().all(hangs)
    }

    /// Whether the names that the Update removes are gone, and their directories show that: it
    /// waits for this with the ranks behind names.
    fn has_dropped(&self, flight: &Flight) -> bool {
        let waits = flight.waits.iter().filter(|wait| wait.from <= BEHIND_NAMES);
        let mut waits = waits.filter(|_| !is_planted(Bug::UnseenDrops));
        flight.current() >= BEHIND_NAMES && waits.all(|wait| self.is_met(wait))
    }

    /// Notes which Updates hang now, if `finds_hung`, and whose names are gone.
    pub(super) fn settle(&mut self, finds_hung: bool) {
        self.touch_met_through();
        if is_planted(Bug::WholeRounds) {
            self.1.touched.extend(self.0.keys());
        }
        let mut open = std::mem::take(&mut self.1.touched);
        while let Some(sequence) = open.pop_first() {
            self.1.steps += 1;
            let Some(flight) = self.0.get(&sequence) else { continue };
            let hangs = finds_hung && !flight.is_hung && self.may_hang(flight);
            let drops = !flight.is_dropped && self.has_dropped(flight);
            let flight = self.0.get_mut(&sequence).expect("it is in flight");
            flight.is_hung |= hangs;
            flight.is_dropped |= drops;
            if hangs || drops {
                open.extend(&flight.watched_by);
            }
            self.1.looked_at.insert(sequence);
            if !finds_hung {
                self.1.touched.insert(sequence);
            }
        }
        debug_assert!(
            !finds_hung || self.is_settled(),
            "invariant 1: what may have moved was seen"
        );
        debug_assert!(self.is_noted(), "invariant 2: what is waited for is noted");
    }

    /// Whether each unmet wait, and each payload that is not durable, is noted.
    fn is_noted(&self) -> bool {
        let is_noted = |flight: &Flight| {
            let waits = flight.waits.iter().filter(|wait| wait.until == Until::DoneThrough);
            let mut open = waits.filter(|wait| !self.is_met(wait));
            open.all(|wait| self.1.through.contains(&(wait.on, flight.sequence)))
                && flight.payload == self.1.payload.contains(&flight.sequence)
        };
        self.0.len() > MOST_ASSERTED || self.0.values().all(is_noted)
    }

    fn is_settled(&self) -> bool {
        let is_settled = |flight: &Flight| {
            (flight.is_hung || !self.may_hang(flight))
                && (flight.is_dropped || !self.has_dropped(flight))
        };
        self.0.len() > MOST_ASSERTED || self.0.values().all(is_settled)
    }

    /// Notes which Updates hang now, and takes out the durable ones.
    pub(super) fn take_done(&mut self) -> Vec<(u64, Flight)> {
        self.settle(true);
        let is_done = |flight: &Flight| flight.is_landed() && flight.is_hung;
        let looked_at = self.1.looked_at.iter().copied();
        let done: Vec<u64> =
            looked_at.filter(|sequence| self.0.get(sequence).is_some_and(is_done)).collect();
        let mut taken = Vec::with_capacity(done.len());
        for sequence in done {
            let (sequence, flight) = self.0.remove_entry(&sequence).expect("it is in flight");
            self.1.touched.extend(&flight.watched_by);
            taken.push((sequence, flight));
        }
        self.touch_met_through();
        taken
    }

    /// Marks and returns the Updates that callers may be told are durable: the rest of each is
    /// freed bits, which may land at any time and are not visible anywhere.
    pub(super) fn find_told(&mut self) -> Vec<u64> {
        let may_be_told = |flight: &Flight| {
            let is_over = flight.is_hung && flight.only_gives_back();
            !flight.is_told && is_over && self.may_land(flight, first_unseen())
        };
        let candidates: BTreeSet<u64> = self.1.looked_at.union(&self.1.touched).copied().collect();
        let told = candidates.iter().filter(|on| self.0.get(on).is_some_and(may_be_told));
        let told: Vec<u64> = told.copied().collect();
        debug_assert!(
            self.0.len() > MOST_ASSERTED
                || self.0.values().filter(|flight| may_be_told(flight)).count() == told.len(),
            "invariant 1: what may be reported was seen"
        );
        self.1.steps += candidates.len() as u64;
        self.1.looked_at.clear();
        for sequence in &told {
            let flight = self.0.get_mut(sequence).expect("it is in flight");
            flight.is_told = true;
            self.1.touched.extend(&flight.watched_by);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Update with one item, a name.
    fn flight(sequence: u64, hangs_on: &[u64]) -> Flight {
        let mut flight = Flight::new(sequence, runtime::Instant::default());
        flight.remaining[REVEALING] = 1;
        flight.hangs_on.extend(hangs_on);
        flight
    }

    /// Updates looked at while one of `pending` Updates lands.
    fn steps_of_one(pending: u64) -> u64 {
        let mut flights = Flights::default();
        for sequence in 1..=pending {
            flights.insert(flight(sequence, &[]));
        }
        flights.settle(true);
        assert!(flights.take_done().is_empty() && flights.find_told().is_empty());
        let before = flights.steps();
        flights.settle(true);
        flights.lands(5, REVEALING);
        let done: Vec<u64> = flights.take_done().into_iter().map(|(one, _)| one).collect();
        assert_eq!(done, [5]);
        flights.find_told();
        flights.steps() - before
    }

    #[test]
    fn a_round_looks_at_what_it_moves_and_not_at_what_is_pending() {
        assert_eq!(steps_of_one(5_000), steps_of_one(10));
        assert!(steps_of_one(5_000) <= 4, "{}", steps_of_one(5_000));
    }

    #[cfg(feature = "planted-bugs")]
    #[test]
    fn rounds_that_look_at_everything_are_found() {
        crate::planted::plant(Some(Bug::WholeRounds));
        let steps = steps_of_one(5_000);
        crate::planted::plant(None);
        assert!(steps > 5_000, "{steps}");
    }

    #[test]
    fn a_name_hangs_when_all_on_which_it_hangs_do_so() {
        let mut flights = Flights::default();
        for sequence in 1..=3 {
            let before = if sequence > 1 { vec![sequence - 1] } else { Vec::new() };
            flights.insert(flight(sequence, &before));
        }
        for sequence in [3, 2] {
            flights.lands(sequence, REVEALING);
            assert!(flights.take_done().is_empty(), "{sequence} hangs on another");
        }
        flights.lands(1, REVEALING);
        let done: Vec<u64> = flights.take_done().into_iter().map(|(one, _)| one).collect();
        assert_eq!(done, [1, 2, 3]);
    }
}
