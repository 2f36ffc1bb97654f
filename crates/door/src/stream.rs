//! What carries the bytes of a connection, as a connection sees it.
//!
//! Whoever brings a transport promises:
//! 1. A call that answers `Pending` has seen to it that the task is woken when it is worth another.
//! 2. What the peer has not taken is bounded: at most [`MAX_UNSENT_BYTES`] and what one write adds,
//!    and at most [`STRANGERS_UNSENT_BYTES`] of a stranger's. Memory for replies goes back when the
//!    stream has taken their last byte, so no budget of ours would show what stands there.
//!
//! Not asserted: 1 and 2, which are the transport's.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// The most unsent bytes of a connection: a write of this length is on its way while the next one
/// is prepared.
pub const MAX_UNSENT_BYTES: usize = 128 << 10;

/// The most bytes of a stranger that it has not taken: the answers to a few calls.
pub const STRANGERS_UNSENT_BYTES: usize = 32 << 10;

/// A connection's bytes, both ways. To be dropped is to be closed.
pub trait Stream: Unpin + 'static {
    /// Makes it ready for its peer, and bounds what it keeps (invariant 2).
    ///
    /// # Errors
    /// When the peer is gone.
    fn prepare(&mut self, is_stranger: bool) -> io::Result<()>;

    /// Reads once, into these one after the other: at least a byte, and none at the end. The second
    /// may be empty.
    ///
    /// # Errors
    /// When the connection is broken, as for all of these.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        targets: [&mut [u8]; 2],
    ) -> Poll<io::Result<usize>>;

    /// Writes once, as much of these as there is room for.
    ///
    /// # Errors
    /// When the connection is broken.
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// Says that nothing more will be written. What the peer sends can still be read.
    ///
    /// # Errors
    /// When the connection is broken.
    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// Where clients come in.
pub trait Listener {
    /// What a client comes with.
    type Stream: Stream;

    /// The next client, and its address.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>>;

    /// Whether a client was not accepted because there are too many of them, and it would help if
    /// one went.
    fn is_crowded(error: &io::Error) -> bool;
}
