//! Our own engine on the paper's disk: `shadow`, with blocks of 4 KiB as the prototype has them.
//!
//! All of its code runs, from the verbs of a file system down to the disk; only the disk takes
//! time. Requests are appends as in the prototype, each answered when it is durable. Files are
//! created before the measurement begins.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::zeros;
use futures::future::join_all;
use namespace::Namespace;
use shadow::{MkfsOptions, OpenOptions, Shadow, mkfs, open};
use sim::{Disk, Executor, Image, Options, Prng, Tells, Timing};
use vfs::{
    CreateHow, Credentials, FileSystem, Name, ObjectId, Requester, SetAttributes, Stability,
    Timestamp,
};
use vnode::Files;

use super::disks::BLOCK;
use super::experiments::speed;
use super::inputs::{DISK, PROTOTYPE};

/// *Input.* Memory for caches: enough for all metadata in use.
const CACHE_BYTES: usize = 64 << 20;
/// Bytes of a file, as in the prototype.
const FILE: u64 = PROTOTYPE.file_blocks * BLOCK;
/// Interval of background writes: none happen.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// The engine's knowledge of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// None: zones are as large as on any disk.
    Nothing,
    /// The cylinders.
    Cylinders,
    /// The cylinders and the rotation.
    Turns,
}

impl Told {
    /// All levels, in ascending order.
    pub(super) const ALL: [Self; 3] = [Self::Nothing, Self::Cylinders, Self::Turns];

    /// Name of the level, for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "told nothing",
            Self::Cylinders => "first fit",
            Self::Turns => "by turns",
        }
    }
}

/// Result of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    user_bytes: u64,
    all_bytes: u64,
    time: Duration,
    looked: u64,
}

impl Came {
    /// KB of user data a second.
    pub(super) fn user(&self) -> f64 {
        speed(self.user_bytes, self.time)
    }

    /// KB of all data a second.
    pub(super) fn all(&self) -> f64 {
        speed(self.all_bytes, self.time)
    }

    /// Share of metadata, in percent.
    pub(super) fn metadata(&self) -> f64 {
        100.0 * (self.all_bytes - self.user_bytes) as f64 / self.all_bytes as f64
    }

    /// Places examined, for each block.
    pub(super) fn looked(&self) -> f64 {
        self.looked as f64 / (self.all_bytes / BLOCK) as f64
    }
}

/// An open volume.
pub(super) struct Ours {
    executor: Executor,
    disk: Rc<Disk>,
    files: Namespace<Files<Shadow>>,
    /// Number of files created.
    made: Cell<u64>,
}

/// Position of a client's daemons in its files.
struct Client {
    files: Vec<ObjectId>,
    next: Cell<usize>,
    end: Cell<u64>,
}

impl Client {
    /// File and offset for a request of this many bytes.
    fn append(&self, bytes: u64) -> (ObjectId, u64) {
        if self.end.get() + bytes > FILE {
            self.next.set(self.next.get() + 1);
            self.end.set(0);
        }
        let at = self.end.replace(self.end.get() + bytes);
        (self.files[self.next.get()], at)
    }
}

impl Ours {
    /// A new volume on the outermost bytes of the paper's disk.
    pub(super) fn new(seed: u64, bytes: u64, told: Told) -> Self {
        let executor = Executor::new(seed);
        let tells = match told {
            Told::Nothing => Tells::Nothing,
            Told::Cylinders => Tells::Cylinders,
            Told::Turns => Tells::Turns,
        };
        let options = Options { timing: Timing::Mechanical(DISK), tells, ..Options::default() };
        let disk = Disk::with_options(&executor, Image::zeroed(bytes), options);
        let runtime = executor.runtime();
        let files = executor.block_on(async {
            let how = MkfsOptions { block_size: BLOCK, ..MkfsOptions::default() };
            let now = Timestamp { seconds: 700_000_000, nanoseconds: 0 };
            let made = mkfs(&*disk, &how, &*runtime.random, now).await;
            made.expect("the disk holds it");
            let (cache_bytes, housekeeping_interval) = (CACHE_BYTES, NEVER);
            let how = OpenOptions { cache_bytes, housekeeping_interval, ..OpenOptions::default() };
            open(disk.clone(), runtime.clone(), &how).await.expect("it is new")
        });
        Self { executor, disk, files: Namespace::new(files), made: Cell::new(0) }
    }

    async fn create(&self) -> ObjectId {
        let number = self.made.replace(self.made.get() + 1);
        let name = Name::parse(format!("file{number}").as_bytes()).expect("a name");
        let how = CreateHow::Guarded(SetAttributes::default());
        let (who, root) = (Requester::root(), self.files.root());
        let made = self.files.create(&who, root, &name, how).await.open().await;
        made.expect("running").into_inner().result.expect("it is new").id
    }

    async fn write(&self, file: ObjectId, at: u64, bytes: u64, how: Stability) {
        let (who, data) = (Credentials::root(), vec![zeros(bytes as usize)]);
        let written = self.files.write(&who, file, at, data, how).await;
        written.open().await.expect("running").into_inner().result.expect("there is room");
    }

    /// A client with this many daemons sends requests of random sizes out of `sizes`.
    fn append(&self, seed: u64, daemons: u64, sizes: &[u64], requests: u64) -> Came {
        let most = sizes.iter().max().expect("there is a size") * 1024;
        let files = (requests + 1).div_ceil(FILE / most);
        let client = self.executor.block_on(async {
            let mut made = Vec::new();
            for _ in 0..files {
                made.push(self.create().await);
            }
            Client { files: made, next: Cell::new(0), end: Cell::new(0) }
        });
        self.requests(daemons, requests, |number| {
            let mut chance = Prng::new(seed + number);
            let client = &client;
            move || {
                // Whole blocks, as in the prototype.
                let bytes = sizes[chance.index(sizes.len())] * 1024 / BLOCK * BLOCK;
                let (file, at) = client.append(bytes);
                (file, at, bytes)
            }
        })
    }

    /// This many daemons send the requests that `next` returns for each.
    fn requests<Next: FnMut() -> (ObjectId, u64, u64)>(
        &self,
        daemons: u64,
        requests: u64,
        next: impl Fn(u64) -> Next,
    ) -> Came {
        let places = || self.files.store().engine().places_looked_at();
        let (before, begun, looked) = (self.disk.counters(), self.executor.now(), places());
        let user_bytes = Cell::new(0);
        let daemon = |number| {
            let (mut next, user_bytes) = (next(number), &user_bytes);
            async move {
                for _ in 0..requests / daemons {
                    let (file, at, bytes) = next();
                    self.write(file, at, bytes, Stability::FileSync).await;
                    user_bytes.set(user_bytes.get() + bytes);
                }
            }
        };
        self.executor.block_on(join_all((0..daemons).map(daemon)));
        let all_bytes = self.disk.counters().since(&before).bytes_written;
        let (time, looked) = (self.executor.now().since(begun), places() - looked);
        Came { user_bytes: user_bytes.get(), all_bytes, time, looked }
    }

    /// Creates files until this percentage of the space is used; returns them.
    fn fill(&self, percent: u64) -> Vec<ObjectId> {
        self.executor.block_on(async {
            let mut files = Vec::new();
            loop {
                let (who, root) = (Credentials::root(), self.files.root());
                let told = self.files.fsstat(&who, root).await.open().await.expect("running");
                let told = told.into_inner().result.expect("of the root");
                let used = told.total_bytes - told.free_bytes;
                if used * 100 >= told.total_bytes * percent {
                    return files;
                }
                let file = self.create().await;
                self.write(file, 0, FILE, Stability::FileSync).await;
                files.push(file);
            }
        })
    }

    /// Daemons overwrite 40 KB a request, at random places of these files.
    fn overwrite(&self, seed: u64, files: &[ObjectId], daemons: u64, requests: u64) -> Came {
        const BYTES: u64 = 40 * 1024;
        self.requests(daemons, requests, |number| {
            let mut chance = Prng::new(seed + number);
            move || {
                let at = chance.below((FILE - BYTES) / BLOCK + 1) * BLOCK;
                (files[chance.index(files.len())], at, BYTES)
            }
        })
    }
}

/// Requests on an empty disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appended {
    /// A lone daemon with requests of 40 KB.
    pub(super) forty: Came,
    /// A lone daemon with requests of 100 KB.
    pub(super) hundred: Came,
    /// Eight daemons with requests of 40 to 100 KB.
    pub(super) eight: Came,
}

/// Appends on an empty disk.
pub(super) fn append(seed: u64, told: Told, requests: u64) -> Appended {
    let run = |daemons, sizes: &[u64]| {
        let ours = Ours::new(seed, DISK.capacity() / BLOCK * BLOCK, told);
        ours.append(seed, daemons, sizes, requests)
    };
    Appended { forty: run(1, &[40]), hundred: run(1, &[100]), eight: run(8, &super::SIZES) }
}

/// Requests of 40 KB on a part of the disk that is filled to a percentage, and aged: as many bytes
/// as the part has were overwritten before, at random places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aged {
    pub(super) percent: u64,
    /// A lone daemon.
    pub(super) lone: Came,
    /// Eight daemons.
    pub(super) eight: Came,
}

/// Bytes of that part of the disk.
const PART: u64 = 64 << 20;

/// Overwrites on a disk that is filled and aged.
pub(super) fn age(seed: u64, told: Told, percent: u64, requests: u64) -> Aged {
    let ours = Ours::new(seed, PART, told);
    let files = ours.fill(percent);
    ours.overwrite(seed, &files, 8, PART / (40 * 1024));
    let lone = ours.overwrite(seed + 8, &files, 1, requests);
    Aged { percent, lone, eight: ours.overwrite(seed + 9, &files, 8, requests) }
}
