//! Large writes side by side under policy `log`, and simultaneous cuts of volume and log: the data
//! that a file has was on the disk before the log recorded it.

use crate::common::own_findings;
use crate::common::quiet::Quiet;
use crate::common::together::large_writes_side_by_side;
use vfs::FileSystem;

#[test]
fn large_writes_side_by_side_show_nothing_but_their_data() {
    for seed in 21..24 {
        large_writes_side_by_side(seed).unwrap_or_else(|wrong| panic!("run {seed}: {wrong}"));
    }
}

/// The disk is full of garbage, like a used one, and new blocks of inodes are in the log alone.
#[test]
fn a_new_block_of_inodes_comes_back_over_rubbish() {
    let size = 32 << 20;
    let mut quiet = Quiet::new(size, Some(4 << 20));
    let mut image = sim::Image::zeroed(size);
    let rubbish: Vec<u8> = (0..size as usize).map(|at| (at * 37 % 251) as u8 | 1).collect();
    image.write(0, &rubbish);
    quiet.disks.home = sim::Disk::new(&quiet.executor, image);
    quiet.executor.block_on(async {
        let volume = quiet.make((4096, 512)).await;
        for number in 0..200 {
            volume.create(volume.files.root(), &format!("file-{number}")).await.expect("room");
        }
    });
    let back = quiet.cut();
    back.executor.block_on(async {
        let volume = back.open().await;
        let root = volume.files.root();
        for number in 0..200 {
            let file = volume.lookup(root, &format!("file-{number}")).await.expect("it is there");
            assert_eq!(volume.read(file).await, Ok(Vec::new()));
        }
        for number in 200..400 {
            volume.create(root, &format!("file-{number}")).await.expect("room");
        }
        volume.files.shutdown().await.expect("it stops");
    });
    let disk = sim::Disk::new(&back.executor, back.disks.home.contents());
    let found = back.executor.block_on(own_findings(&*disk, &back.executor.runtime()));
    assert_eq!(found, "");
}
