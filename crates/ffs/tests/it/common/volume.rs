//! Open volumes, for the verbs and actors of the kit.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

pub(crate) use enginekit::volume::name;
use ffs::policy::log::LogOptions;
use ffs::{Disks, Ffs, OpenError, OpenOptions, Opened, PolicyKind, open};
use runtime::Timestamp;
use ufs2::mkfs::{MkfsOptions, mkfs};

use super::cutting::Pair;
use super::{MemoryDisk, Seeded, World};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

pub(crate) type Volume = enginekit::Volume<Ffs>;
pub(crate) type Actor<'a> = enginekit::volume::Actor<'a, Ffs>;

/// A new, open volume.
pub(crate) async fn fresh(
    world: &World,
    size: u64,
    options: &MkfsOptions,
) -> (Rc<MemoryDisk>, Volume) {
    let disk = Rc::new(MemoryDisk::new(size));
    mkfs(&*disk, options, &Seeded::new(7), NOW).await.expect("the disk holds it");
    let volume = reopen(world, &disk).await;
    (disk, volume)
}

pub(crate) async fn reopen(world: &World, disk: &Rc<MemoryDisk>) -> Volume {
    try_open(world.runtime(), disk.clone()).await.unwrap_or_else(|error| panic!("{error}")).0
}

/// Opens a volume for writing; also returns the report of the rebuild, if there was one.
pub(crate) async fn try_open(
    runtime: runtime::Runtime,
    disk: Rc<dyn block::BlockDevice>,
) -> Result<(Volume, Option<fsck::Report>), ffs::OpenError> {
    let opened = open_with_log(disk, None, runtime, &OpenOptions::default(), &mut |_| ()).await?;
    assert_eq!(opened.read_only, None);
    Ok((Volume::new(opened.files), opened.rebuilt))
}

thread_local! {
    /// The policy of volumes without a log, for the tests of this thread.
    static ALONE: Cell<PolicyKind> = const { Cell::new(PolicyKind::Sync) };
}

/// The policies that need no log.
pub(crate) const WITHOUT_LOG: [PolicyKind; 2] = [PolicyKind::Sync, PolicyKind::SoftUpdates];

/// Runs `run` with volumes opened under this policy if they have no log.
pub(crate) fn under<T>(policy: PolicyKind, run: impl FnOnce() -> T) -> T {
    let before = ALONE.replace(policy);
    let result = run();
    ALONE.set(before);
    result
}

/// Opens a volume under policy `log` if there is a log for it, else as [`under`] says, or `sync`.
pub(crate) async fn open_with_log(
    volume: Rc<dyn block::BlockDevice>,
    log: Option<Rc<dyn block::BlockDevice>>,
    runtime: runtime::Runtime,
    options: &OpenOptions,
    progress: &mut dyn FnMut(fsck::Progress),
) -> Result<Opened, OpenError> {
    let policy = if log.is_some() { PolicyKind::Log } else { ALONE.get() };
    let options = OpenOptions { finishes_reclaim: true, ..options.clone() };
    open(policy, Disks { volume, log, intents: None }, runtime, &options, progress).await
}

/// Opens a volume with its log, if it has one; also returns the report of the rebuild, if any.
pub(crate) async fn try_open_pair(
    runtime: runtime::Runtime,
    disks: &Pair<Rc<sim::Disk>>,
) -> Result<(Volume, Option<fsck::Report>), ffs::OpenError> {
    let disks = disks.clone();
    let log = disks.log.map(|log| log as Rc<dyn block::BlockDevice>);
    let options = OpenOptions { log: small_log(), ..OpenOptions::default() };
    let opened = open_with_log(disks.home, log, runtime, &options, &mut |_| ()).await?;
    assert_eq!(opened.read_only, None);
    Ok((Volume::new(opened.files), opened.rebuilt))
}

/// A sync that often runs, so that cuts meet it.
fn small_log() -> LogOptions {
    LogOptions {
        sync_interval: Duration::from_millis(3),
        sync_bytes: 64 << 10,
        ..LogOptions::default()
    }
}
