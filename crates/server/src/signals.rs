//! A server that handles a daemon's signals, from its start to its end.
//!
//! [`Signals`] come first, before volumes are opened: a signal without a handler would kill the
//! process. A signal to end that arrives while volumes are being opened takes effect afterwards, so
//! that they are left clean; a second one ends the start at once. So does the first if the start
//! waits, or comes to wait, for a disk that does not answer.

use std::time::Duration;

use dispatch::Volume;
use futures::future::{Either, pending, select};
use futures::{FutureExt, pin_mut};
use runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

use crate::control::{Control, Desk};
use crate::ready::ReadyInfo;
use crate::serve_error::ServeError;
use crate::server::{Server, ServerHandle, Settings};
use crate::stopping::shut_down;

/// Time between two looks at a start that a signal is to end when it waits for a disk.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Serves `volumes` until SIGTERM or SIGINT, and shuts them down. Calls `ready` once, when clients
/// are accepted. SIGHUP reloads the exports. The `desks` answer requests until the volumes are shut
/// down.
///
/// # Errors
/// See [`ServeError`]. The process should end at once if [`ServeError::ends_at_once`].
pub async fn serve(
    runtime: &Runtime,
    volumes: Vec<Volume>,
    settings: Settings,
    desks: Vec<Desk>,
    mut signals: Signals,
    ready: impl FnOnce(&ReadyInfo),
) -> Result<(), ServeError> {
    if signals.was_asked {
        return signals.while_ending(shut_down(runtime, &volumes)).await;
    }
    let start = async {
        let mut server = Server::bind(runtime, volumes, settings).await?;
        server.register().await;
        Ok::<_, ServeError>(server)
    };
    let server = signals.while_starting(start, || false).await??;
    let handle = server.handle();
    let _control = Control::open(desks, handle.clone()).map_err(ServeError::Control)?;
    if signals.was_asked {
        handle.stop();
    } else {
        ready(server.ready());
    }
    let run = server.run();
    pin_mut!(run);
    let signalled = async {
        if !signals.was_asked {
            signals.end(&handle).await;
            handle.stop();
        }
        signals.end(&handle).await;
    };
    match select(run, signalled.boxed_local()).await {
        Either::Left((ended, _)) => ended,
        Either::Right(_) => Err(ServeError::Interrupted),
    }
}

/// Runs work unless a signal comes first: then returns the unfinished work. From now on SIGTERM,
/// SIGINT and SIGHUP do not kill the process. Call it within the reactor.
///
/// # Errors
/// [`ServeError::Signals`].
pub async fn unless_ended<F: Future + Unpin>(work: F) -> Result<Either<F::Output, F>, ServeError> {
    let mut signals = Signals::new()?;
    let signalled = signals.next().boxed_local();
    Ok(match select(work, signalled).await {
        Either::Left((done, _)) => Either::Left(done),
        Either::Right((_, work)) => Either::Right(work),
    })
}

/// Handlers of SIGTERM, SIGINT and SIGHUP: once they exist, none of these signals kills the
/// process.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// Whether a signal to end came before the server served.
    was_asked: bool,
}

impl Signals {
    /// Handles signals from now on. Call it within the reactor.
    ///
    /// # Errors
    /// [`ServeError::Signals`].
    pub fn new() -> Result<Self, ServeError> {
        let receive = |kind| signal(kind).map_err(ServeError::Signals);
        Ok(Self {
            terminate: receive(SignalKind::terminate())?,
            interrupt: receive(SignalKind::interrupt())?,
            hangup: receive(SignalKind::hangup())?,
            was_asked: false,
        })
    }

    /// Runs the work before serving. A signal to end takes effect afterwards, or as soon as the
    /// start waits for a disk that does not answer. A second one takes effect at once.
    /// SIGHUP has nothing to reload yet.
    ///
    /// # Errors
    /// [`ServeError::Interrupted`]: the process should end at once.
    pub async fn while_starting<T>(
        &mut self,
        start: impl Future<Output = T>,
        is_waiting: impl Fn() -> bool,
    ) -> Result<T, ServeError> {
        pin_mut!(start);
        loop {
            if self.was_asked && is_waiting() {
                return Err(ServeError::Interrupted);
            }
            let was_asked = self.was_asked;
            // The start may come to wait for a disk after the signal.
            let look = async {
                if was_asked {
                    sleep(POLL_INTERVAL).await;
                } else {
                    pending::<()>().await;
                }
            };
            let asked = select(self.next().boxed_local(), look.boxed_local());
            let asked = match select(start.as_mut(), asked).await {
                Either::Left((done, _)) => return Ok(done),
                Either::Right((Either::Left((asked, _)), _)) => Some(asked),
                Either::Right((Either::Right(_), _)) => None,
            };
            if asked == Some(Asked::End) && std::mem::replace(&mut self.was_asked, true) {
                return Err(ServeError::Interrupted);
            }
        }
    }

    /// Runs the end of a server. A signal to end takes effect at once.
    async fn while_ending(
        &mut self,
        end: impl Future<Output = Result<(), ServeError>>,
    ) -> Result<(), ServeError> {
        self.unless_ended(end).await.unwrap_or(Err(ServeError::Interrupted))
    }

    /// Whether a signal to end came during a start.
    pub fn is_end_asked(&self) -> bool {
        self.was_asked
    }

    /// Runs work that leaves nothing behind when it is dropped. `None` if a signal to end comes
    /// first.
    pub async fn unless_ended<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        pin_mut!(work);
        loop {
            match select(work.as_mut(), self.next().boxed_local()).await {
                Either::Left((done, _)) => return Some(done),
                Either::Right((Asked::End, _)) => return None,
                Either::Right((Asked::Reload, _)) => {} // the configuration is read later
            }
        }
    }

    /// Completes at the next signal, for a command that only has to know that there was one.
    pub async fn any(&mut self) {
        self.next().await;
    }

    async fn next(&mut self) -> Asked {
        let terminate = self.terminate.recv().map(|_| Asked::End);
        let interrupt = self.interrupt.recv().map(|_| Asked::End);
        let hangup = self.hangup.recv().map(|_| Asked::Reload);
        let all = [terminate.boxed_local(), interrupt.boxed_local(), hangup.boxed_local()];
        futures::future::select_all(all).await.0
    }

    /// Completes at the next signal to end, and handles SIGHUP meanwhile. Any number of SIGHUPs
    /// during a reload cause one more reload after it.
    async fn end(&mut self, handle: &ServerHandle) {
        let mut reloading = pending().boxed_local();
        let (mut is_reading, mut is_asked_again) = (false, false);
        loop {
            let asked = match select(self.next().boxed_local(), &mut reloading).await {
                Either::Left((asked, _)) => Some(asked),
                Either::Right(((), _)) => None,
            };
            match asked {
                Some(Asked::End) => return,
                Some(Asked::Reload) => is_asked_again = true,
                None => is_reading = false,
            }
            if !is_reading {
                let begins = std::mem::take(&mut is_asked_again);
                is_reading = begins;
                reloading =
                    if begins { reload(handle).boxed_local() } else { pending().boxed_local() };
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Asked {
    End,
    Reload,
}

async fn reload(handle: &ServerHandle) {
    match handle.reload_exports().await {
        Ok(()) if !handle.has_file() => tracing::info!("SIGHUP: there is no configuration to read"),
        Ok(()) => {
            tracing::info!("the exports were read anew");
            handle.log_shares();
        }
        Err(error) => {
            tracing::error!(%error, "the exports stay as they were: no access has changed")
        }
    }
}
