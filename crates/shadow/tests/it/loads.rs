//! Blocks of metadata that are read while other tasks change the tree around them, or their
//! addresses.

use std::rc::Rc;
use std::time::Duration;

use enginekit::Volume;
use futures::future::{join, join_all};
use shadow::{OpenOptions, Shadow, open};
use sim::{Disk, Executor, Image, Latency, Options, Prng, Timing};
use vfs::{FileSystem, FsError, ObjectId};

use crate::bench::{Setting, findings, made, opened};

/// Files whose inodes fill a tree of height 0.
const FILES: usize = 80;
/// Directories whose names do not fit into memory together.
const DIRECTORIES: usize = 40;

/// A slow disk.
fn slow(executor: &Executor, image: Image) -> Rc<Disk> {
    let some = (100_000, 500_000);
    let latency = Latency { read_ns: some, write_ns: some, flush_ns: some, ..Latency::default() };
    let options = Options { timing: Timing::Random(latency), ..Options::default() };
    Disk::with_options(executor, image, options)
}

/// A stopped volume after some work.
fn stopped<T>(work: impl AsyncFnOnce(&Volume<Shadow>) -> Result<T, FsError>) -> (Image, T) {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 4 << 20)));
    let done = executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let done = work(&volume).await.expect("there is room");
        volume.files.shutdown().await.expect("nothing fails");
        done
    });
    (disk.contents(), done)
}

/// The tree of inodes grows while blocks of it are being read, and these change then.
pub(crate) fn trees_grow_while_they_are_read() -> Result<(), String> {
    let (image, files) = stopped(async |volume| {
        let mut files = Vec::new();
        for number in 0..FILES {
            files.push(volume.create(volume.files.root(), &format!("f{number}")).await?);
        }
        Ok(files)
    });
    for pause in 0..40 {
        let executor = Executor::new(pause);
        let disk = slow(&executor, image.clone());
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            let (root, told) = (volume.files.root(), |error: FsError| error.to_string());
            // One in each block.
            let some: Vec<ObjectId> = files.iter().copied().step_by(16).collect();
            let clock = executor.runtime().clock;
            let reads = async {
                clock.sleep(Duration::from_micros(50 * pause)).await;
                join_all(some.iter().map(|&file| volume.read(file))).await
            };
            let (read, grown) = join(reads, volume.create(root, "one more")).await;
            grown.map_err(told)?;
            read.into_iter().collect::<Result<Vec<_>, _>>().map_err(told)?;
            for file in some {
                volume.resize(file, 1).await.map_err(told)?;
            }
            volume.files.shutdown().await.map_err(told)
        })?;
        findings(&disk.contents()).map_err(|wrong| format!("after {pause}: {wrong}"))?;
    }
    Ok(())
}

#[test]
fn a_tree_grows_while_it_is_read() {
    assert_eq!(trees_grow_while_they_are_read(), Ok(()));
}

/// Memory is short, and updates are slow: blocks that they write are not read.
pub(crate) fn what_is_on_its_way_stays_here() -> Result<(), String> {
    let (image, all) = stopped(async |volume| {
        let mut all = Vec::new();
        for number in 0..DIRECTORIES {
            all.push(volume.mkdir(volume.files.root(), &format!("d{number}")).await?);
        }
        Ok(all)
    });
    let executor = Executor::new(2);
    let disk = slow(&executor, image);
    executor.block_on(async {
        let options = OpenOptions { cache_bytes: 64 << 10, ..OpenOptions::default() };
        let files = open(disk.clone(), executor.runtime(), &options).await;
        let volume = Volume::new(files.map_err(|error| error.to_string())?);
        let told = |error: FsError| error.to_string();
        let changes = |task: u64| {
            let (volume, all, mut prng) = (&volume, &all, Prng::new(task));
            async move {
                for turn in 0..40 {
                    let directory = all[prng.index(DIRECTORIES)];
                    volume.create(directory, &format!("{task} {turn}")).await?;
                }
                Ok::<_, FsError>(())
            }
        };
        let changed = join_all((1..=8).map(changes)).await;
        changed.into_iter().collect::<Result<Vec<_>, _>>().map_err(told)?;
        volume.files.shutdown().await.map_err(told)
    })?;
    findings(&disk.contents())
}

#[test]
fn what_an_update_writes_is_not_read_before_it_is_there() {
    assert_eq!(what_is_on_its_way_stays_here(), Ok(()));
}
