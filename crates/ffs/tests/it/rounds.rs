//! A hundred rounds of filling a volume and emptying it again, twenty on each of five volumes:
//! refusals come at the right moment and leave nothing behind, all space is freed to the last
//! fragment and inode, and the disk is clean after each round.
//!
//! The refusals are judged by the maps of the disk itself (`common/fill/room`). A round continues
//! with the disk of the previous round, so that leaks add up. Everything follows from the seed; a
//! failure names the round and the volume.

use ufs2::mkfs::MkfsOptions;

use crate::common::cutting::sizes;
use crate::common::fill::round::Rounds;

/// Number of rounds of a volume: more with `DURAMEN_RUNS`.
fn rounds() -> u64 {
    let wanted = std::env::var("DURAMEN_RUNS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(20)
}

fn fill_and_empty(label: &str, seed: u64, size: u64, options: MkfsOptions) {
    // So few inodes that files of medium size take the space before the inodes run out.
    let bytes_per_inode = Some(8 * options.fragment_size);
    let options = MkfsOptions { bytes_per_inode, ..options };
    let mut volume = Rounds::new(label, seed, size, &options);
    for _ in 0..rounds() {
        volume.next();
    }
    let tally = volume.tally;
    println!("{label}: {tally:?}");
    assert!(tally.refusals >= 5 * tally.rounds, "{tally:?}");
    assert!(tally.cuts == tally.rounds / 4, "{tally:?}");
}

#[test]
fn blocks_of_4k_and_fragments_of_512_are_filled_and_emptied() {
    fill_and_empty("4k-512", 1, 2432 << 10, sizes(4096, 512));
}

#[test]
fn blocks_of_8k_and_fragments_of_1k_are_filled_and_emptied() {
    fill_and_empty("8k-1k", 2, 1792 << 10, sizes(8192, 1024));
}

#[test]
fn blocks_of_16k_and_fragments_of_2k_are_filled_and_emptied() {
    fill_and_empty("16k-2k", 3, 2 << 20, sizes(16_384, 2048));
}

#[test]
fn blocks_of_32k_and_fragments_of_4k_are_filled_and_emptied() {
    fill_and_empty("32k-4k", 4, 3 << 20, sizes(32_768, 4096));
}

#[test]
fn blocks_of_64k_and_fragments_of_8k_are_filled_and_emptied() {
    fill_and_empty("64k-8k", 5, 4 << 20, sizes(65_536, 8192));
}
