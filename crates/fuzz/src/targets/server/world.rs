//! A server over a simulated disk, built as the program builds it, and a client that behaves.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use dispatch::{
    Anonymous, Dispatcher, Export, Exports, Fsid, Limits, Rule, Squash, Volume, Volumes, Window,
};
use ffs::{Ffs, OpenOptions};
use namespace::Namespace;
use nfs::nfs3::{Procedure, Status};
use nfs::rpc::PROGRAM_NFS;
use nfs::xdr::Encoder;
use nfs3_types::mount::mountres3;
use nfs3_types::nfs3::{CREATE3res, GETATTR3res, MKDIR3res, Nfs3Result, READ3res, WRITE3res};
use runtime::Runtime;
use sim::{Disk, Executor};
use ufs2::mkfs::MkfsOptions;
use vfs::FileSystem;

use super::connection::{Answer, Connection, NOBODY, marked};
use super::results::whole;
use crate::targets::volume;
use crate::wire;

/// Size of the disk, of a block and of a fragment, in bytes: one that is full soon, and a larger.
pub(super) const SHAPES: [(u64, u64, u64); 2] = [(1 << 20, 4096, 512), (4 << 20, 8192, 1024)];

/// Bytes that are meant for what is kept of the disk.
const CACHE: usize = 4 << 20;
/// Bytes that are allowed for answers that are remembered.
const REPLIES: usize = 1 << 20;

/// The machine of the client that behaves.
const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The machine of the one that does not.
pub(super) const ABROAD: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));

/// The machine of a stranger, of many.
pub(super) fn stranger(number: u32) -> IpAddr {
    let [_, _, third, fourth] = number.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(172, 16, third, fourth))
}

/// A new file system on a disk of this shape.
pub(super) fn new_disk(executor: &Executor, shape: (u64, u64, u64)) -> Rc<Disk> {
    let (size, block_size, fragment_size) = shape;
    let options = MkfsOptions { block_size, fragment_size, ..MkfsOptions::default() };
    volume::new(executor, size, &options)
}

/// Opens the file system on a disk.
pub(super) async fn open(
    executor: &Executor,
    disk: Rc<Disk>,
    read_only: bool,
) -> Result<ffs::Opened, ffs::OpenError> {
    let options = OpenOptions { read_only, cache_bytes: CACHE, ..OpenOptions::default() };
    ffs::open(disk, executor.runtime(), &options, &mut |_| ()).await
}

/// A server without sockets.
pub(super) struct Server {
    pub(super) runtime: Runtime,
    pub(super) dispatcher: Rc<Dispatcher>,
    files: Rc<Namespace<Ffs>>,
}

impl Server {
    pub(super) async fn start(executor: &Executor, disk: Rc<Disk>) -> Self {
        let opened = open(executor, disk, false).await;
        let opened = opened.unwrap_or_else(|error| panic!("{error}"));
        let files = Rc::new(Namespace::new(opened.engine));
        let volume = Volume { name: "data".into(), fsid: Fsid(7), file_system: files.clone() };
        let volumes = Volumes::new(vec![volume]).expect("one volume");
        let limits = Limits { calls: 16, request_memory: 4 << 20, reply_memory: 4 << 20 };
        let window = Window { bytes: REPLIES, client_bytes: REPLIES, ..Window::default() };
        let runtime = executor.runtime();
        let dispatcher = Dispatcher::new(runtime.clone(), volumes, exports(), window, limits);
        Self { runtime, dispatcher, files }
    }

    /// Waits for all calls, looks at what is held after a whole life, and shuts the volume down.
    pub(super) async fn stop(self) {
        let _quiet = self.dispatcher.quiesce().await;
        assert_eq!(self.dispatcher.under_way(), (0, 0), "memory of calls that have ended");
        let (_, remembered) = self.dispatcher.remembered();
        assert!(
            remembered <= REPLIES,
            "{remembered} bytes of answers, where {REPLIES} are allowed"
        );
        let store = self.files.store();
        let (cached, unstable) = (store.cached_bytes(), store.unstable_bytes() as usize);
        assert!(cached <= CACHE + CACHE / 8, "{cached} bytes of the disk, where {CACHE} are meant");
        assert!(unstable <= CACHE / 2, "{unstable} bytes of UNSTABLE data");
        self.files.shutdown().await.expect("the disk works");
    }
}

/// The client abroad is nobody, whoever it says it is.
fn exports() -> Exports {
    let (uid, gid) = NOBODY;
    let rule = |network: &str, squash| Rule {
        network: network.parse().expect("a network"),
        writable: true,
        squash,
        anonymous: Anonymous { uid, gid },
    };
    let rules = vec![rule("127.0.0.0/8", Squash::None), rule("10.0.0.0/8", Squash::All)];
    let mut exports = Exports::default();
    exports.insert("data", Export::new(rules).expect("two networks"));
    exports
}

/// The client that behaves: it has a file that nobody else may touch.
pub(super) struct Neighbour {
    connection: Connection,
    folder: Vec<u8>,
    file: Vec<u8>,
    content: Vec<u8>,
    /// Its last call that is not to be carried out twice, and what came back.
    last: (Vec<u8>, Vec<u8>),
    looks: u32,
}

impl Neighbour {
    /// Mounts the volume, makes a directory for itself and one for everybody.
    pub(super) async fn settle(server: &Server) -> Self {
        let mut connection = Connection::new(server, HOME);
        let path = wire::bytes_of(|to| to.opaque(b"/data"));
        let root = match whole(&connection.mount(1, &path).await) {
            mountres3::Ok(ok) => ok.fhandle.0.to_vec(),
            mountres3::Err(status) => panic!("{status:?}"),
        };
        for (name, mode) in [("playground", 0o777), ("good", 0o700)] {
            let made = connection.nfs(Procedure::Mkdir, |to| new(to, &root, name, mode)).await;
            let made: MKDIR3res = whole(&made);
            made.unwrap();
        }
        let good = connection.lookup(&root, "good").await;
        let made = |to: &mut Encoder| {
            to.opaque(&good);
            to.opaque(b"file");
            to.u32(1);
            mode_alone(to, 0o600);
        };
        let made: CREATE3res = whole(&connection.nfs(Procedure::Create, made).await);
        let file = made.unwrap().obj.unwrap().data.to_vec();
        let (content, last) = (vec![1; 40_000], (Vec::new(), Vec::new()));
        let mut neighbour = Self { connection, folder: good, file, content, last, looks: 0 };
        neighbour.write().await;
        neighbour.make_link().await;
        neighbour
    }

    /// Gives the file another name.
    async fn make_link(&mut self) {
        self.looks += 1;
        let name = format!("link-{}", self.looks);
        let arguments = wire::bytes_of(|to| {
            to.opaque(&self.file);
            to.opaque(&self.folder);
            to.opaque(name.as_bytes());
        });
        let xid = self.connection.xid();
        let target = [PROGRAM_NFS, 3, Procedure::Link as u32];
        let record = marked(&self.connection.call_bytes(xid, target, &arguments));
        let results = self.results(&record).await;
        // The disk may be full.
        let known = [0, Status::NoSpace as u32].map(u32::to_be_bytes);
        assert!(known.iter().any(|status| results.starts_with(status)), "{results:?}");
        self.last = (record, results);
    }

    /// The results of a call as it stands.
    async fn results(&mut self, record: &[u8]) -> Vec<u8> {
        let answers = self.connection.send(record).await.expect("a whole record");
        match answers.into_iter().next() {
            Some(Answer::Results(results)) => results,
            other => panic!("a call that was not damaged: {other:?}"),
        }
    }

    async fn write(&mut self) {
        let Self { connection, file, content, .. } = self;
        let written = connection.nfs(Procedure::Write, |to| {
            to.opaque(file);
            to.u64(0);
            to.u32(content.len() as u32);
            to.u32(2);
            to.opaque(content);
        });
        let written: WRITE3res = whole(&written.await);
        assert_eq!(written.unwrap().count as usize, content.len(), "all of it was written");
    }

    /// Reads all of its file, and writes something else in its place.
    pub(super) async fn look(&mut self) {
        let attributes = self.connection.nfs(Procedure::Getattr, |to| to.opaque(&self.file)).await;
        let Nfs3Result::Ok(attributes) = whole::<GETATTR3res>(&attributes) else {
            panic!("a good client's file is there");
        };
        assert_eq!(attributes.obj_attributes.size as usize, self.content.len());
        let read = self.connection.nfs(Procedure::Read, |to| {
            to.opaque(&self.file);
            to.u64(0);
            to.u32(1 << 20);
        });
        let read = read.await;
        match whole::<READ3res<'_>>(&read) {
            Nfs3Result::Ok(ok) => assert!(ok.data.as_ref() == self.content, "foreign bytes"),
            Nfs3Result::Err((status, _)) => panic!("a good client cannot read: {status:?}"),
        }
        self.content.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        self.write().await;
        let (record, before) = self.last.clone();
        assert!(self.results(&record).await == before, "a repeated call is answered as before");
        self.make_link().await;
    }
}

fn new(to: &mut Encoder, directory: &[u8], name: &str, mode: u32) {
    to.opaque(directory);
    to.opaque(name.as_bytes());
    mode_alone(to, mode);
}

fn mode_alone(to: &mut Encoder, mode: u32) {
    let attributes = nfs::nfs3::SetAttributes { mode: Some(mode), ..Default::default() };
    wire::set_attributes(to, &attributes);
}
