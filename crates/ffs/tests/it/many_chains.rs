//! Large files that are removed side by side: as many as there are places for chains, one fewer and
//! one more. Each chain ends, and all space is free again.

use std::rc::Rc;

use ffs::OpenOptions;
use futures::future::join_all;
use runtime::Timestamp;
use sim::{Disk, Executor, Image};
use ufs2::mkfs::mkfs;
use vfs::{FileSystem, Stability};

use crate::common::cutting::sizes;
use crate::common::volume::{Volume, open_with_log};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };
const BLOCK: u64 = 4096;
/// Number of places for chains.
const CHAINS: usize = 64;
/// Size of a file that is freed in several steps.
const LONG: usize = 1 << 20;

/// Removes `count` large files at once: the free bytes before they were made, and at the end.
fn removed_at_once(count: usize, has_log: bool) -> [u64; 2] {
    let executor = Executor::new(5);
    let disk = |size| Disk::new(&executor, Image::zeroed(size));
    let (home, log) = (disk(128 << 20), has_log.then(|| disk(32 << 20)));
    executor.block_on(async {
        let runtime = executor.runtime();
        mkfs(&*home, &sizes(BLOCK, 512), &*runtime.random, NOW).await.expect("it fits");
        let log = log.map(|log| log as Rc<dyn block::BlockDevice>);
        let options = OpenOptions::default();
        let opened = open_with_log(home.clone(), log, runtime, &options, &mut |_| ()).await;
        let volume = Volume::new(opened.unwrap_or_else(|error| panic!("{error}")).files);
        let root = volume.files.root();
        let before = volume.space().await.free_bytes;
        for number in 0..count {
            let file = volume.create(root, &format!("f{number}")).await.expect("new");
            volume.write(file, 0, vec![7; LONG], Stability::FileSync).await.expect("room");
        }
        let names: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
        let removed = join_all(names.iter().map(|name| volume.remove(root, name))).await;
        assert!(removed.iter().all(Result::is_ok), "{removed:?}");
        volume.settle().await;
        let after = volume.space().await.free_bytes;
        volume.files.shutdown().await.expect("it stops");
        [before, after]
    })
}

#[test]
fn as_many_large_files_as_there_are_chains_go_side_by_side_and_so_does_one_more() {
    for count in [CHAINS - 1, CHAINS, CHAINS + 1] {
        for has_log in [false, true] {
            let [before, after] = removed_at_once(count, has_log);
            // The directory keeps its length.
            let is_back = before - after <= BLOCK;
            assert!(is_back, "{count} files, log: {has_log}: {before} and {after}");
        }
    }
}
