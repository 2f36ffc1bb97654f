//! Concurrent operations, the second of which is safe only after the first.
//!
//! The first needs another chunk of the root for its name, and so takes longer.

use runtime::Timestamp;
use sim::{Choice, Disk, Executor, Image, Prng, Trace};
use ufs2::mkfs::mkfs;
use vfs::{FileSystem, ObjectId};

use crate::common::cutting::{after_cut, sizes};
use crate::common::volume::{Volume, name, try_open};
use enginekit::tree::Found;

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

/// Records the effects of `act` after its preparation; returns a file that must survive every cut.
fn record(act: impl AsyncFn(&Volume, &Disk) -> ObjectId) -> (Trace, ObjectId) {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, Image::zeroed(8 << 20));
    executor.block_on(async {
        let random = executor.runtime().random;
        mkfs(&*disk, &sizes(4096, 512), &*random, NOW).await.expect("the disk holds it");
        let opened = try_open(executor.runtime(), disk.clone()).await;
        let volume = opened.unwrap_or_else(|error| panic!("{error}")).0;
        volume.create(volume.files.root(), &"x".repeat(250)).await.expect("new");
        let treasure = act(&volume, &disk).await;
        (disk.trace(), treasure)
    })
}

fn check_every_cut(trace: &Trace, treasure: ObjectId) {
    let mut prng = Prng::new(1);
    for (position, platter) in trace.cuts() {
        for _ in 0..4 {
            let image = platter.image(&Choice::random(&platter, &mut prng));
            let (executor, disks) = after_cut(1, image);
            let disk = disks.home;
            executor.block_on(async {
                let opened = try_open(executor.runtime(), disk.clone()).await;
                let volume = opened.unwrap_or_else(|error| panic!("{position}: {error}")).0;
                let held = holds(&volume, treasure).await;
                held.unwrap_or_else(|wrong| panic!("cut after {position} events: {wrong}"));
            });
        }
    }
}

async fn holds(volume: &Volume, treasure: ObjectId) -> Result<(), String> {
    let found = Found::read(volume).await?;
    let mut names = found.directories.values().flat_map(|entries| entries.values());
    names.any(|&id| id == treasure).then_some(()).ok_or("the file is gone".to_owned())
}

/// `b` moves out from below `a` to the root, and then `a` moves below `b`. If a cut left the second
/// without the first, `a` would be below itself, and neither would be reachable from the root.
#[test]
fn directories_that_change_places_never_hang_below_each_other() {
    let (trace, treasure) = record(async |volume, disk| {
        let root = volume.files.root();
        let a = volume.mkdir(root, "a").await.expect("new");
        let c = volume.mkdir(a, "c").await.expect("new");
        let b = volume.mkdir(c, "b").await.expect("new");
        let e = volume.mkdir(b, "e").await.expect("new");
        let treasure = volume.create(a, "treasure").await.expect("new");
        volume.settle().await;
        disk.start_trace();
        let long = name(&"b".repeat(250));
        let first = volume.files.rename(&volume.root, c, &name("b"), root, &long).await;
        let second = volume.files.rename(&volume.root, root, &name("a"), e, &name("a")).await;
        for sealed in [first, second] {
            sealed.open().await.expect("running").into_inner().result.expect("it moves");
        }
        treasure
    });
    check_every_cut(&trace, treasure);
}

/// A file gets a second name, and then another file takes over its first.
#[test]
fn a_name_is_not_taken_over_before_the_name_that_saves_the_file_is_there() {
    let (trace, treasure) = record(async |volume, disk| {
        let root = volume.files.root();
        let directory = volume.mkdir(root, "d").await.expect("new");
        let treasure = volume.create(directory, "treasure").await.expect("new");
        volume.create(directory, "other").await.expect("new");
        volume.settle().await;
        disk.start_trace();
        let long = name(&"t".repeat(250));
        let first = volume.files.link(&volume.root, treasure, root, &long).await;
        let (old, new) = (name("other"), name("treasure"));
        let second = volume.files.rename(&volume.root, directory, &old, directory, &new).await;
        first.open().await.expect("running").into_inner().result.expect("it is linked");
        second.open().await.expect("running").into_inner().result.expect("it moves");
        treasure
    });
    check_every_cut(&trace, treasure);
}
