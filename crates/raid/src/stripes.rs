//! Who is at work on which stripe.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use runtime::sync::{Lock, Permit};

/// The stripes on which there is work: of each, one task at a time.
#[derive(Default)]
pub(crate) struct Stripes(RefCell<HashMap<u64, Lock>>);

/// A stripe that one task has alone.
pub(crate) struct Alone {
    stripes: Rc<Stripes>,
    stripe: u64,
    permit: Option<Permit>,
}

impl Stripes {
    /// Waits until we are alone with a stripe.
    pub(crate) async fn alone(self: &Rc<Self>, stripe: u64) -> Alone {
        let lock = self.0.borrow_mut().entry(stripe).or_default().clone();
        let permit = Some(lock.exclusive().await);
        Alone { stripes: self.clone(), stripe, permit }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.permit = None;
        let mut stripes = self.stripes.0.borrow_mut();
        // A task that waited has it now, so it is not free.
        if stripes.get(&self.stripe).is_some_and(Lock::is_free) {
            stripes.remove(&self.stripe);
        }
    }
}
