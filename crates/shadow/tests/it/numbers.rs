//! Numbers: those of files that went are given again, over stops too; and those of updates never.

use shadow::format::anchor::Anchor;
use shadow::format::superblock::Superblock;
use sim::{Choice, Disk, Executor, Fate, Image, Prng, Trace};
use vfs::{FileSystem, Stability};

use crate::bench::{Setting, findings, made, opened};
use crate::scrub::{UNIT, unit_of};

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

/// The highest number of a superblock that a disk has.
fn highest(image: &Image) -> u64 {
    let anchor = [0, 1].into_iter().find_map(|unit| Anchor::read(&unit_of(image, unit)).ok());
    let secret = anchor.expect("one is whole").secret;
    let read = |at| Superblock::read(&unit_of(image, at), at, &secret);
    let numbers = (2..image.size() / UNIT).filter_map(read).map(|one| one.number);
    numbers.max().expect("there is one")
}

/// Files that are made and written.
fn some_work() -> Trace {
    let executor = Executor::new(5);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 1 << 20)));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        disk.start_trace();
        for number in 0..12_u8 {
            let file = volume.create(volume.files.root(), &format!("f{number}")).await;
            let data = vec![number; 9000];
            let written = volume.write(file.expect("room"), 0, data, Stability::FileSync).await;
            written.expect("there is room");
        }
    });
    disk.trace()
}

/// Whatever a cut leaves of the update that was on its way, the first one after a return has a
/// higher number, also when a superblock is torn and nobody sees its number. Where the update of a
/// return is torn itself, the next return takes that number again: both lead to the same tree.
pub(crate) fn updates_pass_what_a_cut_left() -> Result<(), String> {
    let trace = some_work();
    for position in 0..=trace.events().len() {
        for seed in 0..4 {
            let platter = trace.platter_at(position);
            let image = platter.image(&Choice::random(&platter, &mut Prng::new(seed)));
            let executor = Executor::new(seed);
            let disk = Disk::new(&executor, image);
            executor.block_on(opened(executor.runtime(), &disk))?;
            let begun = highest(&platter.image_with(|_| Fate::Whole));
            let next = highest(&disk.contents());
            if next <= begun {
                let cut = format!("event {position}, seed {seed}");
                return Err(format!("{cut}: {next} follows, and {begun} was on its way"));
            }
        }
    }
    Ok(())
}

#[test]
fn an_update_after_a_return_has_a_number_that_none_had() {
    assert_eq!(updates_pass_what_a_cut_left(), Ok(()));
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
