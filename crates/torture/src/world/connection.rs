//! One connection of the server: the work of `server` with a socket, on a simulated stream.
//!
//! `nfs::reader` cuts records from the stream and [`dispatch::Session`] answers the calls, both as
//! in production. This replacement for the socket's owner keeps the same invariants:
//! 1. A record is read only while fewer than `max_calls` calls are unanswered; a reply counts until
//!    its last byte is written.
//! 2. Memory for a record is taken before its payload is read, and released with the call.
//! 3. Calls run concurrently, and replies go out in the order in which they become ready.
//! 4. At the end of the stream calls are still answered. When the connection breaks they are
//!    dropped, and `dispatch` makes sure that a call which has begun to change something ends.
//!
//! **Absent:** the timeouts for slow peers, which `server` tests with real sockets.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use dispatch::{Dispatcher, Reply, ReplyMemory, Session};
use futures::StreamExt;
use futures::future::{FutureExt, LocalBoxFuture};
use futures::stream::FuturesUnordered;
use nfs::reader::{Limits, Progress, RecordError, RecordReader};
use nfs::record::Record;
use runtime::Spawn;
use runtime::pool::Tokens;
use sim::{Listener, Stream};

/// Why a connection ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// The processor of a server, for worlds that count its time.
pub trait Processor {
    /// A call has arrived: completes after the processor time before its execution.
    fn take(&self, call: &Record) -> LocalBoxFuture<'static, ()>;

    /// A call was answered: completes when the reply can go out.
    fn give(&self, reply: &Reply) -> LocalBoxFuture<'static, ()>;
}

/// Answers the clients that connect, in tasks of their own, for as long as this is polled. A broken
/// connection is left to its client, which reconnects and repeats its calls.
pub async fn answer(
    listener: Listener,
    dispatcher: Rc<Dispatcher>,
    tasks: Rc<dyn Spawn>,
    max_calls: usize,
    processor: Option<Rc<dyn Processor>>,
) {
    loop {
        let stream = listener.accept().await;
        let session = dispatcher.connect(stream.peer().ip());
        let connection = Connection::new(stream, session, max_calls, processor.clone());
        tasks.spawn(connection.map(drop).boxed_local());
    }
}

/// The server's side of a connection: a future that ends with it.
struct Connection {
    stream: Stream,
    session: Rc<Session>,
    max_calls: usize,
    processor: Option<Rc<dyn Processor>>,
    reader: RecordReader,
    memory: Memory,
    is_reading: bool,
    calls: FuturesUnordered<LocalBoxFuture<'static, Option<Reply>>>,
    outgoing: VecDeque<Outgoing>,
}

/// Memory for the record being read.
enum Memory {
    None,
    Wanted(LocalBoxFuture<'static, Tokens>),
    Held(Tokens),
}

/// A reply, or the rest of it.
struct Outgoing {
    pieces: VecDeque<Bytes>,
    _memory: Option<ReplyMemory>,
}

impl Connection {
    /// A connection with at most `max_calls` unanswered calls; without a processor its calls take
    /// no time but that of the disks.
    fn new(
        stream: Stream,
        session: Rc<Session>,
        max_calls: usize,
        processor: Option<Rc<dyn Processor>>,
    ) -> Self {
        Self {
            stream,
            session,
            max_calls,
            processor,
            reader: RecordReader::new(Limits::default()).with_checksums(),
            memory: Memory::None,
            is_reading: true,
            calls: FuturesUnordered::new(),
            outgoing: VecDeque::new(),
        }
    }

    /// Invariant 1.
    fn may_read(&self) -> bool {
        self.is_reading && self.calls.len() + self.outgoing.len() < self.max_calls
    }

    fn poll_records(&mut self, context: &mut Context<'_>) -> Result<(), ConnectionError> {
        while self.may_read() {
            match self.poll_record(context)? {
                Poll::Ready(Some((record, memory))) => {
                    let (session, processor) = (self.session.clone(), self.processor.clone());
                    let call = async move {
                        let Some(processor) = processor else {
                            return session.call(record, memory).await;
                        };
                        processor.take(&record).await;
                        let reply = session.call(record, memory).await?;
                        processor.give(&reply).await;
                        Some(reply)
                    };
                    self.calls.push(call.boxed_local());
                }
                Poll::Ready(None) => self.is_reading = false,
                Poll::Pending => return Ok(()),
            }
        }
        Ok(())
    }

    /// The next record with its memory, or `None` at the end of the stream.
    fn poll_record(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<Poll<Option<(Record, Tokens)>>, ConnectionError> {
        loop {
            if let Memory::Wanted(wanted) = &mut self.memory {
                let Poll::Ready(permit) = wanted.poll_unpin(context) else {
                    return Ok(Poll::Pending);
                };
                self.memory = Memory::Held(permit);
                self.reader.grant(); // invariant 2
            }
            match self.reader.poll()? {
                Progress::NeedsBytes => {
                    let Poll::Ready(length) = self.poll_read(context)? else {
                        return Ok(Poll::Pending);
                    };
                    if length == 0 {
                        self.reader.end_of_stream()?;
                        return Ok(Poll::Ready(None));
                    }
                }
                Progress::NeedsMemory(bytes) => {
                    let (session, is_complete) = (self.session.clone(), self.reader.is_complete());
                    let party = session.party(self.reader.front());
                    let wanted = async move {
                        if is_complete {
                            session.request_memory(party, bytes).await
                        } else {
                            session.arriving_memory(party, bytes).await.arrived()
                        }
                    };
                    self.memory = Memory::Wanted(wanted.boxed_local());
                }
                Progress::Record(record) => {
                    let memory = std::mem::replace(&mut self.memory, Memory::None);
                    let Memory::Held(memory) = memory else {
                        panic!("invariant 2: the reader was granted memory for every record")
                    };
                    return Ok(Poll::Ready(Some((record, memory))));
                }
            }
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> io::Result<Poll<usize>> {
        let [target, _] = self.reader.targets();
        match self.stream.poll_read(context, target) {
            Poll::Ready(length) => {
                let length = length?;
                self.reader.advance(length);
                Ok(Poll::Ready(length))
            }
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Invariant 3. Returns whether any reply was ready.
    fn poll_calls(&mut self, context: &mut Context<'_>) -> bool {
        let mut any = false;
        while let Poll::Ready(Some(reply)) = self.calls.poll_next_unpin(context) {
            any = true;
            if let Some((segments, memory)) = reply.map(Reply::into_parts) {
                self.outgoing.push_back(Outgoing { pieces: segments.into(), _memory: memory });
            }
        }
        any
    }

    /// Writes as much as there is room for. Returns whether a whole reply went out.
    fn poll_write(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut any = false;
        while let Some(reply) = self.outgoing.front_mut() {
            let Some(piece) = reply.pieces.front_mut() else {
                self.outgoing.pop_front();
                any = true;
                continue;
            };
            match self.stream.poll_write(context, piece) {
                Poll::Ready(length) => piece.advance(length?),
                Poll::Pending => break,
            }
            if piece.is_empty() {
                reply.pieces.pop_front();
            }
        }
        Ok(any)
    }
}

impl Future for Connection {
    type Output = Result<(), ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            this.poll_records(context)?;
            let answered = this.poll_calls(context);
            let written = this.poll_write(context)?;
            // An answer or a complete write may let in another call (invariant 1).
            if !(answered || written) || !this.may_read() {
                break;
            }
        }
        if !this.is_reading && this.calls.is_empty() && this.outgoing.is_empty() {
            return Poll::Ready(Ok(())); // invariant 4
        }
        Poll::Pending
    }
}
