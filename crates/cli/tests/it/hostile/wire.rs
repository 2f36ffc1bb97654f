//! A peer that sends arbitrary bytes, one by one if necessary, and reads replies when it likes.
//!
//! Calls are encoded and replies decoded by an independent implementation of the protocol.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use nfs3_types::mount::{dirpath, mountres3, mountstat3};
use nfs3_types::nfs3::{self, NFS_PROGRAM, nfs_fh3, nfsstat3};
use nfs3_types::rpc::{
    accept_stat_data, auth_unix, call_body, msg_body, opaque_auth, rejected_reply, reply_body,
    rpc_msg,
};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use tokio::net::TcpSocket;

/// Longer than any answer may take on any machine, and less than the server's timeout of a minute
/// for inactive peers: a client that has to wait for that timeout is not served.
const HANG: Duration = Duration::from_secs(45);

/// Program, version and procedure.
pub(crate) type Target = (u32, u32, u32);

pub(crate) fn nfs(procedure: NFS_PROGRAM) -> Target {
    (nfs3::PROGRAM, nfs3::VERSION, procedure as u32)
}

/// A procedure of MOUNT by its number.
pub(crate) fn mount(procedure: u32) -> Target {
    (nfs3_types::mount::PROGRAM, nfs3_types::mount::VERSION, procedure)
}

/// Arguments that are encoded already.
pub(crate) struct Raw(pub(crate) Vec<u8>);

impl Pack for Raw {
    fn packed_size(&self) -> usize {
        self.0.len()
    }

    fn pack(&self, out: &mut impl Write) -> nfs3_types::xdr_codec::Result<usize> {
        out.write_all(&self.0).expect("memory takes everything");
        Ok(self.0.len())
    }
}

/// XDR of a value.
pub(crate) fn bytes_of(value: &impl Pack) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.pack(&mut bytes).expect("memory takes everything");
    bytes
}

/// A superuser credential from a machine of this name, with `groups` groups.
pub(crate) fn credential(machine: &[u8], groups: usize) -> opaque_auth<'static> {
    let machinename = Opaque::owned(machine.to_vec());
    let gids = vec![0; groups];
    opaque_auth::auth_unix(&auth_unix { machinename, gids, ..auth_unix::default() })
}

pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    pub(crate) credential: opaque_auth<'static>,
    next_xid: u32,
}

impl Peer {
    pub(crate) fn connect(server: SocketAddr) -> Self {
        Self::over(TcpStream::connect(server).expect("the server accepts"))
    }

    /// Connects from this address with a receive buffer of `buffer` bytes.
    pub(crate) fn connect_from(source: IpAddr, server: SocketAddr, buffer: u32) -> Self {
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let stream = reactor.expect("a reactor").block_on(async {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.set_recv_buffer_size(buffer).expect("a size");
            socket.bind((source, 0).into()).expect("an address of this machine");
            socket.connect(server).await.expect("the server accepts").into_std()
        });
        let stream = stream.expect("a socket");
        stream.set_nonblocking(false).expect("a socket");
        Self::over(stream)
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(HANG)).expect("a socket");
        stream.set_write_timeout(Some(HANG)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, credential: credential(b"machine", 0), next_xid: 1 }
    }

    /// Encodes a call as a record with its mark, and returns it with the call's xid.
    pub(crate) fn record(&mut self, target: Target, args: &impl Pack) -> (u32, Vec<u8>) {
        let xid = self.next_xid;
        self.next_xid += 1;
        let ((prog, vers, proc), cred) = (target, self.credential.borrow());
        let body = call_body { rpcvers: 2, prog, vers, proc, cred, verf: opaque_auth::default() };
        let mut call = bytes_of(&rpc_msg { xid, body: msg_body::CALL(body) });
        args.pack(&mut call).expect("memory takes everything");
        (xid, marked(&call))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// Sends as much as the kernels accept now and the server tolerates; returns the number of
    /// bytes.
    pub(crate) fn send_what_goes(&mut self, bytes: &[u8]) -> usize {
        self.stream.set_nonblocking(true).expect("a socket");
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(length) => sent += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The server has already closed the connection.
                Err(error) if is_closed(error.kind()) => break,
                Err(error) => panic!("{error}"),
            }
        }
        self.stream.set_nonblocking(false).expect("a socket");
        sent
    }

    /// The next reply; `None` if the server has closed the connection.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let mut mark = [0; 4];
        if let Err(error) = self.stream.read_exact(&mut mark) {
            assert!(is_closed(error.kind()), "no answer: {error}");
            return None;
        }
        let mark = u32::from_be_bytes(mark);
        assert!(mark & 1 << 31 != 0, "replies have one fragment");
        let mut bytes = vec![0; (mark & !(1 << 31)) as usize];
        self.stream.read_exact(&mut bytes).expect("all of the record");
        Some(Answer::parse(bytes))
    }

    /// Whether the server has closed the connection without any reply.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.answer().is_none()
    }

    pub(crate) fn call(&mut self, target: Target, args: &impl Pack) -> Answer {
        let (xid, record) = self.record(target, args);
        self.send(&record);
        let answer = self.answer().expect("an answer");
        assert_eq!(answer.xid, xid);
        answer
    }

    pub(crate) fn nfs(&mut self, procedure: NFS_PROGRAM, args: &impl Pack) -> Answer {
        self.call(nfs(procedure), args)
    }

    /// Sends all calls, then reads all replies, which are in the order of the calls.
    pub(crate) fn nfs_all<P: Pack>(&mut self, procedure: NFS_PROGRAM, args: &[P]) -> Vec<Answer> {
        let (mut xids, mut all) = (Vec::new(), Vec::new());
        for args in args {
            let (xid, record) = self.record(nfs(procedure), args);
            xids.push(xid);
            all.extend(record);
        }
        self.send(&all);
        let answer = |_| self.answer().map(|answer| (answer.xid, answer)).expect("an answer");
        let mut answers: BTreeMap<u32, Answer> = (0..xids.len()).map(answer).collect();
        xids.iter().map(|xid| answers.remove(xid).expect("an answer to each call")).collect()
    }

    pub(crate) fn mount(&mut self, path: &[u8]) -> Result<nfs_fh3, mountstat3> {
        match self.call(mount(1), &dirpath(Opaque::borrowed(path))).results() {
            mountres3::Ok(ok) => Ok(nfs_fh3 { data: Opaque::owned(ok.fhandle.0.to_vec()) }),
            mountres3::Err(status) => Err(status),
        }
    }
}

/// A record of one fragment.
pub(crate) fn marked(call: &[u8]) -> Vec<u8> {
    [&(1 << 31 | call.len() as u32).to_be_bytes()[..], call].concat()
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) xid: u32,
    body: reply_body<'static>,
    results: Vec<u8>,
}

impl Answer {
    fn parse(bytes: Vec<u8>) -> Self {
        let mut cursor = std::io::Cursor::new(bytes);
        let (message, length) = rpc_msg::unpack(&mut cursor).expect("a reply");
        let msg_body::REPLY(body) = message.body else { panic!("a reply is no call") };
        Self { xid: message.xid, body, results: cursor.into_inner().split_off(length) }
    }

    /// The result of an accepted call.
    pub(crate) fn accepted(&self) -> &accept_stat_data {
        match &self.body {
            reply_body::MSG_ACCEPTED(accepted) => &accepted.reply_data,
            reply_body::MSG_DENIED(denied) => panic!("{denied:?}"),
        }
    }

    /// The reason why a call was denied.
    pub(crate) fn denied(&self) -> &rejected_reply {
        match &self.body {
            reply_body::MSG_DENIED(denied) => denied,
            reply_body::MSG_ACCEPTED(accepted) => panic!("{accepted:?}"),
        }
    }

    /// The status that begins the results of every procedure but NULL.
    pub(crate) fn status(&self) -> nfsstat3 {
        assert!(matches!(self.accepted(), accept_stat_data::SUCCESS), "{self:?}");
        nfsstat3::unpack(&mut &self.results[..]).expect("a status").0
    }

    pub(crate) fn results<R: Unpack>(&self) -> R {
        assert!(matches!(self.accepted(), accept_stat_data::SUCCESS), "{self:?}");
        let (value, length) = R::unpack(&mut &self.results[..]).expect("results");
        assert_eq!(length, self.results.len(), "nothing behind the results");
        value
    }
}

/// Whether an error means that the server has closed the connection.
fn is_closed(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
