//! Large files that are being freed beside snapshots and busy clients, and going back to a snapshot
//! that holds such a file.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::BlockDevice;
use enginekit::Volume;
use enginekit::snapshots::{delete, pin, roll_back};
use futures::future::join3;
use runtime::Runtime;
use shadow::{OpenOptions, Shadow, look, open, set_label, set_reserve};
use sim::{Choice, Disk, Executor, Image, Latency, Options, Prng, Timing};
use vfs::{FileSystem, FsError, Stability};

use crate::bench::{Setting, findings, made, opened};

/// Size of the file to be removed: 40 steps of 256 blocks.
const LARGE: u64 = 40 << 20;
/// Size of a second one, removed while the first is being freed: two steps.
const SECOND: u64 = 2 << 20;
/// Time of a flush, of which each step takes one.
const FLUSH_MS: u64 = 200;

async fn written(volume: &Volume<Shadow>, text: &str, bytes: u64) {
    let file = volume.create(volume.files.root(), text).await.expect("it is new");
    for at in (0..bytes).step_by(1 << 20) {
        let data = vec![at as u8 | 1; 1 << 20];
        volume.write(file, at, data, Stability::Unstable).await.expect("there is room");
    }
    volume.commit(file).await.expect("there is room");
}

/// A stopped volume with two large files.
fn with_files(large: u64) -> Image {
    let executor = Executor::new(1);
    let setting = Setting::of(4, 256, (large + SECOND) * 5 / 4 + (4 << 20));
    let disk = executor.block_on(made(&executor, &setting));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        written(&volume, "large", large).await;
        written(&volume, "second", SECOND).await;
        volume.files.shutdown().await.expect("nothing fails");
    });
    disk.contents()
}

/// Looks names up and makes files, one after the other, until `is_done`. Returns the time of the
/// longest call.
async fn busy(volume: &Volume<Shadow>, runtime: &Runtime, is_done: &Cell<bool>) -> Duration {
    let (root, clock) = (volume.files.root(), &runtime.clock);
    let mut longest = Duration::ZERO;
    for number in 0.. {
        let before = clock.now();
        volume.create(root, &format!("new{number}")).await.expect("there is room");
        let between = clock.now();
        volume.lookup(root, "new0").await.expect("it is there");
        longest = longest.max(between.since(before)).max(clock.now().since(between));
        if is_done.get() {
            break;
        }
    }
    longest
}

/// A large file is removed; a moment later a snapshot is made, and after some seconds another large
/// file is removed. The longest call of a busy client, and the snapshot, take a few flushes.
pub(crate) fn callers_and_snapshots_wait_for_no_file_that_goes() -> Result<(), String> {
    let executor = Executor::new(2);
    let flush_ns = (FLUSH_MS * 1_000_000, FLUSH_MS * 1_000_000);
    let timing = Timing::Random(Latency { flush_ns, ..Latency::default() });
    let options = Options { timing, ..Options::default() };
    let disk = Disk::with_options(&executor, with_files(LARGE), options);
    let runtime = executor.runtime();
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let (root, clock, is_done) = (volume.files.root(), &runtime.clock, Cell::new(false));
        let begin = clock.now();
        volume.remove(root, "large").await.map_err(|error| error.to_string())?;
        let snapshot = async {
            let before = clock.now();
            pin(&volume, "then").await?;
            Ok::<_, String>(clock.now().since(before))
        };
        let removal = async {
            clock.sleep(Duration::from_millis(5500)).await;
            let before = clock.now();
            volume.remove(root, "second").await.map_err(|error| error.to_string())?;
            let took = clock.now().since(before);
            volume.settle().await;
            is_done.set(true);
            Ok::<_, String>(took)
        };
        let (pinned, removed, longest) =
            join3(snapshot, removal, busy(&volume, &runtime, &is_done)).await;
        let all = clock.now().since(begin);
        assert!(all > Duration::from_secs(7), "the file goes for {all:?}");
        for (what, took) in [("snapshot", pinned?), ("removal", removed?), ("call", longest)] {
            if took > Duration::from_millis(6 * FLUSH_MS) {
                return Err(format!("the longest {what} took {took:?}, beside a file that goes"));
            }
        }
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    findings(&disk.contents())
}

#[test]
fn a_file_that_is_being_freed_keeps_no_caller_and_no_snapshot_waiting() {
    assert_eq!(callers_and_snapshots_wait_for_no_file_that_goes(), Ok(()));
}

/// Opens an image, does some work, and stops it.
fn reopened(
    image: Image,
    work: impl AsyncFnOnce(&Volume<Shadow>) -> Result<(), String>,
) -> Result<Image, String> {
    findings(&image)?;
    let executor = Executor::new(3);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        work(&volume).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    findings(&disk.contents())?;
    Ok(disk.contents())
}

/// Bytes in use, without those of the root.
async fn used(volume: &Volume<Shadow>) -> u64 {
    let space = volume.space().await;
    space.total_bytes - space.free_bytes - 4096
}

/// Goes back to a snapshot, and frees its files without a name; then deletes it, and all remaining
/// files: nothing is in use. Returns whether the large file had lost its name in the snapshot.
fn goes_back(image: Image) -> Result<bool, String> {
    let mut is_gone = false;
    let image = reopened(image, async |volume| roll_back(volume, "then").await)?;
    reopened(image, async |volume| {
        volume.settle().await;
        let root = volume.files.root();
        is_gone = volume.lookup(root, "large").await.is_err();
        delete(volume, "then", true).await?;
        for text in ["large", "second"].iter().skip(usize::from(is_gone)) {
            volume.remove(root, text).await.map_err(|error| error.to_string())?;
        }
        volume.settle().await;
        let space = volume.space().await;
        let used = space.total_bytes - space.free_bytes;
        if used == 4096 { Ok(()) } else { Err(format!("{used} bytes are in use")) }
    })?;
    Ok(is_gone)
}

/// A snapshot is made at some moment after the removal of a large file began: at each of these
/// moments the power is cut, and the volume goes back to the snapshot.
pub(crate) fn going_back_frees_what_has_no_name() -> Result<(), String> {
    for delay_us in [0, 20, 50, 100, 200, 900, 2000] {
        let executor = Executor::new(1);
        let disk = Disk::new(&executor, with_files(6 << 20));
        disk.start_trace();
        executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await?;
            let (clock, root) = (executor.runtime().clock, volume.files.root());
            // An update is on its way: later changes go with the next, and so does the snapshot.
            let created = volume.create(root, "other");
            let removed = async {
                clock.sleep(Duration::from_micros(10)).await;
                volume.remove(root, "large").await
            };
            let pinned = async {
                clock.sleep(Duration::from_micros(delay_us)).await;
                pin(&volume, "then").await
            };
            let (created, removed, pinned) = join3(created, removed, pinned).await;
            created.map_err(|error| error.to_string())?;
            removed.map_err(|error| error.to_string())?;
            pinned?;
            disk.mark(sim::Mark::Number(1));
            volume.settle().await;
            Ok::<_, String>(())
        })?;
        let trace = disk.trace();
        let is_pinned = |position: &usize| trace.marks_before(*position).next().is_some();
        let first = (0..=trace.events().len()).find(is_pinned).expect("it was made");
        for position in (first..=trace.events().len()).step_by(9) {
            let platter = trace.platter_at(position);
            let image = platter.image(&Choice::random(&platter, &mut Prng::new(position as u64)));
            let is_gone = goes_back(image)
                .map_err(|wrong| format!("after {delay_us} us, event {position}: {wrong}"))?;
            assert!(is_gone || delay_us < 900, "it was removed, and then the snapshot was made");
        }
    }
    Ok(())
}

#[test]
fn a_file_without_a_name_that_a_snapshot_holds_is_freed_when_the_volume_goes_back() {
    assert_eq!(going_back_frees_what_has_no_name(), Ok(()));
}

/// A snapshot made just after an opening that continues to free a file from before.
#[test]
fn a_file_that_was_being_freed_before_an_opening_is_freed_as_well() {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, with_files(6 << 20));
    disk.start_trace();
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is well");
        volume.remove(volume.files.root(), "large").await.expect("it is there");
    });
    let trace = disk.trace();
    let platter = trace.platter_at(trace.events().len());
    let image = platter.image(&Choice::random(&platter, &mut Prng::new(1)));
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, image);
    disk.start_trace();
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is well");
        pin(&volume, "then").await.expect("there is room");
    });
    let trace = disk.trace();
    let platter = trace.platter_at(trace.events().len());
    let image = platter.image(&Choice::random(&platter, &mut Prng::new(2)));
    assert_eq!(goes_back(image), Ok(true));
}

/// A volume that was stopped while a large file was being freed, and the time that the stop took.
async fn stopped_amid(executor: &Executor, disk: &Rc<Disk>) -> Result<Duration, String> {
    let clock = executor.runtime().clock;
    let volume = opened(executor.runtime(), disk).await?;
    let large = volume.lookup(volume.files.root(), "large").await.expect("it is there");
    volume.remove(volume.files.root(), "large").await.map_err(|error| error.to_string())?;
    clock.sleep(Duration::from_millis(3 * FLUSH_MS)).await;
    let before = clock.now();
    volume.files.shutdown().await.map_err(|error| error.to_string())?;
    let took = clock.now().since(before);
    let told = volume.files.getattr(large).await.open().await.expect("running").into_inner();
    assert_eq!(told.err(), Some(FsError::Stale), "it is gone, as far as clients know");
    Ok(took)
}

/// A stop leaves large files that are being freed to the next start. Such a volume is clean: it can
/// be probed, checked, and opened read-only.
pub(crate) fn a_stop_leaves_files_that_go() -> Result<(), String> {
    let executor = Executor::new(2);
    let flush_ns = (FLUSH_MS * 1_000_000, FLUSH_MS * 1_000_000);
    let timing = Timing::Random(Latency { flush_ns, ..Latency::default() });
    let options = Options { timing, ..Options::default() };
    let disk = Disk::with_options(&executor, with_files(LARGE), options);
    let took = executor.block_on(stopped_amid(&executor, &disk))?;
    if took > Duration::from_millis(10 * FLUSH_MS) {
        return Err(format!("a stop took {took:?}, beside a file that goes"));
    }
    let image = disk.contents();
    findings(&image)?;
    let executor = Executor::new(3);
    let disk = Disk::new(&executor, image.clone());
    executor.block_on(async {
        assert!(look(&*disk).await.expect("it is well").is_at_rest);
        set_label(&*disk, "after").await.expect("it is at rest");
        let device: Rc<dyn BlockDevice> = disk.clone();
        set_reserve(&device, &executor.runtime(), 3).await.expect("it is at rest");
        assert!(look(&*disk).await.expect("it is well").is_at_rest, "once more");
    });
    findings(&disk.contents())?;
    let image = disk.contents();
    is_read(image.clone())?;
    reopened(image, async |volume| {
        volume.settle().await;
        match used(volume).await {
            SECOND => Ok(()),
            used => Err(format!("{used} bytes are in use, and one file is there")),
        }
    })
    .map(drop)
}

/// Opens a volume with a file without a name read-only: nothing is written.
fn is_read(image: Image) -> Result<(), String> {
    let executor = Executor::new(3);
    let disk = Disk::new(&executor, image.clone());
    executor.block_on(async {
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let opened = open(disk.clone(), executor.runtime(), &options).await;
        let volume = Volume::new(opened.map_err(|error| error.to_string())?);
        let names = volume.list(volume.files.root()).await.map_err(|error| error.to_string())?;
        assert_eq!(names, [".", "..", "second"]);
        let others = used(&volume).await - SECOND;
        assert!(others < LARGE / 100, "{others} bytes beside the file are counted");
        executor.runtime().clock.sleep(Duration::from_secs(5)).await;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })?;
    assert!(disk.contents() == image, "nothing is written");
    Ok(())
}

#[test]
fn a_stop_waits_for_no_file_that_is_being_freed() {
    assert_eq!(a_stop_leaves_files_that_go(), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn what_waits_for_files_that_go_is_found() {
    use vnode::planted::{Bug, plant};
    plant(Some(Bug::PatientStops));
    let stop = a_stop_leaves_files_that_go();
    plant(Some(Bug::PinsAwaitOrphans));
    let snapshot = callers_and_snapshots_wait_for_no_file_that_goes();
    plant(None);
    for found in [stop, snapshot] {
        println!("{}", found.expect_err("it is found"));
    }
}
