//! The keeper of the door: accepts clients, has them wait for a place, serves them, and hangs up.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use dispatch::Dispatcher;
use futures::FutureExt;
use futures::future::{Either, select};
use runtime::Runtime;
use runtime::sync::yield_now;

use crate::connection::{Connection, ConnectionError};
use crate::places::{Occupant, Places};
use crate::planted::{Bug, is_planted};
use crate::{Listener, Stream, Switch, seldom};

/// Time that peers may take to fetch their last replies.
pub const GRACE: Duration = Duration::from_secs(10);

/// Time that a closed connection waits for the peer's own close, so that no reply in flight is
/// lost.
pub const LINGER: Duration = Duration::from_millis(500);

/// Pause after an accept that failed for want of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Limits of connections and calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most connections at once.
    pub connections: u64,
    /// The most unanswered calls of one connection.
    pub calls_per_connection: usize,
}

/// The door of one server, with its connections.
pub struct Door {
    runtime: Runtime,
    dispatcher: Rc<Dispatcher>,
    places: Rc<Places>,
    /// Whether the warning about too many clients was logged.
    warned: Cell<bool>,
    max_calls: usize,
    stop: Switch,
    /// Thrown when the remaining connections must go.
    abandon: Switch,
    counts: Rc<Cell<DoorCounts>>,
}

/// Number of connections since the start, by what became of them. Those that are left of
/// `accepted` wait for a place, or are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorCounts {
    /// All that were accepted.
    pub accepted: u64,
    /// Accepts that failed.
    pub failed: u64,
    /// Sent away, for want of a place.
    pub sent_away: u64,
    /// Closed by the peer, or at the end of the server.
    pub closed: u64,
    /// Closed to make room for another client.
    pub displaced: u64,
    /// Broken by the network.
    pub lost: u64,
    /// Closed because the peer's bytes were no calls.
    pub garbled: u64,
    /// Closed because the peer neither sent the rest of a call nor took its replies.
    pub given_up: u64,
}

impl Door {
    /// A door for clients of `dispatcher` until `stop` is thrown. Calls that were read are answered
    /// then, and no more are read.
    pub fn new(
        runtime: Runtime,
        dispatcher: Rc<Dispatcher>,
        bounds: Bounds,
        stop: Switch,
    ) -> Rc<Self> {
        let knows = dispatcher.clone();
        let admits = Rc::new(move |address| knows.knows(address));
        Rc::new(Self {
            places: Places::new(runtime.clock.clone(), bounds.connections, admits),
            runtime,
            dispatcher,
            warned: Cell::new(false),
            max_calls: bounds.calls_per_connection,
            stop,
            abandon: Switch::default(),
            counts: Rc::default(),
        })
    }

    /// Number of connections since the start.
    pub fn counts(&self) -> DoorCounts {
        self.counts.get()
    }

    /// Connections that have a place, and clients that wait for one.
    pub fn occupants(&self) -> (usize, usize) {
        self.places.counts()
    }

    /// Accepts for ever, and has each client wait for a place in a task of its own: the next one is
    /// accepted meanwhile.
    pub async fn accept<L: Listener>(self: &Rc<Self>, listener: &L) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    count(&self.counts, |counts| &mut counts.accepted);
                    self.runtime.tasks.spawn(self.clone().admit(stream, peer).boxed_local());
                    // A quiet occupant that leaves for this client does so before the next one is
                    // at the door: else a backlog would fill the door, and be sent away.
                    if !self.places.is_any_free() && !is_planted(Bug::HurriedAccept) {
                        yield_now().await;
                    }
                }
                Err(error) => {
                    count(&self.counts, |counts| &mut counts.failed);
                    let is_crowded = L::is_crowded(&error);
                    if is_crowded {
                        self.places.relieve();
                    }
                    // Descriptors are short for a while, and in every round of this loop.
                    if !(is_crowded && self.warned.replace(true)) {
                        tracing::warn!(%error, "a connection could not be accepted");
                    }
                    self.runtime.clock.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves a client as soon as there is a place for it, unless the server stops before.
    async fn admit(self: Rc<Self>, stream: impl Stream, peer: SocketAddr) {
        let enter = self.places.enter(peer.ip()).boxed_local();
        let place = match select(enter, self.stop.wait().boxed_local()).await {
            Either::Left((Some(place), _)) => place,
            Either::Left((None, _)) => {
                count(&self.counts, |counts| &mut counts.sent_away);
                tracing::debug!(%peer, "sent away: no place is free for it");
                return;
            }
            Either::Right(_) => {
                count(&self.counts, |counts| &mut counts.closed);
                return;
            }
        };
        self.serve(stream, peer, place.occupant().clone()).await;
        drop(place);
    }

    fn serve<S: Stream>(
        &self,
        mut stream: S,
        peer: SocketAddr,
        occupant: Rc<Occupant>,
    ) -> impl Future<Output = ()> + use<S> {
        let (asked, stop) = (occupant.clone(), self.stop.wait().boxed_local());
        let asked = async move { asked.asked_to_leave().await };
        let stop = seldom(select(stop, asked.boxed_local())).map(drop).boxed_local();
        let (session, runtime) = (self.dispatcher.connect(peer.ip()), self.runtime.clone());
        let abandon = seldom(self.abandon.wait()).boxed_local();
        let counts = self.counts.clone();
        let (max_calls, is_stranger) = (self.max_calls, !self.dispatcher.knows(peer.ip()));
        async move {
            if let Err(error) = stream.prepare(is_stranger) {
                count(&counts, |counts| &mut counts.lost);
                tracing::debug!(%peer, %error, "gone before it was served");
                return;
            }
            tracing::debug!(%peer, "connected");
            let clock = runtime.clock.clone();
            let connection = Connection::new(stream, session, clock, max_calls, stop);
            let connection = connection.noted_by(occupant.clone());
            let served = select(connection, abandon).await;
            count(&counts, |counts| match &served {
                Either::Left((Ok(_), _)) if occupant.is_asked() => &mut counts.displaced,
                Either::Left((Ok(_), _)) => &mut counts.closed,
                Either::Left((Err(ConnectionError::Io(_)), _)) => &mut counts.lost,
                Either::Left((Err(ConnectionError::GivenUp(_)), _)) => &mut counts.given_up,
                Either::Left((Err(_), _)) => &mut counts.garbled,
                Either::Right(_) => &mut counts.given_up,
            });
            match served {
                Either::Left((Ok(_), _)) if occupant.leaves_quietly() => {} // others want its place
                Either::Left((Ok(stream), _)) => linger(stream, &runtime).await,
                Either::Left((Err(error), _)) => {
                    tracing::debug!(%peer, %error, "connection lost");
                }
                Either::Right(_) => {
                    tracing::debug!(%peer, "abandoned with replies that the peer did not take");
                }
            }
            tracing::debug!(%peer, "disconnected");
        }
    }

    /// Waits until all connections are over, or [`GRACE`] has passed and they are abandoned.
    pub async fn drain(&self) {
        let all = self.places.all_free().boxed_local();
        if let Either::Right((_, all)) = select(all, self.runtime.clock.sleep(GRACE)).await {
            self.abandon.throw();
            all.await;
        }
    }
}

/// Counts a connection.
fn count(counts: &Cell<DoorCounts>, which: impl FnOnce(&mut DoorCounts) -> &mut u64) {
    let mut now = counts.get();
    *which(&mut now) += 1;
    counts.set(now);
}

/// Closes our side and waits a little for the peer's. A socket that is closed while calls still
/// arrive is reset, and the reset may overtake the last replies.
async fn linger(mut stream: impl Stream, runtime: &Runtime) {
    let end = async {
        poll_fn(|context| stream.poll_close(context)).await?;
        let mut ignored = [0; 4096];
        while poll_fn(|context| stream.poll_read(context, [&mut ignored, &mut []])).await? > 0 {}
        Ok::<(), io::Error>(())
    };
    // An error, or a peer that stays, makes no difference any more.
    select(Box::pin(end), runtime.clock.sleep(LINGER)).await;
}

#[cfg(test)]
mod tests;
