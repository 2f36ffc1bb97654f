//! What soft updates count, and what can be set of them.

use std::rc::Rc;
use std::time::Duration;

use ffs::policy::SoftUpdatesCounts;
use ffs::policy::softdep::SoftUpdatesOptions;
use ffs::{Disks, OpenOptions, PolicyKind, open};
use runtime::{Clock, Timestamp};
use sim::{Disk, Executor, Image};
use ufs2::mkfs::mkfs;
use vfs::{CreateHow, Delayed, FileSystem, ObjectId, SetAttributes};

use crate::common::cutting::sizes;
use crate::common::volume::{Volume, name};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

/// A new volume with soft updates, and its clock.
struct Counting {
    volume: Volume,
    clock: Rc<dyn Clock>,
    root: ObjectId,
}

impl Counting {
    /// Makes and opens one, and does something with it.
    fn with(softdep: SoftUpdatesOptions, test: impl AsyncFnOnce(Self)) {
        let executor = Executor::new(3);
        let disk = Disk::new(&executor, Image::zeroed(16 << 20));
        executor.block_on(async {
            let runtime = executor.runtime();
            mkfs(&*disk, &sizes(4096, 512), &*runtime.random, NOW).await.expect("it fits");
            let options = OpenOptions { softdep, cache_bytes: 8 << 20, ..OpenOptions::default() };
            let clock = runtime.clock.clone();
            let disks = Disks::alone(disk.clone());
            let opened = open(PolicyKind::SoftUpdates, disks, runtime, &options, &mut |_| ()).await;
            let volume = Volume::new(opened.expect("it is clean").files);
            let root = volume.files.root();
            test(Self { volume, clock, root }).await;
        });
    }

    fn counts(&self) -> SoftUpdatesCounts {
        self.volume.files.store().engine().soft_updates().expect("it has them")
    }

    /// Makes a file, and waits until that is durable or not.
    async fn create(&self, file: &str, waits: bool) {
        let (files, who) = (&self.volume.files, &self.volume.root);
        let how = CreateHow::Guarded(SetAttributes::default());
        let sealed = files.create(who, self.root, &name(file), how).await;
        let made = if waits {
            sealed.open().await.expect("the disk is good").into_inner()
        } else {
            sealed.accept(Delayed::declared()).expect("running").into_inner()
        };
        made.result.expect("it can be made");
    }

    /// Removes a file, and does not wait.
    async fn remove(&self, file: &str) {
        let (files, who) = (&self.volume.files, &self.volume.root);
        let sealed = files.remove(who, self.root, &name(file)).await;
        let gone = sealed.accept(Delayed::declared()).expect("running").into_inner();
        gone.result.expect("it is there");
    }

    async fn pass(&self, time: Duration) {
        self.clock.sleep(time).await;
    }
}

#[test]
fn a_write_is_sync_if_a_caller_waits_for_it() {
    Counting::with(SoftUpdatesOptions::default(), async |here: Counting| {
        assert_eq!(here.counts(), SoftUpdatesCounts::default());
        here.create("awaited", true).await;
        let after = here.counts();
        assert!(after.sync_writes >= 3 && after.flushes >= 2, "{after:?}");
        assert_eq!((after.async_writes, after.waits, after.pending), (0, 1, 0), "{after:?}");
        assert_eq!((after.pending_bytes, after.oldest_ms), (0, 0), "{after:?}");

        here.create("left", false).await;
        here.pass(Duration::from_millis(1500)).await;
        let pending = here.counts();
        assert!(pending.pending >= 1 && pending.pending_bytes > 0, "{pending:?}");
        assert_eq!(pending.oldest_ms, 1500);
        here.pass(Duration::from_secs(60)).await;
        let old = here.counts();
        assert_eq!((old.sync_writes, old.waits), (after.sync_writes, 1), "{old:?}");
        assert!(old.async_writes >= 2 && old.flushes > after.flushes, "{old:?}");
        assert_eq!((old.pending, old.pending_bytes, old.oldest_ms), (0, 0, 0), "{old:?}");
    });
}

#[test]
fn a_stop_waits_for_what_it_writes() {
    Counting::with(SoftUpdatesOptions::default(), async |here: Counting| {
        here.create("left", false).await;
        here.volume.files.shutdown().await.expect("the disk is good");
        let counts = here.counts();
        assert!(counts.sync_writes >= 3 && counts.async_writes == 0, "{counts:?}");
        assert_eq!(counts.waits, 0, "no reply waited: {counts:?}");
    });
}

#[test]
fn what_is_undone_and_what_is_cancelled_is_counted() {
    Counting::with(SoftUpdatesOptions::default(), async |here: Counting| {
        here.create("old", true).await;
        here.create("short", false).await;
        assert_eq!(here.counts().cancelled, 0);
        here.remove("short").await;
        assert_eq!(here.counts().cancelled, 2, "a name came and went");
        let before = here.counts();
        here.remove("old").await;
        assert_eq!(here.counts().cancelled, before.cancelled, "that one is on the disk");
        // The old inode goes after its name: until then that is undone where the new one stands.
        here.create("new", true).await;
        assert!(here.counts().rollbacks > before.rollbacks, "{:?}", here.counts());
    });
}

#[test]
fn changes_wait_as_long_as_is_set() {
    let pending_after = |inode, file| {
        let mut options = SoftUpdatesOptions::default();
        let second = Duration::from_secs(1);
        (options.ages.inode, options.ages.directory, options.ages.file) =
            (inode * second, inode * second, file * second);
        let mut pending = 0;
        Counting::with(options, async |here: Counting| {
            here.create("left", false).await;
            here.pass(Duration::from_secs(8)).await;
            pending = here.counts().pending;
        });
        pending
    };
    assert_eq!(pending_after(1, 2), 0);
    assert_eq!(pending_after(100, 2), 0, "all of an Update is as old as the oldest may be");
    assert!(pending_after(100, 200) > 0);
}

#[test]
fn callers_wait_when_what_undoes_changes_has_the_memory_that_is_set() {
    let most = |memory| {
        let options = SoftUpdatesOptions { memory, ..SoftUpdatesOptions::default() };
        let mut most = 0;
        Counting::with(options, async |here: Counting| {
            for number in 0..200 {
                here.create(&format!("file{number}"), false).await;
                most = most.max(here.counts().pending_bytes);
            }
        });
        most
    };
    const LITTLE: usize = 16 << 10;
    let (little, usual) = (most(Some(LITTLE)), most(None));
    assert!(usual > 4 * LITTLE as u64, "{usual} bytes are none too many usually");
    assert!(little < 2 * LITTLE as u64, "{little} bytes are more than was set");
    assert_eq!(most(Some(usize::MAX)), usual, "half of the memory is enough for all");
}
