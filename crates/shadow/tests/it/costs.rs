//! Costs of calls: barriers, writes and bytes of the disk, exact, and virtual time.

use std::rc::Rc;
use std::time::Duration;

use enginekit::Volume;
use enginekit::random::Seeded;
use futures::future::join_all;
use runtime::Random;
use shadow::{MkfsOptions, OpenOptions, Shadow, open};
use sim::{Counters, Disk, Executor, Image, Options, presets};
use vfs::{
    CallKey, CreateHow, Credentials, FileSystem, ObjectId, Requester, SetAttributes, Stability,
};

use crate::bench::undisturbed;

const BLOCK: u64 = 8 << 10;

/// The cost of some calls.
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

/// An open volume on a modern disk.
struct Bench {
    executor: Executor,
    disk: Rc<Disk>,
    volume: Volume<Shadow>,
}

impl Bench {
    fn new(bytes: u64) -> Self {
        let options = Options { timing: presets::SATA_7200, ..Options::default() };
        let (executor, disk, volume) = undisturbed(options, &MkfsOptions::default(), bytes);
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

    /// Makes a file of this size.
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

    /// Creates a file with a remembered reply.
    async fn create(&self, call: u64) {
        let how = CreateHow::Guarded(SetAttributes { mode: Some(0o644), ..Default::default() });
        let (files, root) = (&self.volume.files, self.volume.files.root());
        let sealed = files.create(&caller(call), root, &name_of(call), how).await;
        sealed.open().await.expect("running").into_inner().result.expect("it is new");
    }

    /// Removes it with a remembered reply.
    async fn remove(&self, call: u64) {
        let (files, root) = (&self.volume.files, self.volume.files.root());
        let sealed = files.remove(&caller(1 << 32 | call), root, &name_of(call)).await;
        sealed.open().await.expect("running").into_inner().result.expect("it is there");
    }

    async fn overwrite(&self, file: ObjectId, block: u64, byte: u8) {
        let data = vec![byte; BLOCK as usize];
        let written = self.volume.write(file, block * BLOCK, data, Stability::FileSync).await;
        written.expect("there is room");
    }
}

fn caller(call: u64) -> Requester {
    let key = CallKey::new(&[call; 6].map(u64::to_le_bytes).concat()).expect("48 bytes");
    Requester { who: Credentials::root(), call: Some(Rc::new(key)) }
}

fn name_of(call: u64) -> vfs::Name {
    enginekit::volume::name(&format!("file{call}"))
}

#[test]
fn one_call_after_the_other() {
    let bench = Bench::new(2 << 30);
    let root = bench.volume.files.root();
    let calls = 320;
    let ((), created) = bench.cost(calls, async {
        for call in 0..calls {
            bench.create(call).await;
        }
    });
    let ((), removed) = bench.cost(calls, async {
        for call in 0..calls {
            bench.remove(call).await;
        }
    });
    let file = bench.executor.block_on(bench.file(root, "large", 16 << 20));
    // So many that places of the first ones are reused, between others that stay.
    let overwrites = 4000;
    let ((), written) = bench.cost(overwrites, async {
        let random = Seeded::new(3);
        for number in 0..overwrites {
            bench.overwrite(file, random.next_u64() % (16 << 7), number as u8).await;
        }
    });
    created.tell("CREATE");
    removed.tell("REMOVE");
    written.tell("8 KiB overwrite");
    // The costs above 24 and 32 are the share of each in folds; and the blocks that lead to the
    // root directory have two copies, both of which are written.
    for (cost, most) in [(created, 30.7), (removed, 32.4), (written, 36.4)] {
        assert!(cost.a_call(cost.barriers) < 1.002, "{cost:?}");
        assert!(cost.a_call(cost.writes) < 3.6, "{cost:?}");
        assert!(cost.kib() <= most, "{cost:?}");
    }
}

/// 32 clients overwrite random parts of this many files of 1 GiB in all.
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
        assert!(cost.a_call(cost.barriers) <= 1.0 / 30.0, "{cost:?}");
        assert!(cost.a_call(cost.writes) <= 3.0 / 30.0, "{cost:?}");
        assert!(cost.kib() <= 15.8, "{cost:?}");
    }
}

/// Recent replies, and the map, are read in few pieces, however many calls there were.
#[test]
fn an_opening_after_a_cut_reads_in_large_pieces() {
    let bench = Bench::new(2 << 30);
    let (callers, calls) = (32, 200);
    let work = join_all((0..callers).map(|caller| {
        let bench = &bench;
        async move {
            for call in 0..calls {
                bench.create(caller << 16 | call).await;
            }
        }
    }));
    let ((), made) = bench.cost(callers * calls, async { drop(work.await) });
    made.tell("CREATE, 32 at once");
    let executor = Executor::new(2);
    let options = Options { timing: presets::SATA_7200, ..Options::default() };
    let disk = Disk::with_options(&executor, bench.disk.contents(), options);
    let clock = executor.runtime().clock;
    let (begun, options) = (clock.now(), OpenOptions::default());
    let opened = executor.block_on(open(disk.clone(), executor.runtime(), &options));
    let time = clock.now().since(begun);
    let files = enginekit::Volume::new(opened.expect("it was cut off"));
    let remembered = executor.block_on(async { files.files.take_remembered().open().await });
    let remembered = remembered.expect("running").into_inner().len() as u64;
    let reads = disk.counters().reads;
    println!("an opening: {reads} reads, {time:?}, {remembered} answers");
    assert_eq!(remembered, callers * calls);
    assert!(reads <= 200 && time < Duration::from_secs(1), "{reads}, {time:?}");
}

/// A sequential read from the beginning of a file does not wait for each of the blocks that lead to
/// its data.
#[test]
fn a_cold_file_is_read_nearly_as_fast_as_the_disk() {
    const SIZE: u64 = 64 << 20;
    let bench = Bench::new(2 << 30);
    let root = bench.volume.files.root();
    let file = bench.executor.block_on(async {
        let file = bench.file(root, "large", SIZE).await;
        bench.volume.files.shutdown().await.expect("running");
        file
    });
    let executor = Executor::new(2);
    let options = Options { timing: presets::SATA_7200, ..Options::default() };
    let disk = Disk::with_options(&executor, bench.disk.contents(), options);
    let clock = executor.runtime().clock;
    let time = executor.block_on(async {
        let opened = open(disk.clone(), executor.runtime(), &OpenOptions::default()).await;
        let volume = Volume::new(opened.expect("it was stopped"));
        let begun = clock.now();
        for at in (0..SIZE).step_by(1 << 20) {
            let sealed = volume.files.read(&volume.root, file, at, 1 << 20).await;
            sealed.open().await.expect("running").into_inner().result.expect("it is there");
        }
        clock.now().since(begun)
    });
    let rate = SIZE as f64 / f64::from(1 << 20) / time.as_secs_f64();
    println!("a cold file: {rate:.1} MiB/s");
    assert!(rate > 140.0, "{rate}");
}

/// A file that was overwritten in four places, again and again, with a snapshot after each time if
/// `is_pinned`.
async fn aged(bench: &Bench, snapshots: u64, is_pinned: bool) -> ObjectId {
    let file = bench.file(bench.volume.files.root(), "aged", 64 << 20).await;
    let chance = Seeded::new(3);
    for number in 0..snapshots {
        for _ in 0..4 {
            bench.overwrite(file, chance.next_u64() % 8192, number as u8).await;
        }
        if is_pinned {
            let made = enginekit::snapshots::pin(&bench.volume, &format!("s{number}")).await;
            made.expect("there is room");
        }
    }
    file
}

/// Reopens a volume on a modern disk.
async fn opened_anew(executor: &Executor, image: Image) -> (Rc<Disk>, Volume<Shadow>) {
    let options = Options { timing: presets::SATA_7200, ..Options::default() };
    let disk = Disk::with_options(executor, image, options);
    let opened = open(disk.clone(), executor.runtime(), &OpenOptions::default()).await;
    (disk, Volume::new(opened.expect("it is well")))
}

/// Deletes snapshots; returns the reads for that, and the number of units that became free.
async fn deleted(disk: &Disk, volume: &Volume<Shadow>, names: &[String]) -> (u64, u64) {
    let (free, before) = (volume.space().await.free_bytes, disk.counters().reads);
    for name in names {
        enginekit::snapshots::delete(volume, name, true).await.expect("nothing fails");
    }
    volume.settle().await;
    let freed = (volume.space().await.free_bytes - free) / 4096;
    (disk.counters().reads - before, freed)
}

/// The cost of opening a volume with a thousand snapshots, and the reads of deletions: of a hundred
/// that hold little, and of one that holds a large file.
fn openings_and_deletions(image: Image) {
    let executor = Executor::new(1);
    let image = executor.block_on(async {
        let clock = executor.runtime().clock;
        let begun = clock.now();
        let (disk, volume) = opened_anew(&executor, image).await;
        let (ready, reads) = (clock.now().since(begun), disk.counters().reads);
        println!("ready after {ready:?} and {reads} reads");
        assert!(ready < Duration::from_millis(520), "read side by side: {ready:?}");
        let all = volume.files.snapshots().expect("it has them").list();
        assert_eq!(all.open().await.expect("running").into_inner().len(), 1000);
        let names: Vec<String> = (5..1000).step_by(10).map(|number| format!("s{number}")).collect();
        let (reads, freed) = deleted(&disk, &volume, &names).await;
        println!("100 deletions of little: {reads} reads for {freed} units");
        let file = volume.lookup(volume.files.root(), "aged").await.expect("it is there");
        for name in ["before", "large"] {
            for at in (0..64 << 20).step_by(1 << 20) {
                let data = vec![5; 1 << 20];
                volume.write(file, at, data, Stability::Unstable).await.expect("there is room");
            }
            volume.commit(file).await.expect("there is room");
            enginekit::snapshots::pin(&volume, name).await.expect("there is room");
        }
        volume.remove(volume.files.root(), "aged").await.expect("it is there");
        volume.settle().await;
        disk.contents()
    });
    executor.block_on(async {
        let (disk, volume) = opened_anew(&executor, image).await;
        let (reads, freed) = deleted(&disk, &volume, &["large".to_owned()]).await;
        println!("a deletion of much: {reads} reads for {freed} units");
        assert!(freed > 16_000 && reads * 50 < freed, "{reads} for {freed}");
    });
}

#[test]
fn a_thousand_snapshots_cost_little() {
    let calls = 400;
    let mut times = Vec::new();
    for is_pinned in [false, true] {
        let bench = Bench::new(1 << 30);
        let (file, made) = bench.cost(1000, aged(&bench, 1000, is_pinned));
        let chance = Seeded::new(9);
        let ((), written) = bench.cost(calls, async {
            for call in 0..calls {
                bench.overwrite(file, chance.next_u64() % 8192, call as u8).await;
            }
        });
        let ((), created) = bench.cost(calls, async {
            for call in 0..calls {
                bench.create(call).await;
            }
        });
        let what = if is_pinned { "1,000 snapshots" } else { "no snapshots" };
        made.tell(&format!("four overwrites, {what}"));
        written.tell(&format!("overwrite, {what}"));
        created.tell(&format!("CREATE, {what}"));
        times.push(written.time + created.time);
        if is_pinned {
            openings_and_deletions(bench.disk.contents());
        }
    }
    let part = times[0].as_secs_f64() / times[1].as_secs_f64();
    println!("speed with 1,000 snapshots: {part:.3} of that without");
    assert!(part > 0.95, "{part}");
}
