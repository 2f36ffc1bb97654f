//! One client connection: records in, calls side by side, replies out.
//!
//! A connection is one task. Whenever something of it is ready it continues its calls, reads as
//! much as it may, gathers the replies that have become ready, and writes them all at once.
//!
//! Invariants:
//! 1. A record is read only while fewer than `max_calls` calls are unanswered; a reply counts until
//!    its last byte is written. So a peer that does not take its replies is not read from, and TCP
//!    holds it back. Its [`Session`] bounds the data that its replies hold.
//! 2. Memory for a record is taken before its payload is read, and goes with the call.
//! 3. A peer that owes us something (the rest of a record that holds memory, or to take its
//!    replies) is disconnected when [`Patience`] with it has ended: else a few such peers could
//!    hold all memory, or their places, for ever. The client reconnects and repeats its calls.
//! 4. One poll answers at most [`TURN_CALLS`] calls, and reads and writes [`TURN_BYTES`] or a
//!    little more. If there is more to do, the task goes to the end of the queue: calls that are
//!    answered at once, however many a peer sends, do not keep the thread from other connections.
//!    Calls that have waited go before those that have just arrived.
//!
//! Not asserted: 3, which is about time; 4, of which the test counts the calls of each poll.
//!
//! Besides, a connection holds the 64 KiB in which its calls arrive; the limit of connections
//! bounds them.
//!
//! When the peer has sent its last byte, calls are still answered; when the connection breaks, they
//! are dropped, and `dispatch` makes calls that have begun to change something run to their end.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use dispatch::{Arriving, Reply, Session};
use futures::StreamExt;
use futures::future::{FutureExt, LocalBoxFuture};
use futures::stream::FuturesUnordered;
use nfs::reader::{Limits, Progress, RecordError, RecordReader};
use nfs::record::Record;
use nfs::rpc;
use runtime::Clock;
use runtime::pool::Tokens;

use crate::Stream;
use crate::outgoing::Outgoing;
use crate::patience::{GivenUp, Obligation, Patience};
use crate::places::Occupant;
use crate::planted::{Bug, is_planted, is_skipped};

/// Interval between checks of a peer that owes us the rest of a record.
pub const RECORD_BEAT: Duration = Duration::from_secs(1);

/// Interval between checks of a peer that does not take its replies. A kernel lets us write again
/// when a third of a full buffer is free, which takes a slow line some time.
pub const REPLY_BEAT: Duration = Duration::from_secs(3);

/// Calls that one poll answers or begins before other tasks have their turn: well below a
/// millisecond where each is answered from memory.
pub const TURN_CALLS: usize = 32;

/// Bytes that one poll reads, including the replies that it gathers, and bytes that it writes.
pub const TURN_BYTES: usize = 512 << 10;

const OPEN: &str = "the stream is taken out at the end, and a future is not polled after it";

/// The reasons for which a connection ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    /// An error of the network.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer's bytes are no stream of records.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The peer sent a record that is no call.
    #[error("a record that is no call")]
    NoCall,
    /// See invariant 3.
    #[error(transparent)]
    GivenUp(#[from] GivenUp),
}

/// A served connection. Completes when all calls are answered, and returns the stream.
pub(crate) struct Connection<S> {
    stream: Option<S>,
    session: Rc<Session>,
    max_calls: usize,
    reader: RecordReader,
    /// Memory that the next record waits for, or has.
    memory: Memory,
    /// Completes when no more calls may be read; `None` after that, and after the last byte.
    reading: Option<LocalBoxFuture<'static, ()>>,
    calls: FuturesUnordered<LocalBoxFuture<'static, Option<Reply>>>,
    outgoing: Outgoing,
    /// Bytes that the peer has sent, and patience with it while it owes more.
    received: u64,
    record_patience: Patience,
    /// Bytes that the peer has taken, and patience with it while it should take more.
    sent: u64,
    reply_patience: Patience,
    turn: Turn,
    /// The occupant of the connection, which learns whether the peer is quiet.
    occupant: Option<Rc<Occupant>>,
    /// Whether a file system has answered the peer since the occupant's last update.
    has_worked: bool,
}

/// The work of the current poll.
#[derive(Default)]
struct Turn {
    /// Calls that were begun, or answered after a wait.
    calls: usize,
    /// Bytes that were read or are to be written.
    gathered: usize,
    written: usize,
    /// Whether work was left for the next poll.
    is_cut_short: bool,
}

impl Turn {
    /// Whether another call must wait for the next poll; requests that poll.
    fn is_over(&mut self) -> bool {
        let is_over = (self.calls >= TURN_CALLS || self.gathered >= TURN_BYTES)
            && !is_planted(Bug::EndlessTurns);
        self.is_cut_short |= is_over;
        is_over
    }

    /// The same for more bytes to be written.
    fn has_written_enough(&mut self) -> bool {
        let is_enough = self.written >= TURN_BYTES;
        self.is_cut_short |= is_enough;
        is_enough
    }
}

enum Memory {
    None,
    Wanted(LocalBoxFuture<'static, Granted>),
    Held(Granted),
}

/// Memory for a record.
enum Granted {
    /// The record has arrived.
    Arrived(Tokens),
    /// The peer owes us the rest of the record.
    Arriving(Arriving),
}

impl Granted {
    /// The memory, now that the record has arrived.
    fn arrived(self) -> Tokens {
        match self {
            Self::Arrived(memory) => memory,
            Self::Arriving(arriving) => arriving.arrived(),
        }
    }
}

impl<S: Stream> Connection<S> {
    /// A connection of `session` that reads calls until `stop` completes, and then answers those
    /// that it has read.
    pub(crate) fn new(
        stream: S,
        session: Rc<Session>,
        clock: Rc<dyn Clock>,
        max_calls: usize,
        stop: LocalBoxFuture<'static, ()>,
    ) -> Self {
        Self {
            stream: Some(stream),
            session,
            max_calls,
            reader: RecordReader::new(Limits::default()).with_checksums(),
            memory: Memory::None,
            reading: Some(stop),
            calls: FuturesUnordered::new(),
            outgoing: Outgoing::default(),
            received: 0,
            record_patience: Patience::new(clock.clone(), RECORD_BEAT),
            sent: 0,
            reply_patience: Patience::new(clock, REPLY_BEAT),
            turn: Turn::default(),
            occupant: None,
            has_worked: false,
        }
    }

    /// The same connection, with its peer as an occupant.
    pub(crate) fn noted_by(self, occupant: Rc<Occupant>) -> Self {
        Self { occupant: Some(occupant), ..self }
    }

    /// Invariant 1.
    fn may_read(&self) -> bool {
        self.reading.is_some() && self.unanswered() < self.max_calls
    }

    /// Reads no more. A record that has not arrived, or waits for memory, will never be a call, and
    /// holds nothing from now on.
    fn stop_reading(&mut self) {
        self.reading = None;
        self.memory = Memory::None;
        self.reader = RecordReader::new(Limits::default());
    }

    fn unanswered(&self) -> usize {
        let calls = if is_planted(Bug::UncountedCalls) { 0 } else { self.calls.len() };
        calls + self.outgoing.replies()
    }

    /// Begins calls that have arrived, within the limits. Returns whether any was answered at once.
    fn poll_records(&mut self, context: &mut Context<'_>) -> Result<bool, ConnectionError> {
        if let Some(stop) = &mut self.reading
            && stop.poll_unpin(context).is_ready()
        {
            self.stop_reading();
        }
        let mut any = false;
        while self.may_read() && !self.turn.is_over() {
            match self.poll_record(context) {
                Poll::Ready(Ok(Some((record, memory)))) => {
                    if rpc::Call::target(&record).is_none() {
                        return Err(ConnectionError::NoCall);
                    }
                    self.turn.calls += 1;
                    let mut call = self.session.call(record, memory);
                    match call.poll_unpin(context) {
                        Poll::Ready(reply) => {
                            any = true;
                            self.gather(reply);
                        }
                        Poll::Pending => self.calls.push(call),
                    }
                    debug_assert!(
                        self.unanswered() <= self.max_calls,
                        "invariant 1: no more calls are read than may be unanswered"
                    );
                }
                Poll::Ready(Ok(None)) => self.stop_reading(),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        Ok(any)
    }

    /// The next record with its memory, or none at the end of the stream.
    fn poll_record(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<(Record, Tokens)>, ConnectionError>> {
        loop {
            if let Memory::Wanted(wanted) = &mut self.memory {
                self.memory = Memory::Held(ready!(wanted.poll_unpin(context)));
                self.reader.grant(); // invariant 2
            }
            match self.reader.poll()? {
                Progress::NeedsBytes => {
                    if self.turn.is_over() {
                        return Poll::Pending;
                    }
                    if ready!(self.poll_read(context))? == 0 {
                        self.reader.end_of_stream()?;
                        return Poll::Ready(Ok(None));
                    }
                }
                Progress::NeedsMemory(bytes) => {
                    let (session, is_complete) = (self.session.clone(), self.reader.is_complete());
                    let party = session.party(self.reader.front());
                    let wanted = async move {
                        if is_complete {
                            Granted::Arrived(session.request_memory(party, bytes).await)
                        } else {
                            Granted::Arriving(session.arriving_memory(party, bytes).await)
                        }
                    };
                    self.memory = Memory::Wanted(wanted.boxed_local());
                }
                Progress::Record(record) => {
                    let Memory::Held(memory) = std::mem::replace(&mut self.memory, Memory::None)
                    else {
                        panic!("invariant 2: the reader was granted memory for every record")
                    };
                    return Poll::Ready(Ok(Some((record, memory.arrived()))));
                }
            }
        }
    }

    /// Reads once, straight into the place of the bytes.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stream = self.stream.as_mut().expect(OPEN);
        let length = ready!(stream.poll_read(context, self.reader.targets()))?;
        self.reader.advance(length);
        self.received += length as u64;
        self.turn.gathered += length;
        Poll::Ready(Ok(length))
    }

    /// Gathers the replies that are ready. Returns whether there were any.
    fn poll_calls(&mut self, context: &mut Context<'_>) -> bool {
        let mut any = false;
        while !self.calls.is_empty()
            && !self.turn.is_over()
            && let Poll::Ready(Some(reply)) = self.calls.poll_next_unpin(context)
        {
            any = true;
            self.turn.calls += 1;
            self.gather(reply);
        }
        any
    }

    fn gather(&mut self, reply: Option<Reply>) {
        self.has_worked |= reply.as_ref().is_some_and(|reply| !reply.is_bare());
        self.turn.gathered += reply.as_ref().map_or(0, Reply::length);
        self.outgoing.extend(reply);
    }

    /// Writes as much as the peer takes. Returns whether anything was sent.
    fn poll_write(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut any = false;
        let stream = self.stream.as_mut().expect(OPEN);
        while !self.outgoing.is_empty() && !self.turn.has_written_enough() {
            let write = |pieces: &[io::IoSlice<'_>]| stream.poll_write(context, pieces);
            let Poll::Ready(written) = self.outgoing.poll_write(write) else { break };
            let length = written?;
            any = true;
            self.sent += length as u64;
            self.turn.written += length;
        }
        Ok(any)
    }

    /// Whether all requests of the peer are done.
    fn is_quiet(&self) -> bool {
        self.calls.is_empty() && !matches!(self.memory, Memory::Wanted(_))
    }

    /// Whether it was asked to leave, for a client that waits for its place.
    fn is_place_wanted(&self) -> bool {
        let is_asked = self.occupant.as_ref().is_some_and(|occupant| occupant.is_asked());
        is_asked && !is_planted(Bug::UnhurriedOccupants)
    }

    /// Invariant 3.
    fn poll_patience(&mut self, context: &mut Context<'_>) -> Result<(), GivenUp> {
        // A peer that may not send more for now owes nothing.
        let obligation = match &self.memory {
            Memory::Held(Granted::Arriving(arriving)) if self.may_read() => {
                let lines = [arriving.line(), None];
                Some(Obligation { moved: self.received, lines, is_place_wanted: false })
            }
            _ => None,
        };
        self.record_patience.poll(context, obligation)?;
        let owes_taking = !self.outgoing.is_empty();
        let obligation = owes_taking.then(|| {
            let holds_calls = !self.calls.is_empty() && !is_planted(Bug::UnhurriedCalls);
            let calls = self.session.line().filter(|_| holds_calls);
            let lines = [self.outgoing.line(), calls];
            Obligation { moved: self.sent, lines, is_place_wanted: self.is_place_wanted() }
        });
        self.reply_patience.poll(context, obligation)
    }
}

impl<S: Stream> Future for Connection<S> {
    type Output = Result<S, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if is_skipped() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.turn = Turn::default();
        loop {
            let answered = this.poll_calls(context) | this.poll_records(context)?;
            let written = this.poll_write(context)?;
            // A reply that was made or written may admit another call (invariant 1).
            let may_go_on = this.may_read() && !this.turn.is_cut_short;
            if !(answered || written) || !may_go_on {
                break;
            }
        }
        if this.reading.is_none() && this.calls.is_empty() && this.outgoing.is_empty() {
            return Poll::Ready(Ok(this.stream.take().expect(OPEN)));
        }
        if let Some(occupant) = &this.occupant {
            occupant.note(this.is_quiet(), !std::mem::take(&mut this.has_worked));
        }
        this.poll_patience(context)?;
        if this.turn.is_cut_short {
            context.waker().wake_by_ref(); // invariant 4
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
