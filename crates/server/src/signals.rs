//! A server under the signals of a daemon.

use dispatch::Volume;
use futures::future::{Either, select};
use futures::{FutureExt, pin_mut};
use runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::ready::ReadyInfo;
use crate::server::{ServeError, Server, ServerHandle, Settings};

/// Serves `volumes` until SIGTERM or SIGINT, and shuts them down. Calls `ready` once, when clients
/// are accepted. SIGHUP reads the exports anew.
///
/// # Errors
/// See [`ServeError`]. After [`ServeError::Interrupted`] the process should end at once.
pub async fn serve(
    runtime: &Runtime,
    volumes: Vec<Volume>,
    settings: Settings,
    ready: impl FnOnce(&ReadyInfo),
) -> Result<(), ServeError> {
    let mut signals = Signals::new().map_err(ServeError::Signals)?;
    let mut server = Server::bind(runtime, volumes, settings).await?;
    server.register().await;
    ready(server.ready());
    let handle = server.handle();
    let run = server.run();
    pin_mut!(run);
    let signalled = async {
        signals.end(&handle).await;
        handle.stop();
        signals.end(&handle).await;
    };
    match select(run, signalled.boxed_local()).await {
        Either::Left((ended, _)) => ended,
        Either::Right(_) => Err(ServeError::Interrupted),
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Completes at the next signal to end, and heeds SIGHUP meanwhile.
    async fn end(&mut self, handle: &ServerHandle) {
        loop {
            let terminate = self.terminate.recv().map(|_| Asked::End);
            let interrupt = self.interrupt.recv().map(|_| Asked::End);
            let hangup = self.hangup.recv().map(|_| Asked::Reload);
            let all = [terminate.boxed_local(), interrupt.boxed_local(), hangup.boxed_local()];
            match futures::future::select_all(all).await.0 {
                Asked::End => return,
                Asked::Reload => reload(handle),
            }
        }
    }
}

enum Asked {
    End,
    Reload,
}

fn reload(handle: &ServerHandle) {
    match handle.reload_exports() {
        Ok(()) => tracing::info!("the exports were read anew"),
        Err(error) => tracing::error!(%error, "the exports stay as they were"),
    }
}
