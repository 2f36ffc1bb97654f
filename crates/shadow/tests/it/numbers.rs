//! Numbers of files: those of files that went are given again, over stops too.

use sim::{Disk, Executor};
use vfs::FileSystem;

use crate::bench::{Setting, findings, made, opened};

/// Files come and go, and the volume is stopped each time. If one in so many stays, the blocks of
/// inodes are not empty.
fn turns(turns: u64, files: u64, stays: Option<u64>) -> u64 {
    let executor = Executor::new(1);
    let mut image = executor.block_on(made(&executor, &Setting::of(4, 64, 16 << 20))).contents();
    let mut last = 0;
    for turn in 0..turns {
        let executor = Executor::new(turn);
        let disk = Disk::new(&executor, image);
        last = executor.block_on(async {
            let volume = opened(executor.runtime(), &disk).await.expect("it is well");
            let (root, mut last) = (volume.files.root(), 0);
            for number in 0..files {
                let text = format!("{turn}-{number}");
                let file = volume.create(root, &text).await.expect("there is room");
                last = last.max(file.ino.0);
            }
            for number in 0..files {
                if stays.is_none_or(|stays| number % stays > 0) {
                    let gone = volume.remove(root, &format!("{turn}-{number}")).await;
                    gone.expect("it is there");
                }
            }
            volume.files.shutdown().await.expect("nothing fails");
            last
        });
        assert_eq!(findings(&disk.contents()), Ok(()), "turn {turn}");
        image = disk.contents();
    }
    last
}

#[test]
fn numbers_of_files_that_went_before_a_stop_are_given_again() {
    let last = turns(8, 200, None);
    assert!(last < 300, "the last number is {last}");
}

#[test]
fn free_slots_beside_files_that_stay_are_used() {
    // 40 turns leave 520 files; without that, there would be 8,000 numbers.
    let last = turns(40, 200, Some(16));
    assert!(last < 3000, "the last number is {last}");
}
