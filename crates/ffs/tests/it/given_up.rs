//! Giving up a log's changes of one volume keeps those of others; and finding the volume that a
//! stray log belongs to.

use std::rc::Rc;

use block::BlockDevice;
use ffs::check_log::{LogUse, prepare};
use ffs::logged::is_idle_of_another;
use sim::{Disk, Executor, Image};
use vfs::{FileSystem, Stability};

use crate::common::cutting::Pair;
use crate::common::sharing;
use crate::common::volume::try_open_pair;

fn device(executor: &Executor, image: &Image) -> Rc<dyn BlockDevice> {
    Disk::new(executor, image.clone())
}

#[test]
fn of_a_shared_log_one_volume_gives_up_its_own_and_nothing_else() {
    let (images, _) = sharing::golden();
    let (log, volumes) = images.split_last().expect("two volumes and their log");
    let executor = Executor::new(1);
    for gives in 0..volumes.len() {
        let log = device(&executor, log);
        let disks: Vec<_> = volumes.iter().map(|image| device(&executor, image)).collect();
        executor.block_on(async {
            let runtime = executor.runtime();
            let use_log = async |which: usize, log_use| {
                let prepared = prepare(&disks[which], Some(&log), &runtime, log_use).await;
                prepared.expect("the log can be read")
            };
            assert!(use_log(gives, LogUse::GiveUp).await.has_given_up);
            for which in 0..disks.len() {
                let replayed = use_log(which, LogUse::Look).await.replayed.expect("it has a log");
                let has_some = replayed.entries > 0;
                assert_eq!(has_some, which != gives, "volume {which}, when {gives} gave up");
            }
        });
    }
}

/// Disks of a volume with a log of its own, used and stopped, or killed.
fn left(writes: bool, stops: bool) -> (Image, Image) {
    let executor = Executor::new(2);
    let estate = sharing::Estate::new();
    let disks = Pair {
        home: Disk::new(&executor, estate.volumes[0].clone()),
        log: Some(Disk::new(&executor, Image::zeroed(journal::format::SMALLEST))),
    };
    executor.block_on(async {
        let opened = try_open_pair(executor.runtime(), &disks).await;
        let (volume, _) = opened.unwrap_or_else(|error| panic!("{error}"));
        if writes {
            let file = volume.create(volume.files.root(), "file").await.expect("new");
            volume.write(file, 0, vec![7; 700], Stability::FileSync).await.expect("room");
        }
        if stops {
            volume.files.shutdown().await.expect("a clean stop");
        }
    });
    let image = |disk: &Rc<Disk>| disk.platter().durable_image();
    (image(&disks.home), image(disks.log.as_ref().expect("it has one")))
}

#[test]
fn a_log_is_idle_that_another_volume_had_alone_and_left_without_changes() {
    let executor = Executor::new(3);
    let stranger = device(&executor, &sharing::Estate::new().volumes[1]);
    for (writes, stops, is_idle) in
        [(false, false, true), (true, false, false), (false, true, false)]
    {
        let (home, log) = left(writes, stops);
        let (home, log) = (device(&executor, &home), device(&executor, &log));
        executor.block_on(async {
            let of_stranger = is_idle_of_another(&*stranger, &*log).await;
            assert_eq!(of_stranger.expect("readable"), is_idle, "{writes} {stops}");
            let of_owner = is_idle_of_another(&*home, &*log).await;
            assert!(!of_owner.expect("readable"), "it is its own: {writes} {stops}");
        });
    }
}
