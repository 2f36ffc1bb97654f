//! Disks that do not match the policy of an opening: a typed error, and
//! nothing is written.

use std::rc::Rc;

use block::BlockDevice;
use ffs::{Disks, OpenError, OpenOptions, Opened, PolicyKind, open};
use journal::format::SMALLEST;
use namespace::Store;
use vfs::FileSystem;

use crate::common::cutting::sizes;
use crate::common::volume::fresh;
use crate::common::{MemoryDisk, World};

const SIZE: u64 = 8 << 20;

async fn open_as(
    world: &World,
    policy: PolicyKind,
    disk: &Rc<MemoryDisk>,
    log: Option<&Rc<MemoryDisk>>,
    options: &OpenOptions,
) -> Result<Opened, OpenError> {
    let log = log.map(|log| log.clone() as Rc<dyn BlockDevice>);
    let disks = Disks { volume: disk.clone(), log, intents: None };
    open(policy, disks, world.runtime(), options, &mut |_| ()).await
}

/// A volume that is not open, and a disk for a log.
async fn at_rest(world: &World) -> (Rc<MemoryDisk>, Rc<MemoryDisk>) {
    let (disk, volume) = fresh(world, SIZE, &sizes(4096, 512)).await;
    volume.files.shutdown().await.expect("it stops");
    (disk, Rc::new(MemoryDisk::new(SMALLEST)))
}

#[test]
fn a_log_is_refused_under_a_policy_that_has_none() {
    let world = World::new(1);
    world.run(async {
        let (disk, log) = at_rest(&world).await;
        let (before, log_before) = (disk.fork(), log.fork());
        let options = OpenOptions::default();
        let opened = open_as(&world, PolicyKind::Sync, &disk, Some(&log), &options).await;
        assert!(matches!(opened, Err(OpenError::LogUnwanted)));
        assert!(disk.differences(&before).is_empty() && log.differences(&log_before).is_empty());
    });
}

#[test]
fn a_policy_that_needs_a_log_is_refused_without_one() {
    let world = World::new(1);
    world.run(async {
        let (disk, _) = at_rest(&world).await;
        let (before, options) = (disk.fork(), OpenOptions::default());
        let opened = open_as(&world, PolicyKind::Log, &disk, None, &options).await;
        assert!(matches!(opened, Err(OpenError::LogAbsent)));
        assert!(disk.differences(&before).is_empty());
    });
}

#[test]
fn a_volume_that_needs_what_its_log_holds_is_told_that_rather() {
    let world = World::new(1);
    world.run(async {
        let (disk, log) = at_rest(&world).await;
        let options = OpenOptions::default();
        let opened = open_as(&world, PolicyKind::Log, &disk, Some(&log), &options).await;
        let cut = Rc::new(disk.fork());
        opened.expect("its log is there").files.shutdown().await.expect("it stops");
        for policy in PolicyKind::ALL {
            let opened = open_as(&world, *policy, &cut, None, &options).await;
            assert!(matches!(opened, Err(OpenError::LogMissing)), "{policy:?}");
        }
    });
}

#[test]
fn a_volume_that_is_only_looked_at_needs_no_log() {
    let world = World::new(1);
    world.run(async {
        let (disk, log) = at_rest(&world).await;
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        for (policy, log) in [(PolicyKind::Log, None), (PolicyKind::Sync, Some(&log))] {
            let opened = open_as(&world, policy, &disk, log, &options).await;
            opened.expect("it can be read").files.shutdown().await.expect("it stops");
        }
    });
}

#[test]
fn a_volume_that_was_cut_under_one_policy_comes_back_under_the_other() {
    let world = World::new(1);
    world.run(async {
        let (disk, log) = at_rest(&world).await;
        let options = OpenOptions::default();
        let opened = open_as(&world, PolicyKind::Sync, &disk, None, &options).await;
        let cut = Rc::new(disk.fork());
        opened.expect("it is clean").files.shutdown().await.expect("it stops");
        let opened = open_as(&world, PolicyKind::Log, &cut, Some(&log), &options).await;
        let opened = opened.expect("nothing of it is in a log");
        assert!(opened.rebuilt.is_some() && opened.files.engine().log_statistics().is_some());
        opened.files.shutdown().await.expect("it stops");
    });
}
