//! The places for connections, and which occupant gives its own up when all are taken.
//!
//! A connection costs memory, so the places are limited. A client may keep its own for as long as
//! it likes, with calls or without, but not at the price of others: when a client is at the door
//! and no place is free, an occupant is asked to leave. Its calls are still answered, if it takes
//! the replies without delay ([`crate::patience`]), and a client that finds its connection closed
//! opens another for its next call. Without this, a few processes
//! that only connect could shut all others out for ever.
//!
//! # The occupant that leaves
//! The first of these that there is:
//! 1. a *stranger*, an occupant that no export admits: the one that has been quiet for longest;
//! 2. if the newcomer's address has fewer places than its share, an occupant of the address that
//!    has most, if that is more than its share: the one that has been quiet for longest, or, if
//!    none is quiet, the one whose last note of work is oldest. The share of an address is the
//!    number of places that it would have if all addresses had the same;
//! 3. the occupant that has been quiet for longest, if that is at least [`QUIET`].
//!
//! A stranger at the door is sent away while no place is free. Admitted clients wait there side by
//! side, up to [`MAX_AT_DOOR`] and one for each quiet occupant that is leaving, and a free place
//! goes to the one whose address has fewest; so a client that waits with many connections is not in
//! the way of another. At a full door the address with most gives way to one with fewer. An IPv6
//! network of 64 bits counts as one address: a client that has one address of it has them all.
//!
//! Invariants:
//! 1. `occupants` are those that have a place.
//! 2. An occupant is quiet when no call of it is being executed or waits for memory. A call that it
//!    has not sent completely, replies that it does not take, and calls that no file system had to
//!    answer (NULL, or a call that is refused at the door) are no work of ours.
//! 3. While a client waits at the door, no place is free.
//!
//! Not asserted: 2, which the connection reports; 3, since each free place is handed out
//! ([`Places::hand_out`]).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use dispatch::reply_cache::in_bounds;
use futures::FutureExt;
use futures::future::select;
use runtime::sync::{Permit, Semaphore, Signal};
use runtime::{Clock, Instant};

use crate::planted::{Bug, is_planted};

/// Time after its last call for which rule 3 does not ask an occupant to leave.
pub const QUIET: Duration = Duration::from_secs(5);

/// Time that an occupant may take to leave before another one is asked.
pub const LEAVING: Duration = Duration::from_secs(1);

/// The most clients that wait at the door. Each has a descriptor.
pub const MAX_AT_DOOR: usize = 32;

/// Whether any export admits an address.
pub(crate) type Admits = Rc<dyn Fn(IpAddr) -> bool>;

/// All places.
pub(crate) struct Places {
    clock: Rc<dyn Clock>,
    admits: Admits,
    max: u64,
    free: Rc<Semaphore>,
    occupants: RefCell<Vec<Rc<Occupant>>>,
    /// The waiting clients, in the order of their arrival.
    door: RefCell<Vec<Rc<Waiter>>>,
    warned: Cell<bool>,
}

/// A client that waits at the door.
struct Waiter {
    address: IpAddr,
    /// Notified when it has a place, or is sent away.
    called: Signal,
    place: RefCell<Option<Place>>,
    is_sent_away: Cell<bool>,
}

/// A client's wait at the door. It ends when this is dropped.
struct AtDoor {
    places: Rc<Places>,
    waiter: Rc<Waiter>,
}

/// A client that has a place.
pub(crate) struct Occupant {
    clock: Rc<dyn Clock>,
    address: IpAddr,
    /// The last time at which it was not quiet.
    last: Cell<Instant>,
    is_quiet: Cell<bool>,
    asked: Cell<bool>,
    /// Whether it was quiet when it was asked to leave.
    was_quiet: Cell<bool>,
    leave: Signal,
}

/// A place that is taken. It is free again when this is dropped.
pub(crate) struct Place {
    places: Rc<Places>,
    occupant: Rc<Occupant>,
    permit: Option<Permit>,
}

impl Places {
    /// `max` places, all free.
    pub(crate) fn new(clock: Rc<dyn Clock>, max: u64, admits: Admits) -> Rc<Self> {
        let (occupants, door, warned) = Default::default();
        Rc::new(Self { clock, admits, max, free: Semaphore::new(max), occupants, door, warned })
    }

    /// A place for a client at the door; none for a stranger when no place is free, nor for a
    /// client that finds the door full.
    pub(crate) async fn enter(self: &Rc<Self>, address: IpAddr) -> Option<Place> {
        if let Some(place) = self.seat(address) {
            return Some(place);
        }
        let mut waiting = None;
        loop {
            if !self.is_admitted(address) {
                return None;
            }
            if !self.warned.replace(true) {
                tracing::warn!(limit = self.max, "all connections are in use: quiet ones must go");
            }
            let at_door = match waiting.take() {
                Some(at_door) => at_door,
                None => self.line_up(address)?,
            };
            let waiter = at_door.waiter.clone();
            let asks_again = self.clock.sleep(self.ask(address));
            select(waiter.called.wait().boxed_local(), asks_again).await;
            if let Some(place) = waiter.place.take() {
                return Some(place);
            }
            if waiter.is_sent_away.get() {
                return None;
            }
            waiting = Some(at_door);
        }
    }

    /// Seats a client, if a place is free.
    fn seat(self: &Rc<Self>, address: IpAddr) -> Option<Place> {
        let permit = self.free.acquire(1).now_or_never()?;
        let occupant = Rc::new(Occupant {
            clock: self.clock.clone(),
            address,
            last: Cell::new(self.clock.now()),
            is_quiet: Cell::new(true),
            asked: Cell::new(false),
            was_quiet: Cell::new(false),
            leave: Signal::new(),
        });
        self.occupants.borrow_mut().push(occupant.clone());
        let occupants = self.occupants.borrow().len() as u64;
        assert!(occupants <= self.max, "invariant 1: no more occupants than places");
        Some(Place { places: self.clone(), occupant, permit: Some(permit) })
    }

    /// Queues a client at the door, if there is room for it, or if one connection of its address
    /// can replace one of another.
    fn line_up(self: &Rc<Self>, address: IpAddr) -> Option<AtDoor> {
        let mut door = self.door.borrow_mut();
        let count = |door: &[Rc<Waiter>], address| {
            door.iter().filter(|waiter| in_bounds(waiter.address) == address).count()
        };
        if door.len() >= MAX_AT_DOOR + self.leaving() {
            let addresses = door.iter().map(|waiter| in_bounds(waiter.address));
            let fullest = addresses.max_by_key(|&address| count(&door, address))?;
            if count(&door, fullest) <= count(&door, in_bounds(address)) + 1 {
                return None;
            }
            let newest = door.iter().rposition(|waiter| in_bounds(waiter.address) == fullest)?;
            let newest = door.remove(newest);
            newest.is_sent_away.set(true);
            newest.called.notify();
        }
        let (called, place, is_sent_away) = (Signal::new(), RefCell::default(), Cell::new(false));
        let waiter = Rc::new(Waiter { address, called, place, is_sent_away });
        door.push(waiter.clone());
        Some(AtDoor { places: self.clone(), waiter })
    }

    /// Occupants that were asked to leave while they were quiet: nothing keeps them, so a client
    /// waits for each only until it has had its turn.
    fn leaving(&self) -> usize {
        if is_planted(Bug::HurriedAccept) {
            return 0;
        }
        let occupants = self.occupants.borrow();
        occupants.iter().filter(|one| one.is_asked() && one.leaves_quietly()).count()
    }

    /// Gives free places to waiting clients (invariant 3), first to the one whose address has
    /// fewest.
    fn hand_out(self: &Rc<Self>) {
        while let Some(next) = self.next_at_door() {
            let Some(place) = self.seat(next.address) else { return };
            self.door.borrow_mut().retain(|waiter| !Rc::ptr_eq(waiter, &next));
            next.place.replace(Some(place));
            next.called.notify();
        }
    }

    fn next_at_door(&self) -> Option<Rc<Waiter>> {
        let occupants = self.occupants.borrow();
        let places = |address: IpAddr| {
            let theirs = occupants.iter().filter(|one| !one.asked.get());
            theirs.filter(|one| in_bounds(one.address) == in_bounds(address)).count()
        };
        let door = self.door.borrow();
        door.iter().min_by_key(|waiter| places(waiter.address)).cloned() // on a tie, the first
    }

    fn is_admitted(&self, address: IpAddr) -> bool {
        (self.admits)(address) || is_planted(Bug::AdmittedStrangers)
    }

    /// Occupants, and clients at the door.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.occupants.borrow().len(), self.door.borrow().len())
    }

    /// Completes when all occupants have left, and no other has come.
    pub(crate) async fn all_free(&self) -> Permit {
        self.free.acquire(self.max).await
    }

    /// Whether a place is free.
    pub(crate) fn is_any_free(&self) -> bool {
        self.free.available() > 0
    }

    /// The process has no descriptor left for a newcomer: asks a quiet stranger to leave, or else
    /// the occupant that rule 3 names. A client that has just called may be about to call again.
    pub(crate) fn relieve(&self) {
        let occupants = self.occupants.borrow();
        let is_idle = |occupant: &Occupant| self.quiet_time(occupant) >= QUIET;
        let occupant = self.stranger(&occupants).or_else(|| quietest(&occupants, is_idle));
        occupant.into_iter().for_each(|occupant| occupant.ask());
    }

    /// Asks an occupant to leave for a newcomer, if the rules name one. Returns when to ask again.
    fn ask(&self, newcomer: IpAddr) -> Duration {
        let occupants = self.occupants.borrow();
        let occupant =
            self.stranger(&occupants).or_else(|| self.beyond_share(&occupants, newcomer));
        if let Some(occupant) = occupant {
            occupant.ask();
            return LEAVING;
        }
        let Some(occupant) = quietest(&occupants, |_| true) else { return LEAVING };
        let since = self.quiet_time(occupant);
        if since < QUIET {
            return QUIET - since;
        }
        occupant.ask();
        LEAVING
    }

    /// Time since the last work of an occupant.
    fn quiet_time(&self, occupant: &Occupant) -> Duration {
        self.clock.now().since(occupant.last.get())
    }

    /// Rule 1.
    fn stranger<'a>(&self, occupants: &'a [Rc<Occupant>]) -> Option<&'a Rc<Occupant>> {
        quietest(occupants, |occupant| !self.is_admitted(occupant.address))
    }

    /// Rule 2.
    fn beyond_share<'a>(
        &self,
        occupants: &'a [Rc<Occupant>],
        newcomer: IpAddr,
    ) -> Option<&'a Rc<Occupant>> {
        let mut held: BTreeMap<IpAddr, u64> = BTreeMap::from([(in_bounds(newcomer), 0)]);
        for occupant in occupants {
            // An occupant that has been asked to leave no longer counts.
            *held.entry(in_bounds(occupant.address)).or_default() +=
                u64::from(!occupant.asked.get());
        }
        let share = self.max / held.len() as u64;
        let (&fullest, &most) = held.iter().max_by_key(|(_, places)| **places)?;
        if held[&in_bounds(newcomer)] >= share || most <= share {
            return None;
        }
        let staying = occupants.iter().filter(|occupant| !occupant.asked.get());
        let theirs = staying.filter(|occupant| in_bounds(occupant.address) == fullest);
        theirs.min_by_key(|occupant| (!occupant.is_quiet.get(), occupant.last.get()))
    }
}

/// The occupant that has been quiet for longest, among those for which `is_meant` holds and that
/// are not asked yet.
fn quietest(
    occupants: &[Rc<Occupant>],
    is_meant: impl Fn(&Occupant) -> bool,
) -> Option<&Rc<Occupant>> {
    let quiet =
        occupants.iter().filter(|occupant| occupant.is_quiet.get() && !occupant.asked.get());
    quiet.filter(|occupant| is_meant(occupant)).min_by_key(|occupant| occupant.last.get())
}

impl Place {
    /// The client that has the place.
    pub(crate) fn occupant(&self) -> &Rc<Occupant> {
        &self.occupant
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut occupants = self.places.occupants.borrow_mut();
            let before = occupants.len();
            occupants.retain(|occupant| !Rc::ptr_eq(occupant, &self.occupant));
            assert_eq!(occupants.len() + 1, before, "invariant 1: who has a place is an occupant");
        }
        drop(self.permit.take());
        if !is_planted(Bug::UnofferedPlaces) {
            self.places.hand_out();
        }
    }
}

impl Drop for AtDoor {
    fn drop(&mut self) {
        self.places.door.borrow_mut().retain(|waiter| !Rc::ptr_eq(waiter, &self.waiter));
        drop(self.waiter.place.take()); // the place goes to another client
    }
}

impl Occupant {
    fn ask(&self) {
        self.asked.set(true);
        self.was_quiet.set(self.is_quiet.get());
        self.leave.notify();
    }

    /// Whether it was asked to leave.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.get()
    }

    /// Whether it was quiet when it was asked to leave: no reply is in flight.
    pub(crate) fn leaves_quietly(&self) -> bool {
        self.was_quiet.get()
    }

    /// Notes whether it is quiet now, and whether it has been since the last time.
    pub(crate) fn note(&self, is_quiet: bool, was_quiet: bool) {
        if !is_quiet || !was_quiet || !self.is_quiet.get() {
            self.last.set(self.clock.now());
        }
        self.is_quiet.set(is_quiet);
    }

    /// Completes when it is asked to leave.
    pub(crate) async fn asked_to_leave(&self) {
        while !self.asked.get() {
            self.leave.wait().await;
        }
    }
}

#[cfg(test)]
mod tests;
