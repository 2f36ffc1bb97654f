//! The disk is a file that grows, and what holds it is full: its writes are refused and nothing
//! else is wrong. What needs space is refused, what was answered is there, and all goes on when
//! there is room again.

use std::time::Duration;

use block::Verb;
use futures::future::Either;
use futures::future::select;
use sim::{Effect, Executor, Fault};
use vfs::{FileSystem, FsError, Stability};

use crate::common::quiet::Quiet;
use crate::common::volume::Volume;

const BLOCK: u64 = 4096;
const SMALL: usize = 900;
const LARGE: usize = 100 << 10;

fn refuse(quiet: &Quiet) {
    quiet.disks.home.inject(Fault::on(Verb::Write, Effect::NoSpace).forever());
}

async fn pause(executor: &Executor, seconds: u64) {
    executor.runtime().clock.sleep(Duration::from_secs(seconds)).await;
}

/// Files whose content was answered for, each of one byte.
async fn holds(volume: &Volume, files: &[(&str, u8, usize)]) -> Result<(), String> {
    for &(name, byte, length) in files {
        let file = volume.lookup(volume.files.root(), name).await;
        let file = file.map_err(|error| format!("{name}: {error}"))?;
        let data = volume.read(file).await.map_err(|error| format!("{name}: {error}"))?;
        if data != vec![byte; length] {
            return Err(format!("{name} has other content"));
        }
    }
    Ok(())
}

/// Files are made, written and removed while the disk refuses; then the power goes, or there is
/// room again.
fn refused(cut: bool) -> Result<(), String> {
    let quiet = Quiet::new(16 << 20, Some(4 << 20));
    let files = [("old", 1, LARGE), ("small", 2, SMALL), ("over", 3, SMALL)];
    quiet.executor.block_on(async {
        let volume = quiet.make((BLOCK, 512)).await;
        let root = volume.files.root();
        for (name, length) in [("old", LARGE), ("over", SMALL), ("gone", LARGE)] {
            let file = volume.create(root, name).await.expect("room");
            volume.write(file, 0, vec![1; length], Stability::FileSync).await.expect("room");
        }
        volume.settle().await;
        refuse(&quiet);
        // What the log carries is answered, whatever becomes of its place.
        let small = volume.create(root, "small").await.expect("the log has room");
        volume.write(small, 0, vec![2; SMALL], Stability::FileSync).await.expect("it rides");
        let over = volume.lookup(root, "over").await.expect("it is there");
        volume.write(over, 0, vec![3; SMALL], Stability::FileSync).await.expect("it rides");
        volume.remove(root, "gone").await.expect("the log has room");
        // What needs space below is refused, and the rest goes on.
        let large = volume.create(root, "large").await.expect("the log has room");
        for stability in [Stability::FileSync, Stability::DataSync] {
            let written = volume.write(large, 0, vec![4; LARGE], stability).await;
            assert_eq!(written, Err(FsError::NoSpace), "{stability:?}");
        }
        let before = volume.files.verifier();
        volume.write(large, 0, vec![5; LARGE], Stability::Unstable).await.expect("memory");
        assert_eq!(volume.commit(large).await.map(drop), Err(FsError::NoSpace));
        assert_ne!(volume.files.verifier(), before, "the data is gone");
        // Nobody asks for it, and the COMMIT that comes later is told all the same.
        volume.write(large, 0, vec![6; LARGE], Stability::Unstable).await.expect("memory");
        let quiesced = volume.files.store().quiesce().await;
        if quiesced != Err(FsError::NoSpace) {
            return Err(format!("a stop that waits for room below ends with {quiesced:?}"));
        }
        assert_eq!(volume.commit(large).await.map(drop), Err(FsError::NoSpace));
        assert_eq!(volume.commit(large).await.map(drop), Ok(()), "it was told once");
        pause(&quiet.executor, 30).await;
        holds(&volume, &files).await?;
        if cut {
            return Ok(());
        }
        quiet.disks.home.heal();
        pause(&quiet.executor, 5).await;
        volume.write(large, 0, vec![7; LARGE], Stability::FileSync).await.expect("room again");
        holds(&volume, &[("large", 7, LARGE)]).await?;
        holds(&volume, &files).await?;
        volume.files.shutdown().await.map_err(|error| format!("stop: {error}"))
    })?;
    let back = quiet.cut();
    back.executor.block_on(async {
        let volume = back.open().await;
        holds(&volume, &files).await?;
        let gone = volume.lookup(volume.files.root(), "gone").await.err();
        assert_eq!(gone, Some(FsError::NoEntry));
        volume.files.shutdown().await.map_err(|error| format!("stop: {error}"))
    })
}

#[test]
fn a_disk_that_finds_no_room_below_is_no_broken_disk() {
    for cut in [false, true] {
        refused(cut).unwrap_or_else(|wrong| panic!("cut {cut}: {wrong}"));
    }
}

/// More changes than the log has room for: those that do not fit wait, with the locks that they
/// have, and all else can be read.
#[test]
fn changes_wait_when_the_log_is_full_and_go_on_when_there_is_room() {
    let quiet = Quiet::new(32 << 20, Some(2 << 20));
    let executor = &quiet.executor;
    executor.block_on(async {
        let volume = quiet.make((BLOCK, 512)).await;
        let root = volume.files.root();
        let directory = volume.mkdir(root, "directory").await.expect("room");
        let old = volume.create(root, "old").await.expect("room");
        volume.write(old, 0, vec![8; SMALL], Stability::FileSync).await.expect("room");
        refuse(&quiet);
        let many = async {
            for number in 0..2000 {
                let file = volume.create(directory, &format!("file-{number}")).await?;
                volume.write(file, 0, vec![8; SMALL], Stability::FileSync).await?;
            }
            Ok::<_, FsError>(())
        };
        let (many, patience) = (Box::pin(many), Box::pin(pause(executor, 60)));
        let Either::Right(((), many)) = select(many, patience).await else {
            panic!("the log is not as long")
        };
        holds(&volume, &[("old", 8, SMALL)]).await.expect("it can be read");
        quiet.disks.home.heal();
        many.await.expect("room again");
        assert_eq!(volume.list(directory).await.map(|names| names.len()), Ok(2002), "and two dots");
        volume.files.shutdown().await.expect("it stops");
    });
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_refusal_that_stops_the_volume_is_found() {
    use crate::common::quiet::finds;
    assert!(finds(ffs::planted::Bug::StoppedByRefusals, || refused(false)));
}
