//! Large writes side by side under policy `log`: the data that a file has after a cut was on the
//! disk before the log recorded it.

use std::rc::Rc;

use futures::future::{join, join_all};
use runtime::Timestamp;
use sim::{Disk, Executor, Image};
use ufs2::mkfs::mkfs;
use vfs::{FileSystem, Stability};

use super::Seeded;
use super::cutting::{Pair, acknowledged, acknowledgement, after_cut, random_cuts, sizes};
use super::volume::{Volume, try_open_pair};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const WRITERS: usize = 12;
const ROUNDS: usize = 6;
/// Number of writers that each overwrite one file.
const OVERWRITERS: usize = 6;
/// Larger than the payload limit of an entry.
const LARGE: usize = 24 << 10;

fn name(writer: usize, round: usize) -> String {
    format!("file-{writer}-{round}")
}

fn content(writer: usize, round: usize) -> Vec<u8> {
    vec![(writer * ROUNDS + round) as u8 | 0x80; LARGE]
}

/// Writers that each make one file after the other; returns an error for an impossible state after
/// a cut.
pub(crate) fn large_writes_side_by_side(seed: u64) -> Result<(), String> {
    let executor = Executor::new(seed);
    let images = Pair { home: Image::zeroed(16 << 20), log: Some(Image::zeroed(4 << 20)) };
    let disks = images.map(|image| Disk::new(&executor, image.clone()));
    let traces = executor.block_on(async {
        mkfs(&*disks.home, &sizes(4096, 512), &Seeded::new(7), NOW).await.expect("it fits");
        let opened = try_open_pair(executor.runtime(), &disks).await;
        let volume = Rc::new(opened.unwrap_or_else(|error| panic!("{error}")).0);
        disks.map(|disk| disk.start_trace());
        let writers = (0..WRITERS).map(|writer| {
            let (volume, home) = (volume.clone(), disks.home.clone());
            async move {
                for round in 0..ROUNDS {
                    let made = volume.create(volume.files.root(), &name(writer, round)).await;
                    let (id, data) = (made.expect("new"), content(writer, round));
                    volume.write(id, 0, data, Stability::FileSync).await.expect("room");
                    home.mark(acknowledgement(writer as u64, round + 1));
                }
            }
        });
        join_all(writers).await;
        disks.map(|disk| disk.trace())
    });
    for cut in random_cuts(&traces, seed, 150) {
        let (executor, disks) = after_cut(cut.seed, cut.image()?);
        executor.block_on(async {
            let opened = try_open_pair(executor.runtime(), &disks).await;
            let volume = opened.map_err(|error| error.to_string())?.0;
            for writer in 0..WRITERS {
                let done = acknowledged(&traces.home, cut.position, writer as u64);
                for round in 0..ROUNDS {
                    let found = volume.lookup(volume.files.root(), &name(writer, round)).await;
                    let data = match found {
                        Ok(id) => volume.read(id).await.map_err(|error| error.to_string())?,
                        Err(_) => Vec::new(),
                    };
                    let may_be_new = data.is_empty() && round >= done;
                    if !may_be_new && data != content(writer, round) {
                        let (label, name) = (cut.label(), name(writer, round));
                        return Err(format!("{label}: {name} holds something else"));
                    }
                }
            }
            volume.files.shutdown().await.map_err(|error| error.to_string())
        })?;
    }
    Ok(())
}

/// A small write, which is logged with its data, and a large one over it, which is not; then power
/// fails, and only durable data is left. Returns an error if the file has impossible content.
pub(crate) fn large_write_over_a_small_one(seed: u64) -> Result<(), String> {
    let executor = Executor::new(seed);
    let images = Pair { home: Image::zeroed(16 << 20), log: Some(Image::zeroed(4 << 20)) };
    let disks = images.map(|image| Disk::new(&executor, image.clone()));
    let left = executor.block_on(async {
        let volume = fresh(&executor, &disks).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        for data in [vec![0xaa; 8 << 10], vec![0xbb; LARGE]] {
            volume.write(id, 0, data, Stability::FileSync).await.expect("there is room");
        }
        disks.map(|disk| disk.platter().durable_image())
    });
    let (executor, disks) = after_cut(seed, left);
    executor.block_on(async {
        let opened = try_open_pair(executor.runtime(), &disks).await;
        let volume = opened.map_err(|error| error.to_string())?.0;
        let id =
            volume.lookup(volume.files.root(), "file").await.map_err(|error| error.to_string());
        let data = volume.read(id?).await.map_err(|error| error.to_string())?;
        if data == vec![0xbb; LARGE] {
            Ok(())
        } else {
            Err("the file holds what was overwritten".to_owned())
        }
    })
}

/// A small write, which is delayed, is read; then a large one goes over it, and everything is
/// written in place. Returns an error if data is missing.
pub(crate) fn large_write_over_a_delayed_one(seed: u64) -> Result<(), String> {
    let executor = Executor::new(seed);
    let images = Pair { home: Image::zeroed(16 << 20), log: Some(Image::zeroed(4 << 20)) };
    let disks = images.map(|image| Disk::new(&executor, image.clone()));
    let long = vec![0xbb; LARGE];
    let id = executor.block_on(async {
        let volume = fresh(&executor, &disks).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        let mut expected = long.clone();
        volume.write(id, 0, long.clone(), Stability::FileSync).await.expect("there is room");
        for offset in [4 << 10, 6 << 10, 9000] {
            let data = vec![offset as u8 | 1; 3000];
            expected[offset..offset + data.len()].copy_from_slice(&data);
            let written = volume.write(id, offset as u64, data, Stability::FileSync).await;
            written.expect("there is room");
            if volume.read(id).await.map_err(|error| error.to_string())? != expected {
                return Err("a small write does not show".to_owned());
            }
        }
        volume.write(id, 0, long.clone(), Stability::FileSync).await.expect("there is room");
        volume.settle().await;
        if volume.read(id).await.map_err(|error| error.to_string())? != long {
            return Err("a large write does not show".to_owned());
        }
        Ok::<_, String>(id)
    })?;
    let (executor, disks) = after_cut(seed, disks.map(|disk| disk.contents()));
    executor.block_on(async {
        let opened = try_open_pair(executor.runtime(), &disks).await;
        let volume = opened.map_err(|error| error.to_string())?.0;
        if volume.read(id).await.map_err(|error| error.to_string())? == long {
            Ok(())
        } else {
            Err("what was written first came last".to_owned())
        }
    })
}

/// A file that is freed in steps loses its name, and power fails with the answer. Returns an error
/// if space is not free after recovery.
pub(crate) fn large_file_that_goes(seed: u64) -> Result<(), String> {
    let executor = Executor::new(seed);
    let images = Pair { home: Image::zeroed(16 << 20), log: Some(Image::zeroed(4 << 20)) };
    let disks = images.map(|image| Disk::new(&executor, image.clone()));
    let (left, before) = executor.block_on(async {
        let volume = fresh(&executor, &disks).await;
        let (root, before) = (volume.files.root(), volume.space().await);
        let id = volume.create(root, "file").await.expect("new");
        volume.write(id, 0, vec![1; 6 << 20], Stability::FileSync).await.expect("there is room");
        volume.remove(root, "file").await.expect("it is there");
        (disks.map(|disk| disk.platter().durable_image()), before)
    });
    let (executor, disks) = after_cut(seed, left);
    executor.block_on(async {
        let opened = try_open_pair(executor.runtime(), &disks).await;
        let volume = opened.map_err(|error| error.to_string())?.0;
        volume.settle().await;
        let after = volume.space().await;
        if (after.free_bytes, after.free_files) == (before.free_bytes, before.free_files) {
            Ok(())
        } else {
            Err(format!("{after:?} is not {before:?}"))
        }
    })
}

/// As [`large_file_that_goes`], in more steps, while others write and the head of the log moves on;
/// cut at any step.
pub(crate) fn large_file_that_goes_slowly(seed: u64) -> Result<(), String> {
    let executor = Executor::new(seed);
    let images = Pair { home: Image::zeroed(48 << 20), log: Some(Image::zeroed(4 << 20)) };
    let disks = images.map(|image| Disk::new(&executor, image.clone()));
    let (traces, before) = executor.block_on(async {
        let volume = fresh(&executor, &disks).await;
        let root = volume.files.root();
        let mut small = Vec::new();
        for writer in 0..OVERWRITERS {
            let id = volume.create(root, &name(writer, 0)).await.expect("new");
            volume.write(id, 0, vec![1; 12 << 10], Stability::FileSync).await.expect("room");
            small.push(id);
        }
        volume.settle().await;
        let before = volume.space().await;
        let large = volume.create(root, "large").await.expect("new");
        for piece in 0..32 {
            let data = vec![1; 1 << 20];
            volume.write(large, piece << 20, data, Stability::Unstable).await.expect("room");
        }
        volume.settle().await;
        disks.map(|disk| disk.start_trace());
        let overwrite = async |id| {
            for round in 0..12 {
                let data = vec![round; 12 << 10];
                volume.write(id, 0, data, Stability::FileSync).await.expect("it is there");
            }
        };
        let others = join_all(small.into_iter().map(overwrite));
        join(others, async { volume.remove(root, "large").await.expect("it is there") }).await;
        volume.settle().await;
        (disks.map(|disk| disk.trace()), before)
    });
    for cut in random_cuts(&traces, seed, 60) {
        let (executor, disks) = after_cut(cut.seed, cut.image()?);
        let after = executor.block_on(async {
            let opened = try_open_pair(executor.runtime(), &disks).await;
            let volume = opened.map_err(|error| error.to_string())?.0;
            if volume.lookup(volume.files.root(), "large").await.is_ok() {
                volume.remove(volume.files.root(), "large").await.expect("it is there");
            }
            volume.settle().await;
            Ok::<_, String>(volume.space().await)
        })?;
        if (after.free_bytes, after.free_files) != (before.free_bytes, before.free_files) {
            return Err(format!("{}: {after:?} is not {before:?}", cut.label()));
        }
    }
    Ok(())
}

/// A new volume with a log.
async fn fresh(executor: &Executor, disks: &Pair<Rc<Disk>>) -> Volume {
    mkfs(&*disks.home, &sizes(4096, 512), &Seeded::new(7), NOW).await.expect("it fits");
    let opened = try_open_pair(executor.runtime(), disks).await;
    opened.unwrap_or_else(|error| panic!("{error}")).0
}
