//! Load driver for servers in a simulated world.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use client::stream::{ByteStream, Dial, Service};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use sim::{Host, Stream};

/// Connections from a host to a server, which answers NFS and MOUNT on one port.
pub struct Simulated {
    /// The client's machine.
    pub host: Host,
    /// The server.
    pub server: SocketAddr,
}

struct Wire(Stream);

impl ByteStream for Wire {
    fn poll_read(&self, context: &mut Context<'_>, target: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll_read(context, target)
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(context, bytes)
    }
}

impl Dial for Simulated {
    fn dial(&self, _: Service) -> LocalBoxFuture<'_, io::Result<Box<dyn ByteStream>>> {
        let connecting = async {
            let stream = self.host.connect(0, self.server).await?;
            Ok(Box::new(Wire(stream)) as Box<dyn ByteStream>)
        };
        connecting.boxed_local()
    }
}
