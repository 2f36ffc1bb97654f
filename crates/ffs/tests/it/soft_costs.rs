//! Costs of soft updates in flushes and writes: counted in virtual time, so exact.

use std::time::Duration;

use ffs::policy::SoftUpdatesCounts;
use ffs::policy::softdep::SoftUpdatesOptions;
use futures::future::join_all;

use crate::common::soft::{Setting, Soft};

/// Flushes and writes between two readings of the counters.
fn between(before: SoftUpdatesCounts, after: SoftUpdatesCounts) -> (u64, u64) {
    let writes = |counts: SoftUpdatesCounts| counts.sync_writes + counts.async_writes;
    (after.flushes - before.flushes, writes(after) - writes(before))
}

/// Counts the cost of an awaited operation.
async fn cost<T>(here: &Soft, act: impl AsyncFnOnce() -> T) -> (u64, u64) {
    let before = here.counts();
    act().await;
    between(before, here.counts())
}

#[test]
fn a_create_takes_three_flushes_and_a_removal_two() {
    Soft::with(&Setting::default(), async |here: &Soft| {
        here.create("first", true).await; // the block of inodes is new, and the bitmaps are loaded
        let (create, _) = cost(here, async || here.create("second", true).await).await;
        assert!(create <= 3, "{create} flushes for a CREATE");
        here.pass(Duration::from_secs(60)).await;
        let (remove, _) = cost(here, async || here.remove("second", true).await).await;
        assert!(remove <= 2, "{remove} flushes for a REMOVE");
    });
}

#[test]
fn creates_that_come_together_share_their_flushes() {
    Soft::with(&Setting::default(), async |here: &Soft| {
        const CREATES: u64 = 32 * 50;
        here.create("first", true).await;
        let (flushes, _) = cost(here, async || {
            let client = async |client: u64| {
                for number in 0..CREATES / 32 {
                    here.create(&format!("{client}-{number}"), true).await;
                }
            };
            join_all((0..32).map(client)).await;
        })
        .await;
        assert!(
            flushes * 15 <= CREATES * 2,
            "{flushes} flushes for {CREATES} CREATEs of 32 callers"
        );
    });
}

#[test]
fn a_commit_pushes_its_chain_alone() {
    let setting = Setting { megabytes: 128, cache: 256 << 20, ..Setting::default() };
    Soft::with(&setting, async |here: &Soft| {
        const PENDING: u64 = 10_000;
        let directory = here.make_directory("apart", true).await;
        for number in 0..PENDING {
            here.create(&format!("pending-{number}"), false).await;
        }
        here.pass(Duration::from_secs(3)).await; // blocks of inodes are initialised ahead
        let pending = here.counts().pending;
        assert!(pending >= PENDING * 9 / 10, "{pending} pend");
        let file = here.create_in(directory, "file", false).await;
        let (flushes, writes) = cost(here, async || {
            here.write(file, vec![7; 4096]).await;
            here.commit(file).await;
        })
        .await;
        assert!(flushes <= 3 && writes <= 8, "{flushes} flushes, {writes} writes");
        let left = here.counts().pending;
        assert!(left >= PENDING * 9 / 10, "of {pending} that pend {left} are left");
    });
}

#[test]
fn names_that_come_and_go_are_not_written() {
    let setting = Setting { cache: 256 << 20, ..Setting::default() };
    Soft::with(&setting, async |here: &Soft| {
        here.create("first", true).await;
        let before = here.counts();
        for number in 0..10_000 {
            let file = here.create_in(here.root, &format!("short-{number}"), false).await;
            here.write(file, vec![7; 4096]).await;
            here.remove(&format!("short-{number}"), false).await;
            here.pass(Duration::from_micros(500)).await;
            let pending = here.counts().pending_bytes;
            let most = 4000 * (number + 20);
            assert!(pending < most, "{pending} bytes after {number} files");
        }
        here.pass(Duration::from_secs(60)).await;
        let (_, writes) = between(before, here.counts());
        assert!(writes <= 10, "{writes} writes for 10,000 files that came and went");
    });
}

#[test]
fn creates_at_an_even_rate_are_written_at_one() {
    let setting = Setting { megabytes: 1024, cache: 256 << 20, ..Setting::default() };
    Soft::with(&setting, async |here: &Soft| {
        const CREATES: u64 = 100_000;
        const RATE: u64 = 1_000;
        let writes = |counts: SoftUpdatesCounts| counts.sync_writes + counts.async_writes;
        let step = Duration::from_secs(1) / RATE as u32;
        let mut parents = Vec::new();
        for number in 0..10 {
            parents.push(here.make_directory(&format!("d{number}"), true).await);
        }
        let first = here.counts();
        let (mut seconds, mut last) = (Vec::new(), writes(first));
        for number in 0..CREATES {
            let parent = parents[(number * 10 / CREATES) as usize];
            here.create_in(parent, &format!("file-{number}"), false).await;
            here.pass(step).await;
            if (number + 1) % RATE == 0 {
                let now = writes(here.counts());
                seconds.push(now - last);
                last = now;
            }
        }
        let counts = here.counts();
        let all = last - writes(first);
        let rollbacks = counts.rollbacks - first.rollbacks;
        assert!(rollbacks * 5 <= all, "{rollbacks} of {all} writes: {seconds:?}");
        // The first half minute writes nothing; then writes are as even as file creation.
        let busy = &seconds[40..];
        let mean = busy.iter().sum::<u64>() as f64 / busy.len() as f64;
        let most = *busy.iter().max().expect("there are some");
        assert!(most as f64 <= 3.0 * mean, "{most} in one second, {mean} on the average: {busy:?}");
    });
}

#[test]
fn what_pends_never_takes_more_than_is_set() {
    const MEMORY: usize = 1 << 20;
    let options = SoftUpdatesOptions { memory: Some(MEMORY), ..SoftUpdatesOptions::default() };
    let setting = Setting { options, megabytes: 256, ..Setting::default() };
    Soft::with(&setting, async |here: &Soft| {
        let mut longest = Duration::ZERO;
        for number in 0..20_000 {
            let begun = here.clock.now();
            here.create(&format!("file-{number}"), false).await;
            longest = longest.max(here.clock.now().since(begun));
            let pending = here.counts().pending_bytes;
            assert!(pending <= MEMORY as u64 * 5 / 4, "{pending} bytes");
        }
        assert!(longest <= Duration::from_millis(100), "{longest:?}");
    });
}
