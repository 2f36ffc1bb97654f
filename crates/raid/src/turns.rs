//! Per-number exclusive locks: one task at a time works on, for example, a stripe.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use runtime::sync::{Lock, Permit};

/// The locks that are held or awaited, by number.
#[derive(Default)]
pub(crate) struct Turns(RefCell<HashMap<u64, Lock>>);

/// Exclusive hold on one number, released on drop.
pub(crate) struct Alone {
    turns: Rc<Turns>,
    number: u64,
    permit: Option<Permit>,
}

impl Turns {
    /// Waits for the exclusive lock on a number.
    pub(crate) async fn alone(self: &Rc<Self>, number: u64) -> Alone {
        let lock = self.0.borrow_mut().entry(number).or_default().clone();
        let permit = Some(lock.exclusive().await);
        Alone { turns: self.clone(), number, permit }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.permit = None;
        let mut turns = self.turns.0.borrow_mut();
        // A waiting task owns the lock now, so it is not free.
        if turns.get(&self.number).is_some_and(Lock::is_free) {
            turns.remove(&self.number);
        }
    }
}
