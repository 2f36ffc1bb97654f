//! Who is at work on what: of each thing that has a number, a stripe say, one task at a time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use runtime::sync::{Lock, Permit};

/// The things on which there is work.
#[derive(Default)]
pub(crate) struct Turns(RefCell<HashMap<u64, Lock>>);

/// A thing that one task has alone.
pub(crate) struct Alone {
    turns: Rc<Turns>,
    number: u64,
    permit: Option<Permit>,
}

impl Turns {
    /// Waits until we are alone with a thing.
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
        // A task that waited has it now, so it is not free.
        if turns.get(&self.number).is_some_and(Lock::is_free) {
            turns.remove(&self.number);
        }
    }
}
