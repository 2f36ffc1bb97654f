//! The server, and the disk below it.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use dispatch::{
    Anonymous, Dispatcher, Export, Exports, Fsid, Limits, Rule, Squash, Volume, Volumes, Window,
};
use ffs::{Disks, Files, OpenOptions, PolicyKind};
use namespace::Namespace;
use runtime::Runtime;
use sim::{Disk, Executor};
use ufs2::mkfs::MkfsOptions;
use vfs::FileSystem;

use crate::targets::volume;

/// User and group of the superuser.
pub(super) const ROOT: (u32, u32) = (0, 0);
/// User and group to which every user abroad is mapped.
pub(super) const NOBODY: (u32, u32) = (65_534, 65_534);

/// Size of the disk, of a block and of a fragment, in bytes: a disk that is soon full, and a larger
/// one.
pub(super) const SHAPES: [(u64, u64, u64); 2] = [(1 << 20, 4096, 512), (4 << 20, 8192, 1024)];

/// Bytes of cache for the disk.
const CACHE: usize = 4 << 20;
/// Bytes allowed for remembered answers.
const REPLIES: usize = 1 << 20;

/// The address of the hostile client.
pub(super) const ABROAD: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));

/// The address of one of many strangers.
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
    let disks = Disks::alone(disk);
    ffs::open(PolicyKind::Sync, disks, executor.runtime(), &options, &mut |_| ()).await
}

/// A server without sockets.
pub(super) struct Server {
    pub(super) runtime: Runtime,
    pub(super) dispatcher: Rc<Dispatcher>,
    files: Rc<Namespace<Files>>,
}

impl Server {
    pub(super) async fn start(executor: &Executor, disk: Rc<Disk>) -> Self {
        let opened = open(executor, disk, false).await;
        let opened = opened.unwrap_or_else(|error| panic!("{error}"));
        let files = Rc::new(Namespace::new(opened.files));
        let volume = Volume { name: "data".into(), fsid: Fsid(7), file_system: files.clone() };
        let volumes = Volumes::new(vec![volume]).expect("one volume");
        let limits = Limits { calls: 16, request_memory: 4 << 20, reply_memory: 4 << 20 };
        let window = Window { bytes: REPLIES, client_bytes: REPLIES, ..Window::default() };
        let runtime = executor.runtime();
        let dispatcher = Dispatcher::new(runtime.clone(), volumes, exports(), window, limits);
        Self { runtime, dispatcher, files }
    }

    /// Waits for all calls, checks the memory still held, and shuts the volume down.
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

/// The client abroad is nobody, whichever user it claims to be.
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
