//! A bound on replies in the kernel: the unsent bytes in a connection's send buffer.
//!
//! Memory for replies is released when the kernel has accepted their last byte. The kernel then
//! keeps the bytes until the peer receives them, and by default it accepts 4 MiB a connection and
//! more. A few hundred peers that ask and do not read would fill the machine's memory, outside all
//! our budgets.
//!
//! Invariants:
//! 1. A connection has in the kernel at most [`MAX_UNSENT_BYTES`] that were never sent, plus the
//!    bytes that one write adds. Bytes in flight do not count, so the bound costs a fast and long
//!    line nothing; a peer that acknowledges nothing has few bytes in flight.
//! 2. A stranger has at most [`STRANGERS_UNSENT_BYTES`] there, sent or not. A client that the
//!    exports admit later keeps this bound until it reconnects.
//!
//! Not asserted: 1 and 2, which the kernel keeps and the tests measure.

use std::io;

use door::{MAX_UNSENT_BYTES, STRANGERS_UNSENT_BYTES};
use rustix::net::sockopt::set_socket_send_buffer_size;
use socket2::SockRef;
use tokio::net::TcpStream;

/// Send buffer of a stranger, in bytes. The kernel doubles it for its own overhead.
const STRANGERS_BUFFER_BYTES: usize = STRANGERS_UNSENT_BYTES / 2;

/// Bounds the unsent bytes of `stream`.
///
/// # Errors
/// The operating system's error, if the peer is gone.
pub(crate) fn bound(stream: &TcpStream, is_stranger: bool) -> io::Result<()> {
    SockRef::from(stream).set_tcp_notsent_lowat(MAX_UNSENT_BYTES as u32)?;
    if is_stranger {
        set_socket_send_buffer_size(stream, STRANGERS_BUFFER_BYTES)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;
    use crate::reactor::block_on;

    /// Half of the bytes that the peer's kernel accepts before it holds us back.
    const WINDOW_BYTES: u32 = 8 << 10;
    const PIECE_BYTES: usize = 64 << 10;

    /// Bytes that the kernel accepts for a peer that reads nothing.
    fn taken(is_stranger: bool) -> usize {
        let taken = block_on(async |_| {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let peer = TcpSocket::new_v4()?;
            peer.set_recv_buffer_size(WINDOW_BYTES)?;
            let _peer = peer.connect(listener.local_addr()?).await?;
            let (stream, _) = listener.accept().await?;
            bound(&stream, is_stranger)?;
            let mut taken = 0;
            loop {
                match stream.try_write(&[7; PIECE_BYTES]) {
                    Ok(length) => taken += length,
                    // tokio learns only by waiting that the socket is writable.
                    Err(_) if taken == 0 => stream.writable().await?,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            Ok::<_, io::Error>(taken)
        });
        taken.expect("a reactor").expect("the kernel takes bytes")
    }

    #[test]
    fn a_peer_that_reads_nothing_has_a_bounded_part_of_the_kernels_memory() {
        let bytes = taken(false);
        let most = MAX_UNSENT_BYTES + PIECE_BYTES + 2 * WINDOW_BYTES as usize;
        assert!(bytes <= most, "{bytes} of {most}");
        assert!(bytes >= MAX_UNSENT_BYTES, "{bytes} bytes: a reply has room");
    }

    #[test]
    fn a_stranger_that_reads_nothing_has_less_of_it() {
        let (bytes, most) = (taken(true), STRANGERS_UNSENT_BYTES + 2 * WINDOW_BYTES as usize);
        assert!((1..=most).contains(&bytes), "{bytes} of {most}");
    }
}
