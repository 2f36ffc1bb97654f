//! One connection to a server: it takes encoded calls and returns their replies, many in flight.
//!
//! Calls that are made between two runs of its task go out together, and replies that arrive
//! together wake their callers together: with many calls in flight a system call carries many.
//!
//! Invariants:
//! 1. A number is given to one call of all connections that share [`Numbers`], so that a server
//!    that remembers replies never takes one call for another.
//! 2. Every call that was made ends: with its reply, or with the error that broke the connection.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::FutureExt;
use nfs::rpc::Reply;
use nfs::xdr::Decoder;
use runtime::{Instant, Runtime};

use crate::inbox::Inbox;
use crate::stream::ByteStream;

/// Pieces shorter than this are sent together with others.
const COPIED_BELOW: usize = 4096;

/// Call numbers. Cheap to clone: clones share them.
#[derive(Clone, Debug, Default)]
pub struct Numbers(Rc<Cell<u32>>);

impl Numbers {
    /// Numbers from `first` on.
    pub fn starting_at(first: u32) -> Self {
        Self(Rc::new(Cell::new(first)))
    }

    /// The next number.
    pub fn next(&self) -> u32 {
        let number = self.0.get().wrapping_add(1);
        self.0.set(number);
        number
    }
}

/// The reasons for which a connection is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The stream failed.
    #[error("the connection failed: {0}")]
    Failed(String),
    /// The server closed it.
    #[error("the server closed the connection")]
    Closed,
    /// The server sent bytes that are no reply.
    #[error("the server sent what is no reply: {0}")]
    NoReply(String),
    /// The server sent a reply to no call.
    #[error("the server answered a call that was not made")]
    UnknownCall,
    /// The server sent no reply for this long.
    #[error("the server did not answer for {} s", .0.as_secs())]
    Silent(Duration),
}

/// A connection. Cheap to clone; it is closed when the last clone is gone.
#[derive(Clone)]
pub struct Connection(Rc<Handle>);

/// The callers' part of a connection. When it is dropped the task ends, and with it the stream.
struct Handle {
    shared: Rc<Shared>,
    runtime: Runtime,
}

struct Shared {
    stream: Box<dyn ByteStream>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    outgoing: VecDeque<Bytes>,
    /// Small calls that are not in `outgoing` yet.
    gathered: Vec<u8>,
    calls: BTreeMap<u32, Slot>,
    broken: Option<Broken>,
    is_left: bool,
    task: Option<Waker>,
}

/// An open call.
struct Slot {
    since: Instant,
    waker: Option<Waker>,
    reply: Option<Bytes>,
    /// No caller waits for it any more.
    is_abandoned: bool,
}

impl Connection {
    /// Starts a connection over a stream.
    pub fn start(runtime: &Runtime, stream: Box<dyn ByteStream>) -> Self {
        let shared = Rc::new(Shared { stream, state: RefCell::default() });
        runtime.tasks.spawn(serve(shared.clone()).boxed_local());
        Self(Rc::new(Handle { shared, runtime: runtime.clone() }))
    }

    /// Makes a call, given as the segments of its record; returns the record of the reply.
    pub fn call(&self, number: u32, segments: Vec<Bytes>) -> Call {
        let handle = self.0.clone();
        let mut state = handle.shared.state.borrow_mut();
        let since = handle.runtime.clock.now();
        if state.broken.is_none() {
            segments.into_iter().for_each(|segment| state.send(segment));
            let slot = Slot { since, waker: None, reply: None, is_abandoned: false };
            let replaced = state.calls.insert(number, slot);
            assert!(replaced.is_none(), "invariant 1");
            state.wake_task();
        }
        drop(state);
        Call { handle, number }
    }

    /// Number of calls in flight.
    pub fn in_flight(&self) -> usize {
        self.0.shared.state.borrow().calls.len()
    }

    /// Breaks the connection when a call has waited longer than this: invariant 2, for servers that
    /// are silent.
    pub fn lose_patience(&self, patience: Duration) {
        let now = self.0.runtime.clock.now();
        let mut state = self.0.shared.state.borrow_mut();
        let oldest = state.calls.values().filter(|slot| slot.reply.is_none());
        if oldest.map(|slot| now.since(slot.since)).max() > Some(patience) {
            state.fail(Broken::Silent(patience));
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.shared.state.borrow_mut();
        state.is_left = true;
        state.wake_task();
    }
}

/// A call in flight.
pub struct Call {
    handle: Rc<Handle>,
    number: u32,
}

impl Future for Call {
    type Output = Result<Bytes, Broken>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let state = &mut *self.handle.shared.state.borrow_mut();
        if let Some(slot) = state.calls.get_mut(&self.number) {
            if let Some(reply) = slot.reply.take() {
                state.calls.remove(&self.number);
                return Poll::Ready(Ok(reply));
            }
            if state.broken.is_none() {
                slot.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        Poll::Ready(Err(state.broken.clone().expect("invariant 2")))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut state = self.handle.shared.state.borrow_mut();
        if let Some(slot) = state.calls.get_mut(&self.number) {
            slot.is_abandoned = true; // its reply may still come
            slot.waker = None;
        }
    }
}

impl State {
    fn send(&mut self, segment: Bytes) {
        if segment.len() < COPIED_BELOW {
            self.gathered.extend_from_slice(&segment);
        } else {
            self.flush();
            self.outgoing.push_back(segment);
        }
    }

    /// Moves the gathered calls into the queue.
    fn flush(&mut self) {
        if !self.gathered.is_empty() {
            let capacity = self.gathered.len();
            let gathered = std::mem::replace(&mut self.gathered, Vec::with_capacity(capacity));
            self.outgoing.push_back(gathered.into());
        }
    }

    fn wake_task(&mut self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }

    /// Invariant 2.
    fn fail(&mut self, why: Broken) {
        self.broken.get_or_insert(why);
        for slot in self.calls.values_mut() {
            if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        }
        self.wake_task();
    }

    /// Passes a reply to the caller that waits for it.
    fn heard(&mut self, record: Bytes) -> Result<(), Broken> {
        let reply = Reply::decode(Decoder::new(&record));
        let xid = reply.map_err(|error| Broken::NoReply(error.to_string()))?.xid;
        let slot = self.calls.get_mut(&xid).filter(|slot| slot.reply.is_none());
        let slot = slot.ok_or(Broken::UnknownCall)?;
        if slot.is_abandoned {
            self.calls.remove(&xid);
            return Ok(());
        }
        slot.reply = Some(record);
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
        Ok(())
    }
}

/// The task of a connection: sends and receives until it is dropped or broken.
async fn serve(shared: Rc<Shared>) {
    let mut inbox = Inbox::new();
    let ended = poll_fn(|context| {
        let mut state = shared.state.borrow_mut();
        state.task = Some(context.waker().clone());
        if state.is_left || state.broken.is_some() {
            return Poll::Ready(None);
        }
        drop(state);
        if let Err(why) = write(&shared, context) {
            return Poll::Ready(Some(why));
        }
        match read(&shared, &mut inbox, context) {
            Ok(()) => Poll::Pending,
            Err(why) => Poll::Ready(Some(why)),
        }
    });
    if let Some(why) = ended.await {
        shared.state.borrow_mut().fail(why);
    }
}

fn failed(error: &io::Error) -> Broken {
    Broken::Failed(error.to_string())
}

fn write(shared: &Shared, context: &mut Context<'_>) -> Result<(), Broken> {
    let state = &mut *shared.state.borrow_mut();
    state.flush();
    while let Some(piece) = state.outgoing.front_mut() {
        match shared.stream.poll_write(context, piece) {
            Poll::Pending => break,
            Poll::Ready(Err(error)) => return Err(failed(&error)),
            Poll::Ready(Ok(length)) => piece.advance(length),
        }
        if piece.is_empty() {
            state.outgoing.pop_front();
        }
    }
    Ok(())
}

fn read(shared: &Shared, inbox: &mut Inbox, context: &mut Context<'_>) -> Result<(), Broken> {
    loop {
        match shared.stream.poll_read(context, inbox.target()) {
            Poll::Pending => return Ok(()),
            Poll::Ready(Err(error)) => return Err(failed(&error)),
            Poll::Ready(Ok(0)) => return Err(Broken::Closed),
            Poll::Ready(Ok(length)) => inbox.arrived(length),
        }
        let mut state = shared.state.borrow_mut();
        while let Some(record) = inbox.next().map_err(|error| Broken::NoReply(error.to_string()))? {
            state.heard(record)?;
        }
    }
}
