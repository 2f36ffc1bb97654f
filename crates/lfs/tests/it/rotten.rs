//! Rot in a block of a volume whose server was killed: a start shows all that was acknowledged, or
//! refuses, and a repair goes on with what is left.

use std::rc::Rc;

use enginekit::snapshots::{delete, pin};
use lfs::{OpenError, check, repair};
use sim::{Disk, Executor, Fate, Image, Mark, Prng, Trace};
use vfs::{FileSystem, FsError, Stability};

use crate::bench::{Setting, findings, made, opened, settings};

const FILES: u64 = 24;

fn content(number: u64) -> Vec<u8> {
    let length = [100, 5_000, 40_000, 90_000][number as usize % 4];
    (0..length).map(|at: u64| (at ^ at >> 8 ^ (number * 37)) as u8).collect()
}

/// Files that are made one by one, each with a mark when it is acknowledged, over two openings.
fn record(setting: &Setting, seed: u64) -> Trace {
    let executor = Executor::new(seed);
    executor.block_on(async {
        let disk = made(&executor, setting).await;
        disk.start_trace();
        for half in [0..FILES / 2, FILES / 2..FILES] {
            let volume = opened(executor.runtime(), &disk).await.expect("nothing is damaged");
            let root = volume.files.root();
            for number in half {
                let file = volume.create(root, &format!("f{number}")).await.expect("there is room");
                let data = content(number);
                volume.write(file, 0, data, Stability::FileSync).await.expect("there is room");
                disk.mark(Mark::Number(number + 1));
            }
            volume.files.shutdown().await.expect("nothing fails");
        }
        disk.trace()
    })
}

/// Opens an image, and compares all acknowledged files but the last: until something follows it,
/// rot in its batch is like a cut. Returns the image when it is stopped; none if it does not open.
fn compared(image: &Image, told: u64) -> Result<Option<Image>, String> {
    let executor = Executor::new(5);
    let disk = Disk::new(&executor, image.clone());
    executor.block_on(async {
        let Ok(volume) = opened(executor.runtime(), &disk).await else { return Ok(None) };
        let root = volume.files.root();
        for number in 0..told.saturating_sub(1) {
            let found = async {
                let file = volume.lookup(root, &format!("f{number}")).await?;
                volume.read(file).await
            };
            match found.await {
                Ok(bytes) if bytes == content(number) => {}
                Ok(bytes) => return Err(format!("f{number} has {} other bytes", bytes.len())),
                Err(FsError::Io | FsError::Corrupt) => {}
                Err(error) => return Err(format!("f{number}: {error}")),
            }
        }
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        Ok(Some(disk.contents()))
    })
}

/// Repairs an image, which then opens and is well, apart from blocks of files.
fn repaired(image: &Image) -> Result<(), String> {
    let executor = Executor::new(6);
    let disk = Disk::new(&executor, image.clone());
    let done = executor.block_on(async {
        repair(disk.clone(), executor.runtime()).await?;
        let checked = check(disk.clone(), &executor.runtime(), false, &mut |_, _| {}).await?;
        Ok::<_, OpenError>(checked)
    });
    let checked = done.map_err(|error| format!("repair: {error}"))?;
    let wrong = checked.wrong.iter().find(|wrong| wrong.ino.is_none());
    wrong.map_or(Ok(()), |wrong| Err(format!("repaired: {wrong}")))?;
    let disk = Disk::new(&executor, disk.contents());
    let open = executor.block_on(opened(executor.runtime(), &disk));
    open.map(|_: enginekit::Volume<_>| ()).map_err(|error| format!("repaired: {error}"))
}

/// The image of a process that is killed after some events: everything is as it was written.
fn killed(trace: &Trace, position: usize) -> Image {
    trace.platter_at(position).image_with(|_| Fate::Whole)
}

/// Flips a bit of each of some blocks, after some of the events.
pub(crate) fn first_wrong(seed: u64, every: usize) -> Result<(), String> {
    let setting = &settings()[seed as usize % 3];
    let trace = Rc::new(record(setting, seed));
    let mut prng = Prng::new(seed);
    let (mut opened, mut refused) = (0_u64, 0_u64);
    for position in (0..=trace.events().len()).step_by(every) {
        let told = trace.marks_before(position).count() as u64;
        let image = killed(&trace, position);
        let units: Vec<u64> =
            (0..image.size() / 4096).filter(|&unit| !is_blank(&image, unit)).collect();
        let ends = [1, 2, units[units.len() - 1], units[units.len() - 2]];
        let some: Vec<u64> = (0..4).map(|_| units[prng.index(units.len())]).collect();
        for unit in ends.into_iter().chain(some) {
            let (mut rotten, bit) = (image.clone(), 1 << prng.index(8));
            let at = unit * 4096 + prng.next_u64() % 4096;
            flip(&mut rotten, at, bit);
            let wrong = |wrong: String| format!("event {position}, unit {unit}: {wrong}");
            let stopped = compared(&rotten, told).map_err(wrong)?;
            let (is_open, right) = (stopped.is_some(), block(&rotten, unit));
            (opened, refused) = (opened + u64::from(is_open), refused + u64::from(!is_open));
            // The disk has the block again one day.
            if let Some(mut stopped) = stopped.filter(|it| block(it, unit) == right) {
                flip(&mut stopped, at, bit);
                compared(&stopped, told).map_err(|it| wrong(format!("back again: {it}")))?;
            }
            repaired(&rotten).map_err(wrong)?;
        }
    }
    assert!(opened > 20 * refused.min(1), "{opened} open, {refused} are refused");
    Ok(())
}

fn flip(image: &mut Image, at: u64, bit: u8) {
    let mut byte = [0];
    image.read(at, &mut byte);
    image.write(at, &[byte[0] ^ bit]);
}

fn block(image: &Image, unit: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    image.read(unit * 4096, &mut bytes);
    bytes
}

fn is_blank(image: &Image, unit: u64) -> bool {
    block(image, unit).iter().all(|&byte| byte == 0)
}

#[test]
fn one_rotten_block_hides_nothing_that_was_acknowledged() {
    for seed in 1..=3 {
        assert_eq!(first_wrong(seed, 5), Ok(()), "run {seed}");
    }
}

#[test]
fn a_repair_of_a_whole_volume_changes_nothing() {
    let trace = record(&settings()[0], 1);
    let image = killed(&trace, trace.events().len());
    assert_eq!(repaired(&image), Ok(()));
    assert!(compared(&image, FILES).is_ok_and(|stopped| stopped.is_some()));
    assert_eq!(findings(&image), Ok(()));
}

/// Repairs a volume with snapshots, of which one holds what the live tree has lost; then all of it
/// goes.
pub(crate) fn repaired_with_snapshots() -> Result<(), String> {
    let executor = Executor::new(8);
    let disk = executor.block_on(made(&executor, &settings()[0]));
    let told = |error: FsError| error.to_string();
    let free = executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        let root = volume.files.root();
        let free = volume.space().await.free_bytes;
        for (number, snapshot) in [(3, "one"), (2, "two"), (1, "three")] {
            let file = volume.create(root, snapshot).await.map_err(told)?;
            let data = content(number);
            volume.write(file, 0, data, Stability::FileSync).await.map_err(told)?;
            pin(&volume, snapshot).await?;
        }
        for text in ["one", "two", "three"] {
            volume.remove(root, text).await.map_err(told)?;
        }
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(free)
    })?;
    executor.block_on(repair(disk.clone(), executor.runtime())).map_err(|it| it.to_string())?;
    findings(&disk.contents())?;
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        for text in ["two", "three", "one"] {
            delete(&volume, text, true).await?;
        }
        volume.settle().await;
        let now = volume.space().await.free_bytes;
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        if now == free { Ok(()) } else { Err(format!("{now} of {free} are free")) }
    })?;
    findings(&disk.contents())
}

#[test]
fn a_repair_keeps_snapshots_and_knows_what_they_alone_hold() {
    assert_eq!(repaired_with_snapshots(), Ok(()));
}

/// The first units of the summaries of a volume that was opened once, in their order.
fn summaries(image: &Image) -> Vec<u64> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    for unit in 0..image.size() / 4096 {
        let bytes = block(image, unit);
        if bytes.starts_with(b"DuSh") && bytes[6] == lfs::format::kind::SUMMARY.byte() {
            found.push((cow::format::head::birth(&bytes), unit));
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, unit)| unit).collect()
}

#[test]
fn a_log_that_is_given_up_names_the_files_that_it_changes() {
    let executor = Executor::new(4);
    let disk = executor.block_on(made(&executor, &settings()[0]));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let root = volume.files.root();
        for text in ["first", "second", "third"] {
            let file = volume.create(root, text).await.expect("there is room");
            let written = volume.write(file, 0, vec![7; 100], Stability::FileSync).await;
            written.expect("there is room");
        }
        std::mem::forget(volume); // killed
    });
    let mut image = disk.contents();
    let all = summaries(&image);
    assert!(all.len() >= 6, "{all:?}");
    flip(&mut image, all[2] * 4096 + 3000, 1);
    assert_eq!(compared(&image, 0).map(|stopped| stopped.is_some()), Ok(false), "it refuses");
    let executor = Executor::new(9);
    let disk = Disk::new(&executor, image.clone());
    let checked = executor
        .block_on(check(disk, &executor.runtime(), false, &mut |_, _| {}))
        .expect("it is checked all the same");
    let of_log = checked.wrong.iter().filter(|wrong| wrong.law == lfs::Law::Log);
    let files: Vec<Option<u64>> = of_log.map(|wrong| wrong.ino).collect();
    assert!(files.contains(&None) && files.len() >= 3, "{files:?}");
    assert_eq!(repaired(&image), Ok(()));
}
