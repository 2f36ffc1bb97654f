//! Multi-step operations: removal and truncation of large files, cut at every event.

use enginekit::Volume;
use shadow::Shadow;
use sim::{Choice, Disk, Executor, Prng, Trace};
use vfs::{FileSystem, FsError, Stability};

use crate::bench::{Setting, findings, made, opened};

/// Size of the file: several steps of 256 blocks.
const LENGTH: usize = 3 << 20;
/// Size after the truncation, within a block.
const SHORT: u64 = 100_001;

fn content() -> Vec<u8> {
    (0..LENGTH).map(|at| (at ^ at >> 9) as u8 | 1).collect()
}

/// Removes or truncates a large file, and returns the trace of the disk.
fn record(seed: u64, goes: bool) -> Trace {
    let executor = Executor::new(seed);
    executor.block_on(async {
        let disk = made(&executor, &Setting::of(4, 64, 8 << 20)).await;
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let root = volume.files.root();
        let file = volume.create(root, "large").await.expect("it is new");
        volume.write(file, 0, content(), Stability::Unstable).await.expect("there is room");
        volume.commit(file).await.expect("there is room");
        disk.start_trace();
        let done = if goes {
            volume.remove(root, "large").await
        } else {
            volume.resize(file, SHORT).await
        };
        done.expect("it is there");
        volume.settle().await;
        disk.trace()
    })
}

/// The remaining bytes of the file, if it exists.
async fn left(volume: &Volume<Shadow>) -> Result<Option<Vec<u8>>, FsError> {
    match volume.lookup(volume.files.root(), "large").await {
        Ok(file) => volume.read(file).await.map(Some),
        Err(FsError::NoEntry) => Ok(None),
        Err(error) => Err(error),
    }
}

fn check(trace: &Trace, position: usize, seed: u64, goes: bool) -> Result<(), String> {
    let platter = trace.platter_at(position);
    let image = platter.image(&Choice::random(&platter, &mut Prng::new(seed)));
    findings(&image)?;
    let executor = Executor::new(seed);
    let disk = Disk::new(&executor, image);
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await?;
        volume.settle().await;
        let left = left(&volume).await.map_err(|error| error.to_string())?;
        let whole = content();
        let is_right = match &left {
            Some(left) => *left == whole || !goes && **left == whole[..SHORT as usize],
            None => goes,
        };
        let length = left.map(|left| left.len());
        if !is_right {
            return Err(format!("{length:?} bytes are left"));
        }
        volume.files.shutdown().await.map_err(|error| error.to_string())?;
        let used = volume.space().await;
        let expected = length.unwrap_or(0).div_ceil(4096) as u64 * 4096;
        if used.total_bytes - used.free_bytes != expected + 4096 {
            return Err(format!("{length:?} bytes are left, and it is so full: {used:?}"));
        }
        Ok(())
    })?;
    findings(&disk.contents())
}

pub(crate) fn steps_are_gone_on_with() -> Result<(), String> {
    for goes in [true, false] {
        let trace = record(5, goes);
        for position in 0..=trace.events().len() {
            for seed in [1, 2] {
                check(&trace, position, seed, goes)
                    .map_err(|wrong| format!("goes: {goes}, event {position}: {wrong}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_large_file_goes_or_becomes_shorter_over_cuts() {
    assert_eq!(steps_are_gone_on_with(), Ok(()));
}

/// Directories do not shrink, so one that had many names is freed in steps.
#[test]
fn a_large_directory_goes_over_cuts() {
    let executor = Executor::new(5);
    let setting = Setting::of(4, 256, 24 << 20);
    let disk = executor.block_on(made(&executor, &setting));
    executor.block_on(async {
        let volume = opened(executor.runtime(), &disk).await.expect("it is new");
        let root = volume.files.root();
        let large = volume.mkdir(root, "large").await.expect("there is room");
        let name = |number: u64| format!("{number:0255}");
        let file = volume.create(root, "f").await.expect("there is room");
        let names = 4200; // a block has 14 of them
        for number in 0..names {
            volume.link(file, large, &name(number)).await.expect("there is room");
        }
        for number in 0..names {
            volume.remove(large, &name(number)).await.expect("it is there");
        }
        volume.settle().await;
        disk.start_trace();
        volume.rmdir(root, "large").await.expect("it is empty");
        volume.settle().await;
    });
    let trace = disk.trace();
    let mut count = 0;
    for position in 0..=trace.events().len() {
        let platter = trace.platter_at(position);
        let image = platter.image(&Choice::random(&platter, &mut Prng::new(position as u64)));
        assert_eq!(findings(&image), Ok(()), "event {position}");
        count += 1;
    }
    assert!(count > 4, "it goes in {count} steps");
}
