//! The designs that a volume can have.

use futures::FutureExt;
use ufs2::mark::PolicyKind;

use crate::design::{Design, DiskRole};
use crate::table::Table;
use crate::{of_ffs, of_lfs, of_shadow};

/// Every design that a volume can have.
pub static DESIGNS: Table = Table::new(&[&FFS_LOG, &FFS_SYNC, &FFS_SOFTDEP, &SHADOW, &LFS]);

/// UFS2 with a redo log.
pub static FFS_LOG: Design = Design {
    engine: "ffs",
    policy: Some("log"),
    about: "Write each change to a redo log first and in place later; replay the log after a crash",
    mark: Some(PolicyKind::Log),
    disks: &[DiskRole::Volume, DiskRole::Log],
    after_crash: "every acknowledged change is there. Any other change is there completely or not \
                  at all, except that each sector of a WRITE over old data may be old or new",
    retry: "a call that must not run twice gets its original reply",
    keeps_intents: false,
    remembers: true,
    may_stop_between: false,
    keeps_order: true,
    keeps_history: true,
    checks_first: false,
    repairs: true,
    counts_all: true,
    waits: false,
    has_snapshots: false,
    work: Some(of_ffs::work(|disks, runtime, options, progress| {
        of_ffs::open(PolicyKind::Log, disks, runtime, options, progress).boxed_local()
    })),
};

/// UFS2 with ordered writes.
pub static FFS_SYNC: Design = ORDERED;

/// UFS2 with soft updates.
pub static FFS_SOFTDEP: Design = Design {
    policy: Some("softdep"),
    about: "Soft updates: write in place, each change after those it depends on; after a crash, \
            serve at once and reclaim leaked space in the background",
    mark: Some(PolicyKind::SoftUpdates),
    keeps_order: false,
    checks_first: false,
    waits: true,
    work: Some(of_ffs::work(|disks, runtime, options, progress| {
        of_ffs::open(PolicyKind::SoftUpdates, disks, runtime, options, progress).boxed_local()
    })),
    ..ORDERED
};

/// The engine that never overwrites live data.
pub static SHADOW: Design = Design {
    engine: "shadow",
    policy: None,
    about: "Copy-on-write with checksums and snapshots: commit changes in groups; after a crash, \
            serve the last committed state at once",
    mark: None,
    disks: &[DiskRole::Volume],
    after_crash: "every acknowledged change is there. Any other change, including a WRITE over old \
                  data, is there completely or not at all",
    retry: "a call that must not run twice gets its original reply",
    keeps_intents: false,
    remembers: true,
    may_stop_between: false,
    keeps_order: true,
    keeps_history: true,
    checks_first: false,
    repairs: false,
    counts_all: false,
    waits: false,
    has_snapshots: true,
    work: Some(of_shadow::WORK),
};

/// The engine whose disk is a log.
pub static LFS: Design = Design {
    engine: "lfs",
    policy: None,
    about: "Log-structured: write everything at the end of a log, in whole segments, and clean \
            old ones; after a crash, go on from the last checkpoint and the log behind it",
    mark: None,
    disks: &[DiskRole::Volume],
    after_crash: "every acknowledged change is there. Any other change, including a WRITE over old \
                  data, is there completely or not at all",
    retry: "a call that must not run twice gets its original reply",
    keeps_intents: false,
    remembers: true,
    may_stop_between: false,
    keeps_order: true,
    keeps_history: true,
    checks_first: false,
    repairs: false,
    counts_all: false,
    waits: false,
    has_snapshots: true,
    work: Some(of_lfs::WORK),
};

/// A design that writes in place, and is checked after a crash.
const ORDERED: Design = Design {
    engine: "ffs",
    policy: Some("sync"),
    about: "Write in place in a crash-safe order, with a flush between steps; check the volume \
            after a crash",
    mark: Some(PolicyKind::Sync),
    disks: &[DiskRole::Volume],
    after_crash: "every acknowledged change is there. Other changes may be there in part: a file \
                  that was being renamed may have both names, and a large file that was being \
                  truncated may have any length in between",
    retry: "a call that must not run twice gets its original reply, from a file beside the disk. \
            Without that file it runs again: creating a name may report that it exists, and \
            removing one that it does not",
    keeps_intents: true,
    remembers: false,
    may_stop_between: true,
    keeps_order: true,
    keeps_history: false,
    checks_first: true,
    repairs: true,
    counts_all: true,
    waits: false,
    has_snapshots: false,
    work: Some(of_ffs::work(|disks, runtime, options, progress| {
        of_ffs::open(PolicyKind::Sync, disks, runtime, options, progress).boxed_local()
    })),
};
