//! The undamaged log: intact, of a volume whose use was cut.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ffs::policy::log::LogOptions;
use ffs::{Disks, OpenOptions, PolicyKind, open};
use journal::format::{AREA, UNIT};
use journal::{Walker, find, peek};
use namespace::Namespace;
use sim::{Disk, Executor, Image};
use ufs2::layout::Geometry;
use vfs::{CreateHow, FileSystem, Requester, SetAttributes, Stability};

use crate::targets::volume::{self, name};

/// Both disks, and the locations in the log.
pub(super) struct Sample {
    pub(super) home: Image,
    pub(super) log: Image,
    pub(super) geometry: Geometry,
    pub(super) epoch: u64,
    /// Start, length in bytes and number of records of each entry.
    pub(super) entries: Vec<(u64, u64, u64)>,
}

/// Runs `look` on this thread's sample.
pub(super) fn with<T>(look: impl FnOnce(&Sample) -> T) -> T {
    thread_local! {
        static SAMPLE: OnceCell<Sample> = const { OnceCell::new() };
    }
    SAMPLE.with(|sample| look(sample.get_or_init(make)))
}

fn make() -> Sample {
    let executor = Executor::new(1);
    let home = volume::small(&executor);
    let log = Disk::new(&executor, Image::zeroed(AREA + (2 << 20)));
    executor.block_on(work(&executor, home.clone(), log.clone()));
    executor.crash();
    survey(home.contents(), log.contents())
}

/// A little of everything; none of it is written in place.
async fn work(executor: &Executor, home: Rc<Disk>, log: Rc<Disk>) {
    let never = Duration::from_secs(1 << 20);
    let log_options = LogOptions { sync_interval: never, ..LogOptions::default() };
    let options = OpenOptions { log: log_options, ..OpenOptions::default() };
    let (disks, runtime) = (Disks::with_log(home, log), executor.runtime());
    let opened = open(PolicyKind::Log, disks, runtime, &options, &mut |_| ()).await;
    let files = Namespace::new(opened.unwrap_or_else(|error| panic!("{error}")).files);
    let (who, root) = (Requester::root(), files.root());
    let attributes = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    let made = files.mkdir(&who, root, &name("one"), attributes).await.open().await;
    let one = made.expect("running").into_inner().result.expect("room").id;
    for (index, size) in [0, 100, 5000, 30_000, 60_000, 200_000].into_iter().enumerate() {
        let how = CreateHow::Guarded(SetAttributes::default());
        let parent = [root, one][index % 2];
        let text = name(&format!("file-{index}"));
        let made = files.create(&who, parent, &text, how).await.open().await;
        let id = made.expect("running").into_inner().result.expect("room").id;
        for part in [1, 2] {
            let data = vec![Bytes::from(vec![b'd'; size / part])];
            let written = files.write(&who, id, 0, data, Stability::FileSync).await.open().await;
            written.expect("running").into_inner().result.expect("room");
        }
    }
    for (parent, text) in [(root, "file-0"), (one, "file-1"), (one, "file-5")] {
        let removed = files.remove(&who, parent, &name(text)).await.open().await;
        removed.expect("running").into_inner().result.expect("it is there");
    }
    let made = files.mkdir(&who, root, &name("two"), attributes).await.open().await;
    made.expect("running").into_inner().result.expect("room");
    let removed = files.rmdir(&who, root, &name("two")).await.open().await;
    removed.expect("running").into_inner().result.expect("it is empty");
}

/// Locates all structures.
fn survey(home: Image, log: Image) -> Sample {
    let geometry = volume::geometry_of(&home);
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, log.clone());
    let (epoch, entries) = executor.block_on(async {
        let slot = peek(&*disk).await.expect("readable").expect("our own log");
        let epoch = slot.epoch.get();
        let live = find(&*disk, epoch).await.expect("whole").expect("of its own epoch");
        let mut walker = Walker::new(&*disk, live.slot, live.head);
        let mut entries = Vec::new();
        while let Some(entry) = walker.next().await.expect("readable") {
            let header = &entry.header;
            let at = AREA + entry.recno() * UNIT % live.slot.capacity.get();
            entries.push((at, header.size.get().into(), header.records.get().into()));
        }
        (epoch, entries)
    });
    assert!(entries.len() > 20, "{} entries", entries.len());
    Sample { home, log, geometry, epoch, entries }
}
