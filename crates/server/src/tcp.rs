//! TCP as a transport of the crate `door`, through tokio.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use door::{Listener, Stream};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::{descriptors, reactor, unsent};

/// A connection.
pub(crate) struct TcpStream(tokio::net::TcpStream);

/// A listening socket.
pub(crate) struct TcpListener(pub(crate) tokio::net::TcpListener);

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = self.0.accept().await?;
        Ok((TcpStream(stream), peer))
    }

    fn is_crowded(error: &io::Error) -> bool {
        descriptors::are_short(error)
    }
}

impl Stream for TcpStream {
    fn prepare(&mut self, is_stranger: bool) -> io::Result<()> {
        // Replies are gathered already, so delaying them for an acknowledgement helps no peer.
        self.0.set_nodelay(true)?;
        unsent::bound(&self.0, is_stranger)
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        targets: [&mut [u8]; 2],
    ) -> Poll<io::Result<usize>> {
        let length = match targets {
            // After a short read tokio assumes that there is no more, and saves the next read.
            [target, []] => {
                let mut target = ReadBuf::new(target);
                ready!(Pin::new(&mut self.0).poll_read(context, &mut target))?;
                target.filled().len()
            }
            targets => ready!(poll_read_vectored(&self.0, context, targets))?,
        };
        reactor::moved(length);
        Poll::Ready(Ok(length))
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            let written = match pieces {
                [piece] => self.0.try_write(piece), // the kernel handles a plain write faster
                pieces => self.0.try_write_vectored(pieces),
            };
            match written {
                Err(error) if would_block(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(length) => {
                    reactor::moved(length);
                    return Poll::Ready(Ok(length));
                }
            }
        }
    }

    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Like tokio's `poll_read`, into several pieces of memory. A short read has taken all there is:
/// then the next read waits, without a refusal by the kernel first.
fn poll_read_vectored(
    stream: &tokio::net::TcpStream,
    context: &mut Context<'_>,
    targets: [&mut [u8]; 2],
) -> Poll<io::Result<usize>> {
    let room: usize = targets.iter().map(|target| target.len()).sum();
    let mut targets = targets.map(IoSliceMut::new);
    loop {
        ready!(stream.poll_read_ready(context))?;
        match stream.try_read_vectored(&mut targets) {
            Err(error) if would_block(&error) => {}
            Ok(length) if 0 < length && length < room => {
                let nothing_more = || Err::<(), _>(ErrorKind::WouldBlock.into());
                let _ = stream.try_io(Interest::READABLE, nothing_more);
                return Poll::Ready(Ok(length));
            }
            read => return Poll::Ready(read),
        }
    }
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
}
