//! The disk is full, then empty again: refusals come at the right moment and harm nothing, and all
//! space comes back.

use futures::FutureExt;
use futures::future::join_all;
use runtime::Timestamp;
use sim::{Disk, Executor, Image};
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::{CreateHow, FileSystem, FsError, ObjectId, Requester, SetAttributes, Stability};
use vnode::Engine;

#[cfg(feature = "planted-bugs")]
use crate::common::quiet::finds;
use crate::common::volume::{Volume, fresh, name, try_open};
use crate::common::{World, findings};

fn sizes(block_size: u64, fragment_size: u64) -> MkfsOptions {
    MkfsOptions { block_size, fragment_size, ..MkfsOptions::default() }
}

/// Free bytes and free inodes, for the superuser.
async fn space(volume: &Volume) -> (u64, u64) {
    let root = volume.files.root();
    let sealed = volume.files.fsstat(&volume.root, root).await;
    let stat = sealed.open().await.expect("running").into_inner().result.expect("of the root");
    (stat.free_bytes, stat.free_files)
}

/// Writes files until there is no space; returns how many there are.
async fn fill(volume: &Volume, directory: ObjectId, size: usize, stability: Stability) -> usize {
    for count in 0.. {
        let id = match volume.create(directory, &format!("file-{count}")).await {
            Err(FsError::NoSpace) => return count,
            made => made.expect("there is room, or there is none"),
        };
        match volume.write(id, 0, vec![count as u8 | 1; size], stability).await {
            Err(FsError::NoSpace) => return count + 1,
            written => written.expect("there is room, or there is none"),
        }
    }
    unreachable!("a disk is finite")
}

#[test]
fn a_full_disk_comes_back_to_the_last_fragment() {
    for (label, options) in [("small", sizes(4096, 512)), ("split", sizes(16_384, 2048))] {
        let world = World::new(5);
        world.run(async {
            let (disk, volume) = fresh(&world, 6 << 20, &options).await;
            let root = volume.files.root();
            let before = space(&volume).await;
            for (round, size) in [700, 5_000, 90_000, 400_000].into_iter().enumerate() {
                for stability in [Stability::FileSync, Stability::Unstable] {
                    let directory = volume.mkdir(root, "all").await.expect("an empty disk");
                    let count = fill(&volume, directory, size, stability).await;
                    assert!(count > 3, "{label}, round {round}: {count} files");
                    for index in 0..count {
                        let text = format!("file-{index}");
                        volume.remove(directory, &text).await.expect("it was made");
                    }
                    volume.rmdir(root, "all").await.expect("it is empty");
                    volume.settle().await;
                    assert_eq!(space(&volume).await, before, "{label}, files of {size} bytes");
                }
            }
            volume.files.shutdown().await.expect("a clean stop");
            if let Some(findings) = findings(&disk, &format!("full-{label}")) {
                assert_eq!(findings, "");
            }
        });
    }
}

#[test]
fn a_disk_that_is_full_stops_clean_with_its_files() {
    let world = World::new(6);
    world.run(async {
        let (disk, volume) = fresh(&world, 6 << 20, &sizes(8192, 1024)).await;
        let root = volume.files.root();
        let count = fill(&volume, root, 50_000, Stability::Unstable).await;
        let first = volume.lookup(root, "file-0").await.expect("the first had room");
        assert_eq!(volume.read(first).await.expect("readable"), vec![1; 50_000]);
        assert!(count > 20, "{count} files");
        volume.files.shutdown().await.expect("a clean stop");
        if let Some(findings) = findings(&disk, "full-stop") {
            assert_eq!(findings, "");
        }
    });
}

#[test]
fn users_leave_the_reserve_to_the_superuser() {
    let world = World::new(7);
    world.run(async {
        let (_disk, mut volume) = fresh(&world, 6 << 20, &sizes(4096, 512)).await;
        let root = volume.files.root();
        let id = volume.create(root, "users").await.expect("room");
        let owner = vfs::SetAttributes { uid: Some(10), gid: Some(10), ..Default::default() };
        let sealed = volume.files.setattr(&volume.root, id, owner, None).await;
        sealed.open().await.expect("running").into_inner().result.expect("root may");
        volume.root = Requester::from(vfs::Credentials { uid: 10, gid: 10, groups: Vec::new() });
        let mut at = 0;
        while volume.write(id, at, vec![7; 65_536], Stability::FileSync).await.is_ok() {
            at += 65_536;
        }
        volume.root = Requester::root();
        let (free, _) = space(&volume).await;
        assert!(free > 6 * (6 << 20) / 100, "{free} bytes are kept of 8 percent");
        let id = volume.create(root, "roots").await.expect("room for root");
        volume.write(id, 0, vec![7; 65_536], Stability::FileSync).await.expect("room for root");
    });
}

#[test]
fn an_answered_removal_counts_as_free_at_once() {
    let world = World::new(8);
    world.run(async {
        let (_disk, volume) = fresh(&world, 16 << 20, &sizes(4096, 512)).await;
        let root = volume.files.root();
        let before = space(&volume).await;
        for size in [100, 40_000, 3_000_000] {
            let id = volume.create(root, "filler").await.expect("room");
            volume.write(id, 0, vec![7; size], Stability::FileSync).await.expect("room");
            let during = space(&volume).await;
            assert!(before.0 - during.0 >= size as u64 && before.1 - during.1 == 1);
            volume.remove(root, "filler").await.expect("it was made");
            assert_eq!(space(&volume).await, before, "{size} bytes");
        }
    });
}

#[test]
fn a_file_that_cannot_be_born_with_its_length_is_not_born() {
    let world = World::new(9);
    world.run(async {
        let (_disk, volume) = fresh(&world, 6 << 20, &sizes(4096, 512)).await;
        let root = volume.files.root();
        fill(&volume, root, 200_000, Stability::FileSync).await;
        fill_rest(&volume, root).await;
        volume.settle().await;
        let before = (volume.list(root).await.expect("it can be listed"), space(&volume).await);
        let attributes = SetAttributes { size: Some(1 << 20), ..SetAttributes::default() };
        let hows = [CreateHow::Guarded(attributes), CreateHow::Unchecked(attributes)];
        for how in hows {
            let sealed = volume.files.create(&volume.root, root, &name("long"), how).await;
            let refused = sealed.open().await.expect("running").into_inner().result;
            assert_eq!(refused.err(), Some(FsError::NoSpace));
            let now = (volume.list(root).await.expect("it can be listed"), space(&volume).await);
            assert_eq!(now, before);
        }
    });
}

/// Writes to one file block by block until there is no space.
async fn fill_rest(volume: &Volume, root: ObjectId) {
    let id = volume.lookup(root, "file-0").await.expect("it was made");
    let mut end = 200_704;
    while volume.write(id, end, vec![1; 4096], Stability::FileSync).await.is_ok() {
        end += 4096;
    }
}

/// A new volume of 8 MiB.
async fn new_volume(executor: &Executor) -> Volume {
    let disk = Disk::new(executor, Image::zeroed(8 << 20));
    let now = Timestamp { seconds: 1_800_000_000, nanoseconds: 0 };
    let random = executor.runtime().random;
    mkfs(&*disk, &sizes(4096, 512), &*random, now).await.expect("the disk holds it");
    let opened = try_open(executor.runtime(), disk).await;
    opened.unwrap_or_else(|error| panic!("{error}")).0
}

#[test]
fn what_fits_side_by_side_is_not_refused_for_being_counted_twice() {
    let executor = Executor::new(11);
    executor.block_on(async {
        let volume = new_volume(&executor).await;
        let root = volume.files.root();
        let mut files = Vec::new();
        for index in 0..12 {
            files.push(volume.create(root, &index.to_string()).await.expect("room"));
        }
        // All free space, except a few blocks for each file that lead to its data.
        let length = space(&volume).await.0 / 12 - 3 * 4096;
        let writes = files
            .iter()
            .map(|&id| volume.write(id, 0, vec![7; length as usize], Stability::FileSync));
        for written in join_all(writes).await {
            assert_eq!(written, Ok(()));
        }
    });
}

/// On a full disk, a WRITE that would move its tail is refused: returns an error if that wakes the
/// tasks that wait for space.
fn refused_tail() -> Result<(), String> {
    let executor = Executor::new(12);
    executor.block_on(async {
        let volume = new_volume(&executor).await;
        let root = volume.files.root();
        let tail = volume.create(root, "tail").await.expect("room");
        let spare = volume.create(root, "spare").await.expect("room");
        for (file, size) in [(tail, 512), (spare, 2 * 4096)] {
            volume.write(file, 0, vec![1; size], Stability::FileSync).await.expect("room");
        }
        fill(&volume, root, 90_000, Stability::FileSync).await;
        fill_rest(&volume, root).await;
        volume.remove(root, "spare").await.expect("it was made");
        volume.settle().await;
        let released = volume.files.store().engine().released().wait();
        let written = volume.write(tail, 0, vec![2; 5 * 4096], Stability::FileSync).await;
        assert_eq!(written.map(drop), Err(FsError::NoSpace));
        match released.now_or_never() {
            None => Ok(()),
            Some(()) => Err("a plan that was dropped wakes the waiters for space".to_owned()),
        }
    })
}

#[test]
fn a_refused_write_does_not_wake_those_that_wait_for_space() {
    assert_eq!(refused_tail(), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn writes_that_wake_each_other_in_a_circle_are_found() {
    assert!(finds(ffs::planted::Bug::CircularWaits, refused_tail));
}
