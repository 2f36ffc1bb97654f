//! Registers the ports with rpcbind on this machine, for clients that accept no port number.
//!
//! Purely a convenience: if rpcbind is missing or refuses, the server serves all the same. The
//! calls come from a privileged port if we may have one, since most rpcbinds require that.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use nfs::portmap::{self, AnswerError, Mapping};
use nfs::reader::{Limits, Progress, RecordError, RecordReader};
use nfs::record::Record;
use nfs::{mount, nfs3, rpc};
use runtime::Runtime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Address of rpcbind on this machine.
pub(crate) const ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), portmap::PORT);

/// Maximum time that a start or an end waits for rpcbind.
const PATIENCE: Duration = Duration::from_secs(3);

/// Reason why the ports are not registered.
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

/// Registers both programs at `port`, in place of the server that had them. If one is refused, the
/// other is unregistered again.
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
                for set in mappings(port).into_iter().take_while(|set| *set != mapping) {
                    session.call(portmap::unset, set).await?;
                }
                return Err(RpcbindError::Refused);
            }
        }
        Ok(())
    };
    patiently(registration).await
}

/// Unregisters both programs.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reactor;
    use tokio::net::TcpListener;

    /// A call to a port mapper: procedure, program, port.
    type Asked = (u32, u32, u32);

    /// Answers the calls of one connection and returns them. The first `agrees` calls succeed.
    async fn mapper(listener: TcpListener, agrees: usize) -> io::Result<Vec<Asked>> {
        let (mut stream, _) = listener.accept().await?;
        let mut asked = Vec::new();
        let mut record = [0; 60];
        while stream.read_exact(&mut record).await.is_ok() {
            let word = |index: usize| {
                let bytes = record[4 * index..][..4].try_into().expect("four bytes");
                u32::from_be_bytes(bytes)
            };
            assert_eq!((word(0), word(4), word(5)), (1 << 31 | 56, 100_000, 2));
            assert_eq!((word(12), word(13)), (3, 6), "version 3 over TCP");
            asked.push((word(6), word(11), word(14)));
            let answer = u32::from(asked.len() <= agrees);
            let reply = [1 << 31 | 28, word(1), 1, 0, 0, 0, 0, answer];
            stream.write_all(&reply.map(u32::to_be_bytes).concat()).await?;
        }
        Ok(asked)
    }

    async fn local() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("it listens");
        (listener, address)
    }

    #[test]
    fn both_programs_are_set_in_place_of_what_was_there() {
        let outcome = reactor::block_on(|runtime| async move {
            let (listener, address) = local().await;
            let mapper = tokio::task::spawn_local(mapper(listener, 4));
            register(&runtime, address, 12_049).await.expect("it agrees");
            let asked = mapper.await.expect("no panic").expect("a connection");
            let expected = [
                (2, 100_003, 12_049),
                (1, 100_003, 12_049),
                (2, 100_005, 12_049),
                (1, 100_005, 12_049),
            ];
            assert_eq!(asked, expected);
        });
        outcome.expect("a reactor");
    }

    #[test]
    fn a_refusal_and_an_absence_are_told() {
        let outcome = reactor::block_on(|runtime| async move {
            let (listener, address) = local().await;
            tokio::task::spawn_local(mapper(listener, 0));
            let refused = register(&runtime, address, 12_049).await;
            assert!(matches!(refused, Err(RpcbindError::Refused)), "{refused:?}");
            let (listener, address) = local().await;
            let mapper = tokio::task::spawn_local(mapper(listener, 3));
            let refused = register(&runtime, address, 12_049).await;
            assert!(matches!(refused, Err(RpcbindError::Refused)), "{refused:?}");
            let asked = mapper.await.expect("no panic").expect("a connection");
            assert_eq!(asked[4..], [(2, 100_003, 12_049)], "the one that was set");
            let (listener, address) = local().await;
            drop(listener);
            let absent = register(&runtime, address, 12_049).await;
            assert!(matches!(absent, Err(RpcbindError::Io(_))), "{absent:?}");
        });
        outcome.expect("a reactor");
    }
}
