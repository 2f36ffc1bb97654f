//! Log entries with many records of one block.

use std::rc::Rc;

use runtime::Timestamp;
use sim::{Disk, Executor, Image};
use ufs2::mkfs::mkfs;
use vfs::{FileSystem, Stability};

use crate::common::Seeded;
use crate::common::cutting::{Pair, after_cut, sizes};
use crate::common::volume::{Volume, try_open_pair};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const BLOCK: u64 = 64 << 10;

async fn open(executor: &Executor, disks: &Pair<Rc<Disk>>) -> Volume {
    try_open_pair(executor.runtime(), disks).await.expect("it opens").0
}

/// The new last block is a hole, which is filled: one pointer of an indirect block of 64 KiB is
/// set, and all behind it are cleared.
#[test]
fn a_file_with_an_indirect_block_of_64_kib_is_cut_short_to_end_in_a_hole() {
    let executor = Executor::new(5);
    let images = Pair { home: Image::zeroed(64 << 20), log: Some(Image::zeroed(4 << 20)) };
    let disks = images.map(|image| Disk::new(&executor, image.clone()));
    let size = 17 * BLOCK;
    let left = executor.block_on(async {
        mkfs(&*disks.home, &sizes(BLOCK, BLOCK / 8), &Seeded::new(7), NOW).await.expect("it fits");
        let volume = open(&executor, &disks).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        volume.write(id, 0, vec![1; 100], Stability::FileSync).await.expect("room");
        volume.write(id, size, vec![2; 100], Stability::FileSync).await.expect("room");
        volume.resize(id, size).await.expect("shorter");
        disks.map(|disk| disk.platter().durable_image())
    });
    let (executor, disks) = after_cut(1, left);
    executor.block_on(async {
        let volume = open(&executor, &disks).await;
        let id = volume.lookup(volume.files.root(), "file").await.expect("there");
        let mut expected = vec![0; size as usize];
        expected[..100].fill(1);
        assert!(volume.read(id).await.expect("it is read") == expected);
        volume.files.shutdown().await.expect("it stops");
    });
}
