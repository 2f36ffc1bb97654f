//! What is explored: how the disks of a volume are made under a policy, and how it is opened.
//!
//! Everything else here is about an engine in general. A policy that needs more than the volume
//! says so in [`Policy::disk_sizes`], and gets all of its disks wherever a volume is opened.

use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use ffs::policy::log::LogOptions;
use ffs::{OpenError, OpenOptions, Opened, PolicyKind};
use journal::format::SMALLEST;
use runtime::{Runtime, Timestamp};
use sim::{Executor, Image};
use ufs2::mkfs::{MkfsOptions, mkfs};

use super::disks::{Disks, Images};

/// What disks are full of at first: no file ever holds such a byte.
const RUBBISH: u8 = 0xff;
const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 0 };
/// Memory for a volume.
const CACHE_BYTES: usize = 4 << 20;

/// How large everything about a volume is. A policy takes of it what it has a use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Bytes of the volume.
    pub volume_bytes: u64,
    /// Bytes in a block.
    pub block_size: u64,
    /// Bytes in a fragment.
    pub fragment_size: u64,
    /// Bytes of the disk on which there is more than the volume.
    pub log_bytes: u64,
    /// Bytes of memory.
    pub cache_bytes: usize,
    /// How long what is durable elsewhere waits for its place on the volume,
    pub sync_interval: Duration,
    /// and how many bytes of it do.
    pub sync_bytes: u64,
}

/// Blocks of 4 KiB and fragments of 512 bytes: the smallest volume, so that little has to be read.
impl Default for Shape {
    fn default() -> Self {
        let LogOptions { sync_interval, sync_bytes, .. } = LogOptions::default();
        Self {
            volume_bytes: 1 << 20,
            block_size: 4096,
            fragment_size: 512,
            log_bytes: SMALLEST,
            cache_bytes: CACHE_BYTES,
            sync_interval,
            sync_bytes,
        }
    }
}

/// A way in which an engine keeps its promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Ordered synchronous writes.
    #[default]
    Sync,
    /// A log on a device of its own.
    Log,
    /// No policy of `ffs`, but the engine over memory, which has no disks.
    Ram,
}

impl Policy {
    /// Those of `ffs`.
    pub const ALL: &[Self] = &[Self::Sync, Self::Log];

    /// Whether it keeps what is durable on disks.
    pub fn has_disks(self) -> bool {
        self != Self::Ram
    }

    /// The engine.
    pub fn engine(self) -> &'static str {
        match self {
            Self::Sync | Self::Log => "ffs",
            Self::Ram => "ram",
        }
    }

    /// Whether answers survive a cut, and what was begun is ended by the return.
    pub fn remembers(self) -> bool {
        match self {
            Self::Sync => false,
            Self::Log | Self::Ram => true,
        }
    }

    /// The words of a command line that choose it.
    pub fn words(self) -> String {
        match self {
            Self::Sync | Self::Log => format!("--policy {}", self.name()),
            Self::Ram => "--engine ram".into(),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Log => "log",
            Self::Ram => "ram",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|policy| policy.name() == name)
    }

    /// Bytes of each disk, the volume first.
    fn disk_sizes(self, shape: &Shape) -> Vec<u64> {
        match self {
            Self::Sync => vec![shape.volume_bytes],
            Self::Log => vec![shape.volume_bytes, shape.log_bytes],
            Self::Ram => Vec::new(),
        }
    }

    /// Whether a cut while a large file is cut short may leave any length in between.
    pub fn may_stop_between(self) -> bool {
        match self {
            Self::Sync => true,
            Self::Log | Self::Ram => false, // the return goes on with it
        }
    }

    /// Disks with an empty volume.
    pub(super) fn format(self, executor: &Executor) -> Disks {
        self.format_as(executor, &Shape::default())
    }

    /// Disks with an empty volume of a shape.
    pub(crate) fn format_as(self, executor: &Executor, shape: &Shape) -> Disks {
        format_on(executor, &self.disk_sizes(shape), shape)
    }

    /// Disks of these sizes, the volume first, with an empty volume.
    pub(super) fn format_sized(executor: &Executor, sizes: &[u64]) -> Disks {
        format_on(executor, sizes, &Shape::default())
    }

    /// Opens the volume.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) async fn open(
        self,
        disks: Vec<Rc<dyn BlockDevice>>,
        runtime: Runtime,
    ) -> Result<Opened, OpenError> {
        self.open_as(disks, runtime, &Shape::default()).await
    }

    /// Opens a volume of a shape.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(crate) async fn open_as(
        self,
        disks: Vec<Rc<dyn BlockDevice>>,
        runtime: Runtime,
        shape: &Shape,
    ) -> Result<Opened, OpenError> {
        self.open_by(disks, runtime, &shape.to_open()).await
    }

    /// Opens the volume; a log is kept small in this way.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(super) async fn open_with(
        self,
        disks: Vec<Rc<dyn BlockDevice>>,
        runtime: Runtime,
        log: LogOptions,
    ) -> Result<Opened, OpenError> {
        let options = OpenOptions { log, ..Shape::default().to_open() };
        self.open_by(disks, runtime, &options).await
    }

    async fn open_by(
        self,
        disks: Vec<Rc<dyn BlockDevice>>,
        runtime: Runtime,
        options: &OpenOptions,
    ) -> Result<Opened, OpenError> {
        match self {
            Self::Sync => {
                let [volume] = <[_; 1]>::try_from(disks).ok().expect("it has one disk");
                let disks = ffs::Disks::alone(volume);
                ffs::open(PolicyKind::Sync, disks, runtime, options, &mut |_| ()).await
            }
            Self::Log => {
                let [volume, log] = <[_; 2]>::try_from(disks).ok().expect("it has two disks");
                let disks = ffs::Disks::with_log(volume, log);
                ffs::open(PolicyKind::Log, disks, runtime, options, &mut |_| ()).await
            }
            Self::Ram => unreachable!("the engine over memory has no disks"),
        }
    }
}

fn format_on(executor: &Executor, sizes: &[u64], shape: &Shape) -> Disks {
    let full = |&size: &u64| Image::from_bytes(&vec![RUBBISH; size as usize]);
    let disks = Disks::new(executor, &Images(sizes.iter().map(full).collect()));
    let (random, options) = (executor.runtime().random, shape.to_make());
    let made = executor.block_on(mkfs(&**disks.volume(), &options, &*random, NOW));
    made.expect("it is large enough");
    disks
}

impl Shape {
    fn to_make(self) -> MkfsOptions {
        MkfsOptions {
            block_size: self.block_size,
            fragment_size: self.fragment_size,
            bytes_per_inode: Some(16_384),
            ..MkfsOptions::default()
        }
    }

    fn to_open(self) -> OpenOptions {
        let (cache_bytes, sync_interval, sync_bytes) =
            (self.cache_bytes, self.sync_interval, self.sync_bytes);
        // Whoever waits for the device lets others come between.
        let keeps_data = false;
        let log = LogOptions { sync_interval, sync_bytes, ..LogOptions::default() };
        OpenOptions { cache_bytes, keeps_data, log, ..OpenOptions::default() }
    }
}
