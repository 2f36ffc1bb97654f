//! Recoveries from the log that are interrupted themselves: after an unfinished clean stop, after a
//! replay without a subsequent start, after a kill.

use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Buffer, Durability, Geometry, Io};
use bytes::Bytes;
use ffs::policy::log::LogOptions;
use ffs::replay::Replayed;
use ffs::{LogUse, OpenOptions, replay_log};
use futures::FutureExt;
use futures::future::join_all;
use namespace::Namespace;
use runtime::{Runtime, Timestamp};
use sim::{Disk, Executor, Image, Machine, Trace};
use ufs2::mkfs::mkfs;
use vfs::{
    CallKey, CallOutcome, CreateHow, Credentials, FileSystem, ObjectId, Requester, SetAttributes,
    Stability,
};

use super::Seeded;
use super::cutting::{Cut, Pair, after_cut, every_cut, judge, random_cuts, sizes};
use super::reuse::without_sync;
use super::volume::{Volume, name, open_with_log};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

/// Opens a volume with these devices.
pub(crate) async fn open_devices(
    runtime: Runtime,
    home: Rc<dyn BlockDevice>,
    log: Rc<dyn BlockDevice>,
    log_options: LogOptions,
) -> Result<(Volume, Option<Replayed>), String> {
    let options = OpenOptions { log: log_options, ..OpenOptions::default() };
    let opened = open_with_log(home, Some(log), runtime, &options, &mut |_| ()).await;
    let opened = opened.map_err(|error| error.to_string())?;
    let volume = Volume { files: Namespace::new(opened.files), root: Requester::root() };
    Ok((volume, opened.replayed))
}

/// Opens a volume whose sync does not start by itself.
pub(crate) async fn open_pair(
    executor: &Executor,
    disks: &Pair<Rc<Disk>>,
) -> Result<(Volume, Option<Replayed>), String> {
    let log = disks.log.clone().expect("it has one");
    open_devices(executor.runtime(), disks.home.clone(), log, without_sync()).await
}

/// A new volume of `home` bytes with its log.
pub(crate) fn fresh(home: u64, log: u64) -> (Executor, Pair<Rc<Disk>>) {
    let images = Pair { home: Image::zeroed(home), log: Some(Image::zeroed(log)) };
    let (executor, disks) = after_cut(5, images);
    executor.block_on(async {
        mkfs(&*disks.home, &sizes(4096, 512), &Seeded::new(7), NOW).await.expect("it fits");
    });
    (executor, disks)
}

/// A caller whose call must be remembered.
pub(crate) fn caller(number: u32) -> Requester {
    let key = CallKey::new(&number.to_le_bytes()).expect("short");
    Requester { who: Credentials::root(), call: Some(Rc::new(key)) }
}

/// Remembered keys and answers, in an order of their own.
pub(crate) async fn told(volume: &Volume) -> Result<Vec<(Vec<u8>, CallOutcome)>, String> {
    let told = volume.files.take_remembered().open().await;
    let told = told.map_err(|error| error.to_string())?.into_inner();
    let one = |one: &vfs::LoggedReply| (one.answered.key.as_bytes().to_vec(), one.answered.outcome);
    let mut all: Vec<_> = told.iter().map(one).collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(all)
}

async fn lookup(volume: &Volume, text: &str) -> Result<ObjectId, String> {
    let found = volume.lookup(volume.files.root(), text).await;
    found.map_err(|error| format!("{text}: {error}"))
}

/// A file with a small piece in the log and a large one over it that is not logged.
struct Overwritten {
    executor: Executor,
    disks: Pair<Rc<Disk>>,
    volume: Volume,
    expected: Vec<u8>,
    answers: Vec<(Vec<u8>, CallOutcome)>,
    who: Requester,
}

impl Overwritten {
    fn new() -> Self {
        let (executor, disks) = fresh(16 << 20, 4 << 20);
        let who = caller(7);
        let mut expected = vec![0x11; 96 << 10];
        let (volume, answers) = executor.block_on(async {
            let (volume, _) = open_pair(&executor, &disks).await.expect("new");
            let file = volume.create(volume.files.root(), "file").await.expect("new");
            let all = expected.clone();
            volume.write(file, 0, all, Stability::FileSync).await.expect("room");
            volume.settle().await;
            let how = CreateHow::Guarded(SetAttributes { mode: Some(0o644), ..Default::default() });
            let made = volume.files.create(&who, volume.files.root(), &name("told"), how).await;
            let made = made.open().await.expect("running").into_inner();
            let found = made.result.expect("new");
            let done = CallOutcome {
                found: Some(found.id),
                attributes: Some(found.attributes),
                about: [made.about, Default::default()],
                has_failed: false,
            };
            for (byte, length) in [(1, 8192), (2, 24 << 10)] {
                let data = vec![byte; length];
                volume.write(file, 0, data, Stability::FileSync).await.expect("room");
                expected[..length].fill(byte);
            }
            let key = who.call.as_ref().expect("it has one").as_bytes().to_vec();
            (volume, vec![(key, done)])
        });
        Self { executor, disks, volume, expected, answers, who }
    }

    /// A clean stop; callers hold their keys until then.
    fn stop(&self) {
        assert!(self.who.call.is_some(), "its answer is wanted");
        self.executor.block_on(self.volume.files.shutdown()).expect("it stops");
    }

    /// Durable contents of the disks.
    fn images(&self) -> Pair<Image> {
        self.disks.map(|disk| disk.platter().durable_image())
    }

    /// Opens the disks that a cut left.
    fn judge(&self, images: Pair<Image>) -> Result<(), String> {
        let (executor, disks) = after_cut(1, images);
        executor.block_on(async {
            let (volume, _) = open_pair(&executor, &disks).await?;
            if told(&volume).await? != self.answers {
                return Err("what was told is not remembered".into());
            }
            let data = volume.read(lookup(&volume, "file").await?).await;
            let data = data.map_err(|error| error.to_string())?;
            match data.iter().zip(&self.expected).position(|(one, other)| one != other) {
                None if data.len() == self.expected.len() => {}
                wrong => return Err(format!("{} bytes, wrong at {wrong:?}", data.len())),
            }
            volume.files.shutdown().await.map_err(|error| error.to_string())
        })?;
        judge(&disks.home, "returns")
    }

    fn judge_all(&self, cuts: &[Cut]) -> Result<(), String> {
        cuts.iter().try_for_each(|cut| {
            let judged = cut.image().and_then(|images| self.judge(images));
            judged.map_err(|wrong| format!("{}: {wrong}", cut.label()))
        })
    }
}

/// A clean stop that is cut at every event, including between the closing slot of the log and the
/// superblock.
pub(crate) fn clean_stop_that_is_cut() -> Result<(), String> {
    let world = Overwritten::new();
    world.disks.map(|disk| disk.start_trace());
    world.stop();
    let traces = world.disks.map(|disk| disk.trace());
    world.judge_all(&every_cut(&traces, 1))
}

/// A process replays the log and closes it, but the volume keeps its mark. The process is cut at
/// every event, or finishes, or does it once more.
pub(crate) fn replay_that_nobody_goes_on_from() -> Result<(), String> {
    let world = Overwritten::new();
    let left = world.images();
    let replayed = |images: Pair<Image>| -> Result<(Pair<Trace>, Pair<Image>), String> {
        let (executor, disks) = after_cut(1, images);
        disks.map(|disk| disk.start_trace());
        let log = disks.log.clone().expect("it has one");
        let replay = replay_log(&*disks.home, &*log, NOW, LogUse::Replay);
        let replayed = executor.block_on(replay).map_err(|error| error.to_string())?;
        assert!(replayed.is_some(), "the volume bears the epoch");
        let durable = disks.map(|disk| disk.platter().durable_image());
        Ok((disks.map(|disk| disk.trace()), durable))
    };
    let (traces, once) = replayed(left)?;
    world.judge_all(&every_cut(&traces, 1))?;
    world.judge(once.clone())?;
    let (traces, twice) = replayed(once)?;
    world.judge_all(&every_cut(&traces, 2))?;
    world.judge(twice)
}

/// A log's device as in a kernel: through writes are in its cache first.
struct Cached(Rc<Disk>);

impl BlockDevice for Cached {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buffer: Buffer) -> Io<Buffer> {
        self.0.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> Io<()> {
        let disk = self.0.clone();
        let write = async move {
            disk.write(offset, data, Durability::Plain).await?;
            match durability {
                Durability::Plain => Ok(()),
                Durability::Through => disk.flush().await,
            }
        };
        write.boxed_local()
    }

    fn flush(&self) -> Io<()> {
        self.0.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Io<()> {
        self.0.discard(offset, length)
    }

    fn close(&self) -> Io<()> {
        self.0.close()
    }
}

async fn open_cached(
    runtime: Runtime,
    disks: &Pair<Rc<Disk>>,
) -> Result<(Volume, Option<Replayed>), String> {
    let log = Rc::new(Cached(disks.log.clone().expect("it has one")));
    open_devices(runtime, disks.home.clone(), log, without_sync()).await
}

/// The server is killed at work, with its last writes in caches; power fails during recovery, or
/// after it. Only whole Updates are there then.
pub(crate) fn kill_and_then_a_cut(seed: u64) -> Result<(), String> {
    let executor = Executor::new(seed);
    let machine = Machine::new(&executor);
    let disk = |size| Disk::in_machine(&machine, Image::zeroed(size), sim::Options::default());
    let disks = Pair { home: disk(16 << 20), log: Some(disk(4 << 20)) };
    let made = std::cell::Cell::new(0);
    let work = async |runtime: Runtime| {
        mkfs(&*disks.home, &sizes(4096, 512), &Seeded::new(7), NOW).await.expect("it fits");
        let (volume, _) = open_cached(runtime, &disks).await.expect("new");
        for number in 0.. {
            let text = format!("directory-{number}");
            volume.mkdir(volume.files.root(), &text).await.expect("new");
            made.set(number + 1);
        }
    };
    let until = Duration::from_micros(9_000 + seed * 37);
    assert!(executor.block_on_for(until, work(machine.runtime())).is_none(), "it goes on");
    machine.kill();
    executor.block_on(async {
        disks.home.reopen(&machine).await;
        disks.log.as_ref().expect("it has one").reopen(&machine).await;
    });
    disks.map(|disk| disk.start_trace());
    executor.block_on(open_cached(machine.runtime(), &disks))?;
    let traces = disks.map(|disk| disk.trace());
    for cut in random_cuts(&traces, seed, 25) {
        let wrong = |wrong: String| format!("killed after {until:?}, {}: {wrong}", cut.label());
        let (executor, disks) = after_cut(cut.seed, cut.image().map_err(wrong)?);
        let back = executor.block_on(async {
            let (volume, _) = open_pair(&executor, &disks).await?;
            for number in 0..made.get() {
                lookup(&volume, &format!("directory-{number}")).await?;
            }
            volume.files.shutdown().await.map_err(|error| error.to_string())
        });
        back.and_then(|()| judge(&disks.home, "killed")).map_err(wrong)?;
    }
    Ok(())
}

/// A long SETATTR has two answers. While the log goes on, and they are rewritten, the last one
/// counts.
pub(crate) fn two_answers_of_a_call() -> Result<(), String> {
    let (executor, disks) = fresh(48 << 20, 4 << 20);
    let who = caller(77);
    let snapshots = executor.block_on(async {
        let (volume, _) = open_pair(&executor, &disks).await.expect("new");
        let root = volume.files.root();
        let other = volume.create(root, "other").await.expect("new");
        let file = volume.create(root, "file").await.expect("new");
        for piece in 0..24 {
            let data = vec![1; 1 << 20];
            volume.write(file, piece << 20, data, Stability::Unstable).await.expect("room");
        }
        volume.settle().await;
        let size = SetAttributes { size: Some(1_000), ..SetAttributes::default() };
        let sealed = volume.files.setattr(&who, file, size, None).await;
        sealed.open().await.expect("running").into_inner().result.expect("done");
        let mut snapshots = Vec::new();
        for step in 0..260 {
            let data = vec![2; 1_500];
            volume.write(other, 0, data, Stability::FileSync).await.expect("room");
            if step % 20 == 0 {
                volume.settle().await;
            }
            if step > 90 {
                snapshots.push((step, disks.map(|disk| disk.platter().durable_image())));
            }
        }
        let statistics = volume.files.store().engine().log_statistics().expect("a log");
        assert!(statistics.answers.again > 1, "it was told again: {statistics:?}");
        snapshots
    });
    for (step, images) in snapshots {
        let (executor, disks) = after_cut(1, images);
        let told = executor.block_on(async {
            let (volume, _) = open_pair(&executor, &disks).await?;
            told(&volume).await
        })?;
        match &told[..] {
            [(_, done)] if done.about[0].after.is_some() => {}
            told => return Err(format!("after step {step}: {told:?}")),
        }
    }
    Ok(())
}

/// A volume that was used until its log is near its end, with many answers in it.
fn many_answers(log: u64) -> Pair<Image> {
    let (executor, disks) = fresh(32 << 20, log);
    executor.block_on(async {
        let (volume, _) = open_pair(&executor, &disks).await.expect("new");
        let file = volume.create(volume.files.root(), "file").await.expect("new");
        let written =
            || volume.files.store().engine().log_statistics().expect("a log").writes.bytes;
        let mut callers: Vec<Requester> = Vec::new();
        for round in 0.. {
            if written() > log - (3 << 16) {
                break;
            }
            volume.write(file, 0, vec![2; 12 << 10], Stability::FileSync).await.expect("room");
            if round % 40 == 0 {
                volume.settle().await;
            }
            if written() > log / 4 * 3 {
                let first = callers.len() as u32;
                callers.extend((0..60).map(|index| caller(first + index)));
                let calls = callers[first as usize..].iter().map(|who| {
                    let mode = Some(0o600);
                    let change = SetAttributes { mode, ..SetAttributes::default() };
                    volume.files.setattr(who, file, change, None)
                });
                for sealed in join_all(calls).await {
                    sealed.open().await.expect("running").into_inner().result.expect("done");
                }
            }
        }
        disks.map(|disk| disk.platter().durable_image())
    })
}

/// Recovery takes over many answers, at the end of the circle, over the segments in which the
/// previous epoch began; it is interrupted, and the next recovery is interrupted once more. All
/// answers are there each time.
pub(crate) fn answers_at_the_end_of_the_circle(cuts: u64) -> Result<usize, String> {
    let left = many_answers(8 << 20);
    let (executor, disks) = after_cut(1, left);
    disks.map(|disk| disk.start_trace());
    let expected = executor.block_on(async {
        let (volume, replayed) = open_pair(&executor, &disks).await?;
        assert!(replayed.is_some_and(|replayed| replayed.entries > 0), "it was cut");
        told(&volume).await
    })?;
    let traces = disks.map(|disk| disk.trace());
    let back = |label: String, images: Pair<Image>| -> Result<Pair<Trace>, String> {
        let (executor, disks) = after_cut(1, images);
        disks.map(|disk| disk.start_trace());
        executor.block_on(async {
            let (volume, _) = open_pair(&executor, &disks).await?;
            let told = told(&volume).await?;
            if told == expected {
                Ok(())
            } else {
                Err(format!("{label}: {} answers of {}", told.len(), expected.len()))
            }
        })?;
        Ok(disks.map(|disk| disk.trace()))
    };
    for cut in random_cuts(&traces, 3, cuts) {
        let traces = back(cut.label(), cut.image()?)?;
        for second in random_cuts(&traces, cut.seed, 1) {
            let label = format!("{}, then {}", cut.label(), second.label());
            back(label, second.image()?)?;
        }
    }
    // Another life behind the first one, and the same once more.
    back("at the end".into(), disks.map(|disk| disk.platter().durable_image()))?;
    Ok(expected.len())
}
