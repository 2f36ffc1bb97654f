//! The disk is a growing file on a full filesystem: its writes are refused, with no other defect.
//! Operations that need space are refused, acknowledged data is there, and service continues when
//! there is room again.

use std::pin::pin;
use std::time::Duration;

use block::Verb;
use futures::future::Either;
use futures::future::select;
use sim::{Effect, Executor, Fault};
use ufs2::layout::{Geometry, SUPERBLOCK_ADDRESS, SUPERBLOCK_ROOM, Superblock};
use vfs::{FileSystem, FsError, ObjectId, Stability};
use zerocopy::FromBytes;

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

/// Files with acknowledged content, each of one byte value.
async fn holds(volume: &Volume, files: &[(&str, u8, usize)]) -> Result<(), String> {
    holds_in(volume, volume.files.root(), files).await
}

async fn holds_in(
    volume: &Volume,
    directory: ObjectId,
    files: &[(&str, u8, usize)],
) -> Result<(), String> {
    for &(name, byte, length) in files {
        let file = volume.lookup(directory, name).await;
        let file = file.map_err(|error| format!("{name}: {error}"))?;
        let data = volume.read(file).await.map_err(|error| format!("{name}: {error}"))?;
        if data != vec![byte; length] {
            return Err(format!("{name} has other content"));
        }
    }
    Ok(())
}

/// Files are made, written and removed while the disk refuses writes; then power fails, or there is
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
        // Data in the log is acknowledged, whatever happens in place.
        let small = volume.create(root, "small").await.expect("the log has room");
        volume.write(small, 0, vec![2; SMALL], Stability::FileSync).await.expect("it rides");
        let over = volume.lookup(root, "over").await.expect("it is there");
        volume.write(over, 0, vec![3; SMALL], Stability::FileSync).await.expect("it rides");
        volume.remove(root, "gone").await.expect("the log has room");
        // Operations that need space below are refused, and the rest continues.
        let large = volume.create(root, "large").await.expect("the log has room");
        for stability in [Stability::FileSync, Stability::DataSync] {
            let written = volume.write(large, 0, vec![4; LARGE], stability).await;
            assert_eq!(written, Err(FsError::NoSpace), "{stability:?}");
        }
        let before = volume.files.verifier();
        volume.write(large, 0, vec![5; LARGE], Stability::Unstable).await.expect("memory");
        assert_eq!(volume.commit(large).await.map(drop), Err(FsError::NoSpace));
        assert_ne!(volume.files.verifier(), before, "the data is gone");
        // No caller waits for it, and a later COMMIT still gets the error.
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

/// Makes files until the log has no room for another. Returns their number.
async fn fill_log(volume: &Volume, directory: ObjectId) -> usize {
    for number in 0..2000 {
        let full = match volume.create(directory, &format!("file-{number}")).await {
            Ok(file) => volume.write(file, 0, vec![8; SMALL], Stability::FileSync).await.err(),
            Err(error) => Some(error),
        };
        if let Some(error) = full {
            assert_eq!(error, FsError::NoSpace);
            return number;
        }
    }
    panic!("the log is not as long")
}

/// A volume without in-place writes, and a directory in it.
async fn refusing(quiet: &Quiet) -> (Volume, ObjectId) {
    let volume = quiet.make((BLOCK, 512)).await;
    let root = volume.files.root();
    let directory = volume.mkdir(root, "directory").await.expect("room");
    let old = volume.create(root, "old").await.expect("room");
    volume.write(old, 0, vec![8; LARGE], Stability::FileSync).await.expect("room");
    volume.settle().await;
    volume.write(old, 0, vec![9; SMALL], Stability::FileSync).await.expect("it rides");
    refuse(quiet);
    (volume, directory)
}

/// More changes than the log has room for: those that do not fit are refused, and release their
/// locks.
fn full_log() -> Result<(), String> {
    let quiet = Quiet::new(32 << 20, Some(2 << 20));
    let executor = &quiet.executor;
    executor.block_on(async {
        let (volume, directory) = refusing(&quiet).await;
        let root = volume.files.root();
        let filled = pin!(fill_log(&volume, directory));
        let Either::Left((made, _)) = select(filled, pin!(pause(executor, 60))).await else {
            return Err("a change waits".to_owned());
        };
        let last = format!("file-{}", made - 1);
        holds_in(&volume, directory, &[(&last, 8, SMALL)]).await?;
        let old = volume.lookup(root, "old").await.expect("it is there");
        let shown = volume.read(old).await.expect("it can be read");
        assert_eq!((shown[0], shown[SMALL]), (9, 8));
        let removed = volume.remove(directory, &last).await;
        assert_eq!(removed, Err(FsError::NoSpace), "a removal, too, needs room in the log");
        quiet.disks.home.heal();
        pause(executor, 5).await;
        volume.remove(directory, &last).await.expect("room again");
        let names = volume.list(directory).await.expect("it can be read").len();
        assert!((made + 1..=made + 2).contains(&names), "and two dots, and one that is empty");
        volume.files.shutdown().await.map_err(|error| format!("stop: {error}"))
    })
}

#[test]
fn changes_are_refused_when_the_log_is_full_and_go_on_when_there_is_room() {
    full_log().unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// The sync pauses for an hour by itself: a task that wants room wakes it.
#[test]
fn whoever_wants_room_in_the_log_does_not_wait_for_the_sync_to_come() {
    let quiet = Quiet::new(32 << 20, Some(2 << 20));
    let clock = quiet.executor.runtime().clock;
    quiet.executor.block_on(async {
        let volume = quiet.make((BLOCK, 512)).await;
        let root = volume.files.root();
        let begun = clock.now();
        for number in 0..2000 {
            let file = volume.create(root, &format!("file-{number}")).await.expect("room");
            volume.write(file, 0, vec![8; SMALL], Stability::FileSync).await.expect("room");
        }
        let log = volume.files.store().engine().log_statistics().expect("it has one");
        assert!(log.writes.bytes > 2 * (2 << 20), "the circle has closed: {log:?}");
        let took = clock.now().since(begun);
        assert!(took < Duration::from_secs(60), "{took:?}");
    });
}

/// A write finds room below for its data, but none in the log for its metadata: the state that it
/// shows is durable once a COMMIT has said so, and not before.
fn overwritten_in_vain(heals: bool) -> Result<(), String> {
    let quiet = Quiet::new(32 << 20, Some(2 << 20));
    let executor = &quiet.executor;
    let (shown, answer) = executor.block_on(async {
        let (volume, directory) = refusing(&quiet).await;
        fill_log(&volume, directory).await;
        let old = volume.lookup(volume.files.root(), "old").await.expect("it is there");
        quiet.disks.home.heal(); // the log does not know yet
        let written = volume.write(old, 0, vec![7; LARGE], Stability::FileSync).await;
        assert_eq!(written, Err(FsError::NoSpace));
        if heals {
            pause(executor, 5).await;
        }
        let shown = volume.read(old).await.expect("it can be read");
        (shown, volume.commit(old).await.map(drop))
    });
    match answer {
        Ok(()) => {}
        Err(FsError::NoSpace) if !heals => return Ok(()),
        other => return Err(format!("a COMMIT says {other:?}")),
    }
    let back = quiet.cut();
    back.executor.block_on(async {
        let volume = back.open().await;
        let old = volume.lookup(volume.files.root(), "old").await.expect("it is there");
        if volume.read(old).await.expect("it can be read") == shown {
            Ok(())
        } else {
            Err("what a COMMIT covered is other after the cut".to_owned())
        }
    })
}

#[test]
fn what_a_refused_write_has_overwritten_is_in_doubt() {
    for heals in [false, true] {
        overwritten_in_vain(heals).unwrap_or_else(|wrong| panic!("heals {heals}: {wrong}"));
    }
}

/// Writes `count` files in vain; `over` overwrites existing data instead of new blocks. Returns the
/// results of COMMIT for the first and the last.
fn written_in_vain(count: usize, over: bool) -> [Result<(), FsError>; 2] {
    let quiet = Quiet::new(64 << 20, None);
    quiet.executor.block_on(async {
        let volume = quiet.make((BLOCK, 512)).await;
        let mut files = Vec::new();
        for number in 0..count {
            let file = volume.create(volume.files.root(), &format!("file-{number}")).await;
            files.push(file.expect("there is room"));
        }
        if over {
            for &file in &files {
                volume.write(file, 0, vec![1; SMALL], Stability::Unstable).await.expect("room");
            }
        }
        volume.settle().await;
        refuse(&quiet);
        for &file in &files {
            let written = volume.write(file, 0, vec![2; SMALL], Stability::FileSync).await;
            assert_eq!(written, Err(FsError::NoSpace));
        }
        quiet.disks.home.heal();
        pause(&quiet.executor, 5).await;
        let mut said = [Ok(()); 2];
        for (said, file) in said.iter_mut().zip([files[0], files[count - 1]]) {
            *said = volume.commit(file).await.map(drop);
        }
        said
    })
}

#[test]
fn what_many_refused_writes_leave_in_doubt_takes_no_more_memory_than_some() {
    assert_eq!(written_in_vain(4096, true), [Ok(()), Ok(())]);
    assert_eq!(written_in_vain(4097, true), [Err(FsError::Io), Err(FsError::Io)]);
    assert_eq!(written_in_vain(4097, false), [Ok(()), Ok(())], "what was new shows to nobody");
}

/// How a truncation in steps met a full log.
#[derive(Debug, PartialEq)]
enum Met {
    Refused,
    Stuck,
    Done,
}

/// A long file is truncated while the log has room for `room` more changes.
fn cut_in_steps(room: usize) -> Met {
    const LONG: usize = 12 << 20;
    let quiet = Quiet::new(64 << 20, Some(2 << 20));
    let executor = &quiet.executor;
    executor.block_on(async {
        let volume = quiet.make((BLOCK, 512)).await;
        let root = volume.files.root();
        let directory = volume.mkdir(root, "directory").await.expect("room");
        let long = volume.create(root, "long").await.expect("room");
        for start in (0..LONG).step_by(1 << 20) {
            let data = vec![3; 1 << 20];
            volume.write(long, start as u64, data, Stability::FileSync).await.expect("room");
        }
        volume.settle().await;
        refuse(&quiet);
        let mut count = 0;
        while volume.create(directory, &format!("file-{count}")).await.is_ok() {
            count += 1;
        }
        // Now the log is full. With everything in place, the same number fills it again, less
        // `room`.
        quiet.disks.home.heal();
        volume.settle().await;
        pause(executor, 5).await;
        refuse(&quiet);
        for number in 0..count - room {
            volume.create(directory, &format!("more-{number}")).await.expect("there is room");
        }
        let end = volume.resize(long, 0);
        let (met, pending) = match select(Box::pin(end), Box::pin(pause(executor, 60))).await {
            Either::Left((Ok(()), _)) => (Met::Done, None),
            Either::Left((Err(error), _)) => {
                assert_eq!(error, FsError::NoSpace);
                (Met::Refused, None)
            }
            Either::Right(((), pending)) => (Met::Stuck, Some(pending)),
        };
        assert!(volume.lookup(root, "long").await.is_ok(), "others need not wait for it");
        quiet.disks.home.heal();
        if let Some(pending) = pending {
            pending.await.expect("it goes on when there is room");
        }
        let left = volume.attributes(long).await.size;
        assert_eq!(left, if met == Met::Refused { LONG as u64 } else { 0 });
        volume.settle().await;
        volume.files.shutdown().await.expect("it stops");
        met
    })
}

#[test]
fn a_truncation_that_has_begun_waits_for_room_in_the_log() {
    let met: Vec<Met> = (0..24).map(cut_in_steps).collect();
    for one in [Met::Refused, Met::Stuck] {
        assert!(met.contains(&one), "{one:?} is not among {met:?}");
    }
}

/// Policy `sync`, whose answers wait for in-place metadata writes: when one is refused, waiting
/// callers are told that the answer is lost, changes are refused from then on, and acknowledged
/// data can be read.
fn refused_in_place(cut: bool) -> Result<(), String> {
    let quiet = Quiet::new(16 << 20, None);
    let executor = &quiet.executor;
    executor.block_on(async {
        let volume = quiet.make((BLOCK, 512)).await;
        let root = volume.files.root();
        let [kept, busy] = ["kept", "busy"].map(|name| volume.mkdir(root, name));
        let (kept, busy) = (kept.await.expect("room"), busy.await.expect("room"));
        let old = volume.create(kept, "old").await.expect("room");
        volume.write(old, 0, vec![1; LARGE], Stability::FileSync).await.expect("room");
        volume.create(busy, "first").await.expect("room");
        volume.settle().await;
        refuse(&quiet);
        let new = pin!(volume.create(busy, "new"));
        let Either::Left((new, _)) = select(new, pin!(pause(executor, 60))).await else {
            return Err("who waits for the change waits on".to_owned());
        };
        assert_eq!(new, Err(FsError::Io));
        assert_eq!(volume.lookup(busy, "new").await, Err(FsError::Io), "it shows what is lost");
        holds_in(&volume, kept, &[("old", 1, LARGE)]).await?;
        assert_eq!(volume.create(kept, "more").await, Err(FsError::NoSpace));
        assert_eq!(volume.remove(kept, "old").await, Err(FsError::NoSpace));
        let written = volume.write(old, 0, vec![2; LARGE], Stability::Unstable).await;
        assert_eq!(written.map(drop), Ok(()), "memory has room");
        assert_eq!(volume.commit(old).await.map(drop), Err(FsError::NoSpace));
        holds_in(&volume, kept, &[("old", 1, LARGE)]).await?;
        assert_eq!(volume.files.store().quiesce().await, Err(FsError::NoSpace));
        pause(executor, 30).await;
        holds_in(&volume, kept, &[("old", 1, LARGE)]).await?;
        if cut {
            return Ok(());
        }
        quiet.disks.home.heal();
        pause(executor, 5).await;
        assert!(volume.lookup(busy, "new").await.is_ok(), "it was lost to nobody but its caller");
        volume.create(kept, "more").await.expect("room again");
        volume.files.shutdown().await.map_err(|error| format!("stop: {error}"))
    })?;
    let back = quiet.cut();
    back.executor.block_on(async {
        let volume = back.open().await;
        let root = volume.files.root();
        let kept = volume.lookup(root, "kept").await.expect("it is there");
        holds_in(&volume, kept, &[("old", 1, LARGE)]).await?;
        let busy = volume.lookup(root, "busy").await.expect("it is there");
        let names = volume.list(busy).await.expect("it can be read");
        assert_eq!(names.len(), if cut { 3 } else { 4 }, "{names:?}");
        volume.files.shutdown().await.map_err(|error| format!("stop: {error}"))
    })
}

#[test]
fn changes_in_place_that_are_refused_stop_changes_and_nothing_else() {
    for cut in [false, true] {
        refused_in_place(cut).unwrap_or_else(|wrong| panic!("cut {cut}: {wrong}"));
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_refusal_that_stops_the_volume_is_found() {
    use crate::common::quiet::finds;
    let bug = ffs::planted::Bug::StoppedByRefusals;
    assert!(finds(bug, || refused(false)));
    assert!(finds(bug, || refused_in_place(false)));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn changes_that_wait_and_data_that_is_believed_are_found() {
    use crate::common::quiet::finds;
    assert!(finds(ffs::planted::Bug::PatientChanges, full_log));
    assert!(finds(ffs::planted::Bug::PatientAnswers, || refused_in_place(false)));
    assert!(finds(vnode::planted::Bug::UndoubtedRefusals, || overwritten_in_vain(false)));
}

/// A stop finds the device below full for its last writes, from the `nth` on.
fn stops(log: Option<u64>, nth: u64) {
    let quiet = Quiet::new(16 << 20, log);
    let refuse = |quiet: &Quiet| {
        let fault = Fault::on(Verb::Write, Effect::NoSpace).nth(nth).forever();
        quiet.disks.home.inject(fault);
    };
    quiet.executor.block_on(async {
        let volume = quiet.make((BLOCK, 512)).await;
        let file = volume.create(volume.files.root(), "old").await.expect("room");
        volume.write(file, 0, vec![1; LARGE], Stability::FileSync).await.expect("room");
        volume.settle().await;
        refuse(&quiet);
        // A second attempt gets the same error.
        for _ in 0..2 {
            assert_eq!(volume.files.shutdown().await, Err(FsError::NoSpace), "from {nth} on");
        }
        quiet.disks.home.heal();
        for _ in 0..2 {
            assert_eq!(volume.files.shutdown().await, Ok(()), "from {nth} on");
        }
    });
    let back = quiet.cut();
    let home = &back.disks.home;
    back.executor.block_on(async {
        let volume = back.open().await;
        holds(&volume, &[("old", 1, LARGE)]).await.expect("it was answered");
        volume.settle().await;
        refuse(&back);
        // There is room again while it waits.
        let healed = async {
            pause(&back.executor, 2).await;
            home.heal();
        };
        let (stopped, ()) = futures::join!(volume.files.shutdown(), healed);
        assert_eq!(stopped, Ok(()), "from {nth} on");
    });
    let mut bytes = vec![0; SUPERBLOCK_ROOM as usize];
    home.contents().read(SUPERBLOCK_ADDRESS, &mut bytes);
    let geometry = Geometry::parse_any_order(&mut bytes).expect("it makes sense");
    assert!(geometry.verify_superblock(&bytes).is_ok());
    assert_eq!(Superblock::read_from_prefix(&bytes).expect("room").0.clean, 1);
}

#[test]
fn a_stop_that_finds_no_room_below_waits_and_can_be_tried_again() {
    for log in [None, Some(4 << 20)] {
        // The summary area, the totals, and the clean mark.
        (1..=3).for_each(|nth| stops(log, nth));
    }
}

/// The flush that clears the mark may fail when the cleared mark is on the disk: from then on
/// nothing is answered, since recovery would not look for it.
#[test]
fn nothing_is_changed_after_a_stop_whose_last_flush_failed() {
    let mut failed = 0;
    for nth in 1.. {
        let quiet = Quiet::new(16 << 20, None);
        let ended = quiet.executor.block_on(async {
            let volume = quiet.make((BLOCK, 512)).await;
            volume.create(volume.files.root(), "before").await.expect("new");
            volume.settle().await;
            quiet.disks.home.inject(Fault::on(Verb::Flush, Effect::Eio).nth(nth));
            if volume.files.shutdown().await.is_ok() {
                return true;
            }
            let told = volume.create(volume.files.root(), "after").await;
            let bytes = quiet.disks.home.contents().bytes();
            let superblock = &bytes[SUPERBLOCK_ADDRESS as usize..][..SUPERBLOCK_ROOM as usize];
            let mark = b"duramen:sync:";
            let is_marked = superblock.windows(mark.len()).any(|field| field == mark);
            assert!(told.is_err() || is_marked, "flush {nth}: answered on a disk that is clean");
            false
        });
        if ended {
            break;
        }
        failed += 1;
    }
    assert!(failed >= 2, "{failed} flushes of a stop can fail");
}

#[test]
fn a_stop_that_has_failed_says_so_whenever_it_is_asked() {
    let quiet = Quiet::new(16 << 20, None);
    quiet.executor.block_on(async {
        let volume = quiet.make((BLOCK, 512)).await;
        volume.settle().await;
        quiet.disks.home.inject(Fault::on(Verb::Write, Effect::Eio));
        for _ in 0..2 {
            assert_eq!(volume.files.shutdown().await, Err(FsError::Io));
        }
    });
}
