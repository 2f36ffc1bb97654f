//! A line that outlives its connections: when one is lost it reconnects, and repeats the calls
//! without a reply.
//!
//! Invariants:
//! 1. A repeated call has the same number and the same bytes, so that a server that remembers
//!    replies executes it once, and never late over calls that came after its reply.
//! 2. At most one connection is dialed at a time, and each loss is followed by a pause.
//! 3. An impossible reply of the server is reported, and the call not repeated.
//!
//! Not asserted: 1, 2 and 3, which show on the wire alone.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, select};
use nfs::nfs3::Request;
use nfs::rpc::Caller;
use runtime::sync::Semaphore;
use runtime::{Instant, Runtime};

use crate::call::{CallError, Line, read, segments};
use crate::connection::{Broken, Connection, Numbers};
use crate::planted::{Bug, is_planted};
use crate::stream::{Dial, Service};

/// Timeouts and pauses.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Pause between a loss, or a failed dialing, and the next dialing.
    pub pause: Duration,
    /// Time without a reply until the connection is given up.
    pub silence: Duration,
    /// Time for a call, over all connections, until it fails.
    pub call: Duration,
}

impl Default for Patience {
    /// Repeats a call until it is answered.
    fn default() -> Self {
        let silence = Duration::from_secs(60);
        Self { pause: Duration::from_secs(1), silence, call: Duration::MAX }
    }
}

/// A caller, and its line to a server. Cheap to clone.
#[derive(Clone)]
pub struct Redial(Rc<Inner>);

struct Inner {
    runtime: Runtime,
    dial: Rc<dyn Dial>,
    caller: Rc<Caller>,
    numbers: Numbers,
    patience: Patience,
    state: RefCell<State>,
    /// Its holder dials.
    turn: Rc<Semaphore>,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    /// Number of connections so far.
    round: u64,
    /// Time at which the last one was lost, or could not be made.
    lost: Option<Instant>,
}

impl Redial {
    /// A line of this caller. It dials at its first use.
    pub fn new(
        runtime: &Runtime,
        dial: Rc<dyn Dial>,
        caller: Rc<Caller>,
        numbers: Numbers,
        patience: Patience,
    ) -> Self {
        let (runtime, state, turn) = (runtime.clone(), RefCell::default(), Semaphore::new(1));
        Self(Rc::new(Inner { runtime, dial, caller, numbers, patience, state, turn }))
    }
}

impl Line for Redial {
    async fn call<R: Request>(&self, arguments: &R) -> Result<R::Ok, CallError> {
        let inner = &*self.0;
        let since = inner.runtime.clock.now();
        let mut number = inner.numbers.next();
        let mut record = segments(number, &inner.caller, arguments);
        loop {
            let why = match inner.connection().await {
                Ok((round, connection)) => match inner.ask(&connection, number, &record).await {
                    Ok(reply) => return read::<R>(&reply),
                    Err(why @ (Broken::NoReply(_) | Broken::UnknownCall)) => {
                        inner.lost(round);
                        return Err(why.into()); // invariant 3
                    }
                    Err(why) => {
                        inner.lost(round);
                        why
                    }
                },
                Err(why) => why,
            };
            if inner.runtime.clock.now().since(since) > inner.patience.call {
                return Err(why.into());
            }
            if is_planted(Bug::NewNumbers) {
                number = inner.numbers.next();
                record = segments(number, &inner.caller, arguments);
            }
        }
    }
}

impl Inner {
    /// The connection, dialed if there is none.
    async fn connection(&self) -> Result<(u64, Connection), Broken> {
        let _turn = self.turn.acquire(1).await; // invariant 2
        let (round, lost) = {
            let state = self.state.borrow();
            if let Some(connection) = &state.connection {
                return Ok((state.round, connection.clone()));
            }
            (state.round, state.lost)
        };
        let clock = &self.runtime.clock;
        if let Some(lost) = lost {
            clock.sleep(self.patience.pause.saturating_sub(clock.now().since(lost))).await;
        }
        let dialed = self.dial.dial(Service::Nfs).await;
        let mut state = self.state.borrow_mut();
        match dialed {
            Ok(stream) => {
                let connection = Connection::start(&self.runtime, stream);
                state.round = round + 1;
                state.connection = Some(connection.clone());
                Ok((state.round, connection))
            }
            Err(error) => {
                state.lost = Some(clock.now());
                Err(Broken::Failed(error.to_string()))
            }
        }
    }

    async fn ask(
        &self,
        connection: &Connection,
        number: u32,
        record: &[Bytes],
    ) -> Result<Bytes, Broken> {
        let silence = self.patience.silence;
        let call = connection.call(number, record.to_vec());
        match select(call, self.runtime.clock.sleep(silence)).await {
            Either::Left((reply, _)) => reply,
            Either::Right(_) => Err(Broken::Silent(silence)),
        }
    }

    /// Drops a connection, if it is still the current one.
    fn lost(&self, round: u64) {
        let mut state = self.state.borrow_mut();
        if state.round == round && state.connection.take().is_some() {
            state.lost = Some(self.runtime.clock.now());
        }
    }
}
