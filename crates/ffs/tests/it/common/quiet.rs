//! A volume whose sync does not start by itself, so that logged changes stay in the log alone; and
//! a way to see whether a scenario finds a bug.

use std::rc::Rc;

use ffs::OpenOptions;
use namespace::Namespace;
use runtime::Timestamp;
use sim::{Disk, Executor, Image};
use ufs2::mkfs::mkfs;
use vfs::Requester;

use super::Seeded;
use super::cutting::{Pair, after_cut, sizes};
use super::reuse::without_sync;
use super::volume::{Volume, open_with_log};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

/// A volume, perhaps with its log, under an executor of its own.
pub(crate) struct Quiet {
    pub(crate) executor: Executor,
    pub(crate) disks: Pair<Rc<Disk>>,
}

impl Quiet {
    /// Disks of `home` and `log` bytes, for the volume and for a log if there is to be one.
    pub(crate) fn new(home: u64, log: Option<u64>) -> Self {
        let executor = Executor::new(5);
        let images = Pair { home: Image::zeroed(home), log: log.map(Image::zeroed) };
        let disks = images.map(|image| Disk::new(&executor, image.clone()));
        Self { executor, disks }
    }

    /// Makes the volume, with blocks and fragments of these sizes, and opens it.
    pub(crate) async fn make(&self, (block, fragment): (u64, u64)) -> Volume {
        let options = sizes(block, fragment);
        mkfs(&*self.disks.home, &options, &Seeded::new(7), NOW).await.expect("it fits");
        self.open().await
    }

    pub(crate) async fn open(&self) -> Volume {
        let disks = self.disks.clone();
        let log = disks.log.map(|log| log as Rc<dyn block::BlockDevice>);
        let options = OpenOptions { log: without_sync(), ..OpenOptions::default() };
        let runtime = self.executor.runtime();
        let opened = open_with_log(disks.home, log, runtime, &options, &mut |_| ()).await;
        let engine = opened.unwrap_or_else(|error| panic!("{error}")).files;
        Volume { files: Namespace::new(engine), root: Requester::root() }
    }

    /// Cuts the power: everything that was not flushed is lost.
    pub(crate) fn cut(&self) -> Self {
        let left = self.disks.map(|disk| disk.platter().durable_image());
        let (executor, disks) = after_cut(1, left);
        Self { executor, disks }
    }
}

/// Whether a scenario fails with a planted bug.
#[cfg(feature = "planted-bugs")]
pub(crate) fn finds(
    bug: impl Into<super::bugs::Planted>,
    scenario: impl FnOnce() -> Result<(), String>,
) -> bool {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let bug = bug.into();
    super::bugs::plant(bug);
    let outcome = catch_unwind(AssertUnwindSafe(scenario));
    super::bugs::unplant();
    let wrong = outcome.unwrap_or_else(|_| Err("an assertion".into())).err();
    println!("{bug:?}: {wrong:?}");
    wrong.is_some()
}
