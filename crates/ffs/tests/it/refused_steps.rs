//! A full host below a disk, and multi-step operations meanwhile: write-back, chains, a stop, and
//! volumes that share a log.

use std::pin::pin;
use std::time::Duration;

use block::Verb;
use futures::future::{Either, join_all, select};
use sim::{Effect, Executor, Fault};
use vfs::{FileSystem, FsError, ObjectId, Requester, Stability};

use crate::common::quiet::Quiet;
use crate::common::sharing::{Estate, open};
use crate::common::volume::Volume;

const BLOCK: u64 = 4096;
const SMALL: usize = 900;
const LARGE: usize = 100 << 10;

fn no_space() -> Fault {
    Fault::on(Verb::Write, Effect::NoSpace)
}

async fn pause(executor: &Executor, milliseconds: u64) {
    executor.runtime().clock.sleep(Duration::from_millis(milliseconds)).await;
}

/// The result of an operation that must end within minutes.
async fn soon<T>(executor: &Executor, what: &str, work: impl Future<Output = T>) -> T {
    match select(pin!(work), pin!(pause(executor, 300_000))).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => panic!("{what} hangs"),
    }
}

/// Makes files until one is refused for lack of space.
async fn fill(volume: &Volume, directory: ObjectId, name: &str) -> usize {
    for number in 0..5000 {
        if let Err(error) = volume.create(directory, &format!("{name}-{number}")).await {
            assert_eq!(error, FsError::NoSpace);
            return number;
        }
    }
    panic!("the log is not as long")
}

/// A file of `blocks` blocks.
async fn long(volume: &Volume, parent: ObjectId, name: &str, blocks: u64) -> ObjectId {
    let file = volume.create(parent, name).await.expect("room");
    for start in (0..blocks).step_by(256) {
        let data = vec![3; ((blocks - start).min(256) * BLOCK) as usize];
        volume.write(file, start * BLOCK, data, Stability::FileSync).await.expect("room");
    }
    file
}

/// A task that finds no space lands the data of others, and does not leave that unfinished.
#[test]
fn a_landing_of_others_is_not_left_halfway() {
    for log in [None, Some(4 << 20)] {
        let quiet = Quiet::new(32 << 20, log);
        let executor = &quiet.executor;
        executor.block_on(async {
            let volume = quiet.make((BLOCK, 512)).await;
            let root = volume.files.root();
            let old = volume.create(root, "old").await.expect("room");
            volume.write(old, 0, vec![8; LARGE], Stability::FileSync).await.expect("room");
            let new = volume.create(root, "new").await.expect("room");
            volume.settle().await;
            quiet.disks.home.inject(no_space().forever());
            let _ = volume.write(old, 0, vec![9; SMALL], Stability::FileSync).await;
            if log.is_some() {
                assert_eq!(volume.files.store().quiesce().await, Err(FsError::NoSpace));
            }
            for _ in 0..10 {
                let _ = volume.write(old, 0, vec![7; LARGE], Stability::Unstable).await;
                let written = volume.write(new, 0, vec![4; LARGE], Stability::FileSync).await;
                assert!(written.is_err(), "there is no room for it");
                pause(executor, 1070).await;
            }
        });
    }
}

/// The landing of UNSTABLE data is slow, and meets a full log: data written in its place, or in
/// blocks that it would have taken, is not overwritten later.
fn slow_landing() -> Result<(), String> {
    for appends in [false, true] {
        let quiet = Quiet::new(32 << 20, Some(2 << 20));
        let executor = &quiet.executor;
        executor.block_on(async {
            let volume = quiet.make((BLOCK, 512)).await;
            let root = volume.files.root();
            let directory = volume.mkdir(root, "directory").await.expect("room");
            let slow = volume.create(root, "slow").await.expect("room");
            volume.write(slow, 0, vec![1; LARGE], Stability::FileSync).await.expect("room");
            let other = volume.create(root, "other").await.expect("room");
            volume.settle().await;
            quiet.disks.home.inject(no_space().forever());
            fill(&volume, directory, "file").await;
            quiet.disks.home.heal(); // the log does not know yet
            let seconds = Duration::from_secs(if appends { 20 } else { 4 });
            quiet.disks.home.inject(Fault::on(Verb::Write, Effect::Slow(seconds)));
            let at = if appends { LARGE as u64 } else { 0 };
            volume.write(slow, at, vec![2; LARGE], Stability::Unstable).await.expect("memory");
            let _ = volume.create(directory, "one more").await;
            pause(executor, 2000).await;
            let (file, length) = if appends { (other, 7 << 20) } else { (slow, LARGE) };
            for start in (0..length).step_by(1 << 20) {
                let data = vec![3; (length - start).min(1 << 20)];
                let write = || volume.write(file, start as u64, data.clone(), Stability::FileSync);
                while write().await.is_err() {
                    pause(executor, 500).await;
                }
            }
            pause(executor, 40_000).await;
            soon(executor, "a stop", volume.files.shutdown()).await.expect("it stops");
        });
        let back = quiet.cut();
        back.executor.block_on(async {
            let volume = back.open().await;
            let name = if appends { "other" } else { "slow" };
            let file = volume.lookup(volume.files.root(), name).await.expect("it is there");
            let data = volume.read(file).await.expect("it can be read");
            match data.iter().filter(|&&byte| byte != 3).count() {
                0 => Ok(()),
                wrong => Err(format!("{wrong} bytes of {name} are not those that were answered")),
            }
        })?;
    }
    Ok(())
}

#[test]
fn a_slow_landing_never_overtakes_what_was_answered() {
    slow_landing().unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_landing_that_is_left_halfway_is_found() {
    use crate::common::quiet::finds;
    assert!(finds(vnode::planted::Bug::AbandonedLandings, slow_landing));
}

/// A large file is being removed, and freeing it finds no room: a stop reports that.
#[test]
fn a_stop_does_not_wait_for_steps_that_find_no_room() {
    for spare in [None, Some(1), Some(4), Some(8)] {
        let quiet = Quiet::new(64 << 20, spare.map(|_| 2 << 20));
        let executor = &quiet.executor;
        executor.block_on(async {
            let volume = quiet.make((BLOCK, 512)).await;
            let root = volume.files.root();
            let directory = volume.mkdir(root, "directory").await.expect("room");
            long(&volume, root, "long", 3000).await;
            volume.settle().await;
            quiet.disks.home.inject(no_space().forever());
            if let Some(spare) = spare {
                let count = fill(&volume, directory, "file").await;
                quiet.disks.home.heal();
                volume.settle().await;
                pause(executor, 5000).await;
                quiet.disks.home.inject(no_space().forever());
                for number in 0..count - spare {
                    let made = volume.create(directory, &format!("more-{number}")).await;
                    made.expect("there is room");
                }
            }
            let _ = soon(executor, "a removal", volume.remove(root, "long")).await;
            let stopped = soon(executor, "a stop", volume.files.shutdown()).await;
            assert_eq!(stopped, Err(FsError::NoSpace), "with room for {spare:?}");
        });
    }
}

/// All places for multi-step changes are taken by some that wait for room: another is refused, and
/// keeps no lock.
#[test]
fn a_change_in_steps_does_not_wait_for_others_with_its_locks() {
    let quiet = Quiet::new(400 << 20, None);
    let executor = &quiet.executor;
    executor.block_on(async {
        let volume = quiet.make((BLOCK, 512)).await;
        let root = volume.files.root();
        let busy = volume.mkdir(root, "busy").await.expect("room");
        let other = volume.mkdir(root, "other").await.expect("room");
        let names: Vec<String> = (0..64).map(|number| format!("long-{number}")).collect();
        for name in &names {
            long(&volume, busy, name, 1030).await;
        }
        long(&volume, other, "long", 100).await;
        volume.create(other, "small").await.expect("room");
        volume.settle().await;
        quiet.disks.home.inject(no_space().forever());
        join_all(names.iter().map(|name| volume.remove(busy, name))).await;
        pause(executor, 5000).await;
        let removed = soon(executor, "a removal", volume.remove(other, "long")).await;
        assert_eq!(removed, Err(FsError::NoSpace));
        volume.lookup(other, "small").await.expect("it can be read");
        quiet.disks.home.heal();
        pause(executor, 30_000).await;
        volume.remove(other, "long").await.expect("room again");
        soon(executor, "a stop", volume.files.shutdown()).await.expect("it stops");
    });
}

/// One write of a truncation in steps finds no room: it is retried.
#[test]
fn a_truncation_in_steps_outlives_a_refusal() {
    for nth in 8..20 {
        let quiet = Quiet::new(64 << 20, None);
        let executor = &quiet.executor;
        executor.block_on(async {
            let volume = quiet.make((BLOCK, 512)).await;
            let file = volume.create(volume.files.root(), "long").await.expect("room");
            for block in (2112..4200).step_by(64) {
                let data = vec![3; 64 * BLOCK as usize];
                volume.write(file, block * BLOCK, data, Stability::FileSync).await.expect("room");
            }
            volume.settle().await;
            quiet.disks.home.inject(no_space().nth(nth));
            // Either the first step is refused, or its answer is lost.
            let cut = soon(executor, "a truncation", volume.resize(file, 50 * BLOCK + 7)).await;
            pause(executor, 10_000).await;
            let size = volume.attributes(file).await.size;
            assert!(cut.is_err() || size == 50 * BLOCK + 7, "{nth}: {cut:?}, {size} bytes");
            assert_eq!(volume.read(file).await.map(|data| data.len() as u64), Ok(size), "{nth}");
            quiet.disks.home.heal();
            let stopped = soon(executor, "a stop", volume.files.shutdown()).await;
            assert_eq!(stopped, Ok(()), "{nth}");
        });
    }
}

/// Three volumes share a log. One has stopped and one finds no room, and each may hold the head.
#[test]
fn volumes_with_one_log_are_refused_and_not_held_up() {
    for stops_first in [false, true] {
        let estate = Estate::new();
        let executor = Executor::new(1);
        let disks = estate.disks(&executor);
        executor.block_on(async {
            let opened = open(&executor, &disks, &[0, 1, 2]).await.expect("it opens");
            let volume = |opened: Result<ffs::Opened, ffs::OpenError>| {
                let engine = opened.expect("it opens").files;
                Volume { files: namespace::Namespace::new(engine), root: Requester::root() }
            };
            let volumes: Vec<Volume> = opened.into_iter().map(volume).collect();
            for volume in &volumes {
                volume.create(volume.files.root(), "first").await.expect("room");
                volume.settle().await;
            }
            disks.volumes[1].inject(no_space().forever());
            disks.volumes[0].inject(Fault::on(Verb::Write, Effect::Dead).forever());
            let order = if stops_first { [0, 1] } else { [1, 0] };
            for number in order {
                let volume = &volumes[number];
                let _ = volume.create(volume.files.root(), "second").await;
            }
            pause(&executor, 5000).await;
            let (refused, well) = (&volumes[1], &volumes[2]);
            soon(&executor, "filling the log", fill(refused, refused.files.root(), "file")).await;
            refused.lookup(refused.files.root(), "first").await.expect("it can be read");
            let made = soon(&executor, "a change", well.create(well.files.root(), "more")).await;
            assert!(matches!(made, Ok(_) | Err(FsError::NoSpace)), "{made:?}");
            disks.volumes[1].heal();
            pause(&executor, 10_000).await;
            for volume in [refused, well] {
                volume.create(volume.files.root(), "again").await.expect("room again");
            }
        });
    }
}
