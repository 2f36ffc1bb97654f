//! What calls cost: barriers, writes and bytes of the disk, exact, and virtual time.

use std::rc::Rc;
use std::time::Duration;

use enginekit::Volume;
use enginekit::random::Seeded;
use futures::future::join_all;
use runtime::Random;
use shadow::{MkfsOptions, OpenOptions, Shadow, mkfs, open};
use sim::{Counters, Disk, Executor, Image, Options, presets};
use vfs::{FileSystem, ObjectId, Stability};

use crate::bench::NOW;

const BLOCK: u64 = 8 << 10;

/// What some calls came to.
#[derive(Clone, Copy, Debug)]
struct Cost {
    calls: u64,
    barriers: u64,
    writes: u64,
    bytes: u64,
    time: Duration,
}

impl Cost {
    fn a_call(&self, all: u64) -> f64 {
        all as f64 / self.calls as f64
    }

    fn kib(&self) -> f64 {
        self.a_call(self.bytes) / 1024.0
    }

    fn tell(&self, name: &str) {
        println!(
            "{name:40} {:6.3} barriers {:6.2} writes {:6.2} KiB {:8.3} ms",
            self.a_call(self.barriers),
            self.a_call(self.writes),
            self.kib(),
            self.time.as_secs_f64() * 1e3 / self.calls as f64
        );
    }
}

/// A volume on a disk of today, that is open.
struct Bench {
    executor: Executor,
    disk: Rc<Disk>,
    volume: Volume<Shadow>,
}

impl Bench {
    fn new(bytes: u64) -> Self {
        let executor = Executor::new(1);
        let options = Options { timing: presets::SATA_7200, ..Options::default() };
        let disk = Disk::with_options(&executor, Image::zeroed(bytes), options);
        let volume = executor.block_on(async {
            let made = mkfs(&*disk, &MkfsOptions::default(), &Seeded::new(7), NOW).await;
            made.expect("the disk holds it");
            let options = OpenOptions {
                cache_bytes: 64 << 20,
                housekeeping_interval: Duration::from_secs(100_000),
                ..OpenOptions::default()
            };
            Volume::new(open(disk.clone(), executor.runtime(), &options).await.expect("it is new"))
        });
        Self { executor, disk, volume }
    }

    fn cost<F: Future>(&self, calls: u64, work: F) -> (F::Output, Cost) {
        let clock = self.executor.runtime().clock;
        let (before, begun): (Counters, _) = (self.disk.counters(), clock.now());
        let done = self.executor.block_on(work);
        let (after, time) = (self.disk.counters(), clock.now().since(begun));
        let cost = Cost {
            calls,
            barriers: after.flushes - before.flushes + after.through_writes - before.through_writes,
            writes: after.writes - before.writes,
            bytes: after.bytes_written - before.bytes_written,
            time,
        };
        (done, cost)
    }

    /// A file of so many bytes.
    async fn file(&self, directory: ObjectId, name: &str, bytes: u64) -> ObjectId {
        let file = self.volume.create(directory, name).await.expect("it is new");
        for at in (0..bytes).step_by(1 << 20) {
            let length = (bytes - at).min(1 << 20) as usize;
            let written = self.volume.write(file, at, vec![7; length], Stability::Unstable).await;
            written.expect("there is room");
        }
        self.volume.commit(file).await.expect("there is room");
        file
    }

    async fn overwrite(&self, file: ObjectId, block: u64, byte: u8) {
        let data = vec![byte; BLOCK as usize];
        let written = self.volume.write(file, block * BLOCK, data, Stability::FileSync).await;
        written.expect("there is room");
    }
}

#[test]
fn one_call_after_the_other() {
    let bench = Bench::new(2 << 30);
    let (volume, root) = (&bench.volume, bench.volume.files.root());
    let calls = 320;
    let names: Vec<String> = (0..calls).map(|number| format!("file{number}")).collect();
    let ((), created) = bench.cost(calls, async {
        for name in &names {
            volume.create(root, name).await.expect("it is new");
        }
    });
    let ((), removed) = bench.cost(calls, async {
        for name in &names {
            volume.remove(root, name).await.expect("it is there");
        }
    });
    let file = bench.executor.block_on(bench.file(root, "large", 16 << 20));
    let ((), written) = bench.cost(calls, async {
        let random = Seeded::new(3);
        for number in 0..calls {
            bench.overwrite(file, random.next_u64() % (16 << 7), number as u8).await;
        }
    });
    created.tell("CREATE");
    removed.tell("REMOVE");
    written.tell("8 KiB overwrite");
    for (cost, writes, bytes) in
        [(created, 2, 24 << 10), (removed, 2, 24 << 10), (written, 2, 33 << 10)]
    {
        assert_eq!((cost.barriers, cost.writes), (calls, writes * calls), "{cost:?}");
        assert!(cost.bytes <= bytes * calls, "{cost:?}");
    }
}

/// 32 callers overwrite what they please of so many files of 1 GiB in all.
fn together(files: u64) -> Cost {
    const ALL: u64 = 1 << 30;
    let bench = Bench::new(2 << 30);
    let root = bench.volume.files.root();
    let each = ALL / files;
    let ids = bench.executor.block_on(async {
        let mut ids = Vec::new();
        for number in 0..files {
            ids.push(bench.file(root, &format!("file{number}"), each).await);
        }
        ids
    });
    let (callers, calls) = (32, 100);
    let work = join_all((0..callers).map(|caller| {
        let (bench, ids) = (&bench, &ids);
        async move {
            let random = Seeded::new(caller);
            for _ in 0..calls {
                let file = ids[(random.next_u64() % files) as usize];
                bench.overwrite(file, random.next_u64() % (each / BLOCK), caller as u8).await;
            }
        }
    }));
    let ((), cost) = bench.cost(callers * calls, async { drop(work.await) });
    cost
}

#[test]
fn thirty_two_calls_at_once() {
    for files in [32, 1024] {
        let cost = together(files);
        cost.tell(&format!("8 KiB overwrite, 32 at once, {files} files"));
        assert!(cost.a_call(cost.barriers) <= 0.063, "{cost:?}");
        assert!(cost.a_call(cost.writes) <= 1.13, "{cost:?}");
        assert!(cost.kib() <= 16.0, "{cost:?}");
    }
}
