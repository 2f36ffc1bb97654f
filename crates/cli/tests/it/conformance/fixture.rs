//! A server of one volume in this process, over real sockets, which can be stopped, cut and started
//! again.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use namespace::Namespace;
use nfs3_client::tokio::TokioIo;
use nfs3_client::{MountClient, Nfs3Client};
use nfs3_types::mount::dirpath;
use nfs3_types::nfs3::nfs_fh3;
use nfs3_types::rpc::{auth_unix, opaque_auth};
use nfs3_types::xdr_codec::Opaque;
use runtime::{Runtime, Timestamp};
use server::{Config, Fsid, ServeError, Server, ServerHandle, Settings, Volume, reactor};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::FileSystem;

use crate::common::{Folder, assert_clean};
use crate::conformance::disk::MemoryDisk;
use crate::conformance::user::User;

/// Longer than any test may take on any machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// One volume under three names: normal, as another volume, and read-only.
const CONFIGURATION: &str = r#"
    listen = ["127.0.0.1:0"]
    exports.data.clients = [{ network = "127.0.0.1", access = "rw", squash = "none" }]
    exports.other.clients = [{ network = "127.0.0.1", access = "rw", squash = "none" }]
    exports.fixed.clients = [{ network = "127.0.0.1", access = "ro", squash = "none" }]
    exports.closed.clients = []
"#;

pub(crate) struct Fixture {
    runtime: Runtime,
    pub(crate) disk: Rc<MemoryDisk>,
    serving: Serving,
}

struct Serving {
    address: SocketAddr,
    handle: ServerHandle,
    running: JoinHandle<Result<(), ServeError>>,
}

/// Runs `test` with a server of a new volume of `size` bytes.
pub(crate) fn with_volume_of<F: Future<Output = ()>>(size: usize, test: impl FnOnce(Fixture) -> F) {
    let outcome = reactor::block_on(|runtime| async move {
        let disk = MemoryDisk::new(size);
        let now = Timestamp { seconds: 1_700_000_000, nanoseconds: 0 };
        // Small blocks give files indirect blocks early. Without hashes, tests may change the disk.
        let options = MkfsOptions {
            block_size: 8192,
            fragment_size: 1024,
            check_hashes: false,
            ..MkfsOptions::default()
        };
        mkfs(&*disk, &options, &*runtime.random, now).await.expect("the disk holds it");
        let serving = serve(&runtime, &disk).await;
        tokio::time::timeout(DEADLINE, test(Fixture { runtime, disk, serving })).await
    });
    outcome.expect("a reactor").expect("the test ends before its deadline");
}

/// Runs `test` with a server of a new volume that has enough space.
pub(crate) fn with_volume<F: Future<Output = ()>>(test: impl FnOnce(Fixture) -> F) {
    with_volume_of(24 << 20, test);
}

async fn serve(runtime: &Runtime, disk: &Rc<MemoryDisk>) -> Serving {
    let options = ffs::OpenOptions { cache_bytes: 32 << 20, ..Default::default() };
    let (policy, disks) = (ffs::PolicyKind::Sync, ffs::Disks::alone(disk.clone()));
    let opened = ffs::open(policy, disks, runtime.clone(), &options, &mut |_| ()).await;
    let opened = opened.unwrap_or_else(|error| panic!("{error}"));
    let files: Rc<dyn FileSystem> = Rc::new(Namespace::new(opened.files));
    let volume = |(name, fsid): (&str, u64)| Volume {
        name: name.into(),
        fsid: Fsid(fsid),
        file_system: files.clone(),
    };
    let volumes = [("data", 7), ("other", 8), ("fixed", 9), ("closed", 10)].map(volume);
    let config = Config::parse(CONFIGURATION, Path::new("here")).expect("it makes sense");
    let settings = Settings { config, ..Settings::default() };
    let server = Server::bind(runtime, volumes.into(), settings).await.expect("it listens");
    let address = server.ready().addresses[0];
    let handle = server.handle();
    Serving { address, handle, running: tokio::task::spawn_local(server.run()) }
}

impl Fixture {
    /// Stops the server cleanly and starts another.
    pub(crate) async fn restart(&mut self) {
        self.restart_after(|_| ()).await;
    }

    /// Restarts the server, and changes the disk in between.
    pub(crate) async fn restart_after(&mut self, change: impl FnOnce(&MemoryDisk)) {
        self.stop().await;
        change(&self.disk);
        self.serving = serve(&self.runtime, &self.disk).await;
    }

    async fn stop(&mut self) {
        self.serving.handle.stop();
        let ended = (&mut self.serving.running).await.expect("it does not panic");
        ended.expect("a clean end");
    }

    /// Stops the server and has the independent checker check the disk, if the checker is there.
    pub(crate) async fn judge(mut self) {
        self.stop().await;
        let folder = Folder::new();
        let image = folder.path("disk.img");
        self.disk.save(&image);
        assert_clean(&image);
    }

    /// Cuts the power: starts another server on a copy of the disk. The old one continues unaware.
    pub(crate) async fn cut(&mut self) {
        self.disk = self.disk.copy();
        self.serving = serve(&self.runtime, &self.disk).await;
    }

    pub(crate) fn port(&self) -> u16 {
        self.serving.address.port()
    }

    pub(crate) async fn connect(&self) -> TokioIo<TcpStream> {
        TokioIo::new(TcpStream::connect(self.serving.address).await.expect("it accepts"))
    }

    pub(crate) async fn mount_client(&self, uid: u32) -> MountClient<TokioIo<TcpStream>> {
        let io = self.connect().await;
        MountClient::new_with_auth(io, credential(uid, 0, &[]), opaque_auth::default())
    }

    /// Root handle of a volume, from MOUNT.
    pub(crate) async fn mount(&self, path: &str) -> nfs_fh3 {
        let path = dirpath(Opaque::borrowed(path.as_bytes()));
        let mounted = self.mount_client(0).await.mnt(path).await.expect("it is exported");
        nfs_fh3 { data: Opaque::owned(mounted.fhandle.0.to_vec()) }
    }

    /// The superuser.
    pub(crate) async fn superuser(&self) -> User {
        self.user(0, 0, &[]).await
    }

    pub(crate) async fn user(&self, uid: u32, gid: u32, groups: &[u32]) -> User {
        let io = self.connect().await;
        let credential = credential(uid, gid, groups);
        let client = Nfs3Client::new_with_auth(io, credential, opaque_auth::default());
        User { client, root: self.mount("/data").await }
    }
}

fn credential(uid: u32, gid: u32, groups: &[u32]) -> opaque_auth<'static> {
    let gids = groups.to_vec();
    let machinename = Opaque::borrowed(b"machine");
    opaque_auth::auth_unix(&auth_unix { machinename, uid, gid, gids, ..auth_unix::default() })
}
