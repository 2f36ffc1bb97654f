//! Speed of random overwrites on volumes that are old and nearly full, compared with a log: in the
//! virtual time of one disk of today, so that the numbers are exact.
//!
//! `DURAMEN_CASE="MIB PERCENT..."` measures volumes of this size at each of these fill levels; with
//! `snapshots` as its first word, while snapshots are made.

use std::rc::Rc;

use block::BlockDevice;
use block::slice::split;
use bytes::Bytes;
use designs::{Design, Disks, FFS_LOG, MkfsOptions, OpenOptions, Opened, SHADOW};
use futures::future::join_all;
use runtime::Timestamp;
use sim::{Disk, Executor, Image, Options, Prng, presets};
use vfs::{CreateHow, FileSystem, Name, ObjectId, Requester, SetAttributes, Stability};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const BLOCK: u64 = 8 << 10;
/// Number of files among which data is spread.
const FILES: u64 = 8;
/// Number of snapshots made while data is overwritten.
const SNAPSHOTS: u64 = 10;
/// Number of snapshots that are kept. With their contents the volume holds at most [`HELD`] bytes
/// for 100 bytes of files.
const STAY: u64 = 4;
const HELD: u64 = 173;
/// Size of the log, which has the outer end of the disk, in bytes.
const LOG: u64 = 32 << 20;

/// Overwrites per second, one at a time and 32 at once.
#[derive(Clone, Copy, Debug)]
struct Speed {
    alone: f64,
    together: f64,
}

struct World {
    executor: Executor,
    opened: Opened,
    files: Vec<ObjectId>,
    /// Number of blocks in each file.
    blocks: u64,
}

impl World {
    /// A volume of `bytes` bytes on one disk with its log, filled to `percent`.
    fn new(design: &Design, bytes: u64, percent: u64) -> Self {
        let executor = Executor::new(1);
        let options = Options { timing: presets::SATA_7200, ..Options::default() };
        let disk = Disk::with_options(&executor, Image::zeroed(LOG + bytes), options);
        let [log, volume] = split(disk, LOG).map(|part| -> Rc<dyn BlockDevice> { Rc::new(part) });
        let log = (design.disks.len() > 1).then_some(log);
        let opened = executor.block_on(async {
            let is_log = design.disks.len() > 1;
            let made = MkfsOptions {
                zone_size: Some(bytes / 64).filter(|_| !is_log),
                reserve_percent: Some(0).filter(|_| is_log),
                ..MkfsOptions::default()
            };
            let random = executor.runtime().random;
            (design.work().make)(&*volume, &made, &*random, NOW).await.expect("it has room");
            let options = OpenOptions { cache_bytes: 64 << 20, ..OpenOptions::default() };
            let disks = Disks { volume, log, intents: None };
            (design.work().open)(disks, executor.runtime(), &options, &mut |_| ()).await
        });
        let opened = opened.expect("it is new");
        let mut world = Self { executor, opened, files: Vec::new(), blocks: 0 };
        world.fill(percent);
        world
    }

    /// Size of the volume, and its free space, in bytes.
    async fn space(&self) -> (u64, u64) {
        let (files, root) = (&self.opened.files, self.opened.files.root());
        let space = files.fsstat(&Requester::root(), root).await.open().await;
        let space = space.expect("running").into_inner().result.expect("of the root");
        (space.total_bytes, space.free_bytes)
    }

    fn fill(&mut self, percent: u64) {
        let (files, root) = (&self.opened.files, self.opened.files.root());
        let (ids, blocks) = self.executor.block_on(async {
            let blocks = self.space().await.0 * percent / 100 / FILES / BLOCK;
            let mut ids = Vec::new();
            for number in 0..FILES {
                let name = Name::parse(format!("f{number}").as_bytes()).expect("a name");
                let how = CreateHow::Guarded(SetAttributes::default());
                let made = files.create(&Requester::root(), root, &name, how).await.open().await;
                let file = made.expect("running").into_inner().result.expect("it is new").id;
                for first in (0..blocks).step_by(64) {
                    let length = (blocks - first).min(64) * BLOCK;
                    write(&**files, file, first, length, Stability::Unstable).await;
                }
                let done = files.commit(&Requester::root(), file, 0, 0).await.open().await;
                done.expect("running").into_inner().result.expect("there is room");
                ids.push(file);
            }
            (ids, blocks)
        });
        (self.files, self.blocks) = (ids, blocks);
    }

    /// Overwrites per second, with `calls` calls by `callers` callers at once.
    fn speed(&self, callers: u64, calls: u64, seed: u64) -> f64 {
        let clock = self.executor.runtime().clock;
        let begun = clock.now();
        let work = join_all((0..callers).map(|caller| async move {
            let mut prng = Prng::new(seed << 20 | caller);
            for _ in 0..calls / callers {
                let file = self.files[prng.index(self.files.len())];
                let block = prng.index(self.blocks as usize) as u64;
                write(&*self.opened.files, file, block, BLOCK, Stability::FileSync).await;
            }
        }));
        self.executor.block_on(async { drop(work.await) });
        (calls / callers * callers) as f64 / clock.now().since(begun).as_secs_f64()
    }

    /// Creates a snapshot, and deletes the one that is too old.
    fn pin(&self, number: u64) {
        let snapshots = self.opened.files.snapshots().expect("it has them");
        let name = |number: u64| Name::parse(format!("s{number}").as_bytes()).expect("a name");
        self.executor.block_on(async {
            let made = snapshots.pin(&name(number)).await.open().await;
            made.expect("running").into_inner().expect("there is room");
            let Some(old) = number.checked_sub(STAY) else { return };
            let gone = snapshots.delete(&name(old)).await.open().await;
            let gone = gone.expect("running").into_inner().expect("it is there").number;
            loop {
                let step = snapshots.delete_step(gone).await.open().await;
                if step.expect("running").into_inner().expect("nothing fails") {
                    return;
                }
            }
        });
    }

    /// Ages the volume by overwriting all of it `turns` times, and then measures. Equally many
    /// writes come before each of the snapshots.
    fn aged(&self, turns: u64, calls: u64, snapshots: u64) -> Speed {
        let all = self.files.len() as u64 * self.blocks * turns;
        for part in 0..snapshots.max(1) {
            self.speed(32, all / snapshots.max(1), 1 + (part << 8));
            if snapshots > 0 {
                self.pin(part);
            }
        }
        let together = self.speed(32, 4 * calls, 2);
        let alone = self.speed(1, calls, 3);
        Speed { alone, together }
    }
}

async fn write(
    files: &dyn FileSystem,
    file: ObjectId,
    block: u64,
    length: u64,
    stability: Stability,
) {
    let data = vec![Bytes::from(vec![block as u8 | 1; length as usize])];
    let written = files.write(&Requester::root(), file, block * BLOCK, data, stability).await;
    written.open().await.expect("running").into_inner().result.expect("there is room");
}

/// Speed of `shadow` relative to a log on volumes of this size and fill level, after all data was
/// overwritten `turns` times. Snapshots, if there are any, hold part of the fill level.
fn compared((bytes, percent): (u64, u64), (turns, calls): (u64, u64), snapshots: u64) -> Speed {
    let speeds = [&SHADOW, &FFS_LOG].map(|design| {
        let snapshots = if design.disks.len() > 1 { 0 } else { snapshots };
        let files = if snapshots > 0 { percent * 100 / HELD } else { percent };
        let world = World::new(design, bytes, files);
        let speed = world.aged(turns, calls, snapshots);
        let (total, free) = world.executor.block_on(world.space());
        let full = 100 - free * 100 / total;
        println!("{percent} %, {:6}: {speed:.0?}, {full} % full", design.engine);
        let status = world.opened.engine.shadow();
        status.iter().for_each(|status| println!("{status:?}"));
        speed
    });
    let [ours, log] = speeds;
    let more = Speed { alone: ours.alone / log.alone, together: ours.together / log.together };
    println!("{percent} % of {} MiB, {snapshots} snapshots: {more:.2?}", bytes >> 20);
    more
}

#[test]
fn overwrites_of_an_old_volume_are_faster_than_with_a_log() {
    // Writing the copies of anchors side by side would make it 1.5: see docs/benchmarks.md.
    let more = compared((128 << 20, 80), (1, 1000), 0);
    assert!(more.together > 1.2 && more.alone > 0.8, "{more:?}");
}

#[test]
fn old_volumes_are_measured() {
    let Ok(asked) = std::env::var("DURAMEN_CASE") else { return };
    let numbers = asked.strip_prefix("snapshots");
    let snapshots = if numbers.is_some() { SNAPSHOTS } else { 0 };
    let words = numbers.unwrap_or(&asked).split_whitespace();
    let mut words = words.map(|word| word.parse().expect("a number"));
    let bytes: u64 = words.next().expect("how many MiB") << 20;
    words.for_each(|percent: u64| _ = compared((bytes, percent), (2, 1000), snapshots));
}
