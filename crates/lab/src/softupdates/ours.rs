//! Our own engine in place of the paper's: `ffs` under policy `softdep`, called by a program of the
//! same machine. As with any local file system, calls do not wait for the disk.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ffs::{Disks, OpenOptions, PolicyKind, open};
use namespace::Namespace;
use runtime::{Clock, Runtime};
use sim::Disk;
use vfs::{
    CreateHow, Credentials, Delayed, Device, FileKind, FileSystem, Name, ObjectId, Requester,
    Sealed, SetAttributes, Stability,
};

use super::files::{Holds, LocalFiles, Writes};

/// Interval at which a UNIX of the time writes data that no program waits for.
const UPDATE: Duration = Duration::from_secs(30);
/// *Input.* Memory for caches: enough for all data in use, which the models keep in memory, too.
const CACHE_BYTES: usize = 64 << 20;
/// Maximum bytes of a call.
const TRANSFER: u32 = 32 << 10;

static ZEROS: [u8; TRANSFER as usize] = [0; TRANSFER as usize];

/// Our engine; see the module.
pub(super) struct Ours {
    files: Rc<dyn FileSystem>,
    disk: Rc<Disk>,
    runtime: Runtime,
    /// Writes before the first call.
    before: u64,
    sync: Cell<u64>,
}

impl Ours {
    /// Opens the volume on a disk.
    pub(super) async fn start(disk: Rc<Disk>, runtime: Runtime) -> Rc<Self> {
        let options = OpenOptions {
            cache_bytes: CACHE_BYTES,
            housekeeping_interval: UPDATE,
            ..OpenOptions::default()
        };
        let disks = Disks::alone(disk.clone());
        let policy = PolicyKind::SoftUpdates;
        let opened = open(policy, disks, runtime.clone(), &options, &mut |_| ()).await;
        let opened = opened.unwrap_or_else(|error| panic!("the volume is new: {error}"));
        let files: Rc<dyn FileSystem> = Rc::new(Namespace::new(opened.files));
        let (before, sync) = (disk.counters().writes, Cell::new(0));
        Rc::new(Self { files, disk, runtime, before, sync })
    }

    /// Makes a call. Writes during its wait count as synchronous, unless it waited for a read.
    async fn call<T>(&self, call: impl Future<Output = Sealed<T>>) -> T {
        let (begun, before) = (self.runtime.clock.now(), self.disk.counters());
        let answer = call.await.accept(Delayed::declared());
        let came = self.disk.counters().since(&before);
        if self.runtime.clock.now() > begun && came.reads == 0 {
            self.sync.set(self.sync.get() + came.writes);
        }
        answer
            .unwrap_or_else(|lost| panic!("the disk of a model does not fail: {lost}"))
            .into_inner()
    }

    async fn find(&self, directory: ObjectId, named: &str) -> ObjectId {
        let (who, name) = (Credentials::root(), name(named));
        let answer = self.call(self.files.lookup(&who, directory, &name)).await;
        answer.result.unwrap_or_else(|error| panic!("{named}: {error}")).id
    }
}

fn name(name: &str) -> Name {
    Name::parse(name.as_bytes()).expect("the names of a script are names")
}

impl LocalFiles for Ours {
    type Directory = ObjectId;

    fn root(&self) -> ObjectId {
        self.files.root()
    }

    fn clock(&self) -> Rc<dyn Clock> {
        self.runtime.clock.clone()
    }

    fn written(&self) -> Writes {
        let all = self.disk.counters().writes - self.before;
        Writes { sync: self.sync.get(), async_: all - self.sync.get() }
    }

    async fn make_directory(&self, parent: ObjectId, named: &str) -> ObjectId {
        let (who, name, how) = (Requester::root(), name(named), SetAttributes::default());
        let answer = self.call(self.files.mkdir(&who, parent, &name, how)).await;
        answer.result.unwrap_or_else(|error| panic!("{named}: {error}")).id
    }

    async fn make_file(&self, parent: ObjectId, named: &str, holds: Holds) {
        let (who, name, how) = (Requester::root(), name(named), SetAttributes::default());
        let Holds::Bytes(bytes) = holds else {
            let (kind, device) = (FileKind::CharacterDevice, Device { major: 1, minor: 2 });
            let making = self.files.mknod(&who, parent, &name, kind, device, how);
            self.call(making).await.result.unwrap_or_else(|error| panic!("{named}: {error}"));
            return;
        };
        let making = self.files.create(&who, parent, &name, CreateHow::Guarded(how));
        let answer = self.call(making).await;
        let file = answer.result.unwrap_or_else(|error| panic!("{named}: {error}")).id;
        let mut offset = 0;
        while offset < bytes {
            let count = (bytes - offset).min(TRANSFER);
            let data = vec![Bytes::from_static(&ZEROS[..count as usize])];
            let at = u64::from(offset);
            let writing = self.files.write(&who.who, file, at, data, Stability::Unstable);
            let answer = self.call(writing).await;
            answer.result.unwrap_or_else(|error| panic!("{named}: {error}"));
            offset += count;
        }
    }

    async fn read(&self, parent: ObjectId, named: &str) {
        let file = self.find(parent, named).await;
        let (who, mut offset) = (Credentials::root(), 0);
        loop {
            let answer = self.call(self.files.read(&who, file, offset, TRANSFER)).await;
            let read = answer.result.unwrap_or_else(|error| panic!("{named}: {error}"));
            offset += read.data.iter().map(|piece| piece.len() as u64).sum::<u64>();
            if read.eof {
                return;
            }
        }
    }

    async fn stat(&self, parent: ObjectId, named: &str) {
        let file = self.find(parent, named).await;
        let answer = self.call(self.files.getattr(file)).await;
        answer.unwrap_or_else(|error| panic!("{named}: {error}"));
    }

    async fn list(&self, directory: ObjectId) {
        let (who, mut all) = (Credentials::root(), |_: &vfs::DirectoryEntry| true);
        let listing = self.files.readdir(&who, directory, 0, false, &mut all);
        let answer = self.call(listing).await;
        assert!(answer.result.is_ok_and(|entries| entries.eof), "all of it is accepted");
    }

    async fn remove(&self, parent: ObjectId, named: &str) {
        let (who, name) = (Requester::root(), name(named));
        let answer = self.call(self.files.remove(&who, parent, &name)).await;
        answer.result.unwrap_or_else(|error| panic!("{named}: {error}"));
    }

    async fn remove_directory(&self, parent: ObjectId, named: &str) {
        let (who, name) = (Requester::root(), name(named));
        let answer = self.call(self.files.rmdir(&who, parent, &name)).await;
        answer.result.unwrap_or_else(|error| panic!("{named}: {error}"));
    }
}
