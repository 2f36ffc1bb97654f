//! A volume with little memory for UNSTABLE data, so that it lands in the background.

use std::rc::Rc;
use std::time::Duration;

use ffs::{Files, OpenOptions};
use namespace::{Namespace, Store};
use runtime::{Runtime, Timestamp};
use sim::{Disk, Executor, Image, Prng};
use ufs2::mkfs::mkfs;
use vfs::{FileSystem, ObjectId, Requester, Stability};

use super::cutting::{Pair, after_cut, sizes};
use super::volume::{Volume, open_with_log};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const BLOCK: usize = 4096;
/// Half of the cache.
pub(crate) const LIMIT: u64 = 256 << 10;
pub(crate) const CALL: usize = 8 * BLOCK;
pub(crate) const POLICIES: [bool; 2] = [false, true];

/// Disks for a volume, with a log or without.
pub(crate) fn new_disks(executor: &Executor, has_log: bool) -> Pair<Rc<Disk>> {
    let sizes = Pair { home: 32 << 20, log: has_log.then_some(32 << 20) };
    sizes.map(|&size| Disk::new(executor, Image::zeroed(size)))
}

async fn opened(runtime: Runtime, disks: &Pair<Rc<Disk>>) -> (Volume, Rc<Files>) {
    let options = OpenOptions {
        cache_bytes: 2 * LIMIT as usize,
        housekeeping_interval: Duration::from_secs(3600),
        ..OpenOptions::default()
    };
    let log = disks.log.clone().map(|log| log as Rc<dyn block::BlockDevice>);
    let opened = open_with_log(disks.home.clone(), log, runtime, &options, &mut |_| ()).await;
    let engine = opened.unwrap_or_else(|error| panic!("{error}")).files;
    (Volume { files: Namespace::new(engine.clone()), root: Requester::root() }, engine)
}

pub(crate) async fn new_volume(runtime: Runtime, disks: &Pair<Rc<Disk>>) -> (Volume, Rc<Files>) {
    mkfs(&*disks.home, &sizes(BLOCK as u64, 512), &*runtime.random, NOW).await.expect("it fits");
    opened(runtime, disks).await
}

/// The bytes that call number `index` writes to a file.
pub(crate) fn content(file: usize, index: usize) -> Vec<u8> {
    vec![1 + (file * 101 + index) as u8 % 251; CALL]
}

/// Writes to a file UNSTABLE, call after call; returns the maximum size that waited in memory.
pub(crate) async fn write_on(
    volume: &Volume,
    engine: &Files,
    (file, id): (usize, ObjectId),
    calls: usize,
) -> u64 {
    let mut most = 0;
    for index in 0..calls {
        let data = content(file, index);
        let written = volume.write(id, (index * CALL) as u64, data, Stability::Unstable).await;
        written.expect("there is room");
        most = most.max(engine.unstable_bytes());
    }
    most
}

/// Writes two files, the first of which lands in the background as a whole; commits that one; cuts
/// the power. Checks that the committed data is there afterwards.
pub(crate) fn survives(seed: u64, has_log: bool) -> Result<(), String> {
    const CALLS: usize = 2;
    let executor = Executor::new(seed);
    let disks = new_disks(&executor, has_log);
    let before = executor.block_on(async {
        let (volume, engine) = new_volume(executor.runtime(), &disks).await;
        let root = volume.files.root();
        let first = volume.create(root, "first").await.expect("new");
        let second = volume.create(root, "second").await.expect("new");
        let verifier = engine.verifier();
        write_on(&volume, &engine, (0, first), CALLS).await;
        let rest = (LIMIT / 4) as usize / CALL;
        write_on(&volume, &engine, (1, second), rest).await;
        while engine.unstable_bytes() > LIMIT / 4 {
            executor.runtime().clock.sleep(Duration::from_micros(1)).await;
        }
        let committed = volume.commit(first).await.expect("it lands");
        assert_eq!(committed, verifier, "nothing was lost yet");
        verifier
    });
    executor.crash();
    let mut prng = Prng::new(seed);
    let images = disks.map(|disk| disk.crash(&mut prng));
    let (executor, disks) = after_cut(seed, images);
    executor.block_on(async {
        let (volume, engine) = opened(executor.runtime(), &disks).await;
        assert_ne!(engine.verifier(), before, "what was not committed may be lost");
        let root = volume.files.root();
        let first = volume.lookup(root, "first").await.expect("it was made");
        let expected: Vec<u8> = (0..CALLS).flat_map(|index| content(0, index)).collect();
        let found = volume.read(first).await.expect("it can be read");
        (found == expected).then_some(()).ok_or_else(|| format!("{} bytes are left", found.len()))
    })
}

/// Writes a file that lands in the background in several steps. Checks that no step causes a flush
/// at once, that all together cause one soon, and that a COMMIT takes no longer than the device.
pub(crate) fn landings_that_wait(seed: u64) -> Result<(), String> {
    const CALLS: usize = 12;
    const LONG: Duration = Duration::from_millis(30);
    let executor = Executor::new(seed);
    let disks = new_disks(&executor, true);
    let clock = executor.runtime().clock;
    executor.block_on(async {
        let (volume, engine) = new_volume(executor.runtime(), &disks).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        volume.settle().await;
        let flushes = || disks.home.counters().flushes;
        let (start, before) = (clock.now(), flushes());
        write_on(&volume, &engine, (0, id), CALLS).await;
        while engine.unstable_bytes() > LIMIT / 4 {
            clock.sleep(Duration::from_micros(10)).await;
        }
        if clock.now().since(start) < LONG && flushes() != before {
            return Err(format!("{} flushes for nobody", flushes() - before));
        }
        clock.sleep(LONG).await;
        if flushes() != before + 1 {
            return Err(format!("{} flushes before long", flushes() - before));
        }
        write_on(&volume, &engine, (1, id), CALLS).await;
        let asked = clock.now();
        volume.commit(id).await.expect("it lands");
        let took = clock.now().since(asked);
        (took < LONG / 2).then_some(()).ok_or_else(|| format!("a COMMIT took {took:?}"))
    })
}

/// Writes a few blocks again and again, UNSTABLE, while older states of them land, and longer ones
/// behind them. Checks that the last data written is there: at once, and after a COMMIT and a power
/// cut.
pub(crate) fn rewrites(seed: u64, has_log: bool) -> Result<(), String> {
    const PLACES: usize = 4;
    let executor = Executor::new(seed);
    let disks = new_disks(&executor, has_log);
    let mut prng = Prng::new(seed);
    let mut expected = Vec::new();
    let found = executor.block_on(async {
        let (volume, _) = new_volume(executor.runtime(), &disks).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        for round in 0..60 {
            let longest = PLACES + round / 10;
            let at = prng.below(longest as u64) as usize * CALL + prng.below(3000) as usize;
            let length = 1 + prng.below(CALL as u64) as usize;
            let data = content(round, 0)[..length].to_vec();
            expected.resize(expected.len().max(at + length), 0);
            expected[at..at + length].copy_from_slice(&data);
            volume.write(id, at as u64, data, Stability::Unstable).await.expect("there is room");
            let pause = Duration::from_micros(prng.below(200));
            let written = volume.attributes(id).await.mtime;
            executor.runtime().clock.sleep(pause).await;
            assert_eq!(volume.attributes(id).await.mtime, written, "nobody wrote meanwhile");
        }
        let found = volume.read(id).await.expect("it can be read");
        volume.commit(id).await.expect("it lands");
        found
    });
    executor.crash();
    let images = disks.map(|disk| disk.crash(&mut prng));
    let (executor, disks) = after_cut(seed, images);
    let left = executor.block_on(async {
        let (volume, _) = opened(executor.runtime(), &disks).await;
        let id = volume.lookup(volume.files.root(), "file").await.expect("it was made");
        volume.read(id).await.expect("it can be read")
    });
    for (found, when) in [(found, "at once"), (left, "after the cut")] {
        if found != expected {
            return Err(format!("{when} there is not what was written last"));
        }
    }
    Ok(())
}
