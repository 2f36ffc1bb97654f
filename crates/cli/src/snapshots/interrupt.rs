//! Ctrl-C, as a command hears it that is to leave a volume clean.
//!
//! The first one is heeded where the work can end without harm; the second ends the process at
//! once, and the volume is as after a cut.

use std::cell::Cell;
use std::process;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};
use runtime::Runtime;
use server::Signals;

use crate::failure::Failure;
use crate::words;

/// How soon it is heard while something is waited for.
const SOON: Duration = Duration::from_millis(50);

/// See the module's prose.
pub(super) struct Interrupt {
    pub(super) is_heard: Rc<Cell<bool>>,
    pub(super) runtime: Runtime,
}

impl Interrupt {
    /// Heeds it from now on. Within the reactor.
    ///
    /// # Errors
    /// [`Failure::Serve`] when the operating system does not tell of signals.
    pub(super) fn heed(runtime: &Runtime) -> Result<Self, Failure> {
        let (mut signals, is_heard) = (Signals::new()?, Rc::new(Cell::new(false)));
        let heard = is_heard.clone();
        let listen = async move {
            signals.any().await;
            heard.set(true);
            signals.any().await;
            words::drain();
            process::exit(1);
        };
        runtime.tasks.spawn(listen.boxed_local());
        Ok(Self { is_heard, runtime: runtime.clone() })
    }

    /// Whether there was one.
    pub(super) fn is_heard(&self) -> bool {
        self.is_heard.get()
    }

    /// Waits for something, unless one comes: then for nothing.
    pub(super) async fn unless_heard<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let heard = async {
            while !self.is_heard() {
                self.runtime.clock.sleep(SOON).await;
            }
        };
        match select(work.boxed_local(), heard.boxed_local()).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }
}
