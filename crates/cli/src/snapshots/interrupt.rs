//! Ctrl-C in a command that must leave a volume clean.
//!
//! The first one takes effect where the work can end without harm; the second ends the process at
//! once, and the volume is left as after a cut.

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

/// Interval at which a wait checks for an interrupt.
const SOON: Duration = Duration::from_millis(50);

/// Whether Ctrl-C was pressed. See the module's documentation.
pub(super) struct Interrupt {
    pub(super) is_heard: Rc<Cell<bool>>,
    pub(super) runtime: Runtime,
}

impl Interrupt {
    /// Handles Ctrl-C from now on. Call it within the reactor.
    ///
    /// # Errors
    /// [`Failure::Serve`] if the operating system reports no signals.
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

    /// Whether Ctrl-C was pressed.
    pub(super) fn is_heard(&self) -> bool {
        self.is_heard.get()
    }

    /// Waits for `work`, or returns `None` on Ctrl-C.
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
