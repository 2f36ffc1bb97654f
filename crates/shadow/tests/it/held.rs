//! Failures with snapshots: many on a full volume, rotten blocks, and roll-backs that fail.

use std::time::Duration;

use enginekit::Volume;
use enginekit::snapshots::{delete, pin, roll_back};
use futures::future::{join, join_all};
use shadow::Shadow;
use sim::{Disk, Executor, Image, Latency, Options, Timing};
use vfs::{FileSystem, FsError, ObjectId, Stability};
use vnode::scrub::Scrubbed;

use crate::bench::{Setting, findings, made, opened};

/// Opens an image, and does some work, which does not always end with a stop.
fn on<T>(image: Image, seed: u64, work: impl AsyncFnOnce(&Volume<Shadow>) -> T) -> (Image, T) {
    let executor = Executor::new(seed);
    let disk = Disk::new(&executor, image);
    let done = executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it opens");
        work(&volume).await
    });
    (disk.contents(), done)
}

fn new(bytes: u64) -> Image {
    let executor = Executor::new(1);
    executor.block_on(made(&executor, &Setting::of(4, 64, bytes))).contents()
}

/// Appends to a file until there is no room.
async fn fill(volume: &Volume<Shadow>, text: &str) {
    let Ok(file) = volume.create(volume.files.root(), text).await else { return };
    for block in 0.. {
        let data = vec![3; 4096];
        if volume.write(file, block * 4096, data, Stability::FileSync).await.is_err() {
            return;
        }
    }
}

async fn write_blocks(volume: &Volume<Shadow>, file: ObjectId, blocks: u64, byte: u8) {
    for block in 0..blocks {
        let written = volume.write(file, block * 4096, vec![byte; 4096], Stability::FileSync).await;
        written.expect("there is room");
    }
}

/// Each file has a snapshot of its own after it, and the rest of the volume is full: all files can
/// be removed, `at_once` at a time, and then all snapshots.
fn many(count: usize, bytes: u64, at_once: usize) {
    let (image, ()) = on(new(bytes), 1, async |volume| {
        let root = volume.files.root();
        let mut names = Vec::new();
        for number in 0..count {
            let text = format!("f{number}");
            let Ok(file) = volume.create(root, &text).await else { break };
            names.push(text);
            let written = volume.write(file, 0, vec![1; 4096], Stability::FileSync).await;
            if written.is_err() || pin(volume, &format!("s{number}")).await.is_err() {
                break;
            }
        }
        assert!(names.len() > 20, "{count}: {}", names.len());
        fill(volume, "filler").await;
        for some in names.chunks(at_once) {
            let gone = join_all(some.iter().map(|text| volume.remove(root, text))).await;
            let wrong = gone.iter().filter_map(|gone| gone.err()).next();
            assert_eq!(wrong, None, "{count}, {at_once} at once");
        }
        let gone = volume.remove(root, "filler").await; // perhaps there was no room for it
        assert!(matches!(gone, Ok(()) | Err(FsError::NoEntry)), "{gone:?}");
        assert!(delete(volume, "s0", true).await.is_ok());
        volume.files.shutdown().await.expect("nothing fails");
    });
    assert_eq!(findings(&image), Ok(()), "{count}, {at_once} at once");
    on(image, 2, async |volume| {
        for number in 1..4 {
            assert!(delete(volume, &format!("s{number}"), true).await.is_ok());
        }
        volume.files.shutdown().await.expect("nothing fails");
    });
}

#[test]
fn files_of_many_snapshots_go_from_a_full_volume() {
    many(60, 4 << 20, 1);
    many(60, 4 << 20, 60);
    many(150, 6 << 20, 150);
    many(300, 12 << 20, 100);
    many(300, 12 << 20, 300);
}

#[test]
fn going_back_over_what_was_never_folded() {
    let (image, ()) = on(new(8 << 20), 1, async |volume| {
        let root = volume.files.root();
        let mut files = Vec::new();
        for number in 0..5 {
            let file = volume.create(root, &format!("f{number}")).await.expect("there is room");
            write_blocks(volume, file, 1, 1).await;
            files.push(file);
        }
        for (number, &file) in files.iter().take(4).enumerate() {
            pin(volume, &format!("s{number}")).await.expect("there is room");
            write_blocks(volume, file, 1, 2).await;
        }
        volume.files.shutdown().await.expect("nothing fails");
    });
    let (image, ()) = on(image, 2, async |volume| {
        assert_eq!(roll_back(volume, "s3").await, Ok(()));
        volume.files.shutdown().await.expect("nothing fails");
    });
    assert_eq!(findings(&image), Ok(()));
}

/// Flips a bit of each block of a kind whose index satisfies `which`.
fn rotten(mut image: Image, kind: u8, which: impl Fn(u64) -> bool) -> (Image, usize) {
    let bytes = image.bytes();
    let mut count = 0;
    for (unit, block) in bytes.chunks(4096).enumerate() {
        let index = u64::from_le_bytes(block[24..32].try_into().expect("8 bytes"));
        if block.starts_with(b"DuSh") && block[6] == kind && which(index) {
            image.write(unit as u64 * 4096 + 3000, &[!block[3000]]);
            count += 1;
        }
    }
    (image, count)
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_volume_stops_well_after_going_back_has_failed() {
    let (image, ()) = on(new(8 << 20), 1, async |volume| {
        pin(volume, "s").await.expect("there is room");
        for number in 0..40 {
            let made = volume.create(volume.files.root(), &format!("f{number}")).await;
            made.expect("there is room");
        }
        volume.files.shutdown().await.expect("nothing fails");
    });
    let (image, count) = rotten(image, 5, |index| index == 1);
    assert!(count > 0);
    let (image, ()) = on(image, 2, async |volume| {
        shadow::planted::plant(Some(shadow::planted::Bug::RefusedRollBacks));
        let refused = roll_back(volume, "s").await;
        shadow::planted::plant(None);
        assert!(refused.is_err());
        volume.files.shutdown().await.expect("nothing fails");
    });
    let told = findings(&image).expect_err("a block of inodes is rotten");
    assert!(!told.contains("free units"), "{told}");
}

#[test]
fn a_file_that_a_snapshot_has_becomes_shorter_on_a_full_volume() {
    for blocks in [20, 600] {
        let (image, ()) = on(new(8 << 20), 1, async |volume| {
            let file = volume.create(volume.files.root(), "f").await.expect("there is room");
            write_blocks(volume, file, blocks, 1).await;
            pin(volume, "s").await.expect("there is room");
            fill(volume, "filler").await;
            assert_eq!(volume.resize(file, 5000).await, Ok(()), "{blocks} blocks");
            volume.files.shutdown().await.expect("nothing fails");
        });
        assert_eq!(findings(&image), Ok(()), "{blocks} blocks");
    }
}

/// A block of a list rots: the live tree works, and so does the rest of the deletions.
#[test]
fn a_list_that_rots_stops_nothing() {
    let (image, ()) = on(new(8 << 20), 1, async |volume| {
        let file = volume.create(volume.files.root(), "f").await.expect("there is room");
        write_blocks(volume, file, 200, 1).await;
        pin(volume, "s").await.expect("there is room");
        write_blocks(volume, file, 40, 2).await;
        volume.files.shutdown().await.expect("nothing fails");
    });
    let (mut image, count) = rotten(image, 12, |_| true);
    assert!(count > 0);
    for turn in 0..3 {
        (image, ()) = on(image, 2 + turn, async |volume| {
            let file = volume.lookup(volume.files.root(), "f").await.expect("it is there");
            write_blocks(volume, file, 200, 3).await;
            if turn == 1 {
                assert!(delete(volume, "s", true).await.is_ok());
            }
            assert_eq!(volume.read(file).await.map(|data| data.len()), Ok(200 * 4096));
            volume.files.shutdown().await.expect("nothing fails");
        });
    }
}

/// A block that only a snapshot holds rots: a scrub names the file and the snapshot, whether the
/// volume is served or not.
#[test]
fn a_scrub_names_what_has_rotted_in_a_snapshot() {
    let (image, ()) = on(new(8 << 20), 1, async |volume| {
        let root = volume.files.root();
        let file = volume.create(root, "f").await.expect("there is room");
        write_blocks(volume, file, 20, 1).await;
        pin(volume, "then").await.expect("there is room");
        write_blocks(volume, file, 20, 2).await;
        pin(volume, "later").await.expect("there is room");
        volume.remove(root, "f").await.expect("it is there");
        volume.files.shutdown().await.expect("nothing fails");
    });
    for (byte, text) in [(1, "then"), (2, "later")] {
        let mut rotten = image.clone();
        let bytes = image.bytes();
        let units = bytes.chunks(4096).enumerate();
        let mut of_file = units.filter(|(_, unit)| unit.iter().all(|&other| other == byte));
        let (unit, _) = of_file.nth(7).expect("a snapshot has it");
        rotten.write(unit as u64 * 4096 + 9, &[0]);
        let told = |found: Scrubbed| {
            let lost = found.lost.into_iter().map(|lost| (lost.path, lost.snapshot));
            lost.collect::<Vec<_>>()
        };
        let right = vec![(Some("/f".to_owned()), Some(text.to_owned()))];
        let executor = Executor::new(2);
        let disk = Disk::new(&executor, rotten.clone());
        let found = executor.block_on(shadow::scrub::scrub(disk, &mut |_| true));
        assert_eq!(told(found.expect("it is well").expect("it ends")), right, "{text}");
        on(rotten, 3, async |volume| {
            let found = volume.files.store().engine().scrub(&mut |_| true).await;
            assert_eq!(told(found.expect("it ends")), right, "{text}, served");
            delete(volume, text, true).await.expect("nothing fails");
            let found = volume.files.store().engine().scrub(&mut |_| true).await;
            assert_eq!(told(found.expect("it ends")), vec![], "{text}, deleted");
            volume.files.shutdown().await.expect("nothing fails");
        });
    }
}

/// A file of 200 blocks in three snapshots, partly overwritten after each.
fn thrice() -> (Image, u64) {
    on(new(8 << 20), 1, async |volume| {
        let file = volume.create(volume.files.root(), "f").await.expect("there is room");
        write_blocks(volume, file, 200, 1).await;
        for (number, byte) in [(1, 2), (2, 3), (3, 4)] {
            pin(volume, &format!("s{number}")).await.expect("there is room");
            write_blocks(volume, file, 10 * number, byte).await;
        }
        volume.files.shutdown().await.expect("nothing fails");
        let space = volume.space().await;
        space.total_bytes - space.free_bytes
    })
}

/// Units filled with this byte.
fn units_of(image: &Image, byte: u8) -> Vec<u64> {
    let bytes = image.bytes();
    let of_it = |(_, unit): &(u64, &[u8])| unit.iter().all(|&other| other == byte);
    (0..).zip(bytes.chunks(4096)).filter(of_it).map(|(unit, _)| unit).collect()
}

#[test]
fn a_scrub_reads_what_trees_share_once_and_tells_it_once() {
    let (image, used) = thrice();
    let scrubbed = |image: Image| {
        let executor = Executor::new(2);
        let disk = Disk::new(&executor, image);
        let found = executor.block_on(shadow::scrub::scrub(disk, &mut |_| true));
        found.expect("it is well").expect("it ends")
    };
    let well = scrubbed(image.clone());
    let most = used + (64 << 10); // lists, lines and the map belong to no file
    assert!((used / 2..most).contains(&well.done_bytes), "{} of {used}", well.done_bytes);
    let mut live = 0;
    for &unit in units_of(&image, 1).iter().step_by(13) {
        let mut rotten = image.clone();
        rotten.write(unit * 4096 + 9, &[0]);
        let lost = scrubbed(rotten).lost;
        assert_eq!(lost.len(), 1, "unit {unit}: {lost:?}");
        assert_eq!(lost[0].path.as_deref(), Some("/f"), "unit {unit}");
        live += u64::from(lost[0].snapshot.is_none());
    }
    assert!(live > 10, "{live} of them are of the file as it is");
}

/// A block of the live tree that a scrub has collected is freed before it is read, and a snapshot
/// holds it.
#[test]
fn what_is_written_over_beside_a_scrub_is_told_of_its_snapshot() {
    let (image, _) = thrice();
    let unit = units_of(&image, 1)[150];
    let mut rotten = image;
    rotten.write(unit * 4096 + 9, &[0]);
    let slow = (100_000, 400_000);
    let latency = Latency { read_ns: slow, write_ns: slow, flush_ns: slow, ..Latency::default() };
    let (mut live, mut pinned) = (0, 0);
    for delay in 0..60 {
        let executor = Executor::new(delay);
        let options = Options { timing: Timing::Random(latency), ..Options::default() };
        let disk = Disk::with_options(&executor, rotten.clone(), options);
        let runtime = executor.runtime();
        executor.block_on(async {
            let volume = opened(runtime.clone(), &disk).await.expect("it opens");
            let file = volume.lookup(volume.files.root(), "f").await.expect("it is there");
            let overwrites = async {
                runtime.clock.sleep(Duration::from_micros(250 * delay)).await;
                let data = vec![9; 200 * 4096];
                let written = volume.write(file, 0, data, Stability::FileSync).await;
                written.expect("there is room");
            };
            let engine = volume.files.store().engine();
            let mut watch = |_: &Scrubbed| true;
            let (found, ()) = join(engine.scrub(&mut watch), overwrites).await;
            let lost = found.expect("it ends").lost;
            assert_eq!(lost.len(), 1, "after {delay}: {lost:?}");
            match lost[0].snapshot.as_deref() {
                None => live += 1,
                snapshot => {
                    assert_eq!(snapshot, Some("s1"), "after {delay}");
                    pinned += 1;
                }
            }
        });
    }
    assert!(live > 0 && pinned > 0, "{live} live, {pinned} of the snapshot");
}

/// An overwrite, and a snapshot `behind` ms after it, on a volume with little unreserved space.
/// Whichever of them succeeds, and with the volume filled again, all files can be removed, and the
/// snapshot deleted. Returns the result of the overwrite.
async fn side_by_side(executor: &Executor, image: &Image, behind: u64) -> Result<(), FsError> {
    let slow = (1_000_000, 1_000_000);
    let latency = Latency { read_ns: slow, write_ns: slow, flush_ns: slow, ..Latency::default() };
    let options = Options { timing: Timing::Random(latency), ..Options::default() };
    let disk = Disk::with_options(executor, image.clone(), options);
    let runtime = executor.runtime();
    let volume = opened(runtime.clone(), &disk).await.expect("it opens");
    let root = volume.files.root();
    let file = volume.lookup(root, "f").await.expect("it is there");
    let snapshot = async {
        runtime.clock.sleep(Duration::from_micros(500 + 1000 * behind)).await;
        pin(&volume, "s").await
    };
    let write = volume.write(file, 320 * 4096, vec![2; 60 * 4096], Stability::FileSync);
    let (written, made) = join(write, snapshot).await;
    assert!(made.is_ok(), "{behind}: {made:?}");
    fill(&volume, "more").await;
    for text in ["f", "filler", "more"] {
        let gone = volume.remove(root, text).await;
        let is_there = text != "more" || gone != Err(FsError::NoEntry);
        assert!(gone.is_ok() || !is_there, "{behind}: {text}: {gone:?}");
    }
    assert!(delete(&volume, "s", true).await.is_ok(), "{behind}");
    volume.files.shutdown().await.expect("nothing fails");
    assert_eq!(findings(&disk.contents()), Ok(()), "{behind}");
    written
}

#[test]
fn a_snapshot_amid_an_overwrite_leaves_what_is_kept() {
    let (image, ()) = on(new(8 << 20), 1, async |volume| {
        let file = volume.create(volume.files.root(), "f").await.expect("there is room");
        write_blocks(volume, file, 1100, 1).await;
        fill(volume, "filler").await;
        let filler = volume.lookup(volume.files.root(), "filler").await.expect("it is there");
        let size = volume.attributes(filler).await.size;
        volume.resize(filler, size - 70 * 4096).await.expect("it becomes shorter");
        volume.files.shutdown().await.expect("nothing fails");
    });
    let executor = Executor::new(2);
    let mut seen = [0, 0];
    for behind in 0..12 {
        let written = executor.block_on(side_by_side(&executor, &image, behind));
        assert!(matches!(written, Ok(()) | Err(FsError::NoSpace)), "{behind}: {written:?}");
        seen[usize::from(written.is_ok())] += 1;
    }
    assert!(!seen.contains(&0), "{seen:?}");
}
