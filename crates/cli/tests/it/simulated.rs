//! The whole server in one simulated world: calls enter at the dispatcher as bytes, and a disk that
//! loses power is at the bottom. In between is the unchanged production code.
//!
//! A client creates files, writes some of them UNSTABLE, and keeps the handles. The power fails at
//! a random moment; the server recovers from the remains; the client uses its handles again.

use std::io::Cursor;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use dispatch::{Dispatcher, Exports, Fsid, Limits, Volume, Volumes, Window};
use ffs::{Disks, OpenOptions, PolicyKind};
use namespace::Namespace;
use nfs::record::Record;
use nfs3_types::mount::{dirpath, mountres3};
use nfs3_types::nfs3::{self, NFS_PROGRAM, Nfs3Result, diropargs3, nfs_fh3, stable_how};
use nfs3_types::rpc::{auth_unix, call_body, msg_body, opaque_auth, rpc_msg};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use runtime::Timestamp;
use sim::{Choice, Disk, Executor, Image, Prng};
use ufs2::mkfs::{MkfsOptions, mkfs};

const SIZE: u64 = 16 << 20;
const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A server over one disk, as `duramen serve` builds it, but without sockets.
struct Server {
    dispatcher: Rc<Dispatcher>,
    xid: std::cell::Cell<u32>,
}

impl Server {
    async fn start(executor: &Executor, disk: Rc<Disk>) -> Self {
        let options = OpenOptions::default();
        let disks = Disks::alone(disk);
        let opened =
            ffs::open(PolicyKind::Sync, disks, executor.runtime(), &options, &mut |_| ()).await;
        let opened = opened.unwrap_or_else(|error| panic!("{error}"));
        let file_system = Rc::new(Namespace::new(opened.files));
        let volume = Volume { name: "data".into(), fsid: Fsid(7), file_system };
        let volumes = Volumes::new(vec![volume]).expect("one volume");
        let (exports, window, limits) = (Exports::default(), Window::default(), Limits::default());
        let dispatcher = Dispatcher::new(executor.runtime(), volumes, exports, window, limits);
        Self { dispatcher, xid: std::cell::Cell::new(1) }
    }

    /// Makes a call, encoded by an independent client.
    async fn call<R: Unpack>(&self, program: u32, procedure: u32, arguments: &impl Pack) -> R {
        self.xid.set(self.xid.get() + 1);
        let machinename = Opaque::borrowed(b"machine");
        let user = auth_unix { stamp: 1, machinename, uid: 0, gid: 0, gids: Vec::new() };
        let (cred, verf) = (opaque_auth::auth_unix(&user), opaque_auth::default());
        let body = call_body { rpcvers: 2, prog: program, vers: 3, proc: procedure, cred, verf };
        let message = rpc_msg { xid: self.xid.get(), body: msg_body::CALL(body) };
        let mut bytes = Vec::new();
        message.pack(&mut bytes).expect("memory takes everything");
        arguments.pack(&mut bytes).expect("memory takes everything");
        let record = Record::whole(bytes);
        let reply = self.dispatcher.call(HOST, record).await.expect("a reply");
        let mut cursor = Cursor::new(reply.segments().concat().split_off(4));
        let (_, length) = rpc_msg::unpack(&mut cursor).expect("a reply message");
        let results = cursor.into_inner().split_off(length);
        R::unpack(&mut &results[..]).expect("results").0
    }

    async fn nfs<R: Unpack>(&self, procedure: NFS_PROGRAM, arguments: &impl Pack) -> R {
        self.call(nfs3::PROGRAM, procedure as u32, arguments).await
    }

    async fn root(&self) -> nfs_fh3 {
        let path = dirpath(Opaque::borrowed(b"/data"));
        match self.call(nfs3_types::mount::PROGRAM, 1, &path).await {
            mountres3::Ok(ok) => nfs_fh3 { data: Opaque::owned(ok.fhandle.0.to_vec()) },
            mountres3::Err(status) => panic!("{status:?}"),
        }
    }

    async fn create(&self, directory: &nfs_fh3, name: &str) -> nfs_fh3 {
        let where_ = diropargs3 { dir: directory.clone(), name: name.as_bytes().into() };
        let how = nfs3::createhow3::GUARDED(nfs3::sattr3::default());
        let args = nfs3::CREATE3args { where_, how };
        let result: nfs3::CREATE3res = self.nfs(NFS_PROGRAM::NFSPROC3_CREATE, &args).await;
        result.unwrap().obj.unwrap()
    }

    /// Writes data and returns the verifier.
    async fn write(&self, file: &nfs_fh3, data: &[u8], stable: stable_how) -> [u8; 8] {
        let args = nfs3::WRITE3args {
            file: file.clone(),
            offset: 0,
            count: data.len() as u32,
            stable,
            data: Opaque::borrowed(data),
        };
        let result: nfs3::WRITE3res = self.nfs(NFS_PROGRAM::NFSPROC3_WRITE, &args).await;
        result.unwrap().verf.0
    }

    async fn read(&self, file: &nfs_fh3) -> Result<Vec<u8>, nfs3::nfsstat3> {
        let args = nfs3::READ3args { file: file.clone(), offset: 0, count: 1 << 20 };
        let result: nfs3::READ3res = self.nfs(NFS_PROGRAM::NFSPROC3_READ, &args).await;
        match result {
            Nfs3Result::Ok(ok) => Ok(ok.data.to_vec()),
            Nfs3Result::Err((status, _)) => Err(status),
        }
    }

    /// Commits a file and returns the verifier.
    async fn commit(&self, file: &nfs_fh3) -> [u8; 8] {
        let args = nfs3::COMMIT3args { file: file.clone(), offset: 0, count: 0 };
        let result: nfs3::COMMIT3res = self.nfs(NFS_PROGRAM::NFSPROC3_COMMIT, &args).await;
        result.unwrap().verf.0
    }
}

/// A file that the client has created, and its knowledge of the data.
struct File {
    handle: nfs_fh3,
    data: Vec<u8>,
    /// Verifier of a write that was not committed.
    uncommitted: Option<[u8; 8]>,
}

fn content(index: u64) -> Vec<u8> {
    (0..1 + index * 7_919 % 90_000).map(|at| (at ^ index) as u8 | 1).collect()
}

/// Creates files until the power fails, and records the answered calls in `known`.
async fn work(server: &Server, known: &std::cell::RefCell<Vec<File>>) {
    let root = server.root().await;
    for index in 0.. {
        let handle = server.create(&root, &format!("file-{index}")).await;
        known.borrow_mut().push(File { handle, data: Vec::new(), uncommitted: None });
        let handle = known.borrow()[index as usize].handle.clone();
        let data = content(index);
        let stable = [stable_how::UNSTABLE, stable_how::DATA_SYNC, stable_how::FILE_SYNC]
            [index as usize % 3];
        let is_unstable = index % 3 == 0;
        let verifier = server.write(&handle, &data, stable).await;
        let committed = is_unstable && index % 2 == 0 && {
            assert_eq!(server.commit(&handle).await, verifier, "one boot, one verifier");
            true
        };
        let file = &mut known.borrow_mut()[index as usize];
        file.data = data;
        file.uncommitted = (is_unstable && !committed).then_some(verifier);
    }
}

fn cut_and_come_back(seed: u64) {
    let mut prng = Prng::new(seed);
    let executor = Executor::new(seed);
    let disk = Disk::new(&executor, Image::zeroed(SIZE));
    let options = MkfsOptions { block_size: 8192, fragment_size: 1024, ..MkfsOptions::default() };
    let now = Timestamp { seconds: 1_800_000_000, nanoseconds: 0 };
    let random = executor.runtime().random;
    executor.block_on(mkfs(&*disk, &options, &*random, now)).expect("the disk holds it");
    let known = std::cell::RefCell::new(Vec::new());
    let time = std::time::Duration::from_micros(prng.between(2_000, 40_000));
    executor.block_on_for(time, async {
        let server = Server::start(&executor, disk.clone()).await;
        work(&server, &known).await;
    });
    executor.crash();
    let platter = disk.platter();
    let left = platter.image(&Choice::random(&platter, &mut prng));

    let executor = Executor::new(seed + 1);
    let disk = Disk::new(&executor, left);
    executor.block_on(async {
        let server = Server::start(&executor, disk).await;
        for (index, file) in known.into_inner().into_iter().enumerate() {
            let found = server.read(&file.handle).await;
            let found = found.unwrap_or_else(|status| panic!("file {index}: {status:?}"));
            match file.uncommitted {
                None if file.data.is_empty() => {} // its write was in flight
                None => assert!(found == file.data, "file {index}: {} bytes", found.len()),
                Some(verifier) => {
                    assert_ne!(server.commit(&file.handle).await, verifier, "another boot");
                    let old =
                        found.iter().zip(&file.data).all(|(now, new)| now == new || *now == 0);
                    assert!(old && found.len() <= file.data.len(), "file {index}: foreign bytes");
                }
            }
        }
    });
}

#[test]
fn what_was_answered_survives_a_power_cut_under_the_whole_server() {
    (0..60).for_each(|seed| cut_and_come_back(seed * 2 + 1));
}

#[test]
fn the_whole_server_does_the_same_under_the_same_seed() {
    let digest = |seed| {
        let executor = Executor::new(seed);
        let disk = Disk::new(&executor, Image::zeroed(SIZE));
        let random = executor.runtime().random;
        let now = Timestamp::default();
        executor.block_on(mkfs(&*disk, &MkfsOptions::default(), &*random, now)).expect("it fits");
        let known = std::cell::RefCell::new(Vec::new());
        executor.block_on_for(std::time::Duration::from_millis(20), async {
            let server = Server::start(&executor, disk.clone()).await;
            work(&server, &known).await;
        });
        assert!(known.borrow().len() > 5, "something happened");
        (executor.digest(), disk.contents().fingerprint())
    };
    assert_eq!(digest(3), digest(3));
    assert_ne!(digest(3), digest(4));
}
