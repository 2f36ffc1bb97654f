//! A line that outlives its connections: when one is lost it dials anew, and makes the calls again
//! that had no reply.
//!
//! Invariants:
//! 1. A call that is made again has the same number and the same bytes, so that a server that
//!    remembers replies carries it out once, and never late over what came after its reply.
//! 2. At most one connection is dialed at a time, and each loss is followed by a pause.
//! 3. What the server sent and cannot be right is told, and not asked for again.
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

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Between a loss, or a dialing that failed, and the next dialing.
    pub pause: Duration,
    /// For a reply, until the connection is given up.
    pub silence: Duration,
    /// For a call, over all connections, until it fails.
    pub call: Duration,
}

impl Default for Patience {
    /// A call is made until it is answered.
    fn default() -> Self {
        let silence = Duration::from_secs(60);
        Self { pause: Duration::from_secs(1), silence, call: Duration::MAX }
    }
}

/// A caller, and its way to a server. Cheap to clone.
#[derive(Clone)]
pub struct Redial(Rc<Inner>);

struct Inner {
    runtime: Runtime,
    dial: Rc<dyn Dial>,
    caller: Rc<Caller>,
    numbers: Numbers,
    patience: Patience,
    state: RefCell<State>,
    /// Who has it dials.
    turn: Rc<Semaphore>,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    /// How many connections there were.
    round: u64,
    /// When the last one was lost, or could not be made.
    lost: Option<Instant>,
}

impl Redial {
    /// A line of this caller. It dials when it is used.
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

    /// Lets go of a connection, if it is still the one.
    fn lost(&self, round: u64) {
        let mut state = self.state.borrow_mut();
        if state.round == round && state.connection.take().is_some() {
            state.lost = Some(self.runtime.clock.now());
        }
    }
}
