//! A switch that is thrown once, and tasks that wait for it.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use runtime::sync::Signal;

/// Thrown once for good. Clones are one switch.
///
/// A task that polls it whenever a connection wakes does so through [`crate::seldom`]: a signal
/// notes every poll with another waker.
#[derive(Clone, Default)]
pub struct Switch(Rc<Inner>);

#[derive(Default)]
struct Inner {
    is_thrown: Cell<bool>,
    thrown: Signal,
}

impl Switch {
    /// Throws it.
    pub fn throw(&self) {
        self.0.is_thrown.set(true);
        self.0.thrown.notify();
    }

    /// Completes when it is thrown, or at once when it is already.
    pub fn wait(&self) -> impl Future<Output = ()> + 'static {
        let inner = self.0.clone();
        async move {
            while !inner.is_thrown.get() {
                inner.thrown.wait().await;
            }
        }
    }
}
