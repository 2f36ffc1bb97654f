//! Large files that are removed from a full volume, beside clients that overwrite others: no call
//! fails for lack of room, nothing stops half way, and in the end everything is free.

use std::cell::RefCell;
use std::time::Duration;

use enginekit::Volume;
use enginekit::snapshots::{delete, pin};
use futures::future::{join_all, join3};
use runtime::Runtime;
use shadow::Shadow;
use sim::{Choice, Disk, Executor, Image, Latency, Options, Prng, Timing};
use vfs::{FileSystem, ObjectId, Stability};

use crate::bench::{Setting, findings, made, opened};

/// Blocks of a file that is removed: several steps of 256.
const BLOCKS: u64 = 600;
/// Blocks of a file that is overwritten.
const HOT: u64 = 100;
/// Blocks of one of many files that are truncated.
const SMALL: u64 = 3;
/// Blocks of a write.
const PIECE: u64 = 20;

#[derive(Clone, Copy, Debug)]
struct Load {
    seed: u64,
    files: u64,
    /// Files that are overwritten, and blocks of them at once.
    hot: u64,
    at_once: u64,
    shortens: bool,
    /// Files of a few blocks that are truncated, all within a block.
    small: u64,
}

async fn written(volume: &Volume<Shadow>, text: &str, blocks: u64) -> ObjectId {
    let file = volume.create(volume.files.root(), text).await.expect("there is room");
    for at in (0..blocks).step_by(PIECE as usize) {
        let data = vec![1; PIECE.min(blocks - at) as usize * 4096];
        volume.write(file, at * 4096, data, Stability::FileSync).await.expect("there is room");
    }
    file
}

/// Fills the volume, with many snapshots that each hold a part of the files to be removed.
async fn fill(volume: &Volume<Shadow>, load: &Load) {
    let first = volume.create(volume.files.root(), "f0").await.expect("there is room");
    for at in (0..BLOCKS).step_by(PIECE as usize) {
        let data = vec![1; PIECE as usize * 4096];
        volume.write(first, at * 4096, data, Stability::FileSync).await.expect("there is room");
        pin(volume, &format!("s{at}")).await.expect("there is room");
    }
    for number in 1..load.files {
        written(volume, &format!("f{number}"), BLOCKS).await;
    }
    pin(volume, "last").await.expect("there is room");
    for number in 0..load.small {
        written(volume, &format!("small{number}"), SMALL).await;
    }
    for number in 0..load.hot {
        written(volume, &format!("hot{number}"), HOT).await;
    }
    let filler = volume.create(volume.files.root(), "filler").await.expect("there is room");
    for block in 0.. {
        let data = vec![3; 4096];
        if volume.write(filler, block * 4096, data, Stability::FileSync).await.is_err() {
            return;
        }
    }
}

/// Removes or truncates files while others are overwritten.
async fn work(volume: &Volume<Shadow>, runtime: &Runtime, load: &Load) -> Result<(), String> {
    let prng = RefCell::new(Prng::new(load.seed));
    let root = volume.files.root();
    let overwrites = (0..load.hot).map(async |number| {
        let file = volume.lookup(root, &format!("hot{number}")).await.expect("it is there");
        for _ in 0..20 {
            let at = prng.borrow_mut().below(HOT + 1 - load.at_once);
            let data = vec![2; load.at_once as usize * 4096];
            let done = volume.write(file, at * 4096, data, Stability::FileSync).await;
            done.map_err(|error| format!("an overwrite: {error}"))?;
        }
        Ok(())
    });
    let removals = (0..load.files).map(async |number| {
        let wait = Duration::from_micros(prng.borrow_mut().below(30_000));
        runtime.clock.sleep(wait).await;
        let text = format!("f{number}");
        let gone = if load.shortens {
            let file = volume.lookup(root, &text).await.expect("it is there");
            volume.resize(file, 5000).await
        } else {
            volume.remove(root, &text).await
        };
        gone.map_err(|error| format!("{text}: {error}"))
    });
    let shorter = (0..load.small).map(async |number| {
        let wait = Duration::from_micros(prng.borrow_mut().below(30_000));
        runtime.clock.sleep(wait).await;
        let text = format!("small{number}");
        let file = volume.lookup(root, &text).await.expect("it is there");
        volume.resize(file, 5000).await.map_err(|error| format!("{text}: {error}"))
    });
    let (written, gone, shorter) =
        join3(join_all(overwrites), join_all(removals), join_all(shorter)).await;
    written.into_iter().chain(gone).chain(shorter).collect()
}

/// Deletes all snapshots and files; then nothing is used but the root.
async fn empty(volume: &Volume<Shadow>) -> Result<(), String> {
    let all = volume.files.snapshots().expect("it has them").list();
    let all = all.open().await.map_err(|lost| lost.to_string())?.into_inner();
    for (snapshot, _) in all {
        delete(volume, &String::from_utf8_lossy(snapshot.name.as_bytes()), true).await?;
    }
    let root = volume.files.root();
    for text in volume.list(root).await.expect("it is there") {
        if text != "." && text != ".." {
            volume.remove(root, &text).await.map_err(|error| format!("{text}: {error}"))?;
        }
    }
    volume.files.shutdown().await.map_err(|error| error.to_string())?;
    let space = volume.space().await;
    let used = space.total_bytes - space.free_bytes;
    if used == 4096 { Ok(()) } else { Err(format!("{used} bytes are used")) }
}

fn slow(executor: &Executor, image: Image) -> std::rc::Rc<Disk> {
    let slow = (100_000, 1_000_000);
    let latency = Latency { read_ns: slow, write_ns: slow, flush_ns: slow, ..Latency::default() };
    let options = Options { timing: Timing::Random(latency), ..Options::default() };
    Disk::with_options(executor, image, options)
}

fn go(load: Load) -> Result<(), String> {
    let units = load.files * BLOCKS + load.hot * HOT + load.small * SMALL + 1100;
    let bytes = (units * 4096 * 5 / 4).next_multiple_of(64 << 10);
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, bytes)));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        fill(&volume, &load).await;
        volume.files.shutdown().await.expect("nothing fails");
    });
    let executor = Executor::new(load.seed);
    let disk = slow(&executor, disk.contents());
    disk.start_trace();
    let end = executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        work(&volume, &executor.runtime(), &load).await?;
        let answered = disk.trace().events().len();
        volume.settle().await;
        match pin(&volume, "then").await {
            Err(wrong) if !wrong.contains("no space") => Err(format!("a step stuck: {wrong}")),
            _ => Ok(answered),
        }
    })?;
    // All calls have ended, and steps are left to do.
    let platter = disk.trace().platter_at(end);
    let image = platter.image(&Choice::random(&platter, &mut Prng::new(load.seed)));
    findings(&image)?;
    let executor = Executor::new(3);
    let disk = Disk::new(&executor, image);
    executor.block_on(async { empty(&opened(executor.runtime(), &disk).await?).await })?;
    findings(&disk.contents())
}

#[test]
fn large_files_go_from_a_full_volume_beside_overwrites() {
    let load = Load { seed: 14, files: 7, hot: 10, at_once: 67, shortens: false, small: 0 };
    for load in [
        load,
        Load { seed: 42, hot: 9, at_once: 99, ..load },
        Load { seed: 72, files: 2, hot: 11, at_once: 62, ..load },
        Load { shortens: true, ..load },
        Load { small: 100, ..load },
        Load { files: 2, small: 100, hot: 0, ..load },
        Load { files: 2, small: 120, hot: 3, shortens: true, ..load },
    ] {
        assert_eq!(go(load), Ok(()), "{load:?}");
    }
}
