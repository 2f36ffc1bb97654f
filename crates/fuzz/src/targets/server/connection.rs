//! The client's end of a connection without a socket: bytes go to a record reader, records to a
//! session.

use std::net::IpAddr;
use std::rc::Rc;

use dispatch::{Reply, Session};
use futures::future::join_all;
use nfs::nfs3::Procedure;
use nfs::reader::{Limits, Progress, RecordReader};
use nfs::rpc::{AUTH_NONE, AUTH_SYS, PROGRAM_MOUNT, PROGRAM_NFS};
use nfs::xdr::Encoder;
use nfs3_types::nfs3::LOOKUP3res;
use nfs3_types::rpc::{accept_stat_data, msg_body, reply_body, rpc_msg};
use nfs3_types::xdr_codec::Unpack;

use super::host::{NOBODY, ROOT, Server};
use super::results::whole;
use crate::wire;

/// The answer to one record.
#[derive(Debug)]
pub(super) enum Answer {
    /// Nothing: it was no call.
    Silence,
    /// A refusal of the call as such.
    Refusal,
    /// The results of a call that was carried out.
    Results(Vec<u8>),
}

pub(super) struct Connection {
    session: Rc<Session>,
    reader: RecordReader,
    next_xid: u32,
    user: (u32, u32),
}

impl Connection {
    pub(super) fn new(server: &Server, address: IpAddr) -> Self {
        let user = if address.is_loopback() { ROOT } else { NOBODY };
        let session = server.dispatcher.connect(address);
        let reader = RecordReader::new(Limits::default()).with_checksums();
        Self { session, reader, next_xid: 1, user }
    }

    /// A number for the next call; the numbers of a new connection continue after it.
    pub(super) fn xid(&mut self) -> u32 {
        self.next_xid += 1;
        self.next_xid
    }

    /// Reconnects. Calls of the old connection that have begun to change something end.
    pub(super) fn renew(&mut self, server: &Server, address: IpAddr) {
        let xid = self.next_xid;
        *self = Self { next_xid: xid, ..Self::new(server, address) };
    }

    /// Whether a record has begun and not ended.
    pub(super) fn is_within(&self) -> bool {
        self.reader.end_of_stream().is_err()
    }

    /// A call without its record mark.
    pub(super) fn call_bytes(&self, xid: u32, target: [u32; 3], arguments: &[u8]) -> Vec<u8> {
        let (uid, gid) = self.user;
        let mut call = wire::bytes_of(|to| {
            [xid, 0, 2].into_iter().chain(target).for_each(|number| to.u32(number));
            to.u32(AUTH_SYS);
            to.opaque(&wire::bytes_of(|to| {
                to.u32(1);
                to.opaque(b"machine");
                [uid, gid, 0].into_iter().for_each(|number| to.u32(number));
            }));
            to.u32(AUTH_NONE);
            to.opaque(&[]);
        });
        call.extend(arguments);
        call
    }

    /// Sends bytes, and waits for the answers to all records that they complete. `None` when the
    /// stream is broken.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Option<Vec<Answer>> {
        let mut rest = bytes;
        let mut calls = Vec::new();
        let mut permit = None;
        let is_whole = loop {
            match self.reader.poll() {
                Err(_) => break false,
                Ok(Progress::NeedsBytes) if rest.is_empty() => break true,
                Ok(Progress::NeedsBytes) => rest = &rest[self.reader.feed(rest)..],
                Ok(Progress::NeedsMemory(length)) => {
                    let party = self.session.party(self.reader.front());
                    permit = Some(self.session.request_memory(party, length).await);
                    self.reader.grant();
                }
                Ok(Progress::Record(record)) => {
                    let xid = record.head.first_chunk().copied();
                    let permit = permit.take().expect("memory is taken before it is used");
                    let session = self.session.clone();
                    calls.push(async move { read(xid, session.call(record, permit).await) });
                }
            }
        };
        let answers = join_all(calls).await;
        is_whole.then_some(answers)
    }

    /// Makes a correct call; returns its results.
    async fn call(&mut self, target: [u32; 3], arguments: &[u8]) -> Vec<u8> {
        let xid = self.xid();
        let call = self.call_bytes(xid, target, arguments);
        let answers = self.send(&marked(&call)).await.expect("a whole record");
        match answers.into_iter().next() {
            Some(Answer::Results(results)) => results,
            other => panic!("a call that was not damaged: {other:?}"),
        }
    }

    pub(super) async fn nfs(
        &mut self,
        procedure: Procedure,
        arguments: impl FnOnce(&mut Encoder),
    ) -> Vec<u8> {
        let arguments = wire::bytes_of(arguments);
        self.call([PROGRAM_NFS, 3, procedure as u32], &arguments).await
    }

    pub(super) async fn mount(&mut self, procedure: u32, arguments: &[u8]) -> Vec<u8> {
        self.call([PROGRAM_MOUNT, 3, procedure], arguments).await
    }

    pub(super) async fn lookup(&mut self, directory: &[u8], name: &str) -> Vec<u8> {
        let what = |to: &mut Encoder| {
            to.opaque(directory);
            to.opaque(name.as_bytes());
        };
        let found: LOOKUP3res = whole(&self.nfs(Procedure::Lookup, what).await);
        found.unwrap().object.data.to_vec()
    }
}

/// A record of one fragment.
pub(super) fn marked(record: &[u8]) -> Vec<u8> {
    [&(1 << 31 | record.len() as u32).to_be_bytes(), record].concat()
}

/// Reads the part of a reply that is common to all.
fn read(xid: Option<[u8; 4]>, reply: Option<Reply>) -> Answer {
    let Some(reply) = reply else { return Answer::Silence };
    let bytes = reply.segments().concat();
    let mark = 1 << 31 | (bytes.len() as u32 - 4);
    assert_eq!(bytes[..4], mark.to_be_bytes(), "a reply is one record of one fragment");
    assert_eq!(bytes.get(4..8), xid.as_ref().map(|xid| &xid[..]), "a reply to this very call");
    let mut rest = &bytes[4..];
    let (message, _) = rpc_msg::unpack(&mut rest).expect("a reply can be read");
    match message.body {
        msg_body::REPLY(reply_body::MSG_ACCEPTED(accepted)) => match accepted.reply_data {
            accept_stat_data::SUCCESS => Answer::Results(rest.to_vec()),
            _ => Answer::Refusal,
        },
        msg_body::REPLY(reply_body::MSG_DENIED(_)) => Answer::Refusal,
        msg_body::CALL(_) => panic!("a call is answered by a call"),
    }
}
