//! Blocks pinned by pending changes: the memory that they take is bounded for a client that makes
//! one change after the other without waiting for durability.

use std::rc::Rc;
use std::time::Duration;

use ffs::{OpenOptions, PolicyKind};
use namespace::Namespace;
use runtime::Timestamp;
use sim::{Disk, Executor, Image};
use ufs2::mkfs::mkfs;
use vfs::{FileSystem, ObjectId, Requester, SetAttributes, Stability};

use crate::common::cutting::sizes;
use crate::common::volume::{Volume, name, open_with_log, under};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const BLOCK: u64 = 4096;
/// Bytes of a file below one block of pointers.
const REACH: u64 = BLOCK / 8 * BLOCK;
const CACHE: usize = 1 << 20;
/// With the memory that tasks use while they wait, and the minimum of cached data.
const BOUND: usize = 2 * CACHE;
/// With the parent directory, which stays in memory while it changes.
const BOUND_OF_DIRECTORIES: usize = 3 * CACHE;
const CALLS: u64 = 3000;

const POLICIES: [PolicyKind; 3] = [PolicyKind::Sync, PolicyKind::Log, PolicyKind::SoftUpdates];

/// The maximum memory that a volume takes while a client makes `calls` calls, one after the other.
/// `call` gets the volume, a file, and its number.
fn most_memory(
    policy: PolicyKind,
    calls: u64,
    call: impl AsyncFn(&Volume, ObjectId, u64),
) -> usize {
    let executor = Executor::new(3);
    let disk = |size| Disk::new(&executor, Image::zeroed(size));
    let (home, log) = (disk(64 << 20), (policy == PolicyKind::Log).then(|| disk(32 << 20)));
    let options = OpenOptions {
        cache_bytes: CACHE,
        housekeeping_interval: Duration::from_secs(3600),
        ..OpenOptions::default()
    };
    under(if policy == PolicyKind::Log { PolicyKind::Sync } else { policy }, || {
        executor.block_on(async {
            let runtime = executor.runtime();
            mkfs(&*home, &sizes(BLOCK, 512), &*runtime.random, NOW).await.expect("it fits");
            let log = log.map(|log| log as Rc<dyn block::BlockDevice>);
            let opened = open_with_log(home.clone(), log, runtime, &options, &mut |_| ()).await;
            let engine = opened.unwrap_or_else(|error| panic!("{error}")).files;
            let (files, root) = (Namespace::new(engine.clone()), Requester::root());
            let volume = Volume { files, root };
            let file = volume.create(volume.files.root(), "sparse").await.expect("new");
            let mut most = 0;
            for number in 1..=calls {
                call(&volume, file, number).await;
                most = most.max(engine.cached_bytes());
            }
            volume.commit(file).await.expect("it lands");
            volume.files.shutdown().await.expect("it stops");
            most
        })
    })
}

/// One byte after the other is written to a file, UNSTABLE, each below a different block of
/// pointers.
fn sparse_writes(policy: PolicyKind) -> usize {
    most_memory(policy, CALLS, async |volume, file, number| {
        let written = volume.write(file, number * REACH, vec![7], Stability::Unstable).await;
        written.expect("there is room");
    })
}

/// One directory after the other is made, and the client is answered at once, as on an export that
/// is declared delayed.
fn delayed_directories(policy: PolicyKind) -> usize {
    most_memory(policy, 2 * CALLS, async |volume, _, number| {
        let (root, name) = (volume.files.root(), name(&format!("d{number}")));
        let mode = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
        drop(volume.files.mkdir(&volume.root, root, &name, mode).await);
    })
}

/// Asserts that no policy takes more memory than this.
fn assert_within(bound: usize, measure: fn(PolicyKind) -> usize) {
    for policy in POLICIES {
        let most = measure(policy);
        println!("{most} bytes of {CACHE} under {policy:?}");
        assert!(most <= bound, "{most} bytes of {CACHE} under {policy:?}");
    }
}

#[test]
fn unstable_writes_that_each_pin_a_block_of_pointers_keep_within_the_memory() {
    assert_within(BOUND, sparse_writes);
}

#[test]
fn directories_that_each_pin_a_block_keep_within_the_memory_where_nobody_waits_for_them() {
    assert_within(BOUND_OF_DIRECTORIES, delayed_directories);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn pins_without_a_bound_are_found() {
    use ffs::planted::{Bug, plant};

    let found = |policy, measure: fn(PolicyKind) -> usize, bound| {
        plant(Some(Bug::UnboundedPins));
        let most = measure(policy);
        plant(None);
        println!("{most} bytes of {CACHE} under {policy:?} without a bound");
        assert!(most > bound, "{most} bytes of {CACHE} under {policy:?}");
    };
    POLICIES.iter().for_each(|&policy| found(policy, sparse_writes, BOUND));
    found(PolicyKind::Log, delayed_directories, BOUND_OF_DIRECTORIES);
}
