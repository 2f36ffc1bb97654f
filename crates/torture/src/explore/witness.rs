//! A file system that counts the verbs done, for a test that sees its answers only when they are
//! durable.
//!
//! A verb is *done* when its answer is sealed: from then on every caller sees its effect. The
//! client at the other end of the protocol gets the answer much later, and a test of the time in
//! between must know both moments.

use std::cell::Cell;
use std::rc::Rc;

use runtime::sync::Signal;
use vfs::{FileSystem, InFront, ObjectId, Sealed};

/// The file system: see the module.
pub struct Witness {
    files: Rc<dyn FileSystem>,
    done: Cell<u64>,
    more: Signal,
}

impl Witness {
    /// Wraps `files`.
    pub fn new(files: Rc<dyn FileSystem>) -> Rc<Self> {
        Rc::new(Self { files, done: Cell::new(0), more: Signal::new() })
    }

    /// The number of verbs done.
    pub fn done(&self) -> u64 {
        self.done.get()
    }

    /// Counts one more that is not a verb of the protocol.
    pub fn note(&self) {
        self.done.set(self.done.get() + 1);
        self.more.notify();
    }

    /// Waits until more than `count` verbs have been done.
    pub async fn more_than(&self, count: u64) {
        while self.done.get() <= count {
            self.more.wait().await;
        }
    }
}

impl InFront for Witness {
    fn behind(&self) -> &dyn FileSystem {
        &*self.files
    }

    async fn hand_on<T>(
        &self,
        _changes: &[ObjectId],
        verb: impl Future<Output = Sealed<T>>,
    ) -> Sealed<T> {
        let sealed = verb.await;
        self.note();
        sealed
    }
}
