//! Numbers: those of removed files are reused, even after stops; those of updates never are.

use enginekit::Volume;
use enginekit::snapshots::{delete, listed, pin, roll_back};
use shadow::Shadow;
use shadow::format::anchor::Anchor;
use shadow::format::superblock::Superblock;
use sim::{Choice, Disk, Executor, Fate, Image, Prng, Trace};
use vfs::{FileSystem, FsError, SnapshotNumber, Stability};

use crate::bench::{Setting, findings, made, opened};
use crate::scrub::{UNIT, unit_of};

/// Makes and removes files, with a stop each time; returns the last number. If one in `stays` files
/// stays, the blocks of inodes do not become empty.
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

/// The highest number of a superblock on a disk.
fn highest(image: &Image) -> u64 {
    let anchor = [0, 1].into_iter().find_map(|unit| Anchor::read(&unit_of(image, unit)).ok());
    let secret = anchor.expect("one is whole").secret;
    let read = |at| Superblock::read(&unit_of(image, at), at, &secret);
    let numbers = (2..image.size() / UNIT).filter_map(read).map(|one| one.number);
    numbers.max().expect("there is one")
}

/// Makes and writes files; returns the trace.
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

/// However much a cut leaves of the update on its way, the first update after recovery has a higher
/// number, even if a superblock is torn so that its number is not seen. If the update of a recovery
/// is torn itself, the next recovery takes that number again: both lead to the same tree.
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
    // 40 turns leave 520 files; without reuse there would be 8,000 numbers.
    let last = turns(40, 200, Some(16));
    assert!(last < 3000, "the last number is {last}");
}

/// Sets the largest snapshot number that the volume ever had.
fn with_last(mut image: Image, last: u64) -> Image {
    for at in 2..image.size() / UNIT - 2 {
        if let Some((secret, mut superblock)) = Superblock::of_any(&unit_of(&image, at), at) {
            superblock.snapshots.last = last;
            image.write(at * UNIT, &*superblock.write(at, &secret));
        }
    }
    image
}

/// Opens a volume, does some work, stops it, and checks it.
fn reopened<T>(image: Image, work: impl AsyncFnOnce(&Volume<Shadow>) -> T) -> (Image, T) {
    let executor = Executor::new(1);
    let disk = Disk::new(&executor, image);
    let done = executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is well");
        let done = work(&volume).await;
        volume.files.shutdown().await.expect("nothing fails");
        done
    });
    assert_eq!(findings(&disk.contents()), Ok(()));
    (disk.contents(), done)
}

/// Overwrites a file so often that records are folded, and dead blocks are on lists.
async fn overwritten(volume: &Volume<Shadow>, with: u8) {
    let file = volume.lookup(volume.files.root(), "file").await.expect("it is there");
    for _ in 0..200 {
        let data = vec![with; 20_000];
        volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
    }
}

/// The content of the file in a tree, found by its name: one byte, repeated.
async fn shown(volume: &Volume<Shadow>, snapshot: Option<&str>) -> Result<u8, FsError> {
    let mut directory = volume.files.root();
    if let Some(text) = snapshot {
        directory = volume.lookup(directory, ".snapshot").await?;
        directory = volume.lookup(directory, text).await?;
    }
    let file = volume.lookup(directory, "file").await?;
    let data = volume.read(file).await?;
    assert!(data.len() == 20_000 && data.iter().all(|&byte| byte == data[0]));
    Ok(data[0])
}

#[test]
fn snapshots_of_large_numbers_are_as_good_as_others() {
    let last = SnapshotNumber::LAST.0;
    for before in [0, u64::from(u32::MAX) - 2, (1 << 32) + 7, (1 << 40) - 2, last - 3] {
        let executor = Executor::new(1);
        let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 8 << 20)));
        let (image, ()) = reopened(disk.contents(), async |volume| {
            volume.create(volume.files.root(), "file").await.expect("it is new");
        });
        let (image, numbers) = reopened(with_last(image, before), async |volume| {
            let mut numbers = Vec::new();
            for (text, with) in [("one", 1), ("two", 2), ("three", 3)] {
                overwritten(volume, with).await;
                numbers.push(pin(volume, text).await.expect("there is room").number.0);
            }
            overwritten(volume, 4).await;
            numbers
        });
        assert_eq!(numbers, [before + 1, before + 2, before + 3]);
        let (image, ()) = reopened(image, async |volume| {
            for (snapshot, with) in
                [(Some("one"), 1), (Some("two"), 2), (Some("three"), 3), (None, 4)]
            {
                assert_eq!(shown(volume, snapshot).await, Ok(with), "behind {before}");
            }
            delete(volume, "two", true).await.expect("nothing fails");
            let more = pin(volume, "four").await;
            assert_eq!(more.is_ok(), before + 3 < last, "{more:?} behind {before}");
            if more.is_ok() {
                delete(volume, "four", true).await.expect("nothing fails");
            }
        });
        let (image, ()) =
            reopened(image, async |volume| roll_back(volume, "three").await.expect("the newest"));
        reopened(image, async |volume| {
            for (snapshot, with) in [(Some("one"), 1), (None, 3)] {
                assert_eq!(shown(volume, snapshot).await, Ok(with), "behind {before}");
            }
            for text in ["one", "three"] {
                delete(volume, text, true).await.expect("nothing fails");
            }
            assert_eq!(listed(volume).await, Ok(vec![]));
        });
    }
}

/// A file id has 24 bits for the number of a snapshot: a number that has the same bits as another
/// one is skipped.
#[test]
fn no_two_snapshots_have_file_ids_in_common() {
    let executor = Executor::new(1);
    let disk = executor.block_on(made(&executor, &Setting::of(4, 64, 8 << 20)));
    let (image, _) = reopened(disk.contents(), async |volume| pin(volume, "one").await);
    let marks = (1 << 24) - 2;
    reopened(with_last(image, marks - 1), async |volume| {
        for (text, right) in [("two", marks), ("three", marks + 2)] {
            assert_eq!(pin(volume, text).await.map(|made| made.number.0), Ok(right));
        }
        let mut ids = Vec::new();
        for number in [0, 1, marks, marks + 2] {
            let root = volume.files.root().within(SnapshotNumber(number));
            ids.push(volume.attributes(root).await.ino.0);
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 4);
    });
}
