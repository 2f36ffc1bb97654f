//! The seam to the outside: a stream of bytes to a server, and a way to open one.
//!
//! All differences between a server over TCP and one in a simulated world are behind these two
//! traits. Records, calls, workloads and statistics are above them, and the same for both.

use std::io;
use std::task::{Context, Poll};

use futures::future::LocalBoxFuture;

/// The bytes of a connection. One task reads and writes it.
pub trait ByteStream {
    /// Reads bytes that have arrived, at least one; zero bytes at the end of the stream.
    fn poll_read(&self, context: &mut Context<'_>, target: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Sends as many bytes as there is room for, at least one.
    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
}

/// The service of a connection. A server may have each at a port of its own.
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
