//! A task that settles a volume waits for changes made before it asked: reads, each of which
//! changes an access time, neither delay it nor keep the disk busy.

use std::rc::Rc;
use std::time::Duration;

use ffs::OpenOptions;
use futures::future::join;
use namespace::Namespace;
use runtime::{Instant, Timestamp};
use sim::{Disk, Executor, Image};
use ufs2::mkfs::mkfs;
use vfs::{FileSystem, ObjectId, Requester, Stability};

use crate::common::Seeded;
use crate::common::behind::POLICIES;
use crate::common::cutting::{Pair, after_cut, sizes};
use crate::common::volume::{Volume, open_with_log};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
/// Duration of the reading.
const READING: Duration = Duration::from_secs(11);
/// Pause between two reads.
const PAUSE: Duration = Duration::from_micros(40);

struct House {
    executor: Executor,
    disks: Pair<Rc<Disk>>,
}

impl House {
    fn new(has_log: bool) -> Self {
        let executor = Executor::new(5);
        let sizes = Pair { home: 16 << 20, log: has_log.then_some(4 << 20) };
        let disks = sizes.map(|&size| Disk::new(&executor, Image::zeroed(size)));
        Self { executor, disks }
    }

    async fn new_volume(&self) -> Volume {
        mkfs(&*self.disks.home, &sizes(4096, 512), &Seeded::new(7), NOW).await.expect("it fits");
        self.open().await
    }

    async fn open(&self) -> Volume {
        let log = self.disks.log.clone().map(|log| log as Rc<dyn block::BlockDevice>);
        let (home, options) = (self.disks.home.clone(), OpenOptions::default());
        let runtime = self.executor.runtime();
        let opened = open_with_log(home, log, runtime, &options, &mut |_| ()).await;
        let engine = opened.unwrap_or_else(|error| panic!("{error}")).files;
        Volume { files: Namespace::new(engine), root: Requester::root() }
    }

    fn now(&self) -> Instant {
        self.executor.runtime().clock.now()
    }

    /// Reads a file again and again.
    async fn read_on(&self, volume: &Volume, file: ObjectId) {
        let start = self.now();
        while self.now().since(start) < READING {
            volume.read(file).await.expect("it can be read");
            self.executor.runtime().clock.sleep(PAUSE).await;
        }
    }
}

async fn file(volume: &Volume, text: &str) -> ObjectId {
    let id = volume.create(volume.files.root(), text).await.expect("new");
    volume.write(id, 0, vec![1; 8192], Stability::FileSync).await.expect("room");
    id
}

/// Flushes of the volume's disk during the reading.
fn flushes_while_reading(has_log: bool) -> u64 {
    let house = House::new(has_log);
    house.executor.block_on(async {
        let volume = house.new_volume().await;
        let id = file(&volume, "read").await;
        volume.settle().await;
        let before = house.disks.home.counters();
        house.read_on(&volume, id).await;
        house.disks.home.counters().since(&before).flushes
    })
}

/// UNSTABLE bytes still in memory after another task has read for a long time.
fn unstable_after_reading(has_log: bool) -> u64 {
    let house = House::new(has_log);
    house.executor.block_on(async {
        let volume = house.new_volume().await;
        let (read, written) = (file(&volume, "read").await, file(&volume, "written").await);
        let write = async {
            house.executor.runtime().clock.sleep(READING / 2).await;
            volume.write(written, 0, vec![2; 8192], Stability::Unstable).await.expect("room");
        };
        join(house.read_on(&volume, read), write).await;
        volume.files.store().unstable_bytes()
    })
}

#[test]
fn reads_without_a_pause_flush_no_more_than_the_housekeeping_asks_for() {
    for has_log in POLICIES {
        let flushes = flushes_while_reading(has_log);
        // Once every five seconds.
        assert!((1..=4).contains(&flushes), "log: {has_log}: {flushes} flushes");
    }
}

#[test]
fn unstable_data_comes_home_while_somebody_reads_without_a_pause() {
    for has_log in POLICIES {
        assert_eq!(unstable_after_reading(has_log), 0, "log: {has_log}");
    }
}

/// Access times of reads just before the stop, and of ones during a settle.
#[test]
fn a_clean_stop_brings_the_last_access_times_home() {
    for has_log in POLICIES {
        let house = House::new(has_log);
        let (id, expected) = house.executor.block_on(async {
            let volume = house.new_volume().await;
            let id = file(&volume, "read").await;
            volume.settle().await;
            let settling = volume.settle();
            let reading = async {
                volume.read(id).await.expect("it can be read");
                house.executor.runtime().clock.sleep(PAUSE).await;
                volume.read(id).await.expect("it can be read");
            };
            join(settling, reading).await;
            let sealed = volume.files.getattr(id).await.open().await.expect("running");
            let attributes = sealed.into_inner().expect("there");
            volume.files.shutdown().await.expect("it stops");
            (id, attributes)
        });
        let images = house.disks.map(|disk| disk.platter().durable_image());
        let (executor, disks) = after_cut(1, images);
        let house = House { executor, disks };
        let found = house.executor.block_on(async {
            let volume = house.open().await;
            let sealed = volume.files.getattr(id).await.open().await.expect("running");
            sealed.into_inner().expect("there")
        });
        assert_eq!(found.atime, expected.atime, "log: {has_log}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn settling_that_waits_for_later_reads_is_found() {
    use ffs::planted::{Bug, plant};

    plant(Some(Bug::EndlessSettling));
    let (flushes, unstable) = (flushes_while_reading(false), unstable_after_reading(false));
    plant(None);
    assert!(flushes > 100, "{flushes} flushes");
    assert!(unstable > 0, "UNSTABLE data came home");
}
