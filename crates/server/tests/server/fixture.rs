//! A running server, and clients of it: the independent one, and one that sends raw records.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use nfs3_client::tokio::TokioIo;
use nfs3_client::{MountClient, Nfs3Client};
use nfs3_types::mount::dirpath;
use nfs3_types::nfs3::{NFS_PROGRAM, PROGRAM, VERSION, diropargs3, nfs_fh3};
use nfs3_types::rpc::{auth_unix, call_body, msg_body, opaque_auth, reply_body, rpc_msg};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use server::config::Listen;
use server::{Config, Fsid, ServeError, Server, ServerHandle, Settings, Volume, reactor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::memory::MemoryFileSystem;

pub(crate) type Client = Nfs3Client<TokioIo<TcpStream>>;

/// Longer than any test may take on any machine.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Fixture {
    pub(crate) address: SocketAddr,
    pub(crate) data: Rc<MemoryFileSystem>,
    pub(crate) handle: ServerHandle,
    pub(crate) running: JoinHandle<Result<(), ServeError>>,
}

/// A configuration that listens on a port that the system chooses.
pub(crate) fn ephemeral() -> Config {
    let listen = Listen(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))]);
    Config { listen, ..Config::default() }
}

/// Runs `test` with a server of the volume `data`.
pub(crate) fn with_server<F: Future<Output = ()>>(
    settings: Settings,
    test: impl FnOnce(Fixture) -> F,
) {
    let outcome = reactor::block_on(|runtime| async move {
        let data = MemoryFileSystem::new();
        let volume = Volume { name: "data".into(), fsid: Fsid(7), file_system: data.clone() };
        let server = Server::bind(&runtime, vec![volume], settings).await.expect("it listens");
        let address = server.ready().addresses[0];
        let handle = server.handle();
        let running = tokio::task::spawn_local(server.run());
        tokio::time::timeout(DEADLINE, test(Fixture { address, data, handle, running })).await
    });
    outcome.expect("a reactor").expect("the test ends before its deadline");
}

/// Runs `test` with a server with the default configuration.
pub(crate) fn with_default<F: Future<Output = ()>>(test: impl FnOnce(Fixture) -> F) {
    with_server(Settings { config: ephemeral(), ..Settings::default() }, test);
}

/// A superuser credential from a machine called `machine`.
pub(crate) fn root_credential() -> opaque_auth<'static> {
    let machinename = Opaque::borrowed(b"machine");
    opaque_auth::auth_unix(&auth_unix { machinename, ..auth_unix::default() })
}

impl Fixture {
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the server accepts")
    }

    /// Mounts the volume: an independent client, and the root handle.
    pub(crate) async fn mounted(&self) -> (Client, nfs_fh3) {
        let credential = root_credential();
        let none = opaque_auth::default();
        let io = TokioIo::new(self.connect().await);
        let mut mount = MountClient::new_with_auth(io, credential.clone(), none.clone());
        let path = dirpath(Opaque::borrowed(b"/data"));
        let mounted = mount.mnt(path).await.expect("it is exported");
        let root = nfs_fh3 { data: Opaque::owned(mounted.fhandle.0.to_vec()) };
        let io = TokioIo::new(self.connect().await);
        (Nfs3Client::new_with_auth(io, credential, none), root)
    }

    pub(crate) async fn raw(&self) -> Raw {
        Raw { stream: self.connect().await }
    }
}

pub(crate) fn at<'a>(directory: &nfs_fh3, name: &'a str) -> diropargs3<'a> {
    diropargs3 { dir: directory.clone(), name: name.as_bytes().into() }
}

/// Encodes a call without its record mark.
pub(crate) fn call(xid: u32, procedure: NFS_PROGRAM, args: &impl Pack) -> Vec<u8> {
    let cred = root_credential();
    let (prog, vers, proc) = (PROGRAM, VERSION, procedure as u32);
    let body = call_body { rpcvers: 2, prog, vers, proc, cred, verf: opaque_auth::default() };
    let mut bytes = Vec::new();
    let message = rpc_msg { xid, body: msg_body::CALL(body) };
    message.pack(&mut bytes).expect("memory takes everything");
    args.pack(&mut bytes).expect("memory takes everything");
    bytes
}

/// Encodes a call as a record of one fragment.
pub(crate) fn record(xid: u32, procedure: NFS_PROGRAM, args: &impl Pack) -> Vec<u8> {
    fragments(&call(xid, procedure, args), usize::MAX)
}

/// Encodes a record in fragments of at most `size` bytes.
pub(crate) fn fragments(call: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = call;
    while !rest.is_empty() {
        let (fragment, behind) = rest.split_at(size.min(rest.len()));
        let last = if behind.is_empty() { 1 << 31 } else { 0 };
        bytes.extend((last | fragment.len() as u32).to_be_bytes());
        bytes.extend(fragment);
        rest = behind;
    }
    bytes
}

/// A connection on which the test itself decides when to read and write.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
}

impl Raw {
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the server reads");
    }

    /// The next reply: its xid and its results. `None` at the end of the stream.
    pub(crate) async fn reply(&mut self) -> Option<(u32, Vec<u8>)> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).await.ok()?;
        let mark = u32::from_be_bytes(mark);
        assert!(mark & 1 << 31 != 0, "replies have one fragment");
        let mut bytes = vec![0; (mark & !(1 << 31)) as usize];
        self.stream.read_exact(&mut bytes).await.expect("all of the record");
        let (message, length) = rpc_msg::unpack(&mut &bytes[..]).expect("a reply");
        let accepted = matches!(message.body, msg_body::REPLY(reply_body::MSG_ACCEPTED(_)));
        assert!(accepted, "{message:?}");
        Some((message.xid, bytes.split_off(length)))
    }

    pub(crate) async fn results<R: Unpack>(&mut self, xid: u32) -> R {
        let (answered, results) = self.reply().await.expect("a reply");
        assert_eq!(answered, xid);
        R::unpack(&mut &results[..]).expect("results").0
    }
}
