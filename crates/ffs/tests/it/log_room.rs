//! A log that is filled over and over: room is made all the time, and nobody waits long for it.
//!
//! Time is virtual, so the longest wait is exact. `DURAMEN_FILLS` says how often the log is filled.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ffs::policy::log::LogOptions;
use ffs::{Ffs, OpenOptions, open_with_log};
use futures::future::join_all;
use namespace::Namespace;
use runtime::{Clock, Timestamp};
use sim::{Disk, Executor, Image, Options, presets};
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::{Author, FileSystem, Stability};

use crate::common::cutting::{Pair, judge};
use crate::common::volume::Volume;

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const CLIENTS: u32 = 32;

fn fills() -> u64 {
    std::env::var("DURAMEN_FILLS").map_or(2, |text| text.parse().expect("a number"))
}

async fn opened(executor: &Executor, disks: &Pair<Rc<Disk>>) -> (Volume, Rc<Ffs>) {
    let options = OpenOptions { log: LogOptions::default(), ..OpenOptions::default() };
    let log = disks.log.clone().expect("it has one");
    let (home, runtime) = (disks.home.clone(), executor.runtime());
    let opened = open_with_log(home, Some(log), runtime, &options, &mut |_| ()).await;
    let engine = opened.unwrap_or_else(|error| panic!("{error}")).engine;
    let files = Namespace::new(engine.clone());
    (Volume { files, root: Author::root() }, engine)
}

/// The longest that an operation took.
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
        let statistics = || engine.log_statistics().expect("there is a log");
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
