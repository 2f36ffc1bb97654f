//! A file system that counts what has been done, for a test that sees its answers only when they
//! are durable.
//!
//! A verb has been *done* when its answer is sealed: from then on every caller sees its effect. The
//! client at the other end of the protocol hears of it much later, and a test of what may happen in
//! between has to know both moments.

use std::cell::Cell;
use std::rc::Rc;

use runtime::sync::Signal;
use vfs::{FileSystem, InFront, ObjectId, Sealed};

/// See the module's prose.
pub struct Witness {
    files: Rc<dyn FileSystem>,
    done: Cell<u64>,
    more: Signal,
}

impl Witness {
    /// Before `files`.
    pub fn new(files: Rc<dyn FileSystem>) -> Rc<Self> {
        Rc::new(Self { files, done: Cell::new(0), more: Signal::new() })
    }

    /// How many verbs have been done.
    pub fn done(&self) -> u64 {
        self.done.get()
    }

    /// One more has been done, which is none of the protocol.
    pub fn note(&self) {
        self.done.set(self.done.get() + 1);
        self.more.notify();
    }

    /// Waits until more than `count` have been done.
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
