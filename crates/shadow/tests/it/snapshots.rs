//! The lives of snapshots, and the space that they use.

use enginekit::snapshots::{delete, life, pin};
use sim::Executor;
use vfs::{FileSystem, FsError, Stability};

use crate::bench::{Setting, made, opened};

/// See [`life::they_come_and_go`].
pub(crate) fn they_come_and_go(seed: u64, rounds: u64) -> Result<(), String> {
    life::they_come_and_go(&Setting::of(4, 64, 24 << 20), seed, rounds)
}

#[test]
fn snapshots_come_and_go() {
    let runs = std::env::var("DURAMEN_RUNS").ok().and_then(|text| text.parse().ok());
    for seed in 1..=runs.unwrap_or(6) {
        assert_eq!(they_come_and_go(seed, 3), Ok(()), "seed {seed}");
    }
}

#[test]
fn a_deletion_that_is_cut_is_gone_on_with() {
    for seed in 1..=2 {
        let goes_on = life::a_cut_deletion_goes_on(&Setting::of(4, 64, 8 << 20), seed, 80);
        assert_eq!(goes_on, Ok(()), "seed {seed}");
    }
}

#[test]
fn going_back_is_done_as_a_whole_or_not_at_all() {
    for seed in 1..=3 {
        let seen = life::going_back_is_whole(&Setting::of(8, 64, 8 << 20), seed, 40);
        assert!(seen.as_ref().is_ok_and(|seen| !seen.contains(&0)), "seed {seed}: {seen:?}");
    }
}

#[test]
fn a_full_volume_with_a_snapshot_is_emptied() {
    for (seed, left) in [(1, 0), (2, 20), (3, 60), (4, 120), (5, 200)] {
        let is_made = life::a_full_volume_is_emptied(&Setting::of(4, 64, 4 << 20), seed, left);
        let is_made = is_made.unwrap_or_else(|wrong| panic!("{left}: {wrong}"));
        assert!(is_made || left <= 60, "{left} files fewer");
        assert!(!is_made || left > 0, "it was full");
    }
}

/// See [`life::many_files_go_while_a_snapshot_has_them`].
pub(crate) fn many_files_go_while_a_snapshot_has_them() -> Result<(), String> {
    life::many_files_go_while_a_snapshot_has_them(&Setting::of(4, 64, 4 << 20), 2000)
}

#[test]
fn many_files_go_while_a_snapshot_has_them_all() {
    assert_eq!(many_files_go_while_a_snapshot_has_them(), Ok(()));
}

/// Dead blocks are counted at once, before a fold has put them on a list.
#[test]
fn a_list_counts_what_died_a_moment_ago() {
    let executor = Executor::new(1);
    let done = executor.block_on(async {
        let disk = made(&executor, &Setting::of(4, 64, 8 << 20)).await;
        let volume = &opened(executor.runtime(), &disk).await?;
        let told = |error: FsError| error.to_string();
        let file = volume.create(volume.files.root(), "f").await.map_err(told)?;
        let write = async |blocks: usize| {
            let data = vec![1; blocks * 4096];
            volume.write(file, 0, data, Stability::FileSync).await.map_err(told)
        };
        write(20).await?;
        let usage = async || {
            let all = volume.files.snapshots().expect("it has them").list();
            let all = all.open().await.expect("running").into_inner();
            all.into_iter().map(|(_, usage)| usage.unique_bytes / 4096).collect::<Vec<_>>()
        };
        let mut seen = Vec::new();
        pin(volume, "one").await?;
        seen.push(usage().await);
        write(7).await?;
        seen.push(usage().await);
        pin(volume, "two").await?;
        write(20).await?;
        seen.push(usage().await);
        delete(volume, "two", true).await?;
        seen.push(usage().await);
        Ok::<_, String>(seen)
    });
    let seen = done.expect("nothing fails");
    // With data, three blocks of metadata: inodes, and the parents of inodes and of data.
    let [first, second, third, last] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(first, &[0], "{seen:?}");
    assert!((8..12).contains(&second[0]), "{seen:?}");
    // Blocks that both hold are unique to neither.
    assert!(third[0] == second[0] && (8..12).contains(&third[1]), "{seen:?}");
    assert!(last[0] >= 20, "{seen:?}");
}
