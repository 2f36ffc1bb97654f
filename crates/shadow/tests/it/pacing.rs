//! Latency of calls beside a scrub, and beside a compaction, on a disk with an arm: exact, in
//! virtual time.

use std::cell::Cell;
use std::time::Duration;

use enginekit::Volume;
use enginekit::random::Seeded;
use futures::future::{Either, join_all, select};
use runtime::Random;
use shadow::{MkfsOptions, OpenOptions, Shadow, open};
use sim::{Disk, Executor, Image, Options, presets};
use vfs::{FileSystem, ObjectId, Stability};
use vnode::scrub::Scrubbed;

use crate::bench::undisturbed;

const BLOCK: u64 = 8 << 10;
/// A client pauses for this long at most between two calls.
const THINKS_US: u64 = 3000;
/// No compaction happens meanwhile.
const NEVER: Duration = Duration::from_secs(100_000);

/// Calls of the clients, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Load {
    Overwrites,
    ColdReads,
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Durations of calls.
#[derive(Debug)]
struct Waits {
    sorted: Vec<Duration>,
    /// Total time.
    took: Duration,
    /// Bytes that a scrub read, or a compaction moved, meanwhile.
    moved: u64,
}

impl Waits {
    fn part(&self, percent: usize) -> Duration {
        self.sorted[(self.sorted.len() * percent / 100).min(self.sorted.len() - 1)]
    }

    /// MiB a second that were read or moved.
    fn rate(&self) -> f64 {
        mib(self.moved) / self.took.as_secs_f64()
    }

    fn tell(&self, name: &str) {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{name:32} p50 {:6.2} p99 {:6.2} most {:6.2} ms, {:6.1} calls/s, {:5.2} MiB/s",
            ms(self.part(50)),
            ms(self.part(99)),
            ms(self.part(100)),
            self.sorted.len() as f64 / self.took.as_secs_f64(),
            self.rate(),
        );
    }
}

/// A stopped volume with a large file, of which some blocks were overwritten.
fn filled(volume_bytes: u64, made: &MkfsOptions, size: u64, overwrites: u64) -> Image {
    let options = Options { timing: presets::SATA_7200, ..Options::default() };
    let (executor, disk, volume) = undisturbed(options, made, volume_bytes);
    executor.block_on(async {
        let file = volume.create(volume.files.root(), "large").await.expect("it is new");
        for at in (0..size).step_by(1 << 20) {
            let written = volume.write(file, at, vec![7; 1 << 20], Stability::Unstable).await;
            written.expect("there is room");
        }
        volume.commit(file).await.expect("there is room");
        let volume = &volume;
        let old = (0..32).map(async |caller| {
            let chance = Seeded::new(100 + caller);
            for _ in 0..overwrites / 32 {
                let block = chance.next_u64() % (size / BLOCK);
                call(volume, file, Load::Overwrites, block).await;
            }
        });
        join_all(old).await;
        volume.files.shutdown().await.expect("nothing fails");
    });
    disk.contents()
}

/// Opens a volume with little memory, on a modern disk.
async fn opened(executor: &Executor, image: &Image, interval: Duration) -> Volume<Shadow> {
    let options = Options { timing: presets::SATA_7200, ..Options::default() };
    let disk = Disk::with_options(executor, image.clone(), options);
    let options = OpenOptions {
        cache_bytes: 8 << 20,
        housekeeping_interval: interval,
        ..OpenOptions::default()
    };
    Volume::new(open(disk, executor.runtime(), &options).await.expect("it is well"))
}

async fn call(volume: &Volume<Shadow>, file: ObjectId, load: Load, block: u64) {
    if load == Load::Overwrites {
        let data = vec![block as u8; BLOCK as usize];
        let written = volume.write(file, block * BLOCK, data, Stability::FileSync).await;
        return written.expect("there is room");
    }
    let sealed = volume.files.read(&volume.root, file, block * BLOCK, BLOCK as u32).await;
    sealed.open().await.expect("running").into_inner().result.expect("it is there");
}

/// Clients at work.
struct Callers<'a> {
    executor: &'a Executor,
    volume: &'a Volume<Shadow>,
    load: Load,
    /// Number of clients, and of their calls in all.
    count: u64,
    calls: u64,
}

impl Callers<'_> {
    /// Measures their calls. Each client pauses a little between two calls, so that they do not run
    /// in step.
    async fn work(&self) -> Waits {
        let file = self.volume.lookup(self.volume.files.root(), "large").await;
        let file = file.expect("it is there");
        let blocks = self.volume.attributes(file).await.size / BLOCK;
        let clock = &self.executor.runtime().clock;
        let begun = clock.now();
        let all = join_all((0..self.count).map(async |caller| {
            let (chance, mut waits) = (Seeded::new(caller + 1), Vec::new());
            for _ in 0..self.calls / self.count {
                clock.sleep(Duration::from_micros(chance.next_u64() % THINKS_US)).await;
                let begun = clock.now();
                call(self.volume, file, self.load, chance.next_u64() % blocks).await;
                waits.push(clock.now().since(begun));
            }
            waits
        }));
        let mut sorted = all.await.concat();
        sorted.sort_unstable();
        Waits { sorted, took: clock.now().since(begun), moved: 0 }
    }

    /// The same, beside scrubs, one after the other.
    async fn work_beside_scrubs(&self) -> Waits {
        let moved = Cell::new(0);
        let scrubs = async {
            loop {
                let (engine, before) = (self.volume.files.store().engine(), moved.get());
                let mut watch = |it: &Scrubbed| {
                    moved.set(before + it.done_bytes);
                    true
                };
                let found = engine.scrub(&mut watch).await.expect("it comes to its end");
                assert!(found.lost.is_empty(), "{found:?}");
            }
        };
        match select(Box::pin(self.work()), Box::pin(scrubs)).await {
            Either::Left((waits, _)) => Waits { moved: moved.get(), ..waits },
        }
    }
}

/// Durations of calls with nothing beside them, and with background work; the volume is opened for
/// each.
fn compared(
    image: &Image,
    (load, count, calls): (Load, u64, u64),
    intervals: [Duration; 2],
    scrubs: bool,
) -> [Waits; 2] {
    [false, true].map(|is_beside| {
        let executor = Executor::new(4);
        let waits = executor.block_on(async {
            let interval = intervals[usize::from(is_beside)];
            let volume = &opened(&executor, image, interval).await;
            let callers = Callers { executor: &executor, volume, load, count, calls };
            if scrubs && is_beside {
                return callers.work_beside_scrubs().await;
            }
            let waits = callers.work().await;
            let moved = volume.files.store().engine().status().compacted_bytes;
            Waits { moved, ..waits }
        });
        waits
            .tell(&format!("{load:?}, {count} at once{}", if is_beside { ", beside" } else { "" }));
        waits
    })
}

/// A scrub alone is nearly as fast as the disk.
#[test]
fn a_scrub_that_nobody_disturbs_does_not_rest() {
    let image = filled(512 << 20, &MkfsOptions::default(), 256 << 20, 0);
    let executor = Executor::new(5);
    let rate = executor.block_on(async {
        let volume = opened(&executor, &image, NEVER).await;
        let begun = executor.runtime().clock.now();
        let found = volume.files.store().engine().scrub(&mut |_| true).await;
        let time = executor.runtime().clock.now().since(begun);
        mib(found.expect("it comes to its end").done_bytes) / time.as_secs_f64()
    });
    println!("alone: {rate:.1} MiB/s");
    assert!(rate > 170.0, "{rate}");
}

#[test]
fn callers_hardly_wait_for_a_scrub() {
    let image = filled(512 << 20, &MkfsOptions::default(), 256 << 20, 0);
    for load in [Load::Overwrites, Load::ColdReads] {
        for (count, calls) in [(1, 3000), (8, 8000)] {
            let [alone, beside] = compared(&image, (load, count, calls), [NEVER; 2], true);
            // An overwrite goes to two zones, and may find the arm elsewhere before each.
            assert!(beside.part(99) <= alone.part(99).mul_f64(1.75), "{load:?}, {count} at once");
            // It ends, however many calls there are.
            assert!(beside.rate() > 2.5, "{} MiB/s", beside.rate());
        }
    }
}

#[test]
fn callers_hardly_wait_for_a_compaction() {
    let made = MkfsOptions { zone_size: Some(4 << 20), ..MkfsOptions::default() };
    let size = 176 << 20;
    let image = filled(256 << 20, &made, size, 2 * size / BLOCK);
    for load in [Load::Overwrites, Load::ColdReads] {
        for (count, calls) in [(1, 2000), (8, 8000)] {
            let intervals = [NEVER, Duration::from_secs(1)];
            let [alone, beside] = compared(&image, (load, count, calls), intervals, false);
            assert!(beside.part(99) <= alone.part(99).mul_f64(1.5), "{load:?}, {count} at once");
            assert!(alone.moved == 0 && beside.moved > 4 << 20, "{} MiB", mib(beside.moved));
        }
    }
}
