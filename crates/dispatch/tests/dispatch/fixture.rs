//! A dispatcher over a file system in memory, and clients whose calls are built and whose replies
//! are read by an independent implementation of the protocol.

use std::cell::Cell;
use std::io::Cursor;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use dispatch::{Dispatcher, Exports, Fsid, Limits, Reply, Session, Volume, Volumes, Window};
use futures::executor::LocalPool;
use futures::future::LocalBoxFuture;
use futures::task::LocalSpawnExt;
use futures::{FutureExt, future};
use nfs::record::Record;
use nfs3_types::mount::{MOUNT_PROGRAM, dirpath, mountres3, mountstat3};
use nfs3_types::nfs3::{self, NFS_PROGRAM, Nfs3Result, diropargs3, nfs_fh3};
use nfs3_types::rpc::{
    accept_stat_data, auth_unix, call_body, msg_body, opaque_auth, rejected_reply, reply_body,
    rpc_msg,
};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use runtime::{Clock, Instant, Random, Runtime, Spawn, Timestamp};
use vfs::FileSystem;

use crate::memory::MemoryFileSystem;
use crate::watched::Watched;

pub(crate) struct HandClock(pub(crate) Cell<u64>);

impl Clock for HandClock {
    fn now(&self) -> Instant {
        Instant(self.0.get())
    }

    fn wall(&self) -> Timestamp {
        let now = Duration::from_nanos(self.0.get());
        Timestamp { seconds: now.as_secs().cast_signed(), nanoseconds: now.subsec_nanos() }
    }

    fn sleep(&self, _: Duration) -> LocalBoxFuture<'static, ()> {
        future::pending().boxed_local()
    }
}

struct NoChance;

impl Random for NoChance {
    fn next_u64(&self) -> u64 {
        panic!("the dispatcher leaves nothing to chance")
    }
}

struct Pool(futures::executor::LocalSpawner);

impl Spawn for Pool {
    fn spawn(&self, task: LocalBoxFuture<'static, ()>) {
        self.0.spawn_local(task).expect("the pool lives as long as the test");
    }
}

/// The whole fixture. `data` is the volume under test; a second one is there as `other`.
pub(crate) struct Fixture {
    pub(crate) pool: LocalPool,
    pub(crate) dispatcher: Rc<Dispatcher>,
    pub(crate) data: Rc<MemoryFileSystem>,
    pub(crate) clock: Rc<HandClock>,
}

pub(crate) const DATA: Fsid = Fsid(0xda7a);
pub(crate) const OTHER: Fsid = Fsid(0x07e4);

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(Exports::default(), Limits::default())
    }

    pub(crate) fn with(exports: Exports, limits: Limits) -> Self {
        Self::remembering(exports, limits, Window::default())
    }

    pub(crate) fn remembering(exports: Exports, limits: Limits, window: Window) -> Self {
        let data = MemoryFileSystem::new();
        Self::build(exports, limits, window, data.clone(), [data, MemoryFileSystem::new()])
    }

    /// A fixture with a layer in front of the volume under test.
    pub(crate) fn watched<F: FileSystem + 'static>(
        exports: Exports,
        front: impl FnOnce(Rc<MemoryFileSystem>) -> Rc<F>,
    ) -> Self {
        let (limits, window, data) =
            (Limits::default(), Window::default(), MemoryFileSystem::new());
        let volumes: [Rc<dyn FileSystem>; 2] = [front(data.clone()), MemoryFileSystem::new()];
        Self::build(exports, limits, window, data, volumes)
    }

    /// A fixture over existing volumes.
    pub(crate) fn over([data, other]: &[Rc<Watched>; 2], window: Window) -> Self {
        let (exports, limits) = (Exports::default(), Limits::default());
        Self::build(exports, limits, window, data.files(), [data.clone(), other.clone()])
    }

    fn build(
        exports: Exports,
        limits: Limits,
        window: Window,
        data: Rc<MemoryFileSystem>,
        [first, second]: [Rc<dyn FileSystem>; 2],
    ) -> Self {
        let pool = LocalPool::new();
        let clock = Rc::new(HandClock(Cell::new(0)));
        let runtime = Runtime {
            clock: clock.clone(),
            random: Rc::new(NoChance),
            tasks: Rc::new(Pool(pool.spawner())),
        };
        let volume = |name: &str, fsid, file_system: Rc<dyn FileSystem>| Volume {
            name: name.into(),
            fsid,
            file_system,
        };
        let volumes = vec![volume("data", DATA, first), volume("other", OTHER, second)];
        let volumes = Volumes::new(volumes).expect("two different volumes");
        let dispatcher = Dispatcher::new(runtime, volumes, exports, window, limits);
        Self { pool, dispatcher, data, clock }
    }

    /// Begins a call whose caller waits until the [`Sent`] is dropped.
    pub(crate) fn send_record(&mut self, client: &Client, record: Bytes) -> Sent {
        let record = Record::whole(record);
        let dispatcher = self.dispatcher.clone();
        let address = client.address;
        let call = async move { dispatcher.call(address, record).await };
        let mut sent = Sent { call: Some(call.boxed_local()), outcome: None };
        self.poll(&mut sent);
        sent
    }

    pub(crate) fn send(
        &mut self,
        client: &Client,
        xid: u32,
        procedure: NFS_PROGRAM,
        args: &impl Pack,
    ) -> Sent {
        let target = (nfs3::PROGRAM, nfs3::VERSION, procedure as u32);
        self.send_record(client, client.record(xid, target, args))
    }

    /// Polls until nothing makes progress.
    pub(crate) fn poll(&mut self, sent: &mut Sent) {
        let Sent { call: Some(call), outcome } = sent else { return };
        self.pool.run_until(async {
            for _ in 0..8 {
                if outcome.is_none() {
                    *outcome = call.as_mut().now_or_never();
                }
                yield_now().await;
            }
        });
        self.pool.run_until_stalled();
    }

    /// Makes a call on an existing connection.
    pub(crate) fn call_on(&mut self, session: &Rc<Session>, record: Bytes) -> Option<Reply> {
        let party = session.party(&record);
        self.pool.run_until(async {
            let memory = session.request_memory(party, record.len()).await;
            session.call(Record::whole(record), memory).await
        })
    }

    /// Makes a call that must be answered at once.
    pub(crate) fn call<R: Unpack>(
        &mut self,
        client: &Client,
        procedure: NFS_PROGRAM,
        args: &impl Pack,
    ) -> R {
        let xid = client.next_xid();
        self.send(client, xid, procedure, args).reply()
    }

    pub(crate) fn call_mount<R: Unpack>(
        &mut self,
        client: &Client,
        procedure: MOUNT_PROGRAM,
        args: &impl Pack,
    ) -> R {
        let target = (nfs3_types::mount::PROGRAM, nfs3_types::mount::VERSION, procedure as u32);
        let record = client.record(client.next_xid(), target, args);
        self.send_record(client, record).reply()
    }

    pub(crate) fn mount(&mut self, client: &Client, path: &str) -> Result<nfs_fh3, mountstat3> {
        let path = dirpath(Opaque::borrowed(path.as_bytes()));
        match self.call_mount(client, MOUNT_PROGRAM::MOUNTPROC3_MNT, &path) {
            mountres3::Ok(ok) => Ok(nfs_fh3 { data: Opaque::owned(ok.fhandle.0.to_vec()) }),
            mountres3::Err(status) => Err(status),
        }
    }

    /// Makes a regular file and returns its handle.
    pub(crate) fn create(&mut self, client: &Client, directory: &nfs_fh3, name: &str) -> nfs_fh3 {
        let how = nfs3::createhow3::GUARDED(nfs3::sattr3::default());
        let args = nfs3::CREATE3args { where_: at(directory, name), how };
        let result: nfs3::CREATE3res = self.call(client, NFS_PROGRAM::NFSPROC3_CREATE, &args);
        result.unwrap().obj.unwrap()
    }

    /// Makes a directory and returns its handle.
    pub(crate) fn mkdir(&mut self, client: &Client, directory: &nfs_fh3, name: &str) -> nfs_fh3 {
        let attributes = nfs3::sattr3::default();
        let args = nfs3::MKDIR3args { where_: at(directory, name), attributes };
        let result: nfs3::MKDIR3res = self.call(client, NFS_PROGRAM::NFSPROC3_MKDIR, &args);
        result.unwrap().obj.unwrap()
    }

    pub(crate) fn getattr(&mut self, client: &Client, object: &nfs_fh3) -> nfs3::GETATTR3res {
        let args = nfs3::GETATTR3args { object: object.clone() };
        self.call(client, NFS_PROGRAM::NFSPROC3_GETATTR, &args)
    }
}

async fn yield_now() {
    let mut yielded = false;
    future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// A call that is under way.
pub(crate) struct Sent {
    call: Option<LocalBoxFuture<'static, Option<Reply>>>,
    outcome: Option<Option<Reply>>,
}

impl Sent {
    pub(crate) fn is_answered(&self) -> bool {
        self.outcome.is_some()
    }

    /// All bytes of the reply after the record mark.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let reply = self.outcome.as_ref().expect("the call has ended");
        let segments = reply.as_ref().expect("the call was answered").segments();
        let all = segments.concat();
        let mark = u32::from_be_bytes(all[..4].try_into().expect("four bytes"));
        assert_eq!(mark as usize, 1 << 31 | (all.len() - 4), "a record of one fragment");
        all[4..].to_vec()
    }

    /// Takes the reply.
    pub(crate) fn take_reply(self) -> Reply {
        self.outcome.flatten().expect("the call was answered")
    }

    /// Whether no file system has answered this.
    pub(crate) fn is_bare(&self) -> bool {
        let reply = self.outcome.as_ref().expect("the call has ended");
        reply.as_ref().expect("the call was answered").is_bare()
    }

    pub(crate) fn is_dropped_silently(&self) -> bool {
        matches!(self.outcome, Some(None))
    }

    fn split(&self) -> (reply_body<'static>, Vec<u8>) {
        let mut cursor = Cursor::new(self.bytes());
        let (message, length) = rpc_msg::unpack(&mut cursor).expect("a message");
        match message.body {
            msg_body::REPLY(body) => (body, cursor.into_inner().split_off(length)),
            msg_body::CALL(_) => panic!("a reply is no call"),
        }
    }

    /// The results of a call that was executed.
    pub(crate) fn reply<R: Unpack>(&self) -> R {
        let (body, results) = self.split();
        match body {
            reply_body::MSG_ACCEPTED(accepted) => {
                assert!(matches!(accepted.reply_data, accept_stat_data::SUCCESS), "{accepted:?}");
            }
            reply_body::MSG_DENIED(denied) => panic!("{denied:?}"),
        }
        let (value, length) = R::unpack(&mut &results[..]).expect("results");
        assert_eq!(length, results.len(), "nothing behind the results");
        value
    }

    pub(crate) fn accept_status(&self) -> accept_stat_data {
        match self.split().0 {
            reply_body::MSG_ACCEPTED(accepted) => accepted.reply_data,
            reply_body::MSG_DENIED(denied) => panic!("{denied:?}"),
        }
    }

    pub(crate) fn rejection(&self) -> rejected_reply {
        match self.split().0 {
            reply_body::MSG_DENIED(denied) => denied,
            reply_body::MSG_ACCEPTED(accepted) => panic!("{accepted:?}"),
        }
    }
}

/// A client machine.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: IpAddr,
    pub(crate) credential: opaque_auth<'static>,
    xid: Rc<Cell<u32>>,
}

impl Client {
    /// The superuser at this address.
    pub(crate) fn root(address: &str) -> Self {
        Self::user(address, 0, 0, &[])
    }

    pub(crate) fn user(address: &str, uid: u32, gid: u32, gids: &[u32]) -> Self {
        let machinename = Opaque::borrowed(b"machine");
        let user = auth_unix { stamp: 1, machinename, uid, gid, gids: gids.to_vec() };
        Self::with_credential(address, opaque_auth::auth_unix(&user))
    }

    pub(crate) fn with_credential(address: &str, credential: opaque_auth<'static>) -> Self {
        let address = address.parse().expect("an address");
        Self { address, credential, xid: Rc::new(Cell::new(1)) }
    }

    pub(crate) fn next_xid(&self) -> u32 {
        self.xid.set(self.xid.get() + 1);
        self.xid.get()
    }

    pub(crate) fn record(
        &self,
        xid: u32,
        (prog, vers, proc): (u32, u32, u32),
        args: &impl Pack,
    ) -> Bytes {
        let verf = opaque_auth::default();
        let cred = self.credential.borrow();
        let body = call_body { rpcvers: 2, prog, vers, proc, cred, verf };
        let message = rpc_msg { xid, body: msg_body::CALL(body) };
        let mut bytes = Vec::new();
        message.pack(&mut bytes).expect("memory takes everything");
        args.pack(&mut bytes).expect("memory takes everything");
        bytes.into()
    }
}

/// The local superuser, whom the default rules admit.
pub(crate) fn local() -> Client {
    Client::root("127.0.0.1")
}

pub(crate) fn at<'a>(directory: &nfs_fh3, name: &'a str) -> diropargs3<'a> {
    diropargs3 { dir: directory.clone(), name: name.as_bytes().into() }
}

/// The status of a refusal.
pub(crate) fn refusal<T, E>(result: Nfs3Result<T, E>) -> nfs3::nfsstat3 {
    match result {
        Nfs3Result::Ok(_) => nfs3::nfsstat3::NFS3_OK,
        Nfs3Result::Err((status, _)) => status,
    }
}
