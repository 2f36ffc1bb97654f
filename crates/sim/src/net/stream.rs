//! What tasks hold of a network: the ends of connections, and the tasks that wait for new ones.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::Inner;
use super::connection::Connection;

/// One end of a connection. One task may read and another write; to be dropped is to close it.
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

    /// Which of the hosts that have had the peer's address it is, counted from 1.
    pub fn peer_incarnation(&self) -> u64 {
        self.connection.ends[1 - self.end].incarnation
    }

    /// Reads what has arrived, at least a byte; zero bytes at the end of the stream.
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
    /// When the connection is known to be no more.
    pub async fn read(&self, target: &mut [u8]) -> io::Result<usize> {
        poll_fn(|context| self.poll_read(context, target)).await
    }

    /// Sends as much as there is room for, at least a byte.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.connection.poll_write(self.end, context, bytes)
    }

    /// Sends all of it. That says nothing about its arrival.
    ///
    /// # Errors
    /// When the connection is known to be no more.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let length = poll_fn(|context| self.poll_write(context, bytes)).await?;
            bytes = &bytes[length..];
        }
        Ok(())
    }

    /// Says that nothing more will be sent. What the other end sends can still be read.
    pub fn shutdown(&self) {
        self.connection.end(self.end);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connection.close(self.end);
    }
}

/// Connections that wait to be accepted, and the task that waits for them.
#[derive(Default)]
pub(super) struct Backlog {
    pub(super) waiting: VecDeque<Stream>,
    pub(super) waker: Option<Waker>,
}

/// Accepts connections to a port. When it is dropped they are refused.
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
