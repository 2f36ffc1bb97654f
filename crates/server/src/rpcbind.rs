//! Making the ports known to rpcbind on this machine, for clients that cannot be told them.
//!
//! Purely a convenience: when rpcbind is not there or refuses, the server serves all the same. The
//! calls come from a privileged port where we may have one, since most rpcbinds want that.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use nfs::portmap::{self, AnswerError, Mapping};
use nfs::record::{Limits, Progress, Record, RecordError, RecordReader};
use nfs::{mount, nfs3, rpc};
use runtime::Runtime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Where rpcbind of this machine listens.
pub(crate) const ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), portmap::PORT);

/// The longest that a start or an end waits for rpcbind.
const PATIENCE: Duration = Duration::from_secs(3);

/// Why the ports are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RpcbindError {
    #[error("rpcbind cannot be reached: {0}")]
    Io(#[from] io::Error),
    #[error("rpcbind does not answer as one: {0}")]
    Answer(#[from] AnswerError),
    #[error("rpcbind does not answer as one: {0}")]
    Record(#[from] RecordError),
    #[error("rpcbind refuses (it may want a caller with a privileged port, or a later start)")]
    Refused,
    #[error("rpcbind does not answer within {} s", PATIENCE.as_secs())]
    Silent,
}

/// Registers both programs at `port`, in place of whoever had them before.
pub(crate) async fn register(
    runtime: &Runtime,
    rpcbind: SocketAddr,
    port: u16,
) -> Result<(), RpcbindError> {
    let registration = async {
        let mut session = Session::connect(runtime, rpcbind).await?;
        for mapping in mappings(port) {
            session.call(portmap::unset, mapping).await?;
            if !session.call(portmap::set, mapping).await? {
                return Err(RpcbindError::Refused);
            }
        }
        Ok(())
    };
    patiently(registration).await
}

/// Takes both programs out again.
pub(crate) async fn unregister(
    runtime: &Runtime,
    rpcbind: SocketAddr,
    port: u16,
) -> Result<(), RpcbindError> {
    let removal = async {
        let mut session = Session::connect(runtime, rpcbind).await?;
        for mapping in mappings(port) {
            session.call(portmap::unset, mapping).await?;
        }
        Ok(())
    };
    patiently(removal).await
}

async fn patiently(
    work: impl Future<Output = Result<(), RpcbindError>>,
) -> Result<(), RpcbindError> {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or(Err(RpcbindError::Silent))
}

fn mappings(port: u16) -> [Mapping; 2] {
    [
        Mapping { program: rpc::PROGRAM_NFS, version: nfs3::VERSION, port },
        Mapping { program: rpc::PROGRAM_MOUNT, version: mount::VERSION, port },
    ]
}

struct Session<'a> {
    runtime: &'a Runtime,
    stream: TcpStream,
    reader: RecordReader,
}

impl<'a> Session<'a> {
    async fn connect(runtime: &'a Runtime, rpcbind: SocketAddr) -> Result<Self, RpcbindError> {
        let stream = match privileged_socket() {
            Some(socket) => socket.connect(rpcbind).await?,
            None => TcpStream::connect(rpcbind).await?,
        };
        Ok(Self { runtime, stream, reader: RecordReader::new(Limits::default()) })
    }

    async fn call(
        &mut self,
        build: fn(u32, Mapping) -> Vec<Bytes>,
        mapping: Mapping,
    ) -> Result<bool, RpcbindError> {
        let xid = self.runtime.random.next_u64() as u32;
        self.stream.write_all(&build(xid, mapping).concat()).await?;
        let record = self.record().await?;
        Ok(portmap::answer(&record, xid)?)
    }

    async fn record(&mut self) -> Result<Record, RpcbindError> {
        loop {
            match self.reader.poll()? {
                Progress::Record(record) => return Ok(record),
                Progress::NeedsMemory(_) => self.reader.grant(),
                Progress::NeedsBytes => {
                    let [target, _] = self.reader.targets();
                    let length = self.stream.read(target).await?;
                    if length == 0 {
                        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                    }
                    self.reader.advance(length);
                }
            }
        }
    }
}

/// A socket with a port below 1024, if we may have one.
fn privileged_socket() -> Option<TcpSocket> {
    for port in (600..1024).rev() {
        let socket = TcpSocket::new_v4().ok()?;
        match socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))) {
            Ok(()) => return Some(socket),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(_) => return None,
        }
    }
    None
}
