//! What is thrown once, and what waits for it.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use runtime::sync::Signal;

/// Is thrown once and stays so. Clones are one switch.
///
/// Who looks at it whenever a connection wakes does so through [`crate::seldom`]: a signal takes
/// note of every look by another waker.
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
