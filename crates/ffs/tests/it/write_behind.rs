//! Write-behind: more UNSTABLE data than fits into memory goes to the disk early, no reply waits
//! for a flush, and only a COMMIT promises durability.

use std::time::Duration;

use block::Verb;
use futures::future::join_all;
use namespace::Store;
use sim::{Effect, Executor, Fault, Persistence};
use vfs::{FileSystem, Stability};

use crate::common::behind::{
    CALL, LIMIT, POLICIES, content, landings_that_wait, new_disks, new_volume, rewrites, survives,
    write_on,
};

/// Far more than any of these runs takes, in virtual time.
const PATIENCE: Duration = Duration::from_secs(2);

#[test]
fn no_unstable_reply_waits_for_a_flush_and_memory_stays_bounded() {
    const FILES: usize = 4;
    const CALLS: usize = 40;
    for has_log in POLICIES {
        let executor = Executor::new(3);
        let disks = new_disks(&executor, has_log);
        let work = async {
            let (volume, engine) = new_volume(executor.runtime(), &disks).await;
            let mut ids = Vec::new();
            for file in 0..FILES {
                let made = volume.create(volume.files.root(), &format!("file-{file}")).await;
                ids.push(made.expect("new"));
            }
            disks.map(|disk| disk.inject(Fault::on(Verb::Flush, Effect::Silent).forever()));
            let writers = ids.iter().copied().enumerate();
            let all = writers.map(|file| write_on(&volume, &engine, file, CALLS));
            let most = join_all(all).await.into_iter().max().expect("some files");
            assert!((FILES * CALLS * CALL) as u64 > 8 * LIMIT, "enough to matter");
            let bound = LIMIT + (FILES * CALL) as u64;
            assert!(most <= bound, "{most} bytes in memory, log: {has_log}");
            for (file, &id) in ids.iter().enumerate() {
                let expected = (0..CALLS).flat_map(|index| content(file, index));
                let found = volume.read(id).await.expect("it can be read");
                assert!(found == expected.collect::<Vec<_>>(), "file {file}, log: {has_log}");
                assert_eq!(volume.attributes(id).await.size, (CALLS * CALL) as u64);
            }
        };
        let done = executor.block_on_for(PATIENCE, work);
        assert!(done.is_some(), "a reply waits for a flush, log: {has_log}");
    }
}

#[test]
fn what_landed_unasked_survives_once_it_is_committed() {
    for has_log in POLICIES {
        for seed in 0..40 {
            survives(seed, has_log).unwrap_or_else(|wrong| {
                panic!("seed {seed}, log: {has_log}: {wrong}");
            });
        }
    }
}

#[test]
fn landings_wait_for_each_other_until_somebody_asks_or_not_for_long() {
    assert_eq!((1..=40).try_for_each(landings_that_wait), Ok(()));
}

#[test]
fn what_is_written_while_an_older_state_lands_stays() {
    for has_log in POLICIES {
        for seed in 0..40 {
            rewrites(seed, has_log).unwrap_or_else(|wrong| {
                panic!("seed {seed}, log: {has_log}: {wrong}");
            });
        }
    }
}

#[test]
fn data_that_cannot_land_in_the_background_changes_the_verifier() {
    for has_log in POLICIES {
        let executor = Executor::new(5);
        let disks = new_disks(&executor, has_log);
        executor.block_on(async {
            let (volume, engine) = new_volume(executor.runtime(), &disks).await;
            let id = volume.create(volume.files.root(), "file").await.expect("new");
            volume.settle().await;
            let before = engine.verifier();
            disks.home.fail(Verb::Write, 1, Persistence::Once);
            write_on(&volume, &engine, (0, id), 3).await;
            while engine.unstable_bytes() > LIMIT / 4 {
                executor.runtime().clock.sleep(Duration::from_micros(10)).await;
            }
            let committed = volume.commit(id).await.expect("the rest lands");
            assert_ne!(committed, before, "pages were lost, log: {has_log}");
            assert_eq!(volume.write(id, 0, vec![9], Stability::FileSync).await, Ok(()));
        });
    }
}
