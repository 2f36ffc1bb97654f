//! A truncation in steps under a ring of intents: it goes on after each crash in its middle, and
//! never after its end.

use std::rc::Rc;
use std::time::Duration;

use ffs::PolicyKind;
use journal::format::SMALLEST;
use sim::{Disk, Executor, Image};
use ufs2::mkfs::mkfs;
use vfs::{FileSystem, ObjectId, SetAttributes, Stability};

use crate::common::Seeded;
use crate::common::cutting::{Pair, sizes};
use crate::common::intents::{caller, open_with_ring};
use crate::common::volume::Volume;

const NOW: runtime::Timestamp = runtime::Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
/// Bytes of the file at first, after its truncation, and when it was written again.
const LONG: u64 = 24 << 20;
const SHORT: u64 = 1000;
const AGAIN: u64 = 12 << 20;

type Disks = Pair<Rc<Disk>>;

fn disks(executor: &Executor, images: &Pair<Image>) -> Disks {
    images.map(|image| Disk::new(executor, image.clone()))
}

async fn file_of(volume: &Volume) -> ObjectId {
    volume.lookup(volume.files.root(), "file").await.expect("it has a name")
}

async fn size_of(volume: &Volume) -> u64 {
    let file = file_of(volume).await;
    let attributes = volume.files.getattr(file).await.open().await.expect("running");
    attributes.into_inner().expect("it is there").size
}

async fn fill(volume: &Volume, file: ObjectId, size: u64) {
    for piece in 0..size >> 20 {
        let data = vec![1; 1 << 20];
        volume.write(file, piece << 20, data, Stability::Unstable).await.expect("room");
    }
    volume.settle().await;
}

/// A volume with a long file.
fn with_a_long_file(policy: PolicyKind) -> Pair<Image> {
    let executor = Executor::new(1);
    let images = Pair { home: Image::zeroed(48 << 20), log: Some(Image::zeroed(SMALLEST)) };
    let disks = disks(&executor, &images);
    executor.block_on(async {
        mkfs(&*disks.home, &sizes(4096, 512), &Seeded::new(7), NOW).await.expect("it fits");
        let volume = open_with_ring(policy, executor.runtime(), &disks).await.expect("new");
        let file = volume.create(volume.files.root(), "file").await.expect("new");
        fill(&volume, file, LONG).await;
        volume.files.shutdown().await.expect("the disk is good");
    });
    disks.map(|disk| disk.contents())
}

/// The disks as a kill after this time leaves them, if the truncation is in its middle then.
fn killed_after(policy: PolicyKind, images: &Pair<Image>, time: Duration) -> Option<Pair<Image>> {
    let executor = Executor::new(2);
    let disks = disks(&executor, images);
    let runtime = executor.runtime();
    let volume = executor.block_on(open_with_ring(policy, runtime, &disks)).expect("it is whole");
    let truncate = async {
        let (who, file) = (caller(1), file_of(&volume).await);
        let size = SetAttributes { size: Some(SHORT), ..SetAttributes::default() };
        let _ = volume.files.setattr(&who, file, size, None).await.open().await;
    };
    executor.block_on_for(time, truncate);
    let left = disks.map(|disk| disk.contents());
    is_in_the_middle(policy, &left).then_some(left)
}

/// Whether a start finds the file between its sizes.
fn is_in_the_middle(policy: PolicyKind, images: &Pair<Image>) -> bool {
    let executor = Executor::new(3);
    let disks = disks(&executor, images);
    executor.block_on(async {
        let volume = open_with_ring(policy, executor.runtime(), &disks).await.expect("it is whole");
        (SHORT + 1..LONG).contains(&size_of(&volume).await)
    })
}

/// A truncation is killed in its middle, and so is the start that goes on with it, as often as
/// `kills` says. Then it comes to its end, the file is written again, and the volume is stopped.
/// The sizes that it has at its end, and at the next two starts.
fn sizes_after(policy: PolicyKind, kills: usize) -> [u64; 3] {
    let images = with_a_long_file(policy);
    let times = (1..400).map(|step| Duration::from_micros(250 * step));
    let mut left =
        times.filter_map(|time| killed_after(policy, &images, time)).next().expect("some kill");
    for _ in 1..kills {
        let executor = Executor::new(4);
        let disks = disks(&executor, &left);
        let volume = executor.block_on(open_with_ring(policy, executor.runtime(), &disks));
        let _volume = volume.expect("it is whole");
        executor.run_for(Duration::from_millis(2));
        left = disks.map(|disk| disk.contents());
    }
    [0, 1, 2].map(|start| {
        let executor = Executor::new(5 + start);
        let disks = disks(&executor, &left);
        let size = executor.block_on(async {
            let volume =
                open_with_ring(policy, executor.runtime(), &disks).await.expect("it is whole");
            let file = file_of(&volume).await;
            let size = volume.read(file).await.expect("a reader waits for the end").len() as u64;
            if start == 0 {
                fill(&volume, file, AGAIN).await;
            }
            volume.files.shutdown().await.expect("the disk is good");
            size
        });
        left = disks.map(|disk| disk.contents());
        size
    })
}

#[test]
fn a_truncation_that_has_ended_never_goes_on() {
    for policy in [PolicyKind::Sync, PolicyKind::SoftUpdates] {
        for kills in 1..=3 {
            assert_eq!(sizes_after(policy, kills), [SHORT, AGAIN, AGAIN], "{policy:?}, {kills}");
        }
    }
    #[cfg(feature = "planted-bugs")]
    {
        ffs::planted::plant(Some(ffs::planted::Bug::EndlessGoals));
        let sizes = sizes_after(PolicyKind::Sync, 1);
        ffs::planted::plant(None);
        assert_eq!(sizes, [SHORT, SHORT, SHORT], "the planted bug is not found");
    }
}
