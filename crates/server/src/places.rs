//! The places for connections, and which guest gives its own up when all are taken.
//!
//! A connection costs memory, so there are only so many. A client may keep its own for as long as
//! it likes, with calls or without, but not at the price of others: when a client is at the door
//! and no place is free, a guest is asked to leave. What that guest has asked is still answered,
//! and a client that finds its connection closed opens another when it has something to ask.
//! Without this, a few processes that only connect could shut all others out for ever.
//!
//! # Who leaves
//! The first of these that there is:
//! 1. a *stranger*, a guest that no export admits: the one that has been quiet for longest;
//! 2. if the newcomer's address has fewer places than its share, a guest of the address that has
//!    most, if that is more than its share: the one that has been quiet for longest, or does most
//!    to be it. The share is what all addresses would have if they had the same;
//! 3. the guest that has been quiet for longest, if that is at least [`QUIET`].
//!
//! A stranger at the door is sent away while no place is free. An IPv6 network of 64 bits counts as
//! one address: a client that has one address of it has them all.
//!
//! Invariants:
//! 1. `guests` are those that have a place.
//! 2. A guest is quiet when no call of it is being carried out or waits for memory. A call that
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

/// How long a guest of rule 3 is not asked to leave after its last call.
const QUIET: Duration = Duration::from_secs(5);

/// How long a guest may take to leave before another one is asked.
const LEAVING: Duration = Duration::from_secs(1);

/// Says whether any export admits an address.
pub(crate) type Admits = Rc<dyn Fn(IpAddr) -> bool>;

/// All places.
pub(crate) struct Places {
    clock: Rc<dyn Clock>,
    admits: Admits,
    max: u64,
    free: Rc<Semaphore>,
    guests: RefCell<Vec<Rc<Guest>>>,
    warned: Cell<bool>,
}

/// A client that has a place.
pub(crate) struct Guest {
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
    guest: Rc<Guest>,
    _permit: Permit,
}

impl Places {
    /// So many places, all free.
    pub(crate) fn new(clock: Rc<dyn Clock>, max: u64, admits: Admits) -> Rc<Self> {
        let (guests, warned) = (RefCell::default(), Cell::new(false));
        Rc::new(Self { clock, admits, max, free: Semaphore::new(max), guests, warned })
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
        let guest = Rc::new(Guest {
            clock: self.clock.clone(),
            address,
            last: Cell::new(self.clock.now()),
            is_quiet: Cell::new(true),
            asked: Cell::new(false),
            was_quiet: Cell::new(false),
            leave: Signal::new(),
        });
        self.guests.borrow_mut().push(guest.clone());
        let guests = self.guests.borrow().len() as u64;
        assert!(guests <= self.max, "invariant 1: no more guests than places");
        Some(Place { places: self.clone(), guest, _permit: permit })
    }

    /// Completes when all guests have left, and no other has come.
    pub(crate) async fn all_free(&self) -> Permit {
        self.free.acquire(self.max).await
    }

    /// The process has no descriptor left for a newcomer: a guest that does nothing makes room, if
    /// there is one.
    pub(crate) fn relieve(&self) {
        let guests = self.guests.borrow();
        if let Some(guest) = self.stranger(&guests).or_else(|| quietest(&guests, |_| true)) {
            guest.ask();
        }
    }

    /// Asks a guest to leave, if the rules name one, for a newcomer. Says when to ask again.
    fn ask(&self, newcomer: IpAddr) -> Duration {
        let guests = self.guests.borrow();
        let guest = self.stranger(&guests).or_else(|| self.beyond_share(&guests, newcomer));
        if let Some(guest) = guest {
            guest.ask();
            return LEAVING;
        }
        let Some(guest) = quietest(&guests, |_| true) else { return LEAVING };
        let since = Duration::from_nanos(self.clock.now().0 - guest.last.get().0);
        if since < QUIET {
            return QUIET - since;
        }
        guest.ask();
        LEAVING
    }

    /// Rule 1.
    fn stranger<'a>(&self, guests: &'a [Rc<Guest>]) -> Option<&'a Rc<Guest>> {
        quietest(guests, |guest| !(self.admits)(guest.address))
    }

    /// Rule 2.
    fn beyond_share<'a>(&self, guests: &'a [Rc<Guest>], newcomer: IpAddr) -> Option<&'a Rc<Guest>> {
        let mut held: BTreeMap<IpAddr, u64> = BTreeMap::from([(in_bounds(newcomer), 0)]);
        for guest in guests {
            // A guest that has been asked to leave has no place any more.
            *held.entry(in_bounds(guest.address)).or_default() += u64::from(!guest.asked.get());
        }
        let share = self.max / held.len() as u64;
        let (&fullest, &most) = held.iter().max_by_key(|(_, places)| **places)?;
        if held[&in_bounds(newcomer)] >= share || most <= share {
            return None;
        }
        let staying = guests.iter().filter(|guest| !guest.asked.get());
        let theirs = staying.filter(|guest| in_bounds(guest.address) == fullest);
        theirs.min_by_key(|guest| (!guest.is_quiet.get(), guest.last.get()))
    }
}

/// Of the quiet guests that are meant and not asked yet, the one that has been quiet for longest.
fn quietest(guests: &[Rc<Guest>], is_meant: impl Fn(&Guest) -> bool) -> Option<&Rc<Guest>> {
    let quiet = guests.iter().filter(|guest| guest.is_quiet.get() && !guest.asked.get());
    quiet.filter(|guest| is_meant(guest)).min_by_key(|guest| guest.last.get())
}

impl Place {
    /// The client that has it.
    pub(crate) fn guest(&self) -> &Rc<Guest> {
        &self.guest
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut guests = self.places.guests.borrow_mut();
        let before = guests.len();
        guests.retain(|guest| !Rc::ptr_eq(guest, &self.guest));
        assert_eq!(guests.len() + 1, before, "invariant 1: who has a place is a guest");
    }
}

impl Guest {
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
