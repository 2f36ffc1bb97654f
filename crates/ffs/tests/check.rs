//! The checker on disks that are well, and on disks with one thing wrong each.

mod common;

use common::volume::{Actor, fresh};
use common::{MemoryDisk, Seeded, World, freebsd_disk};
use ffs::check::{CheckOptions, Findings, Report, check};
use ffs::mkfs::MkfsOptions;
use std::collections::BTreeMap;
use vfs::FileSystem;

async fn look(world: &World, disk: &MemoryDisk) -> Report {
    let options = CheckOptions::default();
    let report = check(disk, &world.runtime(), &options, &mut |_| ()).await;
    report.unwrap_or_else(|error| panic!("{error}"))
}

fn lines(findings: &Findings) -> String {
    findings.list.iter().map(|finding| format!("{finding}\n")).collect()
}

#[test]
fn a_volume_that_was_used_and_stopped_is_well() {
    for (block_size, fragment_size) in [(32_768, 4096), (4096, 512), (16_384, 16_384)] {
        let world = World::new(1);
        let disk = world.run(async {
            let options = MkfsOptions { block_size, fragment_size, ..MkfsOptions::default() };
            let (disk, volume) = fresh(&world, 64 << 20, &options).await;
            let root = volume.files.root();
            let directory = volume.mkdir(root, "churned").await.expect("new");
            let chance = Seeded::new(3);
            let files = BTreeMap::new();
            let mut actor = Actor { volume: &volume, directory, chance, files, stable: false };
            for _ in 0..200 {
                actor.step(600_000).await;
            }
            volume.files.shutdown().await.expect("it stops");
            disk
        });
        let report = world.run(look(&world, &disk));
        assert_eq!(lines(&report.findings), "");
        assert!(report.files > 3 && report.directories == 2, "{report:?}");
    }
}

#[test]
fn disks_of_freebsd_are_well() {
    for endian in ["little", "big"] {
        let Some(image) = freebsd_disk(endian) else { return };
        let disk = MemoryDisk::new(image.len() as u64);
        disk.put(0, &image);
        let world = World::new(1);
        let report = world.run(look(&world, &disk));
        assert_eq!(lines(&report.findings), "", "{endian}");
    }
}
