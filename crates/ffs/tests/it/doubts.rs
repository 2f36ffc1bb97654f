//! A write of data fails, but has written some of it all the same. Data that readers see from then
//! on and that a COMMIT covers is there after a cut; or the COMMIT reports its loss.

use block::Verb;
use sim::{Effect, Fault};
use vfs::{FileSystem, FsError, Stability};

use crate::common::quiet::Quiet;

const FRAGMENT: u64 = 512;
const BLOCK: u64 = 4096;

/// The write whose data is lost.
#[derive(Clone, Copy, Debug)]
struct Lost {
    has_log: bool,
    stability: Stability,
    length: usize,
    /// Whether all later writes fail as well.
    forever: bool,
}

/// Runs the case; returns whether the COMMIT was refused.
fn lose(seed: u64, lost: Lost) -> Result<bool, String> {
    let quiet = Quiet::new(16 << 20, lost.has_log.then_some(4 << 20));
    let label = format!("seed {seed}, {lost:?}");
    let at = 3 * BLOCK + seed % 5 * FRAGMENT;
    let (shown, committed) = quiet.executor.block_on(async {
        let volume = quiet.make((BLOCK, FRAGMENT)).await;
        let id = volume.create(volume.files.root(), "file").await.expect("new");
        let old = vec![0x11; 20 * BLOCK as usize];
        volume.write(id, 0, old, Stability::FileSync).await.expect("room");
        volume.settle().await;
        // Small: with a log its data is logged, and may come back from there.
        volume.write(id, at, vec![0x22; 3000], Stability::FileSync).await.expect("room");
        // Delayed data of the log lands first: if that fails, the volume stops.
        let nth = if lost.has_log { 2 } else { 1 };
        let fault = Fault::on(Verb::Write, Effect::Eio).nth(nth);
        quiet.disks.home.inject(if lost.forever { fault.forever() } else { fault });
        let mut written = volume.write(id, at, vec![0x33; lost.length], lost.stability).await;
        if written == Ok(()) {
            written = volume.commit(id).await.map(|_| ());
        }
        if written == Ok(()) {
            return (Vec::new(), Ok(())); // the fault struck another write
        }
        assert_eq!(written, Err(FsError::Io), "{label}");
        let shown = volume.read(id).await.expect("it can be read");
        let committed = volume.commit(id).await;
        let later = volume.read(id).await.expect("it can be read");
        assert!(later == shown, "{label}: the COMMIT has changed what is shown");
        (shown, committed.map(|_| ()))
    });
    let refused = committed.is_err();
    if refused || shown.is_empty() {
        return Ok(refused);
    }
    let back = quiet.cut();
    let found = back.executor.block_on(async {
        let volume = back.open().await;
        let id = volume.lookup(volume.files.root(), "file").await.expect("there");
        volume.read(id).await.expect("it can be read")
    });
    match found.iter().zip(&shown).position(|(one, other)| one != other) {
        Some(wrong) => Err(format!("{label}: byte {wrong} is another than was shown")),
        None => Ok(false),
    }
}

fn all(has_log: bool, forever: bool) -> Result<bool, String> {
    let mut refused = false;
    for seed in 0..24 {
        for stability in [Stability::FileSync, Stability::Unstable] {
            for length in [1500, 24 << 10, 40 << 10] {
                refused |= lose(seed, Lost { has_log, stability, length, forever })?;
            }
        }
    }
    Ok(refused)
}

#[test]
fn what_was_shown_of_a_failed_write_and_committed_is_durable() {
    for has_log in [false, true] {
        assert_eq!(all(has_log, false), Ok(false), "log {has_log}");
    }
}

#[test]
fn a_commit_of_what_cannot_be_written_says_so() {
    for has_log in [false, true] {
        assert_eq!(lose(0, lost_for_good(has_log)), Ok(true), "log {has_log}");
    }
}

fn lost_for_good(has_log: bool) -> Lost {
    Lost { has_log, stability: Stability::FileSync, length: 24 << 10, forever: true }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_commit_that_forgets_failed_writes_is_found() {
    use crate::common::quiet::finds;
    use vnode::planted::Bug;
    for has_log in [false, true] {
        assert!(finds(Bug::ForgottenDoubts, || all(has_log, false).map(|_| ())));
    }
}

/// The next file with the same inode number has no write errors.
#[test]
fn a_file_that_ends_takes_what_was_in_doubt_of_it_along() {
    let quiet = Quiet::new(16 << 20, None);
    quiet.executor.block_on(async {
        let volume = quiet.make((BLOCK, FRAGMENT)).await;
        let root = volume.files.root();
        let data = vec![0x11; 20 * BLOCK as usize];
        let old = volume.create(root, "file").await.expect("new");
        volume.write(old, 0, data.clone(), Stability::FileSync).await.expect("room");
        quiet.disks.home.inject(Fault::on(Verb::Write, Effect::Eio).nth(1));
        let lost = volume.write(old, BLOCK, vec![0x22; 9000], Stability::FileSync).await;
        assert_eq!(lost, Err(FsError::Io));
        volume.remove(root, "file").await.expect("it is there");
        volume.settle().await;
        let new = volume.create(root, "file").await.expect("new");
        assert_eq!(new.ino, old.ino, "the number is used again");
        volume.write(new, 0, data, Stability::FileSync).await.expect("room");
        volume.settle().await;
        let written = || quiet.disks.home.counters().writes;
        let before = written();
        volume.commit(new).await.expect("it is all there");
        assert_eq!(written(), before, "a COMMIT of what is durable writes nothing");
    });
}
