//! Files come, grow, shrink, move and go; then the disk is read back, and judged when it stopped.

mod common;

use std::collections::BTreeMap;

use common::volume::{Actor, fresh, reopen};
use common::{MemoryDisk, Seeded, World, findings};
use ffs::mkfs::MkfsOptions;
use futures::future::join_all;
use vfs::FileSystem;

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
fn blocks_that_are_fragments_stay_clean() {
    churn("whole", &sizes(8192, 8192), 64 << 20, 300_000, 100);
}

#[test]
fn large_blocks_stay_clean() {
    churn("large", &sizes(65_536, 8192), 256 << 20, 2_000_000, 60);
}
