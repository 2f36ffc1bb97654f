//! The same tree as under `sync`, under policy `log`: several actors work on it, the power is cut
//! of volume and log together, and what comes back is by replay alone.

mod common;

use common::cutting::sizes;
use common::together::large_writes_side_by_side;
use common::tree::run::{Setting, cut_at_random};
use ffs::mkfs::MkfsOptions;
use sim::Honesty;

/// The smallest log: the circle closes many times.
const LOG: u64 = (64 << 10) * 17;

fn setting(options: MkfsOptions, megabytes: u64) -> Setting {
    let honesty = Honesty::Honest;
    Setting { options, size: megabytes << 20, steps: 40, honesty, log: LOG }
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
fn large_writes_side_by_side_show_nothing_but_their_data() {
    for seed in 21..24 {
        large_writes_side_by_side(seed).unwrap_or_else(|wrong| panic!("run {seed}: {wrong}"));
    }
}
