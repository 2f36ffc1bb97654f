//! The places for connections, and who gives his up when all are taken.
//!
//! A connection costs memory, so there are only so many. A client may keep its own for as long as
//! it likes, with calls or without, but not at the price of others: when somebody is at the door
//! and no place is free, the guest who has been quiet for longest is asked to leave, if that is at
//! least [`QUIET`]. What he has asked is still answered, and a client that finds its connection
//! closed opens another when it has something to ask. Without this, a few processes that only
//! connect could shut everybody out for ever.
//!
//! Invariants:
//! 1. `guests` are those who have a place.
//! 2. A guest is quiet when no call of his is being carried out or waits for memory. A call that
//!    he has not sent to its end, and replies that he does not take, are no work of ours.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};
use runtime::sync::{Permit, Semaphore, Signal};
use runtime::{Clock, Instant};

/// How long nobody is asked to leave after his last call.
const QUIET: Duration = Duration::from_secs(5);

/// How long a guest may take to leave before another one is asked.
const LEAVING: Duration = Duration::from_secs(1);

/// All places.
pub(crate) struct Places {
    clock: Rc<dyn Clock>,
    max: u64,
    free: Rc<Semaphore>,
    guests: RefCell<Vec<Rc<Guest>>>,
    warned: Cell<bool>,
}

/// Somebody who has a place.
pub(crate) struct Guest {
    clock: Rc<dyn Clock>,
    /// When he last was not quiet.
    last: Cell<Instant>,
    is_quiet: Cell<bool>,
    asked: Cell<bool>,
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
    pub(crate) fn new(clock: Rc<dyn Clock>, max: u64) -> Rc<Self> {
        let (guests, warned) = (RefCell::default(), Cell::new(false));
        Rc::new(Self { clock, max, free: Semaphore::new(max), guests, warned })
    }

    /// A place for somebody who is at the door.
    pub(crate) async fn enter(self: &Rc<Self>) -> Place {
        let mut free = self.free.acquire(1).boxed_local();
        let permit = loop {
            if let Some(permit) = (&mut free).now_or_never() {
                break permit;
            }
            if !self.warned.replace(true) {
                tracing::warn!(limit = self.max, "all connections are in use: quiet ones must go");
            }
            match select(free, self.clock.sleep(self.ask())).await {
                Either::Left((permit, _)) => break permit,
                Either::Right(((), still_waiting)) => free = still_waiting,
            }
        };
        let guest = Rc::new(Guest {
            clock: self.clock.clone(),
            last: Cell::new(self.clock.now()),
            is_quiet: Cell::new(true),
            asked: Cell::new(false),
            leave: Signal::new(),
        });
        self.guests.borrow_mut().push(guest.clone());
        Place { places: self.clone(), guest, _permit: permit }
    }

    /// Completes when everybody has left, and nobody else has come.
    pub(crate) async fn all_free(&self) -> Permit {
        self.free.acquire(self.max).await
    }

    /// Asks who has been quiet for longest to leave, if anybody has been for long enough. Says when
    /// to ask again.
    fn ask(&self) -> Duration {
        let guests = self.guests.borrow();
        let quiet = guests.iter().filter(|guest| guest.is_quiet.get() && !guest.asked.get());
        let Some(guest) = quiet.min_by_key(|guest| guest.last.get()) else { return LEAVING };
        let since = Duration::from_nanos(self.clock.now().0 - guest.last.get().0);
        if since < QUIET {
            return QUIET - since;
        }
        guest.asked.set(true);
        guest.leave.notify();
        LEAVING
    }
}

impl Place {
    /// Who has it.
    pub(crate) fn guest(&self) -> &Rc<Guest> {
        &self.guest
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.guests.borrow_mut().retain(|guest| !Rc::ptr_eq(guest, &self.guest));
    }
}

impl Guest {
    /// Takes note of whether he is quiet now, and whether he has been since the last time.
    pub(crate) fn note(&self, is_quiet: bool, was_quiet: bool) {
        if !is_quiet || !was_quiet || !self.is_quiet.get() {
            self.last.set(self.clock.now());
        }
        self.is_quiet.set(is_quiet);
    }

    /// Completes when he is asked to leave.
    pub(crate) async fn asked_to_leave(&self) {
        while !self.asked.get() {
            self.leave.wait().await;
        }
    }
}

#[cfg(test)]
mod tests;
