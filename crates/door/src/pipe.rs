//! In-memory connections: two pipes between a client and a server, and an entrance for clients.
//!
//! Bytes arrive at once and in order. A pipe holds a bounded number of them, as a kernel does with
//! bytes that its peer does not take, and reports how many it holds and has carried: so a test
//! counts the bytes that a server reads and writes without asking the server.
//!
//! Invariants:
//! 1. A pipe holds at most as many bytes as it has room for, or had when they were written.
//! 2. Tasks that wait for a pipe are woken when there are bytes or room, and when its other end
//!    goes.
//!
//! Not asserted: 2, without which a task would wait for ever.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::{Listener, MAX_UNSENT_BYTES, STRANGERS_UNSENT_BYTES, Stream};

/// One end of a connection.
#[derive(Debug)]
pub struct Pipe {
    incoming: Rc<Flow>,
    outgoing: Rc<Flow>,
}

/// Byte counts of a connection, for an observer. They outlive the connection.
#[derive(Clone)]
pub struct Meter {
    to_server: Rc<Flow>,
    to_client: Rc<Flow>,
}

/// One direction.
#[derive(Debug)]
struct Flow {
    bytes: RefCell<VecDeque<u8>>,
    room: Cell<usize>,
    /// Whether the writer has closed.
    is_ended: Cell<bool>,
    /// Whether the reader is gone.
    is_cut: Cell<bool>,
    /// Bytes ever written, and ever read.
    written: Cell<u64>,
    read: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Flow {
    fn new(room: usize) -> Rc<Self> {
        Rc::new(Self {
            bytes: RefCell::default(),
            room: Cell::new(room),
            is_ended: Cell::new(false),
            is_cut: Cell::new(false),
            written: Cell::new(0),
            read: Cell::new(0),
            waiting: RefCell::default(),
        })
    }

    /// Invariant 2.
    fn wake(&self) {
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    fn wait(&self, context: &mut Context<'_>) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
    }

    fn read(&self, targets: [&mut [u8]; 2]) -> Option<usize> {
        let mut bytes = self.bytes.borrow_mut();
        if bytes.is_empty() {
            return self.is_ended.get().then_some(0);
        }
        let mut length = 0;
        for target in targets {
            let part = target.len().min(bytes.len());
            let (front, back) = bytes.as_slices();
            let of_front = part.min(front.len());
            target[..of_front].copy_from_slice(&front[..of_front]);
            target[of_front..part].copy_from_slice(&back[..part - of_front]);
            bytes.drain(..part);
            length += part;
        }
        drop(bytes);
        self.read.set(self.read.get() + length as u64);
        self.wake();
        Some(length)
    }

    fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        if self.is_cut.get() || self.is_ended.get() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let mut bytes = self.bytes.borrow_mut();
        let before = bytes.len();
        for piece in pieces {
            let part = piece.len().min(self.room.get().saturating_sub(bytes.len()));
            bytes.extend(&piece[..part]);
        }
        let (after, length) = (bytes.len(), bytes.len() - before);
        drop(bytes);
        assert!(length == 0 || after <= self.room.get(), "invariant 1: no more than it has room");
        if length == 0 {
            return Ok(None);
        }
        self.written.set(self.written.get() + length as u64);
        self.wake();
        Ok(Some(length))
    }

    fn end(&self) {
        self.is_ended.set(true);
        self.wake();
    }

    /// The reader goes: unread bytes are lost.
    fn cut(&self) {
        self.is_cut.set(true);
        self.bytes.borrow_mut().clear();
        self.wake();
    }

    fn held(&self) -> usize {
        self.bytes.borrow().len()
    }
}

impl Pipe {
    /// Both ends of a connection, the client's first, with room for this many bytes each way.
    pub fn pair(room: usize) -> (Self, Self) {
        let (to_server, to_client) = (Flow::new(room), Flow::new(room));
        let client = Self { incoming: to_client.clone(), outgoing: to_server.clone() };
        (client, Self { incoming: to_server, outgoing: to_client })
    }

    /// The byte counts of the connection, from the client's end.
    pub fn meter(&self) -> Meter {
        Meter { to_server: self.outgoing.clone(), to_client: self.incoming.clone() }
    }

    /// Sends as many bytes as there is room for, perhaps none.
    ///
    /// # Errors
    /// When the other end is gone.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.write(&[IoSlice::new(bytes)]).map(Option::unwrap_or_default)
    }

    /// Sends all bytes, as room comes.
    ///
    /// # Errors
    /// When the other end is gone.
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let pieces = [IoSlice::new(bytes)];
            let length = poll_fn(|context| self.poll_write(context, &pieces)).await?;
            bytes = &bytes[length..];
        }
        Ok(())
    }

    /// Receives arrived bytes, at least one; none at the end.
    ///
    /// # Errors
    /// When the other end is gone without having closed before.
    pub async fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        poll_fn(|context| self.poll_read(context, [&mut *target, &mut []])).await
    }

    /// Whether the other end is gone, or has closed and all its bytes were received.
    pub fn is_over(&self) -> bool {
        self.outgoing.is_cut.get() || self.incoming.is_ended.get() && self.incoming.held() == 0
    }

    /// Completes when the other end is gone, or has closed, even if bytes are left to receive.
    pub async fn hung_up(&self) {
        poll_fn(|context| {
            if self.outgoing.is_cut.get() || self.incoming.is_ended.get() {
                return Poll::Ready(());
            }
            self.outgoing.wait(context);
            self.incoming.wait(context);
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.outgoing.end();
        self.incoming.cut();
    }
}

impl Stream for Pipe {
    fn prepare(&mut self, is_stranger: bool) -> io::Result<()> {
        let most = if is_stranger { STRANGERS_UNSENT_BYTES } else { MAX_UNSENT_BYTES };
        self.outgoing.room.set(self.outgoing.room.get().min(most));
        Ok(())
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        targets: [&mut [u8]; 2],
    ) -> Poll<io::Result<usize>> {
        match self.incoming.read(targets) {
            Some(length) => Poll::Ready(Ok(length)),
            None => {
                self.incoming.wait(context);
                Poll::Pending
            }
        }
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.outgoing.write(pieces) {
            Ok(Some(length)) => Poll::Ready(Ok(length)),
            Ok(None) => {
                self.outgoing.wait(context);
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.end();
        Poll::Ready(Ok(()))
    }
}

impl Meter {
    /// Bytes in flight to the server, and to the client.
    pub fn held(&self) -> (usize, usize) {
        (self.to_server.held(), self.to_client.held())
    }

    /// Bytes that the server has ever read, and written.
    pub fn served(&self) -> (u64, u64) {
        (self.to_server.read.get(), self.to_client.written.get())
    }

    /// Bytes that the client has ever received.
    pub fn taken(&self) -> u64 {
        self.to_client.read.get()
    }

    /// Whether the server has hung up.
    pub fn is_hung_up(&self) -> bool {
        self.to_server.is_cut.get()
    }
}

/// The entrance for in-memory clients; the server's side is a [`Listener`]. Clones are one
/// entrance.
#[derive(Clone, Default)]
pub struct Entrance(Rc<Arrivals>);

#[derive(Default)]
struct Arrivals {
    arrived: RefCell<VecDeque<(Pipe, SocketAddr)>>,
    waiting: RefCell<Option<Waker>>,
}

impl Entrance {
    /// Opens a connection from this address, with room for this many bytes each way. The server has
    /// not accepted it yet.
    pub fn connect(&self, address: SocketAddr, room: usize) -> Pipe {
        let (client, server) = Pipe::pair(room);
        self.0.arrived.borrow_mut().push_back((server, address));
        self.0.waiting.take().inspect(Waker::wake_by_ref);
        client
    }
}

impl Listener for Entrance {
    type Stream = Pipe;

    async fn accept(&self) -> io::Result<(Pipe, SocketAddr)> {
        poll_fn(|context| match self.0.arrived.borrow_mut().pop_front() {
            Some(arrived) => Poll::Ready(Ok(arrived)),
            None => {
                self.0.waiting.replace(Some(context.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }

    fn is_crowded(_: &io::Error) -> bool {
        false // memory refuses nobody
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn bytes_arrive_in_order_and_no_more_are_held_than_there_is_room_for() {
        let (mut client, mut server) = Pipe::pair(10);
        assert_eq!(client.try_write(&[1; 7]).expect("there is room"), 7);
        assert_eq!(client.try_write(&[2; 7]).expect("there is some"), 3);
        assert_eq!(client.try_write(&[3]).expect("it is there"), 0);
        assert!(client.write_all(&[3]).now_or_never().is_none());
        let (mut first, mut second) = ([0; 4], [0; 4]);
        let mut read =
            |context: &mut Context<'_>| server.poll_read(context, [&mut first, &mut second]);
        assert_eq!(block_on(poll_fn(&mut read)).expect("it reads"), 8);
        assert_eq!((first, second), ([1; 4], [1, 1, 1, 2]));
        assert_eq!(client.meter().held(), (2, 0));
        assert_eq!(client.meter().served(), (8, 0));
    }

    #[test]
    fn an_end_that_goes_is_an_end_for_what_reads_and_an_error_for_what_writes() {
        let (client, mut server) = Pipe::pair(10);
        client.try_write(b"ab").expect("there is room");
        drop(client);
        let mut target = [0; 4];
        assert_eq!(block_on(server.read(&mut target)).expect("it was sent before"), 2);
        assert_eq!(block_on(server.read(&mut target)).expect("the end"), 0);
        assert!(block_on(server.write_all(b"c")).is_err());
    }

    #[test]
    fn what_a_stranger_does_not_take_is_less_than_what_a_guest_does_not() {
        for (is_stranger, most) in [(false, MAX_UNSENT_BYTES), (true, STRANGERS_UNSENT_BYTES)] {
            let (_client, mut server) = Pipe::pair(1 << 20);
            server.prepare(is_stranger).expect("the peer is there");
            assert_eq!(server.try_write(&vec![0; 1 << 20]).expect("there is room"), most);
        }
    }
}
