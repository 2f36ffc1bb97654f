//! The places for connections, and which occupant gives its own up when all are taken.
//!
//! A connection costs memory, so there are only so many. A client may keep its own for as long as
//! it likes, with calls or without, but not at the price of others: when a client is at the door
//! and no place is free, an occupant is asked to leave. What that occupant has asked is still
//! answered, and a client that finds its connection closed opens another when it has something to
//! ask. Without this, a few processes that only connect could shut all others out for ever.
//!
//! # Who leaves
//! The first of these that there is:
//! 1. a *stranger*, an occupant that no export admits: the one that has been quiet for longest;
//! 2. if the newcomer's address has fewer places than its share, an occupant of the address that
//!    has most, if that is more than its share: the one that has been quiet for longest, or does
//!    most to be it. The share is what all addresses would have if they had the same;
//! 3. the occupant that has been quiet for longest, if that is at least [`QUIET`].
//!
//! A stranger at the door is sent away while no place is free. An IPv6 network of 64 bits counts as
//! one address: a client that has one address of it has them all.
//!
//! Invariants:
//! 1. `occupants` are those that have a place.
//! 2. An occupant is quiet when no call of it is being carried out or waits for memory. A call that
//!    it has not sent to its end, replies that it does not take, and calls that no file system had
//!    to answer (NULL, or whatever is refused at the door) are no work of ours.
//!
//! Not asserted: 2, which the connection tells.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use dispatch::reply_cache::in_bounds;
use futures::FutureExt;
use futures::future::{Either, select};
use runtime::sync::{Permit, Semaphore, Signal};
use runtime::{Clock, Instant};

/// How long an occupant of rule 3 is not asked to leave after its last call.
const QUIET: Duration = Duration::from_secs(5);

/// How long an occupant may take to leave before another one is asked.
const LEAVING: Duration = Duration::from_secs(1);

/// Says whether any export admits an address.
pub(crate) type Admits = Rc<dyn Fn(IpAddr) -> bool>;

/// All places.
pub(crate) struct Places {
    clock: Rc<dyn Clock>,
    admits: Admits,
    max: u64,
    free: Rc<Semaphore>,
    occupants: RefCell<Vec<Rc<Occupant>>>,
    warned: Cell<bool>,
}

/// A client that has a place.
pub(crate) struct Occupant {
    clock: Rc<dyn Clock>,
    address: IpAddr,
    /// When it last was not quiet.
    last: Cell<Instant>,
    is_quiet: Cell<bool>,
    asked: Cell<bool>,
    /// Whether it was quiet when it was asked.
    was_quiet: Cell<bool>,
    leave: Signal,
}

/// A place that is taken. It is free again when this is dropped.
pub(crate) struct Place {
    places: Rc<Places>,
    occupant: Rc<Occupant>,
    _permit: Permit,
}

impl Places {
    /// So many places, all free.
    pub(crate) fn new(clock: Rc<dyn Clock>, max: u64, admits: Admits) -> Rc<Self> {
        let (occupants, warned) = (RefCell::default(), Cell::new(false));
        Rc::new(Self { clock, admits, max, free: Semaphore::new(max), occupants, warned })
    }

    /// A place for a client at the door; none for a stranger when none is free.
    pub(crate) async fn enter(self: &Rc<Self>, address: IpAddr) -> Option<Place> {
        let mut free = self.free.acquire(1).boxed_local();
        let permit = loop {
            if let Some(permit) = (&mut free).now_or_never() {
                break permit;
            }
            if !(self.admits)(address) {
                return None;
            }
            if !self.warned.replace(true) {
                tracing::warn!(limit = self.max, "all connections are in use: quiet ones must go");
            }
            match select(free, self.clock.sleep(self.ask(address))).await {
                Either::Left((permit, _)) => break permit,
                Either::Right(((), still_waiting)) => free = still_waiting,
            }
        };
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
        Some(Place { places: self.clone(), occupant, _permit: permit })
    }

    /// Completes when all occupants have left, and no other has come.
    pub(crate) async fn all_free(&self) -> Permit {
        self.free.acquire(self.max).await
    }

    /// The process has no descriptor left for a newcomer: an occupant that does nothing makes room,
    /// if there is one.
    pub(crate) fn relieve(&self) {
        let occupants = self.occupants.borrow();
        if let Some(occupant) = self.stranger(&occupants).or_else(|| quietest(&occupants, |_| true))
        {
            occupant.ask();
        }
    }

    /// Asks an occupant to leave, if the rules name one, for a newcomer. Says when to ask again.
    fn ask(&self, newcomer: IpAddr) -> Duration {
        let occupants = self.occupants.borrow();
        let occupant =
            self.stranger(&occupants).or_else(|| self.beyond_share(&occupants, newcomer));
        if let Some(occupant) = occupant {
            occupant.ask();
            return LEAVING;
        }
        let Some(occupant) = quietest(&occupants, |_| true) else { return LEAVING };
        let since = Duration::from_nanos(self.clock.now().0 - occupant.last.get().0);
        if since < QUIET {
            return QUIET - since;
        }
        occupant.ask();
        LEAVING
    }

    /// Rule 1.
    fn stranger<'a>(&self, occupants: &'a [Rc<Occupant>]) -> Option<&'a Rc<Occupant>> {
        quietest(occupants, |occupant| !(self.admits)(occupant.address))
    }

    /// Rule 2.
    fn beyond_share<'a>(
        &self,
        occupants: &'a [Rc<Occupant>],
        newcomer: IpAddr,
    ) -> Option<&'a Rc<Occupant>> {
        let mut held: BTreeMap<IpAddr, u64> = BTreeMap::from([(in_bounds(newcomer), 0)]);
        for occupant in occupants {
            // An occupant that has been asked to leave has no place any more.
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

/// Of the quiet occupants that are meant and not asked yet, the one that has been quiet for
/// longest.
fn quietest(
    occupants: &[Rc<Occupant>],
    is_meant: impl Fn(&Occupant) -> bool,
) -> Option<&Rc<Occupant>> {
    let quiet =
        occupants.iter().filter(|occupant| occupant.is_quiet.get() && !occupant.asked.get());
    quiet.filter(|occupant| is_meant(occupant)).min_by_key(|occupant| occupant.last.get())
}

impl Place {
    /// The client that has it.
    pub(crate) fn occupant(&self) -> &Rc<Occupant> {
        &self.occupant
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut occupants = self.places.occupants.borrow_mut();
        let before = occupants.len();
        occupants.retain(|occupant| !Rc::ptr_eq(occupant, &self.occupant));
        assert_eq!(occupants.len() + 1, before, "invariant 1: who has a place is an occupant");
    }
}

impl Occupant {
    fn ask(&self) {
        self.asked.set(true);
        self.was_quiet.set(self.is_quiet.get());
        self.leave.notify();
    }

    /// Whether it leaves because it was asked to, and did nothing then: no reply is on its way.
    pub(crate) fn leaves_quietly(&self) -> bool {
        self.was_quiet.get()
    }

    /// Takes note of whether it is quiet now, and whether it has been since the last time.
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
