//! Metadata blocks that are freed and reused for file data, under policy `log`: their changes in
//! the log, and writes in flight to them, must not overwrite the data.

use std::rc::Rc;
use std::time::Duration;

use block::{BlockDevice, Verb};
use ffs::OpenOptions;
use ffs::policy::log::LogOptions;
use namespace::Namespace;
use runtime::Timestamp;
use sim::{Disk, Effect, Executor, Fault, Image};
use ufs2::mkfs::mkfs;
use vfs::{FileSystem, FsError, ObjectId, Requester, Stability};

use super::Seeded;
use super::cutting::{Pair, sizes};
use super::volume::{Volume, open_with_log};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const HOME: u64 = 4 << 20;
const LOG: u64 = 32 << 20;
/// Larger than the payload limit of an entry, and with an indirect block.
const LARGE: usize = 64 << 10;

/// Options for a sync that does not start by itself.
pub(crate) fn without_sync() -> LogOptions {
    LogOptions {
        sync_interval: Duration::from_secs(3600),
        sync_bytes: LOG,
        ..LogOptions::default()
    }
}

/// A volume with its log, under an executor of its own.
struct Setup {
    executor: Executor,
    disks: Pair<Rc<Disk>>,
    sync_interval: Duration,
}

impl Setup {
    fn new(images: Pair<Image>, sync_interval: Duration) -> Self {
        let executor = Executor::new(3);
        let disks = images.map(|image| Disk::new(&executor, image.clone()));
        Self { executor, disks, sync_interval }
    }

    async fn open(&self) -> Result<Volume, String> {
        let disks = self.disks.clone();
        let log = disks.log.map(|log| log as Rc<dyn BlockDevice>);
        let log_options = LogOptions {
            sync_interval: self.sync_interval,
            sync_bytes: LOG,
            ..LogOptions::default()
        };
        let options = OpenOptions { log: log_options, ..OpenOptions::default() };
        let runtime = self.executor.runtime();
        let opened = open_with_log(disks.home, log, runtime, &options, &mut |_| ()).await;
        let engine = opened.map_err(|error| error.to_string())?.files;
        Ok(Volume { files: Namespace::new(engine), root: Requester::root() })
    }

    async fn sleep(&self, duration: Duration) {
        self.executor.runtime().clock.sleep(duration).await;
    }
}

fn fresh(sync_interval: Duration) -> Setup {
    let images = Pair { home: Image::zeroed(HOME), log: Some(Image::zeroed(LOG)) };
    let setup = Setup::new(images, sync_interval);
    setup.executor.block_on(async {
        let random = Seeded::new(7);
        let made = mkfs(&*setup.disks.home, &sizes(4096, 512), &random, NOW).await;
        made.expect("the disk holds it");
    });
    setup
}

fn content(number: usize) -> Vec<u8> {
    (0..LARGE).map(|index| (index / 512 * 31 + number * 7) as u8 | 1).collect()
}

/// Makes directories with blocks of their own, and files with indirect blocks.
async fn plant_trees(volume: &Volume) -> Vec<ObjectId> {
    let root = volume.files.root();
    let mut directories = Vec::new();
    for number in 0..4 {
        let directory = volume.mkdir(root, &format!("tree-{number}")).await.expect("new");
        for leaf in 0..40 {
            let name = format!("a-leaf-with-a-rather-long-name-{leaf}");
            volume.create(directory, &name).await.expect("new");
        }
        directories.push(directory);
        let large = volume.create(root, &format!("large-{number}")).await.expect("new");
        let data = content(100 + number);
        volume.write(large, 0, data, Stability::FileSync).await.expect("there is room");
    }
    directories
}

async fn fell_trees(volume: &Volume, directories: &[ObjectId]) {
    let root = volume.files.root();
    for (number, &directory) in directories.iter().enumerate() {
        for leaf in 0..40 {
            let name = format!("a-leaf-with-a-rather-long-name-{leaf}");
            volume.remove(directory, &name).await.expect("it is there");
        }
        volume.rmdir(root, &format!("tree-{number}")).await.expect("it is empty");
        volume.remove(root, &format!("large-{number}")).await.expect("it is there");
    }
}

/// Makes files until there is no room; returns their number.
async fn fill(volume: &Volume) -> usize {
    let root = volume.files.root();
    for number in 0.. {
        let file = match volume.create(root, &format!("new-{number}")).await {
            Ok(file) => file,
            Err(FsError::NoSpace) => return number,
            Err(error) => panic!("{error}"),
        };
        match volume.write(file, 0, content(number), Stability::FileSync).await {
            Ok(()) => {}
            Err(FsError::NoSpace) => return number,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("a disk has an end")
}

async fn check(volume: &Volume, count: usize) -> Result<(), String> {
    let root = volume.files.root();
    for number in 0..count {
        let name = format!("new-{number}");
        let file = volume.lookup(root, &name).await.map_err(|error| format!("{name}: {error}"))?;
        let found = volume.read(file).await.map_err(|error| format!("{name}: {error}"))?;
        let expected = content(number);
        if found != expected {
            let at = found.iter().zip(&expected).position(|(one, other)| one != other);
            return Err(format!("{name} has other data at {at:?} of {}", found.len()));
        }
    }
    Ok(())
}

/// Metadata is logged and freed; the data that replaces it is not logged. Nothing was written in
/// place when power fails: the replay meets all of it.
pub(crate) fn replay_over_new_data() -> Result<(), String> {
    let setup = fresh(Duration::from_secs(3600));
    let count = setup.executor.block_on(async {
        let volume = setup.open().await?;
        let trees = plant_trees(&volume).await;
        fell_trees(&volume, &trees).await;
        setup.sleep(Duration::from_millis(200)).await; // until the large ones are freed
        Ok::<_, String>(fill(&volume).await)
    })?;
    assert!(count > 40, "{count} files fill the disk");
    let images = setup.disks.map(|disk| disk.contents());
    setup.executor.crash();
    let back = Setup::new(images, Duration::from_secs(3600));
    back.executor.block_on(async {
        let volume = back.open().await?;
        check(&volume, count).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })
}

/// Small delayed data, which the log has, is freed, and directories take its place. Then everything
/// delayed is written in place.
pub(crate) fn delays_over_new_directories() -> Result<(), String> {
    let setup = fresh(Duration::from_secs(3600));
    let directories = setup.executor.block_on(async {
        let volume = setup.open().await?;
        let root = volume.files.root();
        let filler = volume.create(root, "filler").await.expect("new");
        let piece = content(0);
        for number in 0.. {
            if volume.space().await.available_bytes < 400 << 10 {
                break; // so that small files take turns in the rest
            }
            let offset = number * LARGE as u64;
            let written = volume.write(filler, offset, piece.clone(), Stability::FileSync).await;
            written.expect("there is room");
        }
        let mut files = 0;
        while let Ok(file) = volume.create(root, &format!("small-{files}")).await {
            files += 1;
            if volume.write(file, 0, vec![0xaa; 4096], Stability::FileSync).await.is_err() {
                break;
            }
        }
        for number in 0..files {
            volume.remove(root, &format!("small-{number}")).await.expect("it is there");
        }
        setup.sleep(Duration::from_millis(200)).await;
        let mut directories = 0;
        while volume.mkdir(root, &format!("new-{directories}")).await.is_ok() {
            directories += 1;
        }
        assert!(files > 50 && directories > 200, "{files} files, {directories} directories");
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(directories)
    })?;
    let images = setup.disks.map(|disk| disk.contents());
    setup.executor.crash();
    let back = Setup::new(images, Duration::from_secs(3600));
    back.executor.block_on(async {
        let volume = back.open().await?;
        let root = volume.files.root();
        for number in 0..directories {
            let name = format!("new-{number}");
            let found = volume.lookup(root, &name).await.map_err(|e| format!("{name}: {e}"))?;
            let made = volume.create(found, "leaf").await;
            made.map(|_| ()).or_else(|error| match error {
                FsError::NoSpace => Ok(()),
                error => Err(format!("{name}: {error}")),
            })?;
        }
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })
}

/// The sync writes directories in place, slowly. Meanwhile they are removed, and their blocks are
/// needed for data.
pub(crate) fn landing_over_new_data() -> Result<(), String> {
    let setup = fresh(Duration::from_millis(400));
    setup.executor.block_on(async {
        let volume = setup.open().await?;
        let trees = plant_trees(&volume).await;
        let slow = Effect::Slow(Duration::from_secs(3));
        setup.disks.home.inject(Fault::on(Verb::Write, slow).forever());
        setup.sleep(Duration::from_millis(500)).await;
        setup.disks.home.heal(); // writes in flight stay slow
        fell_trees(&volume, &trees).await;
        setup.sleep(Duration::from_millis(200)).await;
        let count = fill(&volume).await;
        assert!(count > 40, "{count} files fill the disk");
        setup.sleep(Duration::from_secs(4)).await;
        check(&volume, count).await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())
    })
}
