//! The server without a network: the bytes of a call in, the bytes of its reply out.
//!
//! Between the two runs production code: `nfs::reader`, `dispatch`, `namespace`, the engine. A
//! [`Connection`] is the server's view of a client's connection, and nothing else; so a call that
//! is repeated over another one looks to the server like a client that reconnects.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use bytes::Bytes;
use dispatch::{Dispatcher, Handle, Limits, Reply, Session, Window};
use futures::FutureExt;
use nfs::reader::{Limits as RecordLimits, Progress, RecordReader};
use nfs3_types::nfs3::nfs_fh3;
use nfs3_types::xdr_codec::Opaque;
use runtime::Runtime;
use vfs::{FileSystem, ObjectId};

use super::witness::Witness;
use crate::protocol::{self, Answer, Procedure, User};
use crate::volume::{FSID, exports, volumes};

/// The address of the client.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1));

/// A server with one volume.
pub struct Server {
    dispatcher: Rc<Dispatcher>,
    /// Counts the verbs done.
    pub witness: Rc<Witness>,
    next_xid: Cell<u32>,
}

/// A connection of the one client.
pub struct Connection(Rc<Session>);

impl Server {
    /// Serves a file system to every client; no answer is sent before it is durable.
    pub fn new(runtime: Runtime, files: Rc<dyn FileSystem>) -> Self {
        Self::serving(runtime, files, false)
    }

    /// Serves a file system, delayed or not.
    pub fn serving(runtime: Runtime, files: Rc<dyn FileSystem>, is_delayed: bool) -> Self {
        let witness = Witness::new(files);
        let (window, limits) = (Window::default(), Limits::default());
        // A restart needs other numbers, or calls would be taken for those before it.
        let next_xid = Cell::new(runtime.random.next_u64() as u32);
        let volumes = volumes(witness.clone());
        let dispatcher = Dispatcher::new(runtime, volumes, exports(is_delayed), window, limits);
        let restored = dispatcher.restore().now_or_never();
        restored.expect("nothing to wait for").expect("a volume that has just been opened");
        Self { dispatcher, witness, next_xid }
    }

    /// A new connection.
    pub fn connect(&self) -> Connection {
        Connection(self.dispatcher.connect(CLIENT))
    }

    /// A call of the superuser, with a number that no other call has.
    pub fn record<P: Procedure>(&self, arguments: &P) -> Bytes {
        let xid = self.next_xid.replace(self.next_xid.get().wrapping_add(1));
        record(xid, arguments)
    }

    /// Makes a call on a connection of its own and reads its results.
    ///
    /// # Errors
    /// The server's message instead of results.
    pub async fn ask<P: Procedure>(&self, arguments: &P) -> Result<P::Results, String> {
        results::<P>(&self.connect().call(&self.record(arguments)).await?)
    }
}

/// A call of the superuser.
pub fn record<P: Procedure>(xid: u32, arguments: &P) -> Bytes {
    let user = User { machine: "client".into(), uid: 0, gid: 0, groups: Vec::new() };
    record_of(&user, xid, arguments)
}

/// A call of a user.
pub fn record_of<P: Procedure>(user: &User, xid: u32, arguments: &P) -> Bytes {
    protocol::call_record(xid, user, P::TARGET, &protocol::packed(arguments))
}

/// The results of a procedure in a reply.
///
/// # Errors
/// Contents other than results.
pub fn results<P: Procedure>(reply: &[u8]) -> Result<P::Results, String> {
    match protocol::reply(reply) {
        Some((_, Answer::Results(results))) => {
            protocol::whole(&results).ok_or_else(|| "results that cannot be read".to_owned())
        }
        Some((_, Answer::Refused(reason))) => Err(format!("the call was refused: {reason}")),
        None => Err("what was sent is no reply".to_owned()),
    }
}

impl Connection {
    /// Sends the bytes of a call and waits for those of its reply.
    ///
    /// # Errors
    /// When there is no reply.
    pub async fn call(&self, record: &[u8]) -> Result<Bytes, String> {
        let mut reader = RecordReader::new(RecordLimits::default()).with_checksums();
        let (mut rest, mut memory) = (record, None);
        let record = loop {
            match reader.poll().map_err(|error| error.to_string())? {
                Progress::NeedsBytes => rest = &rest[reader.feed(rest)..],
                Progress::NeedsMemory(bytes) => {
                    let party = self.0.party(reader.front());
                    memory = Some(self.0.request_memory(party, bytes).await);
                    reader.grant();
                }
                Progress::Record(record) => break record,
            }
        };
        let memory = memory.ok_or("a record came without memory")?;
        let reply = self.0.call(record, memory).await.map(Reply::into_parts);
        let (segments, _memory) = reply.ok_or("the call was not answered")?;
        Ok(Bytes::from(segments.concat()).slice(4..)) // behind the mark of the one fragment
    }
}

/// The file that a handle names.
pub fn object(handle: &nfs_fh3) -> Result<ObjectId, String> {
    Handle::decode(&handle.data).map(|handle| handle.id).map_err(|error| error.to_string())
}

/// The handle of a file.
pub fn handle(id: ObjectId) -> nfs_fh3 {
    nfs_fh3 { data: Opaque::owned(Handle { fsid: FSID, id }.encode().to_vec()) }
}
