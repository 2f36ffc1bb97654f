//! A disk that fails in the middle of a multi-step operation, or under data that extends a file:
//! nothing that is acknowledged afterwards is lost with it.

use std::time::Duration;

use block::Verb;
use sim::{Effect, Fault, Persistence};
use vfs::{FileSystem, FsError, ObjectId, Stability};

use crate::common::chains::fsck;
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

/// Byte offset of the last block of pointers of the long file.
fn place_of_pointers(quiet: &Quiet) -> u64 {
    let image = quiet.disks.home.contents();
    let mut bytes = vec![0; BLOCK as usize];
    let is_of_pointers = |at: &u64| {
        image.read(*at, &mut bytes);
        let words = bytes.chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().expect("8")));
        let words: Vec<u64> = words.take(16).collect();
        let end = image.size() / 512;
        words[0] != 0 && words[15] < end && words.is_sorted_by(|one, next| one < next)
    };
    let mut blocks = (0..image.size() / BLOCK).rev().map(|block| block * BLOCK);
    blocks.find(is_of_pointers).expect("a long file has some")
}

/// Repairs a volume whose only file was removed: nothing is left of that.
fn all_is_free_after_a_repair(quiet: &Quiet) -> Result<(), String> {
    let runtime = quiet.executor.runtime();
    quiet.executor.block_on(fsck(&quiet.disks, &runtime))?;
    quiet.disks.home.heal();
    let free = quiet.executor.block_on(async { quiet.open().await.space().await.free_bytes });
    let new = Quiet::new(64 << 20, None);
    let all =
        new.executor.block_on(async { new.make((BLOCK, 512)).await.space().await.free_bytes });
    if free + BLOCK >= all { Ok(()) } else { Err(format!("{free} bytes of {all} are free")) }
}

/// Removes a file one of whose pointers leads behind the end of the disk: the volume stops cleanly,
/// and a check finds the blocks that nobody has.
fn damaged_removal(has_log: bool) -> Result<(), String> {
    let quiet = with_a_long_file(has_log);
    quiet.disks.home.rot(place_of_pointers(&quiet) + 3 * 8 + 5, 1);
    quiet.executor.block_on(async {
        let volume = quiet.open().await;
        let removed = volume.remove(volume.files.root(), "file").await;
        removed.map_err(|error| error.to_string())?;
        volume.settle().await;
        volume.files.shutdown().await.map_err(|error| format!("the stop: {error}"))
    })?;
    all_is_free_after_a_repair(&quiet.cut())
}

#[test]
fn a_file_with_a_damaged_pointer_can_be_removed() {
    for has_log in [false, true] {
        assert_eq!(damaged_removal(has_log), Ok(()), "log: {has_log}");
    }
    #[cfg(feature = "planted-bugs")]
    {
        let bug = ffs::planted::Bug::EndlessFrees;
        assert!(crate::common::quiet::finds(bug, || damaged_removal(true)));
    }
}

/// Removes a file one of whose blocks of pointers cannot be read, now or later: a repair goes on.
fn repair_of_a_stuck_removal() -> Result<(), String> {
    let quiet = with_a_long_file(true);
    let at = place_of_pointers(&quiet);
    let fault = || Fault::on(Verb::Read, Effect::Eio).within(at..at + BLOCK).forever();
    quiet.disks.home.inject(fault());
    quiet.executor.block_on(async {
        let volume = quiet.open().await;
        volume.remove(volume.files.root(), "file").await.expect("it has no name then");
        quiet.executor.runtime().clock.sleep(Duration::from_secs(30)).await;
        assert_eq!(volume.files.shutdown().await, Err(FsError::Io), "it is not clean");
    });
    let quiet = quiet.cut();
    quiet.disks.home.inject(fault());
    all_is_free_after_a_repair(&quiet)
}

#[test]
fn a_file_that_cannot_be_freed_to_its_end_keeps_no_volume_from_its_repair() {
    assert_eq!(repair_of_a_stuck_removal(), Ok(()));
    #[cfg(feature = "planted-bugs")]
    {
        let bug = ffs::planted::Bug::StuckRepairs;
        assert!(crate::common::quiet::finds(bug, repair_of_a_stuck_removal));
    }
}

/// Removals of large files that a disk answers that reads nothing, and those that are asked for.
const MANY: u64 = 80;

fn many_stuck_removals() -> Result<(), String> {
    let quiet = Quiet::new(64 << 20, Some(8 << 20));
    let name = |nth: u64| format!("file-{nth}");
    quiet.executor.block_on(async {
        let volume = quiet.make((BLOCK, 512)).await;
        for nth in 0..MANY {
            let id = volume.create(volume.files.root(), &name(nth)).await.expect("new");
            let data = vec![0x11; 16 * BLOCK as usize];
            volume.write(id, 0, data, Stability::FileSync).await.expect("room");
        }
        volume.files.shutdown().await.expect("stops");
    });
    let quiet = quiet.cut();
    let removed = quiet.executor.block_on(async {
        let volume = quiet.open().await;
        for nth in 0..MANY {
            volume.lookup(volume.files.root(), &name(nth)).await.expect("there");
        }
        quiet.disks.home.inject(Fault::on(Verb::Read, Effect::Eio).forever());
        let mut removed = 0;
        for nth in 0..MANY {
            let done = volume.remove(volume.files.root(), &name(nth)).await;
            removed += u64::from(done.is_ok());
            quiet.executor.runtime().clock.sleep(Duration::from_secs(1)).await;
        }
        removed
    });
    let quiet = quiet.cut();
    quiet.executor.block_on(async {
        let volume = quiet.open().await;
        volume.settle().await;
        volume.files.shutdown().await.expect("all can be read");
    });
    if (60..70).contains(&removed) { Ok(()) } else { Err(format!("{removed} of {MANY}")) }
}

#[test]
fn so_many_files_that_cannot_be_freed_are_the_most() {
    assert_eq!(many_stuck_removals(), Ok(()));
    #[cfg(feature = "planted-bugs")]
    {
        let bug = vnode::planted::Bug::ManyStuck;
        assert!(crate::common::quiet::finds(bug, many_stuck_removals));
    }
}
