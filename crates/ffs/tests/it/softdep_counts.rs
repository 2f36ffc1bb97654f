//! Counters and settings of soft updates.

use std::time::Duration;

use ffs::policy::SoftUpdatesCounts;
use ffs::policy::softdep::SoftUpdatesOptions;
use vfs::FileSystem;

use crate::common::cutting::sizes;
use crate::common::soft::{Setting, Soft};

/// A small volume.
fn with(options: SoftUpdatesOptions, test: impl AsyncFnOnce(&Soft)) {
    Soft::with(&Setting { options, make: sizes(4096, 512), megabytes: 16, cache: 8 << 20 }, test);
}

#[test]
fn a_write_is_sync_if_a_caller_waits_for_it() {
    with(SoftUpdatesOptions::default(), async |here: &Soft| {
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
    with(SoftUpdatesOptions::default(), async |here: &Soft| {
        here.create("left", false).await;
        here.volume.files.shutdown().await.expect("the disk is good");
        let counts = here.counts();
        assert!(counts.sync_writes >= 3 && counts.async_writes == 0, "{counts:?}");
        assert_eq!(counts.waits, 0, "no reply waited: {counts:?}");
    });
}

#[test]
fn what_is_undone_and_what_is_cancelled_is_counted() {
    with(SoftUpdatesOptions::default(), async |here: &Soft| {
        here.create("old", true).await;
        here.create("short", false).await;
        assert_eq!(here.counts().cancelled, 0);
        here.remove("short", false).await;
        let cancelled = here.counts().cancelled;
        assert!(cancelled >= 6, "a name, an inode and its bit came and went: {cancelled}");
        let before = here.counts();
        here.remove("old", false).await;
        assert_eq!(here.counts().cancelled, before.cancelled, "that one is on the disk");
        // The old inode goes after its name: until then that is undone in the block of the new one.
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
        with(options, async |here: &Soft| {
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
        with(options, async |here: &Soft| {
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
