//! A log that is filled over and over: room is made all the time, and no caller waits long for it.
//!
//! Time is virtual, so the longest wait is exact. `DURAMEN_RUNS` sets how often the log is filled.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::Verb;
use ffs::policy::log::LogOptions;
use ffs::{Files, OpenOptions};
use futures::future::join_all;
use journal::format::SMALLEST;
use namespace::Namespace;
use runtime::{Clock, Timestamp};
use sim::{Disk, Effect, Executor, Fault, Image, Options, presets};
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::{FileSystem, Requester, Stability};

use crate::common::cutting::{Pair, judge};
use crate::common::volume::{Volume, open_with_log};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const CLIENTS: u32 = 32;

fn fills() -> u64 {
    std::env::var("DURAMEN_RUNS").map_or(2, |text| text.parse().expect("a number"))
}

async fn opened(executor: &Executor, disks: &Pair<Rc<Disk>>) -> (Volume, Rc<Files>) {
    let options = OpenOptions { log: LogOptions::default(), ..OpenOptions::default() };
    let log = disks.log.clone().expect("it has one");
    let (home, runtime) = (disks.home.clone(), executor.runtime());
    let opened = open_with_log(home, Some(log), runtime, &options, &mut |_| ()).await;
    let engine = opened.unwrap_or_else(|error| panic!("{error}")).files;
    let files = Namespace::new(engine.clone());
    (Volume { files, root: Requester::root() }, engine)
}

/// The longest duration of an operation.
struct Longest(Cell<Duration>);

impl Longest {
    async fn of<T>(&self, clock: &dyn Clock, work: impl Future<Output = T>) -> T {
        let start = clock.now();
        let done = work.await;
        self.0.set(self.0.get().max(clock.now().since(start)));
        done
    }
}

#[test]
fn a_small_log_is_filled_over_and_over_without_a_stall() {
    let executor = Executor::new(5);
    let options = Options { timing: presets::SATA_SSD, ..Options::default() };
    let sizes = Pair { home: 256 << 20, log: Some((8 << 20) + (64 << 10)) };
    let disks = sizes.map(|&size| Disk::with_options(&executor, Image::zeroed(size), options));
    let runtime = executor.runtime();
    let clock = &*runtime.clock;
    let longest = Longest(Cell::default());
    executor.block_on(async {
        let random = &*runtime.random;
        mkfs(&*disks.home, &MkfsOptions::default(), random, NOW).await.expect("it is large enough");
        let (volume, engine) = opened(&executor, &disks).await;
        let root = volume.files.root();
        let statistics = || engine.engine().log_statistics().expect("there is a log");
        let target = fills() * statistics().capacity;
        let (volume, longest) = (&volume, &longest);
        let work = (0..CLIENTS).map(|client| async move {
            let own = volume.mkdir(root, &format!("client-{client}")).await.expect("new");
            let mut serial = 0;
            while statistics().writes.bytes < target {
                serial += 1;
                let text = format!("file-{serial}");
                let made = longest.of(clock, volume.create(own, &text)).await.expect("room");
                let write = volume.write(made, 0, vec![serial as u8; 1024], Stability::FileSync);
                longest.of(clock, write).await.expect("room");
                if serial > 20 {
                    let old = format!("file-{}", serial - 20);
                    longest.of(clock, volume.remove(own, &old)).await.expect("it is there");
                }
            }
        });
        join_all(work).await;
        let statistics = statistics();
        println!(
            "{} entries in {} batches, {} MiB of log, {} syncs; the longest operation took {:?}",
            statistics.writes.entries,
            statistics.writes.batches,
            statistics.writes.bytes >> 20,
            statistics.syncs,
            longest.0.get()
        );
        volume.files.shutdown().await.expect("a clean stop");
    });
    assert!(longest.0.get() <= Duration::from_millis(100), "{:?}", longest.0.get());
    judge(&disks.home, "log-room").unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// A volume with a log of the smallest size, under an executor of its own.
async fn small(executor: &Executor) -> (Volume, Rc<Files>, Pair<Rc<Disk>>) {
    let sizes = Pair { home: 32 << 20, log: Some(SMALLEST) };
    let disks = sizes.map(|&size| Disk::new(executor, Image::zeroed(size)));
    let runtime = executor.runtime();
    mkfs(&*disks.home, &MkfsOptions::default(), &*runtime.random, NOW).await.expect("it fits");
    let (volume, engine) = opened(executor, &disks).await;
    (volume, engine, disks)
}

/// Makes `writes` writes while the disk is slow; then everything is written in place, and another
/// write wants room. Returns how long it waits for that; `None` if one of the first had to wait for
/// the disk.
fn room_after(writes: u64) -> Option<Duration> {
    const SLOW: Duration = Duration::from_secs(3600);
    let executor = Executor::new(writes);
    let clock = executor.runtime().clock;
    let filled = async {
        let (volume, _, disks) = small(&executor).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        volume.write(id, 0, vec![1; 8192], Stability::FileSync).await.expect("room");
        volume.settle().await;
        disks.home.inject(Fault::on(Verb::Flush, Effect::Slow(SLOW)).forever());
        for number in 0..writes {
            let data = vec![number as u8 + 2; 8192];
            volume.write(id, 0, data, Stability::FileSync).await.expect("room");
        }
        (volume, id, disks)
    };
    let (volume, id, disks) = executor.block_on_for(SLOW / 2, filled)?;
    let wanted = async {
        volume.settle().await;
        disks.home.heal();
        let start = clock.now();
        volume.write(id, 0, vec![9; 8192], Stability::FileSync).await.expect("room");
        clock.now().since(start)
    };
    let took = executor.block_on_for(10 * SLOW, wanted);
    Some(took.unwrap_or_else(|| panic!("{writes} writes, and no room comes after them")))
}

/// The last entry names a head that is obsolete, and no entry is about to name another.
#[test]
fn room_that_nothing_holds_any_more_is_given_when_somebody_wants_it() {
    let fitting = (1..).take_while(|&writes| room_after(writes).is_some()).count() as u64;
    assert!(fitting > 8, "{fitting} writes fill the log");
    let took = room_after(fitting).expect("as before");
    assert!(took < Duration::from_millis(100), "after {fitting} writes: {took:?}");
}

#[test]
fn the_sync_rests_between_its_rounds_unless_somebody_waits_for_it() {
    let executor = Executor::new(5);
    let clock = executor.runtime().clock;
    executor.block_on(async {
        let (volume, engine, _) = small(&executor).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        volume.settle().await;
        let syncs = || engine.engine().log_statistics().expect("there is a log").syncs;
        let before = syncs();
        for number in 0..200 {
            volume.write(id, 0, vec![number; 100], Stability::FileSync).await.expect("room");
            clock.sleep(Duration::from_millis(100)).await;
        }
        let rounds = syncs() - before;
        assert!((3..=5).contains(&rounds), "{rounds} rounds in 20 s");
        volume.write(id, 0, vec![7; 100], Stability::FileSync).await.expect("room");
        let start = clock.now();
        volume.settle().await;
        let took = clock.now().since(start);
        assert!(took < Duration::from_millis(100), "it was waited for during {took:?}");
    });
}
