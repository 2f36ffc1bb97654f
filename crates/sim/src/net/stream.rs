//! The handles of tasks: the ends of connections, and listeners.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::Inner;
use super::connection::Connection;

/// One end of a connection. One task may read and another write; dropping it closes it.
pub struct Stream {
    pub(super) connection: Rc<Connection>,
    pub(super) end: usize,
}

impl Stream {
    /// The number of the connection, the same at both ends.
    pub fn connection(&self) -> u64 {
        self.connection.id
    }

    /// The address of this end.
    pub fn local(&self) -> SocketAddr {
        self.connection.ends[self.end].address
    }

    /// The address of the other end.
    pub fn peer(&self) -> SocketAddr {
        self.connection.ends[1 - self.end].address
    }

    /// The peer host's number among those that have had its address, counted from 1.
    pub fn peer_incarnation(&self) -> u64 {
        self.connection.ends[1 - self.end].incarnation
    }

    /// Reads received bytes, at least one; zero bytes at the end of the stream.
    pub fn poll_read(
        &self,
        context: &mut Context<'_>,
        target: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.connection.poll_read(self.end, context, target)
    }

    /// The same as a future.
    ///
    /// # Errors
    /// When this end has been notified of the loss of the connection.
    pub async fn read(&self, target: &mut [u8]) -> io::Result<usize> {
        poll_fn(|context| self.poll_read(context, target)).await
    }

    /// Sends as many bytes as there is room for, at least one.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.connection.poll_write(self.end, context, bytes)
    }

    /// Sends all bytes. Completion does not mean that they have arrived.
    ///
    /// # Errors
    /// When this end has been notified of the loss of the connection.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let length = poll_fn(|context| self.poll_write(context, bytes)).await?;
            bytes = &bytes[length..];
        }
        Ok(())
    }

    /// Ends the stream in this direction. The other end's bytes can still be read.
    pub fn shutdown(&self) {
        self.connection.end(self.end);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connection.close(self.end);
    }
}

/// Connections to be accepted, and the task that waits for them.
#[derive(Default)]
pub(super) struct Backlog {
    pub(super) waiting: VecDeque<Stream>,
    pub(super) waker: Option<Waker>,
}

/// Accepts connections to a port. Refuses them once it is dropped.
pub struct Listener {
    pub(super) network: Rc<Inner>,
    pub(super) address: SocketAddr,
    pub(super) backlog: Rc<RefCell<Backlog>>,
}

impl Listener {
    /// The next connection.
    pub async fn accept(&self) -> Stream {
        poll_fn(|context| {
            let backlog = &mut *self.backlog.borrow_mut();
            match backlog.waiting.pop_front() {
                Some(stream) => Poll::Ready(stream),
                None => {
                    backlog.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.network.unlisten(self.address, &self.backlog);
        let waiting = std::mem::take(&mut self.backlog.borrow_mut().waiting);
        drop(waiting); // each closes itself, without a borrow of ours
    }
}
