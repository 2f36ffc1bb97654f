//! A disk that fails in the middle of a multi-step operation, or under data that extends a file:
//! nothing that is acknowledged afterwards is lost with it.

use std::time::Duration;

use block::Verb;
use sim::{Effect, Fault, Persistence};
use vfs::{FileSystem, FsError, ObjectId, Stability};

use crate::common::quiet::Quiet;
use crate::common::volume::Volume;

const BLOCK: u64 = 4096;
/// Size of a file that is freed, and truncated, in several steps.
const LONG: u64 = 5000 * BLOCK;
/// Approximate number of reads of such a change.
const READS: u64 = 16;

/// A volume with a long file that is not in memory.
fn with_a_long_file(has_log: bool) -> Quiet {
    let quiet = Quiet::new(64 << 20, has_log.then_some(8 << 20));
    quiet.executor.block_on(async {
        let volume = quiet.make((BLOCK, 512)).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        for at in (0..LONG).step_by(1000 * BLOCK as usize) {
            let data = vec![0x11; 1000 * BLOCK as usize];
            volume.write(id, at, data, Stability::FileSync).await.expect("room");
        }
        volume.files.shutdown().await.expect("stops");
    });
    quiet.cut()
}

async fn file_of(volume: &Volume) -> ObjectId {
    volume.lookup(volume.files.root(), "file").await.expect("there")
}

async fn getattr(volume: &Volume, id: ObjectId) -> Result<u64, FsError> {
    let sealed = volume.files.getattr(id).await;
    sealed.open().await.expect("running").into_inner().map(|attributes| attributes.size)
}

/// The `nth` read of a truncation fails, and then another caller writes; returns the number of
/// refused writes.
fn truncation(has_log: bool, nth: u64) -> Result<u64, String> {
    let quiet = with_a_long_file(has_log);
    let (is_cut, is_written) = quiet.executor.block_on(async {
        let volume = quiet.open().await;
        let id = file_of(&volume).await;
        quiet.disks.home.inject(Fault::on(Verb::Read, Effect::Eio).nth(nth));
        let cut = volume.resize(id, 0).await;
        let written = volume.write(id, 0, vec![0x77; 5000], Stability::FileSync).await;
        if written == Err(FsError::Io) {
            assert_eq!(getattr(&volume, id).await, Err(FsError::Io), "as long as it is open");
            let stopped = volume.files.shutdown().await;
            assert_eq!(stopped, Err(FsError::Io), "it is not clean");
        }
        (cut.is_ok(), written.is_ok())
    });
    let quiet = quiet.cut();
    quiet.executor.block_on(async {
        let volume = quiet.open().await;
        let data = volume.read(file_of(&volume).await).await.expect("it is read");
        let is_there = data.len() >= 5000 && data[..5000].iter().all(|&byte| byte == 0x77);
        if is_written && !is_there {
            return Err(format!("{nth}: what was acknowledged is not there: {} bytes", data.len()));
        }
        let is_between = !is_written && has_log && !data.is_empty();
        if is_between || is_cut && data.len() > 5000 {
            return Err(format!("{nth}: {} bytes are left", data.len()));
        }
        volume.files.shutdown().await.expect("nothing is in its way any more");
        Ok(u64::from(!is_written))
    })
}

fn truncations(has_log: bool) -> Result<(), String> {
    let refused: Result<Vec<u64>, String> =
        (1..READS).map(|nth| truncation(has_log, nth)).collect();
    assert!(refused?.into_iter().sum::<u64>() > 2, "some were in the middle");
    Ok(())
}

/// All reads from the `nth` on fail while a removed file is freed; returns whether the removal got
/// stuck.
fn removal(has_log: bool, nth: u64) -> bool {
    let quiet = with_a_long_file(has_log);
    let (id, free, is_stuck) = quiet.executor.block_on(async {
        let volume = quiet.open().await;
        let id = file_of(&volume).await;
        let fault = Fault::on(Verb::Read, Effect::Eio).nth(nth).lasting(Persistence::Forever);
        quiet.disks.home.inject(fault);
        let removed = volume.remove(volume.files.root(), "file").await;
        quiet.executor.runtime().clock.sleep(Duration::from_secs(30)).await;
        if removed.is_ok() {
            assert_eq!(getattr(&volume, id).await, Err(FsError::Stale), "{nth}");
        }
        let free = volume.space().await.total_bytes;
        (id, free, removed.is_ok() && volume.files.shutdown().await.is_err())
    });
    let quiet = quiet.cut();
    if is_stuck {
        quiet.executor.block_on(async {
            let volume = quiet.open().await;
            volume.settle().await;
            assert_eq!(getattr(&volume, id).await, Err(FsError::Stale), "{nth}");
            let space = volume.space().await;
            assert!(space.free_bytes > free - (1 << 20), "{nth}: {space:?}");
            volume.files.shutdown().await.expect("stops");
        });
    }
    is_stuck
}

#[test]
fn a_truncation_that_a_disk_breaks_off_takes_nothing_with_it_that_comes_after() {
    for has_log in [false, true] {
        assert_eq!(truncations(has_log), Ok(()), "log: {has_log}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_file_that_is_used_in_the_middle_of_its_truncation_is_found() {
    let bug = vnode::planted::Bug::LooseChains;
    assert!(crate::common::quiet::finds(bug, || truncations(true)));
}

#[test]
fn a_removed_file_stays_gone_when_its_freeing_is_broken_off_and_the_next_return_frees_it() {
    for has_log in [false, true] {
        let stuck = (1..READS).filter(|&nth| removal(has_log, nth)).count();
        assert!(stuck > 2, "log: {has_log}: {stuck}");
    }
}

#[test]
fn a_write_that_fails_behind_the_end_leaves_the_file_as_long_as_it_was() {
    for has_log in [false, true] {
        let quiet = Quiet::new(64 << 20, has_log.then_some(8 << 20));
        quiet.executor.block_on(async {
            let volume = quiet.make((BLOCK, 512)).await;
            let id = volume.create(volume.files.root(), "file").await.expect("new");
            volume.write(id, 0, vec![7; 100], Stability::Unstable).await.expect("room");
            quiet.disks.home.inject(Fault::on(Verb::Write, Effect::Eio).nth(1));
            let failed = volume.write(id, 50 * BLOCK, vec![8; 40_000], Stability::FileSync).await;
            assert_eq!(failed, Err(FsError::Io), "log: {has_log}");
            assert_eq!(volume.attributes(id).await.size, 100);
            volume.commit(id).await.expect("what is left can be written");
            assert_eq!(volume.read(id).await, Ok(vec![7; 100]), "log: {has_log}");
        });
    }
}
