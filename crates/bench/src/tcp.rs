//! The driver for real servers: connections over TCP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use client::stream::{ByteStream, Dial, Service};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use nfs::record::Record;
use nfs::rpc::{self, Caller, PROGRAM_MOUNT, Reply};
use nfs::xdr::Decoder;
use nfs::{mount, portmap};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Timeout of a connection, or of one of the questions before the first call.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum size of the answer to such a question.
const ANSWER_MAX: usize = 64 << 10;

/// A socket as a byte stream.
struct Socket(TcpStream);

impl ByteStream for Socket {
    fn poll_read(&self, context: &mut Context<'_>, target: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_read(target) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

/// Addresses of a server's services, and the kind of port to call from.
#[derive(Clone, Copy, Debug)]
pub struct Tcp {
    /// Address of NFS.
    pub nfs: SocketAddr,
    /// Address of MOUNT.
    pub mount: SocketAddr,
    /// Whether to call from a port below 1024, which some servers require.
    pub is_privileged: bool,
}

impl Dial for Tcp {
    fn dial(&self, service: Service) -> LocalBoxFuture<'_, io::Result<Box<dyn ByteStream>>> {
        let address = match service {
            Service::Nfs => self.nfs,
            Service::Mount => self.mount,
        };
        async move {
            let stream = connect(address, self.is_privileged).await?;
            Ok(Box::new(Socket(stream)) as Box<dyn ByteStream>)
        }
        .boxed_local()
    }
}

/// Connects with `TCP_NODELAY`, so that small records are sent immediately.
pub(crate) async fn connect(address: SocketAddr, is_privileged: bool) -> io::Result<TcpStream> {
    let connecting = async {
        if is_privileged {
            connect_privileged(address).await
        } else {
            TcpStream::connect(address).await
        }
    };
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer within 10 s");
    let stream = tokio::time::timeout(PATIENCE, connecting).await.map_err(late)??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn connect_privileged(address: SocketAddr) -> io::Result<TcpStream> {
    for port in (600..1024).rev() {
        let (socket, any): (_, IpAddr) = match address {
            SocketAddr::V4(_) => (TcpSocket::new_v4()?, Ipv4Addr::UNSPECIFIED.into()),
            SocketAddr::V6(_) => (TcpSocket::new_v6()?, Ipv6Addr::UNSPECIFIED.into()),
        };
        let connected = match socket.bind((any, port).into()) {
            Ok(()) => socket.connect(address).await,
            Err(error) => Err(error),
        };
        match connected {
            Err(error) if is_taken(error.kind()) => {}
            other => return other,
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no port below 1024 is free"))
}

fn is_taken(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

/// Address at which the server at `nfs` answers MOUNT: the same port, as with our server, or the
/// one that its port mapper returns.
pub(crate) async fn find_mount(nfs: SocketAddr, is_privileged: bool) -> io::Result<SocketAddr> {
    let null = rpc::call(1, PROGRAM_MOUNT, mount::VERSION, 0, &Caller::none()).finish();
    let answer = ask(nfs, is_privileged, null).await?;
    if Reply::decode(Decoder::new(&answer)).is_ok_and(|reply| reply.results.is_ok()) {
        return Ok(nfs);
    }
    let mapper = SocketAddr::new(nfs.ip(), portmap::PORT);
    let unknown = |why: String| {
        let sentence = format!("its port is not known ({why}); say it with --mount-port");
        io::Error::new(io::ErrorKind::NotFound, sentence)
    };
    let question = portmap::getport(2, PROGRAM_MOUNT, mount::VERSION);
    let head = ask(mapper, is_privileged, question).await;
    let head = head.map_err(|error| unknown(format!("the port mapper: {error}")))?;
    match portmap::answered_port(&Record::whole(head), 2) {
        Ok(Some(port)) => Ok(SocketAddr::new(nfs.ip(), port)),
        Ok(None) => Err(unknown("the port mapper does not know it".to_owned())),
        Err(error) => Err(unknown(error.to_string())),
    }
}

/// Asks one question over a separate connection.
async fn ask(address: SocketAddr, is_privileged: bool, call: Vec<Bytes>) -> io::Result<Bytes> {
    let mut stream = connect(address, is_privileged).await?;
    let asking = async {
        stream.write_all(&call.concat()).await?;
        let length = (stream.read_u32().await? & !(1 << 31)) as usize;
        if length > ANSWER_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not an answer"));
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer).await?;
        Ok(answer.into())
    };
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer within 10 s");
    tokio::time::timeout(PATIENCE, asking).await.map_err(late)?
}
