//! The designs that a volume can have.

use futures::FutureExt;
use ufs2::mark::PolicyKind;

use crate::design::{Design, DiskRole};
use crate::table::Table;
use crate::{of_ffs, of_shadow};

/// Every design that a volume can have.
pub static DESIGNS: Table = Table::new(&[&FFS_LOG, &FFS_SYNC, &FFS_SOFTDEP, &SHADOW]);

/// UFS2 with a redo log.
pub static FFS_LOG: Design = Design {
    engine: "ffs",
    policy: Some("log"),
    about: "Write each change once to a log beside the disk, and in place later; after a crash the \
            log is replayed",
    mark: Some(PolicyKind::Log),
    disks: &[DiskRole::Volume, DiskRole::Log],
    after_crash: "what was answered is there; any other change is there as a whole or not at all, \
                  but of a WRITE over old data each sector is old or new",
    retry: "a call that must not run twice gets the answer that it was given first",
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
    about: "Write in place, and let each change wait for those alone that it depends on; after a \
            crash serve at once, and reclaim meanwhile what it leaked",
    mark: Some(PolicyKind::SoftUpdates),
    keeps_order: false,
    checks_first: false,
    waits: true,
    work: Some(of_ffs::work(|disks, runtime, options, progress| {
        of_ffs::open(PolicyKind::SoftUpdates, disks, runtime, options, progress).boxed_local()
    })),
    ..ORDERED
};

/// The engine that never overwrites what is needed.
pub static SHADOW: Design = Design {
    engine: "shadow",
    policy: None,
    about: "Write each change to a free place, and make all changes that wait durable together; \
            after a crash the last state that is whole is served at once",
    mark: None,
    disks: &[DiskRole::Volume],
    after_crash: "what was answered is there; any other change is there as a whole or not at all, \
                  a WRITE over old data too",
    retry: "a call that must not run twice gets the answer that it was given first",
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

/// What writes in place, and is checked after a crash.
const ORDERED: Design = Design {
    engine: "ffs",
    policy: Some("sync"),
    about: "Write in place, in an order that a crash cannot hurt, with a flush between the ranks",
    mark: Some(PolicyKind::Sync),
    disks: &[DiskRole::Volume],
    after_crash: "what was answered is there; of any other change a part may be: a file that was \
                  being renamed may have both names, and a large one that was being cut short any \
                  length in between",
    retry: "a call that must not run twice gets the answer that it was given first, from a file \
            beside the disk; without that it runs again, and may be told that a name is there \
            already, or is not there",
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
