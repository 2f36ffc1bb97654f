//! The engine kit's tests, at cuts of a simulated disk.

use std::time::Duration;

use block::Verb;
use enginekit::snapshots::life;
use enginekit::{names, snapshots, told, tree};

use futures::future::join;
use sim::{Effect, Executor, Fault};
use vfs::{FileSystem, FsError, Stability};

use crate::bench::{Setting, findings, made, opened, settings};

/// The first failure in this many runs of the tree.
pub(crate) fn first_wrong(runs: u64) -> Option<String> {
    (1..=runs).find_map(|seed| {
        let setting = &settings()[seed as usize % 3];
        let run = tree::record(setting, seed, 40);
        let wrong = run.first_wrong(seed, 40, true)?;
        Some(format!("run {seed}: {wrong}"))
    })
}

/// `DURAMEN_RUNS` sets the number of runs.
#[test]
fn a_tree_survives() {
    let runs = std::env::var("DURAMEN_RUNS").ok().and_then(|text| text.parse().ok());
    assert_eq!(first_wrong(runs.unwrap_or(6)), None);
}

#[test]
fn what_a_listing_told_stays() {
    for seed in 1..=3 {
        assert_eq!(told::told_names_stay(&settings()[seed as usize % 3], seed), Ok(()));
    }
}

#[test]
fn names_lead_where_they_should() {
    for setting in settings() {
        assert_eq!(names::names_lead_to_their_files(&setting), Ok(()));
    }
}

#[test]
fn a_file_has_no_more_names_than_it_may() {
    assert_eq!(names::a_file_has_no_more_names_than_it_may(&settings()[0]), Ok(()));
}

#[test]
fn snapshots_hold_what_was_there() {
    for seed in 1..=6 {
        let setting = &settings()[seed as usize % 3];
        assert_eq!(snapshots::snapshots_hold(setting, seed), Ok(()), "run {seed}");
    }
}

#[test]
fn snapshots_that_were_told_survive() {
    for seed in 1..=6 {
        let setting = &settings()[seed as usize % 3];
        let stay = snapshots::told_snapshots_stay(setting, seed, 30);
        assert_eq!(stay, Ok(()), "run {seed}");
    }
}

#[test]
fn snapshots_hold_no_change_in_its_middle() {
    for seed in 1..=3 {
        let whole = snapshots::steps_are_held_whole(&settings()[seed as usize % 3], seed);
        assert_eq!(whole, Ok(()), "run {seed}");
    }
}

#[test]
fn snapshots_come_and_go() {
    for seed in 1..=6 {
        let setting = &settings()[seed as usize % 3];
        assert_eq!(life::they_come_and_go(setting, seed, 3), Ok(()), "run {seed}");
    }
}

/// The first failure of deletions that are cut.
pub(crate) fn deletions(cuts: u64) -> Result<(), String> {
    let cut = |seed| life::a_cut_deletion_goes_on(&settings()[seed as usize % 3], seed, cuts);
    (1..=3).try_for_each(cut)
}

#[test]
fn a_deletion_that_is_cut_is_gone_on_with() {
    assert_eq!(deletions(40), Ok(()));
}

/// The first failure of roll-backs that are cut; each of them is seen before and after.
pub(crate) fn roll_backs(cuts: u64) -> Result<(), String> {
    for seed in 1..=3 {
        let seen = life::going_back_is_whole(&settings()[seed as usize % 3], seed, cuts)?;
        if seen.contains(&0) {
            return Err(format!("seen {seen:?}"));
        }
    }
    Ok(())
}

#[test]
fn going_back_is_done_as_a_whole_or_not_at_all() {
    assert_eq!(roll_backs(40), Ok(()));
}

#[test]
fn a_full_volume_with_a_snapshot_is_emptied() {
    for (seed, left) in [(1, 0), (2, 20), (3, 60), (4, 200)] {
        let setting = Setting { block: 4 << 10, segment: 32 << 10, disk: 6 << 20 };
        let is_made = life::a_full_volume_is_emptied(&setting, seed, left);
        assert_eq!((left, is_made), (left, Ok(left > 0)), "made, with room for it");
    }
}

#[test]
fn many_files_go_while_a_snapshot_has_them_all() {
    let setting = Setting { block: 4 << 10, segment: 32 << 10, disk: 8 << 20 };
    assert_eq!(life::many_files_go_while_a_snapshot_has_them(&setting, 2000), Ok(()));
}

/// A snapshot is made while large data is on its way, and small files before and after it share a
/// segment; then the volume goes back to it.
pub(crate) fn back_over_shared_segments() -> Result<(), String> {
    let setting = Setting { block: 4 << 10, segment: 240 << 10, disk: 24 << 20 };
    let executor = Executor::new(5);
    let disk = executor.block_on(made(&executor, &setting));
    let told = |error: FsError| error.to_string();
    let disk = executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let root = volume.files.root();
        let mut ids = Vec::new();
        for text in ["before", "large", "after"] {
            ids.push(volume.create(root, text).await.map_err(told)?);
        }
        let write = |id, length| volume.write(id, 0, vec![1; length], Stability::FileSync);
        write(ids[0], 4096).await.map_err(told)?;
        let slow = Effect::Slow(Duration::from_millis(20));
        disk.inject(Fault::on(Verb::Write, slow).nth(1));
        let (written, pinned) =
            join(write(ids[1], 128 << 10), snapshots::pin(&volume, "then")).await;
        written.map_err(told)?;
        pinned?;
        write(ids[2], 4096).await.map_err(told)?;
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        let volume = opened(executor.runtime(), &disk).await?;
        snapshots::roll_back(&volume, "then").await?;
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(disk)
    })?;
    findings(&disk.contents())
}

#[test]
fn a_row_is_on_one_side_of_a_snapshot() {
    assert_eq!(back_over_shared_segments(), Ok(()));
}
