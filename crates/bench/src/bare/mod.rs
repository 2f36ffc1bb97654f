//! A server that only moves bytes, as fast as it can: it measures the upper bound for any server on
//! a machine with this client.
//!
//! It has no file system, no reply cache, no checks and no order of writes. A name is a handle, and
//! every name exists. NULL, GETATTR and LOOKUP are answered immediately, with the same attributes
//! for everything; so are the other calls that a stage needs (MOUNT, FSINFO, the list of a
//! directory). READ, WRITE and COMMIT need a [`Store`]. Any other call is refused.
//!
//! CREATE, MKDIR, REMOVE and RMDIR change nothing. With a store, they are answered when a record of
//! them is durable in its `journal`, like the data of a stable WRITE. Without a store there is
//! nothing to wait for.
//!
//! It waits for calls in one of two [`Manner`]s, since neither is faster for every load.

mod journal;
mod medium;
mod store;

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use bytes::Bytes;
use nfs::mount::{self, MntOk, MntResult};
use nfs::nfs3::arguments::{CommitArgs, CreateArgs, LookupArgs, MkdirArgs, ReadArgs, WriteArgs};
use nfs::nfs3::results::{CommitOk, CreateOk, FsinfoOk, LookupOk, Properties, ReadOk};
use nfs::nfs3::results::{ReaddirplusOk, WriteOk};
use nfs::nfs3::{Arguments, Attributes, Device, Failure, FileKind, Handle, Outcome, Procedure};
use nfs::nfs3::{Stability, Status, Time, Verifier, Wcc};
use nfs::reader::{Limits, Progress, RecordReader};
use nfs::record::Record;
use nfs::rpc::{self, Call, PROGRAM_MOUNT, PROGRAM_NFS, Refusal};
use nfs::xdr::Encode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{LocalSet, spawn_blocking};

use journal::Change;
pub use medium::Medium;
pub use store::Store;

const NEVER: Time = Time { seconds: 0, nanoseconds: 0 };

/// Attributes of every file.
const ATTRIBUTES: Attributes = Attributes {
    kind: FileKind::Regular,
    mode: 0o644,
    nlink: 1,
    uid: 0,
    gid: 0,
    size: 0,
    used: 0,
    device: Device { major: 0, minor: 0 },
    fsid: 0,
    fileid: 7,
    atime: NEVER,
    mtime: NEVER,
    ctime: NEVER,
};

/// FSINFO of a server that supports everything.
const INFORMATION: FsinfoOk = FsinfoOk {
    attributes: None,
    read_max: 1 << 20,
    read_preferred: 1 << 20,
    read_multiple: 1,
    write_max: 1 << 20,
    write_preferred: 1 << 20,
    write_multiple: 1,
    readdir_preferred: 1 << 16,
    max_file_size: 1 << 40,
    time_delta: Time { seconds: 0, nanoseconds: 1 },
    properties: Properties {
        hard_links: true,
        symbolic_links: true,
        homogeneous: true,
        can_set_time: true,
    },
};

/// An NFS I/O error, without attributes of a file or a directory.
const IO_ERROR: Failure<Wcc> =
    Failure { status: Status::Io, about: Wcc { before: None, after: None } };

/// The way to wait for calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// A thread for each connection, blocked in its socket: a single call costs a read and a write,
    /// and no polling of other sockets.
    Apart,
    /// One thread for all connections: with many, none has to be woken. A READ of uncached data
    /// blocks all connections.
    Together,
}

/// Answers calls on separate threads until the process ends.
///
/// # Errors
/// The operating system's.
pub fn start(listener: TcpListener, manner: Manner, store: Option<Store>) -> io::Result<()> {
    let store = store.map(Store::start).transpose()?;
    let serve: Box<dyn FnOnce() + Send> = match manner {
        Manner::Apart => Box::new(move || {
            for stream in listener.incoming().flatten() {
                let store = store.clone();
                // A client that disconnects, or sends garbage, ends its thread.
                thread::spawn(move || answer_one(stream, store.as_deref()));
            }
        }),
        Manner::Together => {
            listener.set_nonblocking(true)?;
            let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Box::new(move || LocalSet::new().block_on(&reactor, answer_many(listener, store)))
        }
    };
    thread::Builder::new().spawn(serve).map(drop)
}

fn answer_one(mut stream: TcpStream, store: Option<&Store>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = RecordReader::new(Limits::default());
    loop {
        let mut replies = Vec::new();
        while let Some(record) = next(&mut reader)? {
            replies.append(&mut answer(&record, store)?.wait());
        }
        let mut slices = slices(&replies);
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let length = stream.write_vectored(rest)?;
            IoSlice::advance_slices(&mut rest, length);
        }
        let [first, second] = reader.targets();
        match stream.read_vectored(&mut [IoSliceMut::new(first), IoSliceMut::new(second)])? {
            0 => return Ok(()),
            length => reader.advance(length),
        }
    }
}

async fn answer_many(listener: TcpListener, store: Option<Arc<Store>>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    while let Ok((stream, _)) = listener.accept().await {
        tokio::task::spawn_local(answer_one_of_many(stream, store.clone()));
    }
}

async fn answer_one_of_many(
    mut stream: tokio::net::TcpStream,
    store: Option<Arc<Store>>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = RecordReader::new(Limits::default());
    loop {
        let mut replies = Vec::new();
        while let Some(record) = next(&mut reader)? {
            let answer = match store.clone().filter(|_| is_commit(&record)) {
                Some(store) => spawn_blocking(move || answer(&record, Some(&store))).await??,
                None => answer(&record, store.as_deref())?,
            };
            replies.append(&mut answer.settled().await);
        }
        let mut slices = slices(&replies);
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let length = stream.write_vectored(rest).await?;
            IoSlice::advance_slices(&mut rest, length);
        }
        let [first, _] = reader.targets();
        match stream.read(first).await? {
            0 => return Ok(()),
            length => reader.advance(length),
        }
    }
}

/// The next complete call that has arrived.
fn next(reader: &mut RecordReader) -> io::Result<Option<Record>> {
    loop {
        match reader.poll().map_err(io::Error::other)? {
            Progress::NeedsMemory(_) => reader.grant(),
            Progress::Record(record) => return Ok(Some(record)),
            Progress::NeedsBytes => return Ok(None),
        }
    }
}

fn is_commit(record: &Record) -> bool {
    let commit = (PROGRAM_NFS, Procedure::Commit as u32);
    Call::decode(record).is_ok_and(|call| (call.program, call.procedure) == commit)
}

fn slices(replies: &[Bytes]) -> Vec<IoSlice<'_>> {
    replies.iter().map(|piece| IoSlice::new(piece)).collect()
}

/// A reply, and the change that has to be durable before it is sent.
struct Answer {
    xid: u32,
    reply: Vec<Bytes>,
    change: Option<Change>,
}

impl Answer {
    fn at_once(xid: u32, reply: Vec<Bytes>) -> Answer {
        Answer { xid, reply, change: None }
    }

    /// Sends the reply only when a change with this payload is durable, if there is a store.
    fn when_durable(self, store: Option<&Store>, payload: Vec<Bytes>) -> Answer {
        Answer { change: store.map(|store| store.change(payload)), ..self }
    }

    /// The reply, once this thread may send it.
    fn wait(self) -> Vec<Bytes> {
        let durable = self.change.map_or(Ok(()), Change::wait);
        durable.map_or_else(|_| failure(self.xid), |()| self.reply)
    }

    /// The reply, once a task may send it.
    async fn settled(self) -> Vec<Bytes> {
        let Some(change) = self.change else { return self.reply };
        change.settled().await.map_or_else(|_| failure(self.xid), |()| self.reply)
    }
}

/// The answer to a call, if the record is one.
fn answer(record: &Record, store: Option<&Store>) -> io::Result<Answer> {
    let call = Call::decode(record).map_err(io::Error::other)?;
    let answered = match call.program {
        PROGRAM_MOUNT => answer_mount(&call),
        PROGRAM_NFS => answer_nfs(&call, store),
        _ => None,
    };
    let refused =
        || Answer::at_once(call.xid, rpc::refuse(call.xid, Refusal::ProcedureUnavailable));
    Ok(answered.unwrap_or_else(refused))
}

fn encode(xid: u32, results: &impl Encode) -> Vec<Bytes> {
    let mut to = rpc::success(xid);
    to.value(results);
    to.finish()
}

/// The reply to a call whose change could not be made durable.
fn failure(xid: u32) -> Vec<Bytes> {
    encode(xid, &Outcome::<(), _>::Err(IO_ERROR))
}

fn reply(call: &Call<'_>, results: &impl Encode) -> Option<Answer> {
    Some(Answer::at_once(call.xid, encode(call.xid, results)))
}

fn null(call: &Call<'_>) -> Option<Answer> {
    Some(Answer::at_once(call.xid, rpc::success(call.xid).finish()))
}

fn answer_mount(call: &Call<'_>) -> Option<Answer> {
    match mount::Procedure::from_number(call.procedure)? {
        mount::Procedure::Null => null(call),
        mount::Procedure::Mnt => {
            let handle = Handle::new(b"/")?;
            reply(call, &MntResult::Ok(MntOk { handle, flavors: vec![1] }))
        }
        _ => None,
    }
}

fn answer_nfs(call: &Call<'_>, store: Option<&Store>) -> Option<Answer> {
    let procedure = Procedure::from_number(call.procedure)?;
    let arguments = Arguments::decode(procedure, call.arguments).ok()?;
    match arguments {
        Arguments::Null => null(call),
        Arguments::Getattr(_) => done(call, ATTRIBUTES),
        Arguments::Lookup(LookupArgs { what }) => {
            let object = Handle::new(what.name)?;
            done(call, LookupOk { object, attributes: None, directory: None })
        }
        Arguments::Create(CreateArgs { location, .. })
        | Arguments::Mkdir(MkdirArgs { location, .. }) => {
            let object = Some(Handle::new(location.name)?);
            let made = CreateOk { object, attributes: None, directory: Wcc::default() };
            Some(done(call, made)?.when_durable(store, Vec::new()))
        }
        Arguments::Remove(_) | Arguments::Rmdir(_) => {
            Some(done(call, Wcc::default())?.when_durable(store, Vec::new()))
        }
        Arguments::Readdirplus(_) => {
            let (cookie_verifier, entries) = (Verifier::default(), Vec::new());
            done(call, ReaddirplusOk { directory: None, cookie_verifier, entries, eof: true })
        }
        Arguments::Fsinfo(_) => done(call, INFORMATION),
        Arguments::Read(ReadArgs { file, offset, count }) => {
            let data = store?.read(file, offset, count as usize);
            tried(call, data.map(|data| ReadOk { attributes: None, eof: false, data }))
        }
        Arguments::Write(WriteArgs { file, offset, count, stable: Stability::Unstable, data }) => {
            let (wcc, committed) = (Wcc::default(), Stability::Unstable);
            let verifier = Verifier::default();
            let written = store?.write(file, offset, data);
            tried(call, written.map(|()| WriteOk { wcc, count, committed, verifier }))
        }
        Arguments::Write(WriteArgs { count, stable: committed, data, .. }) => {
            let (wcc, verifier) = (Wcc::default(), Verifier::default());
            let written = done(call, WriteOk { wcc, count, committed, verifier })?;
            Some(written.when_durable(Some(store?), data))
        }
        Arguments::Commit(CommitArgs { file, .. }) => {
            let (wcc, verifier) = (Wcc::default(), Verifier::default());
            tried(call, store?.commit(file).map(|()| CommitOk { wcc, verifier }))
        }
        _ => None,
    }
}

fn done(call: &Call<'_>, results: impl Encode) -> Option<Answer> {
    reply(call, &Outcome::<_, ()>::Ok(results))
}

fn tried<T: Encode>(call: &Call<'_>, result: io::Result<T>) -> Option<Answer> {
    reply(call, &result.map_err(|_| IO_ERROR))
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
