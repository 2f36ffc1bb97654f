//! The transport of a connection.
//!
//! A transport promises:
//! 1. A call that returns `Pending` has arranged that the task is woken when another call makes
//!    sense.
//! 2. Bytes that the peer has not taken are bounded: at most [`MAX_UNSENT_BYTES`] plus one write,
//!    and at most [`STRANGERS_UNSENT_BYTES`] for a stranger. Memory for replies is freed when the
//!    stream has taken their last byte, so no budget of ours would count the bytes that wait there.
//!
//! Not asserted: 1 and 2, which are the transport's.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// The most unsent bytes of a connection: a write of this length is in flight while the next one is
/// prepared.
pub const MAX_UNSENT_BYTES: usize = 128 << 10;

/// The most bytes that a stranger has not taken: the replies to a few calls.
pub const STRANGERS_UNSENT_BYTES: usize = 32 << 10;

/// A byte stream of a connection, both ways. Dropping it closes it.
pub trait Stream: Unpin + 'static {
    /// Prepares it for its peer, and bounds its buffered bytes (invariant 2).
    ///
    /// # Errors
    /// When the peer is gone.
    fn prepare(&mut self, is_stranger: bool) -> io::Result<()>;

    /// Reads once, into these buffers one after the other: at least a byte, and none at the end.
    /// The second may be empty.
    ///
    /// # Errors
    /// When the connection is broken, as for all of these.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        targets: [&mut [u8]; 2],
    ) -> Poll<io::Result<usize>>;

    /// Writes once, as many of these bytes as there is room for.
    ///
    /// # Errors
    /// When the connection is broken.
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// Closes the sending side. The peer's bytes can still be read.
    ///
    /// # Errors
    /// When the connection is broken.
    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// A source of clients.
pub trait Listener {
    /// The stream of a client.
    type Stream: Stream;

    /// The next client, and its address.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>>;

    /// Whether a client was not accepted because there are too many of them, so that it would help
    /// if one went.
    fn is_crowded(error: &io::Error) -> bool;
}
