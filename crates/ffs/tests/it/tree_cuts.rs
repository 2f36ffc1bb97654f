//! The power is cut while several actors work on one tree: directories are made, moved and removed,
//! files get further names, replace each other, grow into indirect blocks and shrink; operations
//! follow each other before the previous ones are durable, and those of different actors meet in
//! the same directory chunks, inodes and maps. Under policy `sync`, and under policy `log`, where
//! volume and log lose power together and recovery is by replay alone.
//!
//! After the rebuild, each actor's names, contents, modes, targets and link counts are as after its
//! last acknowledged step, or as an unfinished step may leave them: a rename under both names, a
//! directory never; a write in part of its sectors; UNSTABLE data or the previous data. Then the
//! volume is used, emptied and stopped, and nothing may have leaked.

use enginekit::told;
use journal::format::SMALLEST;
use sim::Honesty;
use ufs2::mkfs::MkfsOptions;

use crate::common::cutting::{random_cuts, sizes};
use crate::common::tree::{Setting, cut_at_random, record};
use crate::common::volume::{WITHOUT_LOG, under};

fn setting(options: MkfsOptions, megabytes: u64, log: u64) -> Setting {
    Setting { options, size: megabytes << 20, steps: 40, honesty: Honesty::Honest, log }
}

/// Under the policies without a log, and under policy `log` with a log that wraps around many
/// times.
fn survives(seed: u64, options: MkfsOptions, megabytes: u64) {
    let log = setting(options.clone(), megabytes, SMALLEST);
    let alone = setting(options, megabytes, 0);
    cut_at_random(seed, &log);
    for policy in WITHOUT_LOG {
        under(policy, || cut_at_random(seed, &alone));
    }
}

#[test]
fn a_tree_survives_in_small_blocks() {
    survives(11, sizes(4096, 512), 16);
}

#[test]
fn a_tree_survives_in_fragments() {
    survives(12, sizes(8192, 1024), 32);
}

#[test]
fn a_tree_survives_in_default_blocks() {
    survives(13, MkfsOptions::default(), 64);
}

#[test]
fn what_a_listing_told_stays() {
    for (seed, log) in [(15, 0), (16, SMALLEST)] {
        assert_eq!(told::told_names_stay(&setting(sizes(4096, 512), 16, log), seed), Ok(()));
    }
}

#[test]
fn a_disk_that_ignores_flushes_is_found_out() {
    let setting = Setting { honesty: Honesty::IgnoresFlush, ..setting(sizes(4096, 512), 16, 0) };
    let run = record(14, &setting);
    let cuts = random_cuts(&run.recording, 14, 20);
    assert!(cuts.iter().any(|cut| run.check(cut, true, None).is_err()), "it finds nothing");
}
