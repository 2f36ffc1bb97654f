//! A dispatcher over a volume with a log, on disks in memory that take no time.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use dispatch::{
    Anonymous, Dispatcher, Export, Exports, Fsid, Handle, Limits, Rule, Squash, Volume, Volumes,
    Window,
};
use ffs::{Disks, Files, OpenOptions, PolicyKind, open};
use namespace::Namespace;
use nfs::record::Record;
use nfs3_types::nfs3::nfs_fh3;
use nfs3_types::xdr_codec::Opaque;
use runtime::Timestamp;
use sim::{Executor, Image};
use torture::explore::ram::Ram;
use torture::explore::server::{record, results};
use torture::protocol::Procedure;
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::FileSystem;

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 0 };

pub(crate) struct Fixture {
    pub(crate) dispatcher: Rc<Dispatcher>,
    #[allow(dead_code, reason = "not every test that builds a fixture looks at its engine")]
    pub(crate) engine: Rc<Files>,
    pub(crate) root: nfs_fh3,
}

/// The address of one client of many.
pub(crate) fn client(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(u32::from_be_bytes([10, 0, 0, 0]) + number))
}

impl Fixture {
    pub(crate) async fn new(executor: &Executor, size: u64, log: u64, window: Window) -> Self {
        let disk = |size| Rc::new(Ram::new(Image::zeroed(size)));
        let (home, log) = (disk(size), disk(log));
        let runtime = executor.runtime();
        mkfs(&*home, &MkfsOptions::default(), &*runtime.random, NOW).await.expect("it fits");
        let options = OpenOptions::default();
        let disks = Disks::with_log(home, log);
        let opened = open(PolicyKind::Log, disks, runtime.clone(), &options, &mut |_| ()).await;
        let engine = opened.expect("a new volume").files;
        let files = Rc::new(Namespace::new(engine.clone()));
        let handle = Handle { fsid: Fsid(1), id: files.root() };
        let root = nfs_fh3 { data: Opaque::owned(handle.encode().to_vec()) };
        let volume = Volume { name: "data".into(), fsid: Fsid(1), file_system: files };
        let volumes = Volumes::new(vec![volume]).expect("one volume");
        let anonymous = Anonymous { uid: 65_534, gid: 65_534 };
        let network = "10.0.0.0/8".parse().expect("a network");
        let rule = Rule { network, writable: true, squash: Squash::None, anonymous };
        let mut exports = Exports::default();
        exports.insert("data", Export::new(vec![rule]).expect("one network"));
        let dispatcher = Dispatcher::new(runtime, volumes, exports, window, Limits::default());
        Self { dispatcher, engine, root }
    }

    /// Makes a call as the superuser of a client.
    pub(crate) async fn call<P: Procedure>(&self, from: IpAddr, xid: u32, call: &P) -> P::Results {
        let record = Record::whole(record(xid, call).slice(4..));
        let reply = self.dispatcher.call(from, record).await.expect("a reply");
        results::<P>(&reply.segments().concat()[4..]).expect("results")
    }
}
