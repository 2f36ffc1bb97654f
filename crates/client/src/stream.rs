//! The seam to the outside: a stream of bytes to a server, and how to get one.
//!
//! All that differs between a server over TCP and one in a simulated world is behind these two
//! traits. Records, calls, workloads and statistics are above them, and the same for both.

use std::io;
use std::task::{Context, Poll};

use futures::future::LocalBoxFuture;

/// A connection as bytes. One task reads and writes it.
pub trait ByteStream {
    /// Reads what has arrived, at least a byte; zero bytes at the end of the stream.
    fn poll_read(&self, context: &mut Context<'_>, target: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Sends as much as there is room for, at least a byte.
    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
}

/// What a connection is for. A server may have each at a port of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// NFS, version 3.
    Nfs,
    /// MOUNT, version 3.
    Mount,
}

/// Makes connections to one server.
pub trait Dial {
    /// A new connection.
    fn dial(&self, service: Service) -> LocalBoxFuture<'_, io::Result<Box<dyn ByteStream>>>;
}
