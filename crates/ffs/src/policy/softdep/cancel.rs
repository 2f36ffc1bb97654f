//! Changes that cancel each other, and are not made.
//!
//! A name that comes and goes before any write includes it is cancelled, and so is one that goes
//! and comes back. When the last name of a file is cancelled, the rest may be too: the inode, and
//! the bits that it took and freed. No write may have included any part of it.
//!
//! Invariant: no write has included a cancelled change, and no name of the file may reach the disk.
//! Not asserted: it is the condition.

use vfs::Sequence;

use super::facts::{added, ended, fields_of, is_file};
use super::{BEHIND_NAMES, DESTRUCTIVE, Dependencies, Flight, Flights, REPLACING, Until, Wait};
use crate::item::Intent;
use crate::planted::{Bug, is_planted};
use crate::policy::in_place::Pending;
use crate::policy::{Staged, StagedUpdate};

impl Dependencies {
    /// Cancels changes that an Update reverses, and notes earlier Updates of the entries that it
    /// changes.
    pub(super) fn cancel(&self, own: Sequence, update: &StagedUpdate, flight: &mut Flight) {
        if self.horizon.has_asked() {
            self.note_asked();
        }
        for item in &update.items {
            let _ = match item.intent {
                // The name was gone while its file had another one, by an Update that counts both.
                Intent::EntryAdded => {
                    let counts_at_once = !flight.waits_to_prepare();
                    self.cancel_entry(own, item, flight, |_, before| {
                        let is_moved = |(_, of)| before.names.has_named(of);
                        counts_at_once && is_file(item) && added(item).is_some_and(is_moved)
                    })
                }
                Intent::EntryRetargeted => self.cancel_entry(own, item, flight, |_, _| false),
                _ => None,
            };
        }
        // Only now are the earlier Updates known that changed the entries which it adds.
        for item in update.items.iter().filter(|item| item.intent == Intent::EntryDropped) {
            let needs = self.flights.borrow().needs_below(flight, DESTRUCTIVE);
            let (pinned, moves_directory) = (self.pinned.get(), flight.has_moved_directory);
            let cancelled = self.cancel_entry(own, item, flight, |flights, before| {
                before.names.has_named(item.named_before())
                    && !before.has_moved_directory
                    && !moves_directory
                    && flights.may_stand_for(before.sequence, pinned, &needs)
            });
            let Some(before) = cancelled else { continue };
            // The count falls again only after it rose.
            let wait = Wait { from: BEHIND_NAMES, on: before, until: Until::Prepared };
            flight.waits.extend(Some(wait).filter(|_| !is_planted(Bug::UncountedCancels)));
            if is_planted(Bug::LooseCancels) {
                continue;
            }
            let mut flights = self.flights.borrow_mut();
            let before = flights.0.get_mut(&before).expect("its delta was pending");
            before.hangs_on.insert(own.0);
            before.waits.push(Wait { from: REPLACING, on: own.0, until: Until::Hung });
            flight.needed_by.push(before.sequence);
            flight.watched_by.push(before.sequence);
        }
    }

    /// Whether intents need the evidence of an Update: then no part of it is cancelled.
    fn is_evidence(&self, sequence: u64) -> bool {
        self.intents.as_ref().is_some_and(|intents| intents.is_evidence(sequence))
    }

    /// Cancels the change of an earlier Update that `may` do without it, if the item reverses it,
    /// and returns that Update; else notes the earlier Update of the entry.
    fn cancel_entry(
        &self,
        own: Sequence,
        item: &Staged,
        flight: &mut Flight,
        may: impl Fn(&Flights, &Flight) -> bool,
    ) -> Option<u64> {
        let (buffer, offset) = item.entry_place()?;
        let cancelled = {
            let (flights, due) = (self.flights.borrow(), self.due.borrow());
            buffer.cancel_entry(offset, own, |before| {
                let is_free = !due.contains(&before.0)
                    && before.0 > self.pinned.get()
                    && !self.is_evidence(own.0)
                    && !self.is_evidence(before.0);
                is_free && flights.0.get(&before.0).is_some_and(|before| may(&flights, before))
            })
        };
        let Some((before, rank)) = cancelled else {
            flight.follows.extend(buffer.entry_before(offset, own).map(|before| before.0));
            return None;
        };
        self.counters.count_cancelled();
        flight.remaining[item.tag as usize] -= 1;
        let mut flights = self.flights.borrow_mut();
        let other = flights.0.get_mut(&before.0).expect("its delta was pending");
        other.remaining[rank as usize] -= 1;
        flights.touch(before.0);
        let other = flights.0.get_mut(&before.0).expect("its delta was pending");
        let mut facts = self.facts.borrow_mut();
        match added(item) {
            Some((_, target)) => facts.cancel_name(&mut flight.names, target),
            None => facts.cancel_name(&mut other.names, item.named_before()),
        }
        Some(before.0)
    }

    /// An Update ends a file whose names were all cancelled. If no write has included any part of
    /// the file, neither its beginning nor its end is written; returns whether that is so.
    pub(super) fn forget_file(
        &self,
        own: Sequence,
        update: &StagedUpdate,
        flight: &mut Flight,
        pending: &Pending,
    ) -> bool {
        let Some(ino) = ended(update).filter(|_| flight.remaining[DESTRUCTIVE] == 0) else {
            return false;
        };
        let has_metadata = update
            .freed
            .iter()
            .any(|&(address, count)| pending.range(address..address + count).next().is_some());
        let is_named = self.facts.borrow().adds_name(ino) && !is_planted(Bug::NamedVoids);
        if has_metadata || is_named {
            return false;
        }
        let fields = fields_of(update, ino).into_values();
        let void = fields.map(|(buffer, fields)| Some((buffer.void_deltas(&fields)?, buffer)));
        let Some(void) = void.collect::<Option<Vec<_>>>() else { return false };
        let mut flights = self.flights.borrow_mut();
        for (found, buffer) in void {
            for (sequence, rank) in buffer.forget_void(found) {
                let of = if sequence == own {
                    &mut *flight
                } else {
                    flights.0.get_mut(&sequence.0).expect("its delta was pending")
                };
                of.remaining[rank as usize] -= 1;
                flights.touch(sequence.0);
                self.counters.count_cancelled();
            }
        }
        // The things of this inode that it waited for no longer exist.
        flight.waits.retain(|wait| wait.until != Until::Dropped);
        self.facts.borrow_mut().forget_inode(ino);
        true
    }
}
