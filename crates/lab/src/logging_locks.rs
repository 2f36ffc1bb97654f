//! The logging locks of Calaveras: a call that changes a file or a directory locks it against other
//! changes until the change is in the log (paper, section 3.1).
//!
//! Our own engine releases its locks when a change is staged, and relies on the order of the log
//! ("early release"). This wrapper adds the paper's locks in front of our file system, for models
//! of the paper's server.
//!
//! The object of a name is not known here, so a REMOVE locks the directory alone. A read-only call
//! takes no lock, as in the paper.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use runtime::sync::{Permit, Semaphore};
use vfs::{FileSystem, InFront, ObjectId, Sealed};

/// A file system in which changes of one object become durable one after the other.
pub struct LoggingLocks {
    inner: Rc<dyn FileSystem>,
    /// Locks that a call holds or waits for.
    locks: RefCell<HashMap<ObjectId, Rc<Semaphore>>>,
}

impl LoggingLocks {
    /// Wraps this file system with logging locks.
    pub fn new(inner: Rc<dyn FileSystem>) -> Self {
        Self { inner, locks: RefCell::default() }
    }

    async fn lock(&self, objects: &[ObjectId]) -> Vec<Permit> {
        let mut order = objects.to_vec();
        order.sort_by_key(|object| (object.ino.0, object.generation));
        order.dedup();
        let mut held = Vec::new();
        for object in order {
            let new = || Semaphore::new(1);
            let lock = self.locks.borrow_mut().entry(object).or_insert_with(new).clone();
            held.push(lock.acquire(1).await);
        }
        held
    }
}

impl InFront for LoggingLocks {
    fn behind(&self) -> &dyn FileSystem {
        &*self.inner
    }

    /// Holds the locks of a change's objects until the change is durable.
    async fn hand_on<T>(
        &self,
        changes: &[ObjectId],
        verb: impl Future<Output = Sealed<T>>,
    ) -> Sealed<T> {
        if changes.is_empty() {
            return verb.await;
        }
        let held = self.lock(changes).await;
        let sealed = verb.await;
        sealed.settled().await;
        drop(held);
        self.locks.borrow_mut().retain(|_, lock| Rc::strong_count(lock) > 1);
        sealed
    }
}
