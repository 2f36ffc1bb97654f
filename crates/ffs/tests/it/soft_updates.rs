//! Under policy `sync` the disk keeps the contract of soft updates at every moment: the disk after
//! a cut is checked before any recovery of ours, by an independent judge (`common/raw`). A checker
//! that runs in the background, or that of FreeBSD when it may repair only the effects of soft
//! updates, has nothing to refuse.

use ffs::PolicyKind;
use futures::future::join_all;
use runtime::Timestamp;
use sim::{Choice, Disk, Executor, Honesty, Image, Options, Prng, Trace};
use ufs2::mkfs::{MkfsOptions, mkfs};
use vfs::{FileSystem, Stability};

use crate::common::cutting::{Pair, cuts, random_cuts, sizes};
use crate::common::raw::{judged, soft_update_violations};
use crate::common::tree::{Setting, record};
use crate::common::volume::{WITHOUT_LOG, try_open, under};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const BLOCK: u64 = 4096;

fn setting(options: MkfsOptions, megabytes: u64) -> Setting {
    Setting { options, size: megabytes << 20, steps: 40, honesty: Honesty::Honest, log: 0 }
}

/// The first violation of soft updates after a cut of a recorded run.
fn first_violation(seed: u64, setting: &Setting, count: u64) -> Option<String> {
    first_in(&record(seed, setting).recording, seed, count)
}

fn first_in(traces: &Pair<Trace>, seed: u64, count: u64) -> Option<String> {
    random_cuts(traces, seed, count).iter().find_map(|cut| {
        let wrong = soft_update_violations(&cut.left().home);
        (!wrong.is_empty()).then(|| format!("run {seed}, {}: {}", cut.label(), wrong.join("; ")))
    })
}

/// Long files that are truncated inside their pointer blocks, and grow again, side by side.
fn record_truncations(seed: u64) -> Pair<Trace> {
    let executor = Executor::new(seed);
    let disk = Disk::with_options(&executor, Image::zeroed(16 << 20), Options::default());
    executor.block_on(async {
        let random = executor.runtime().random;
        mkfs(&*disk, &sizes(BLOCK, 512), &*random, NOW).await.expect("it fits");
        let opened = try_open(executor.runtime(), disk.clone()).await;
        let volume = opened.unwrap_or_else(|error| panic!("{error}")).0;
        let mut files = Vec::new();
        for index in 0..3 {
            let file = volume.create(volume.files.root(), &format!("file-{index}")).await;
            files.push(file.expect("new"));
        }
        volume.settle().await;
        disk.start_trace();
        join_all(files.into_iter().map(|file| {
            let volume = &volume;
            async move {
                for blocks in [60, 40, 33, 50, 20, 14, 30, 11] {
                    let end = blocks * BLOCK - 700;
                    let data = vec![7; 9000];
                    let written = volume.write(file, end, data, Stability::FileSync).await;
                    written.expect("there is room");
                    volume.resize(file, end - BLOCK).await.expect("it becomes shorter");
                }
            }
        }))
        .await;
        disk.trace().into()
    })
}

/// A file that grows by 64 KiB at a time beyond its direct blocks, each piece durable before the
/// next one is written.
fn record_appends(seed: u64) -> Trace {
    const PIECE: u64 = 64 << 10;
    let executor = Executor::new(seed);
    let disk = Disk::with_options(&executor, Image::zeroed(16 << 20), Options::default());
    executor.block_on(async {
        let random = executor.runtime().random;
        mkfs(&*disk, &MkfsOptions::default(), &*random, NOW).await.expect("it fits");
        let opened = try_open(executor.runtime(), disk.clone()).await;
        let volume = opened.unwrap_or_else(|error| panic!("{error}")).0;
        let file = volume.create(volume.files.root(), "file").await.expect("new");
        volume.settle().await;
        disk.start_trace();
        for piece in 0..40 {
            let data = vec![piece as u8 + 1; PIECE as usize];
            let written = volume.write(file, piece * PIECE, data, Stability::FileSync).await;
            written.expect("there is room");
        }
        disk.trace()
    })
}

/// Cuts appends after each event, with any of what is pending: how many cuts there are, how many
/// leave a pointer behind the end, and how many something that soft updates do not leave.
fn cut_appends(policy: PolicyKind) -> [usize; 3] {
    let trace = under(policy, || record_appends(1));
    let mut prng = Prng::new(1);
    let mut found = [0; 3];
    for position in 0..=trace.events().len() {
        for _ in 0..4 {
            let platter = trace.platter_at(position);
            let (wrong, behind) = judged(&platter.image(&Choice::random(&platter, &mut prng)));
            let is_so = [true, behind > 0, !wrong.is_empty()];
            found.iter_mut().zip(is_so).for_each(|(count, is_so)| *count += usize::from(is_so));
        }
    }
    println!("{policy:?}: {found:?}");
    found
}

/// `DURAMEN_RUNS` sets how often each of four runs is cut.
fn keeps_the_contract(seed: u64, setting: &Setting) {
    for (policy, runs) in [(PolicyKind::Sync, 4), (PolicyKind::SoftUpdates, 4)] {
        for seed in (seed..).step_by(1000).take(runs) {
            let found = under(policy, || first_violation(seed, setting, cuts(150)));
            assert_eq!(found, None, "under {policy:?}");
        }
    }
}

#[test]
fn a_cut_leaves_what_soft_updates_leave_in_small_blocks() {
    keeps_the_contract(21, &setting(sizes(BLOCK, 512), 16));
}

#[test]
fn a_cut_leaves_what_soft_updates_leave_in_fragments() {
    keeps_the_contract(22, &setting(sizes(8192, 1024), 32));
}

#[test]
fn a_cut_leaves_what_soft_updates_leave_in_default_blocks() {
    keeps_the_contract(23, &setting(MkfsOptions::default(), 64));
}

#[test]
fn a_cut_of_truncations_leaves_what_soft_updates_leave() {
    for policy in WITHOUT_LOG {
        for seed in 1..5 {
            let traces = under(policy, || record_truncations(seed));
            assert_eq!(first_in(&traces, seed, cuts(200)), None, "under {policy:?}");
        }
    }
}

#[test]
fn a_cut_of_appends_leaves_pointers_behind_the_end_and_never_a_hole_before_it() {
    for policy in WITHOUT_LOG {
        let [cuts, behind, wrong] = cut_appends(policy);
        // docs/durability.md says how many.
        assert!(behind > 0 && behind * 3 < cuts, "{policy:?}: {behind} of {cuts}");
        assert_eq!(wrong, 0, "{policy:?}");
    }
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use ffs::planted::{Bug, plant};

    use super::*;

    /// Looks for a bug that the judge of raw disks must see.
    fn is_seen(bug: Bug, said: &str) {
        is_seen_from(1, bug, said);
    }

    /// The same, first in a run that shows it soon.
    fn is_seen_from(first: u64, bug: Bug, said: &str) {
        let setting = setting(sizes(BLOCK, 512), 16);
        let found = (first..first + 20).find_map(|seed| {
            plant(Some(bug));
            let found = first_violation(seed, &setting, 150);
            plant(None);
            found
        });
        is_found(bug, found, said);
    }

    /// The same for truncations.
    fn is_seen_in_truncations(bug: Bug, said: &str) {
        let found = (1..20).find_map(|seed| {
            plant(Some(bug));
            let traces = record_truncations(seed);
            plant(None);
            first_in(&traces, seed, 200)
        });
        is_found(bug, found, said);
    }

    fn is_found(bug: Bug, found: Option<String>, said: &str) {
        let wrong = found.unwrap_or_else(|| panic!("{bug:?} is not seen"));
        println!("{bug:?}: {wrong}");
        assert!(wrong.contains(said), "{bug:?} is seen in another way: {wrong}");
    }

    #[test]
    fn sizes_that_land_before_pointers_leave_holes() {
        plant(Some(Bug::SizesFirst));
        let [cuts, behind, holes] = cut_appends(PolicyKind::Sync);
        plant(None);
        assert!(behind == 0 && holes > 0, "{behind} and {holes} of {cuts}");
    }

    #[test]
    fn a_directory_whose_inode_lands_with_its_first_chunk_is_seen() {
        is_seen(Bug::BlocksWithInodes, "has no dots");
    }

    #[test]
    fn a_name_of_a_new_directory_that_its_parent_does_not_count_yet_is_seen() {
        is_seen_from(3021, Bug::EarlyLinks, "links, and says");
    }

    #[test]
    fn a_parent_that_lands_before_the_new_name_is_seen() {
        is_seen(Bug::EarlyParents, "links, and says");
    }

    #[test]
    fn a_parent_that_lands_with_the_name_that_is_taken_over_is_seen() {
        is_seen(Bug::ParentsWithNames, "links, and says");
    }

    #[test]
    fn a_parent_that_lands_after_the_old_name_is_seen() {
        is_seen(Bug::LateParents, "links, and says");
    }

    #[test]
    fn pointers_that_go_while_the_size_covers_them_are_seen() {
        is_seen_in_truncations(Bug::EarlyPointerClears, "ends in a hole");
    }

    #[test]
    fn pointers_that_go_along_with_the_bits_are_seen() {
        is_seen_in_truncations(Bug::LatePointerClears, "which is free");
    }
}
