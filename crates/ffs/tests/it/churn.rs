//! Files are made, extended, truncated, moved and removed; then the stopped disk is read back and
//! judged.

use std::collections::BTreeMap;

use futures::future::join_all;
use namespace::Store;
use ufs2::mkfs::MkfsOptions;
use vfs::{FileSystem, FsError, ObjectId, Stability};

use crate::common::volume::{Actor, Volume, fresh, reopen};
use crate::common::{MemoryDisk, Seeded, World, findings};

/// Several actors churn side by side; the volume is stopped, judged, opened and read again, emptied
/// and judged once more.
fn churn(label: &str, options: &MkfsOptions, size: u64, largest: u64, steps: usize) {
    let world = World::new(3);
    world.run(async {
        let (disk, volume) = fresh(&world, size, options).await;
        let root = volume.files.root();
        let mut kept = Vec::new();
        let actors = join_all((0..4).map(|index| {
            let volume = &volume;
            async move {
                let directory = volume.mkdir(root, &format!("actor-{index}")).await.expect("new");
                let chance = Seeded::new(100 + index);
                let mut actor =
                    Actor { volume, directory, chance, files: BTreeMap::new(), stable: false };
                for _ in 0..steps {
                    actor.step(largest).await;
                }
                actor.check_all().await;
                actor.files
            }
        }));
        kept.extend(actors.await);
        volume.files.shutdown().await.expect("a clean stop");
        judge(&disk, &format!("{label}-full"));

        let volume = reopen(&world, &disk).await;
        for (index, files) in kept.into_iter().enumerate() {
            let text = format!("actor-{index}");
            let directory = volume.lookup(root, &text).await.expect("it was kept");
            let chance = Seeded::new(index as u64);
            let mut actor = Actor { volume: &volume, directory, chance, files, stable: false };
            actor.check_all().await;
            actor.clear().await;
            volume.rmdir(root, &text).await.expect("it is empty");
        }
        volume.files.shutdown().await.expect("a clean stop");
        judge(&disk, &format!("{label}-empty"));
    });
}

fn judge(disk: &MemoryDisk, label: &str) {
    if let Some(findings) = findings(disk, label) {
        assert_eq!(findings, "", "{label}");
    }
}

fn sizes(block_size: u64, fragment_size: u64) -> MkfsOptions {
    MkfsOptions { block_size, fragment_size, ..MkfsOptions::default() }
}

#[test]
fn the_default_geometry_stays_clean() {
    churn("default", &MkfsOptions::default(), 256 << 20, 600_000, 150);
}

#[test]
fn small_blocks_reach_into_indirect_trees() {
    churn("small", &sizes(4096, 512), 64 << 20, 300_000, 150);
}

#[test]
fn small_blocks_of_two_fragments_stay_clean() {
    churn("4k-2k", &sizes(4096, 2048), 32 << 20, 200_000, 60);
}

#[test]
fn small_blocks_that_are_fragments_stay_clean() {
    churn("4k-4k", &sizes(4096, 4096), 32 << 20, 200_000, 60);
}

#[test]
fn blocks_of_eight_kilobytes_and_fragments_of_one_stay_clean() {
    churn("8k-1k", &sizes(8192, 1024), 32 << 20, 200_000, 60);
}

#[test]
fn blocks_that_are_fragments_stay_clean() {
    churn("whole", &sizes(8192, 8192), 64 << 20, 300_000, 100);
}

#[test]
fn blocks_of_four_fragments_stay_clean() {
    churn("16k-4k", &sizes(16_384, 4096), 64 << 20, 300_000, 60);
}

#[test]
fn blocks_of_two_fragments_stay_clean() {
    churn("32k-16k", &sizes(32_768, 16_384), 64 << 20, 600_000, 60);
}

#[test]
fn large_blocks_stay_clean() {
    churn("large", &sizes(65_536, 8192), 256 << 20, 2_000_000, 60);
}

#[test]
fn large_blocks_that_are_fragments_stay_clean() {
    churn("64k-64k", &sizes(65_536, 65_536), 256 << 20, 600_000, 40);
}

async fn read_at(volume: &Volume, id: ObjectId, offset: u64, count: u32) -> Vec<u8> {
    let sealed = volume.files.read(&volume.root, id, offset, count).await;
    sealed.open().await.expect("running").into_inner().result.expect("it can be read").data.concat()
}

/// With blocks of 4 KiB the tree of three levels begins at this block of a file.
const TRIPLE: u64 = 12 + 512 + 512 * 512;
const BLOCK: u64 = 4096;

#[test]
fn a_file_reaches_into_the_tree_of_three_levels_and_comes_back() {
    let world = World::new(5);
    world.run(async {
        let (disk, volume) = fresh(&world, 32 << 20, &sizes(4096, 512)).await;
        let root = volume.files.root();
        let id = volume.create(root, "sparse").await.expect("there is room");
        // One piece in each tree, two in the last, and one on either side of the start of a tree.
        let pieces = [0, 13, 12 + 512, TRIPLE - 1, TRIPLE, TRIPLE + 600, TRIPLE + 512 * 512 + 7];
        for block in pieces {
            let data = vec![block as u8 | 1; 3000];
            let offset = block * BLOCK + 500;
            volume.write(id, offset, data, Stability::FileSync).await.expect("there is room");
        }
        let beyond = volume.files.store().fsinfo().max_file_size;
        let refused = volume.write(id, beyond, vec![1], Stability::FileSync).await;
        assert_eq!(refused, Err(FsError::FileTooLarge));
        volume.files.shutdown().await.expect("a clean stop");
        judge(&disk, "triple-full");

        for (step, kept) in (0..pieces.len()).rev().enumerate() {
            let volume = reopen(&world, &disk).await;
            for block in &pieces[..kept] {
                let found = read_at(&volume, id, block * BLOCK + 499, 3002).await;
                let mut expected = vec![*block as u8 | 1; 3002];
                (expected[0], expected[3001]) = (0, 0);
                assert!(found == expected, "block {block} of {kept}");
            }
            // To the middle of a piece, or into the hole before it.
            let cut = pieces[kept] * BLOCK + if step % 2 == 0 { 1 } else { 0 };
            volume.resize(id, cut).await.expect("it can");
            volume.files.shutdown().await.expect("a clean stop");
            judge(&disk, &format!("triple-{kept}"));
        }

        let volume = reopen(&world, &disk).await;
        volume.write(id, TRIPLE * BLOCK, vec![1], Stability::FileSync).await.expect("again");
        volume.remove(root, "sparse").await.expect("it is there");
        volume.settle().await;
        volume.files.shutdown().await.expect("a clean stop");
        judge(&disk, "triple-gone");
    });
}

/// The tree of two levels begins here, and each of its pointers leads to `FAN` blocks.
const DOUBLE: u64 = 12 + 512;
const FAN: u64 = 512;

#[test]
fn a_file_is_cut_off_in_a_hole_of_a_whole_tree() {
    let world = World::new(6);
    world.run(async {
        let (disk, volume) = fresh(&world, 32 << 20, &sizes(4096, 512)).await;
        let root = volume.files.root();
        let id = volume.create(root, "sparse").await.expect("there is room");
        let far = (DOUBLE + 3 * FAN) * BLOCK;
        volume.write(id, far, vec![9; 3000], Stability::FileSync).await.expect("there is room");
        // The new end lies in a hole; the last block is made there.
        let end = (DOUBLE + 2 * FAN + 5) * BLOCK + 7;
        volume.resize(id, end).await.expect("it can");
        assert_eq!(read_at(&volume, id, end - 10, 100).await, vec![0; 10]);
        volume.files.shutdown().await.expect("a clean stop");
        judge(&disk, "cut-in-hole");
    });
}
