//! What is explored: how the disks of a volume are made under a policy, and how it is opened.
//!
//! Everything else here is about an engine in general. A policy that needs more than the volume
//! says so in [`Policy::disk_sizes`], and gets all of its disks wherever a volume is opened.

use std::rc::Rc;

use block::BlockDevice;
use ffs::mkfs::{MkfsOptions, mkfs};
use ffs::{OpenError, OpenOptions, Opened};
use journal::format::SMALLEST;
use runtime::{Runtime, Timestamp};
use sim::{Executor, Image};

use super::disks::{Disks, Images};

/// What disks are full of at first: no file ever holds such a byte.
const RUBBISH: u8 = 0xff;
const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 0 };
/// Memory for a volume.
const CACHE_BYTES: usize = 4 << 20;

/// A way in which an engine keeps its promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Ordered synchronous writes.
    #[default]
    Sync,
    /// A log on a device of its own.
    Log,
}

impl Policy {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Sync, Self::Log];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Log => "log",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|policy| policy.name() == name)
    }

    /// Bytes of each disk, the volume first.
    fn disk_sizes(self) -> &'static [u64] {
        match self {
            Self::Sync => &[1 << 20],
            Self::Log => &[1 << 20, SMALLEST],
        }
    }

    /// Disks with an empty volume.
    pub(super) fn format(self, executor: &Executor) -> Disks {
        let full = |&size: &u64| Image::from_bytes(&vec![RUBBISH; size as usize]);
        let disks = Disks::new(executor, &Images(self.disk_sizes().iter().map(full).collect()));
        let random = executor.runtime().random;
        let made = executor.block_on(mkfs(&**disks.volume(), &small(), &*random, NOW));
        made.expect("it is large enough");
        disks
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
        // Whoever waits for the device lets others come between.
        let (cache_bytes, keeps_data) = (CACHE_BYTES, false);
        let options = OpenOptions { cache_bytes, keeps_data, ..OpenOptions::default() };
        match self {
            Self::Sync => {
                let [volume] = <[_; 1]>::try_from(disks).ok().expect("it has one disk");
                ffs::open(volume, runtime, &options, &mut |_| ()).await
            }
            Self::Log => {
                let [volume, log] = <[_; 2]>::try_from(disks).ok().expect("it has two disks");
                ffs::open_with_log(volume, Some(log), runtime, &options, &mut |_| ()).await
            }
        }
    }
}

/// Blocks of 4 KiB and fragments of 512 bytes: the smallest volume, so that little has to be read.
fn small() -> MkfsOptions {
    MkfsOptions {
        block_size: 4096,
        fragment_size: 512,
        bytes_per_inode: Some(16_384),
        ..MkfsOptions::default()
    }
}
