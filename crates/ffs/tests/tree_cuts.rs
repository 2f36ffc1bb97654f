//! The power is cut while several actors work on one tree: directories are made, moved and removed,
//! files get further names, replace each other, grow into indirect blocks and shrink; operations
//! follow each other before the ones before are durable, and those of different actors meet in the
//! same directory chunks, inodes and maps.
//!
//! After the rebuild, each actor's names, contents, modes, targets and link counts are as after its
//! last acknowledged step, or as a step under way may leave them: a rename under both names, a
//! directory never; a write in part of its sectors; UNSTABLE data or what was there before. Then
//! the volume is used, emptied and stopped, and nothing may have leaked.

mod common;

use common::cutting::{random_cuts, sizes};
use common::tree::run::{Setting, cut_at_random, record};
use ffs::mkfs::MkfsOptions;
use sim::Honesty;

fn setting(options: MkfsOptions, megabytes: u64) -> Setting {
    Setting { options, size: megabytes << 20, steps: 40, honesty: Honesty::Honest, log: 0 }
}

#[test]
fn a_tree_survives_in_small_blocks() {
    cut_at_random(11, &setting(sizes(4096, 512), 16));
}

#[test]
fn a_tree_survives_in_fragments() {
    cut_at_random(12, &setting(sizes(8192, 1024), 32));
}

#[test]
fn a_tree_survives_in_default_blocks() {
    cut_at_random(13, &setting(MkfsOptions::default(), 64));
}

#[test]
fn a_disk_that_ignores_flushes_is_found_out() {
    let setting = Setting { honesty: Honesty::IgnoresFlush, ..setting(sizes(4096, 512), 16) };
    let run = record(14, &setting);
    let cuts = random_cuts(&run.traces, 14, 20);
    assert!(cuts.iter().any(|cut| run.check(cut, false).is_err()), "it finds nothing");
}
