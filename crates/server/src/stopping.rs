//! The end of volumes: each is shut down as soon as its calls have ended, beside the others.
//!
//! # Limit
//! A call to a disk that does not answer never ends, and neither does the shutdown of its volume. A
//! slow disk may need minutes for all that is to be written in place. Both are told apart by what
//! the disks of the process do: [`STOP_TIMEOUT`] after the last call that any of them has
//! completed, the volumes that are left are given up. A volume that is shut down has closed its
//! disks, so no volume keeps another one from being given up. Each volume that was not shut down
//! cleanly is repaired or replayed by its next start, as after a crash.
//!
//! Invariants:
//! 1. A volume is shut down only when no call for it is being executed.
//! 2. No volume waits for another one.
//!
//! Not asserted: 2, which a test shows.

use std::cell::Cell;
use std::time::Duration;

use dispatch::{Dispatcher, Volume};
use futures::FutureExt;
use futures::future::{Either, join_all, select};
use runtime::{Clock, Runtime};
use vfs::FsError;

use crate::reactor::disk_calls;
use crate::serve_error::ServeError;
use crate::stuck::{STOP_TIMEOUT, StuckVolume, StuckVolumes};

/// Such a time after which the log names the volumes that the stop waits for.
const REPORT_AFTER: Duration = Duration::from_secs(10);

/// How often a stop checks for running calls.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How often it checks for progress of the disks.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Shuts volumes down that serve no calls. The caller reports an error.
///
/// # Errors
/// [`ServeError::Shutdown`] if a volume could not be left clean, [`ServeError::Stuck`] if a disk
/// does not answer; the others still are.
pub async fn shut_down(runtime: &Runtime, volumes: &[Volume]) -> Result<(), ServeError> {
    end(&*runtime.clock, volumes.iter(), |_| 0, disk_calls, |_, _| ()).await
}

/// Waits for the calls of each volume, and shuts it down. No call may begin any more.
///
/// # Errors
/// As [`shut_down`].
pub(crate) async fn end_all(runtime: &Runtime, served: &Dispatcher) -> Result<(), ServeError> {
    let executing = |volume| served.executing(volume);
    let log = |volume: &Volume, source: &FsError| {
        tracing::error!(volume = volume.name, %source, "not shut down cleanly");
    };
    end(&*runtime.clock, served.volumes().iter(), executing, disk_calls, log).await
}

/// Ends volumes. `executing` counts the calls for a volume, by its index, and `progress` changes
/// whenever a disk has completed a call. `log` gets each failed shutdown.
async fn end(
    clock: &dyn Clock,
    volumes: impl Iterator<Item = &Volume>,
    executing: impl Fn(usize) -> u64,
    progress: impl Fn() -> u64,
    log: impl Fn(&Volume, &FsError),
) -> Result<(), ServeError> {
    let volumes: Vec<&Volume> = volumes.collect();
    let has_ended: Vec<Cell<bool>> = volumes.iter().map(|_| Cell::new(false)).collect();
    let each = volumes.iter().enumerate().map(|(index, volume)| {
        let (executing, has_ended) = (&executing, &has_ended[index]);
        async move {
            while executing(index) > 0 {
                clock.sleep(POLL_INTERVAL).await;
            }
            assert_eq!(executing(index), 0, "invariant 1: no call is being executed");
            let ended = volume.file_system.shutdown().await;
            has_ended.set(true);
            ended
        }
    });
    let stuck = || {
        let left = volumes.iter().enumerate().filter(|(index, _)| !has_ended[*index].get());
        let stuck = left.map(|(index, volume)| StuckVolume {
            name: volume.name.clone(),
            calls: executing(index),
        });
        StuckVolumes(stuck.collect())
    };
    // The end of a volume is progress, too.
    let ended = || has_ended.iter().filter(|ended| ended.get()).count();
    let given_up = give_up(clock, || (progress(), ended()), &stuck);
    match select(join_all(each).boxed_local(), given_up.boxed_local()).await {
        Either::Left((results, _)) => outcome(&volumes, results, log),
        Either::Right(_) => Err(ServeError::Stuck(stuck())),
    }
}

/// Completes when there was no progress for [`STOP_TIMEOUT`].
async fn give_up<P: PartialEq>(
    clock: &dyn Clock,
    progress: impl Fn() -> P,
    stuck: &impl Fn() -> StuckVolumes,
) {
    let (mut last, mut since, mut is_reported) = (progress(), clock.now(), false);
    loop {
        clock.sleep(WATCH_INTERVAL).await;
        let now = progress();
        if now != last {
            (last, since) = (now, clock.now());
            continue;
        }
        let silence = clock.now().since(since);
        if silence >= STOP_TIMEOUT {
            return;
        }
        if silence >= REPORT_AFTER && !is_reported {
            is_reported = true;
            tracing::warn!("the stop waits: {}; a second signal ends the process at once", stuck());
        }
    }
}

/// Logs the failed shutdowns and returns one of them.
fn outcome(
    volumes: &[&Volume],
    results: Vec<Result<(), FsError>>,
    log: impl Fn(&Volume, &FsError),
) -> Result<(), ServeError> {
    let mut outcome = Ok(());
    for (volume, result) in volumes.iter().zip(results) {
        if let Err(source) = result {
            log(volume, &source);
            outcome = Err(ServeError::Shutdown { volume: volume.name.clone(), source });
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use dispatch::Fsid;
    use sim::Executor;

    use super::*;
    use crate::shares::memory::MemoryFileSystem;

    fn volumes(names: [&str; 2]) -> ([Rc<MemoryFileSystem>; 2], [Volume; 2]) {
        let files = names.map(|_| MemoryFileSystem::new());
        let volume = |index: usize| Volume {
            name: names[index].to_owned(),
            fsid: Fsid(index as u64 + 7),
            file_system: files[index].clone(),
        };
        let volumes = [volume(0), volume(1)];
        (files, volumes)
    }

    fn stuck(name: &str, calls: u64) -> StuckVolumes {
        StuckVolumes(vec![StuckVolume { name: name.to_owned(), calls }])
    }

    /// The end of volumes of which the first executes `calls` calls for ever.
    fn ended(
        volumes: &[Volume],
        calls: u64,
        progress: impl Fn(Duration) -> u64,
    ) -> (Option<Result<(), ServeError>>, Duration) {
        let executor = Executor::new(1);
        let (clock, start) = (executor.runtime().clock, executor.now());
        let executing = |index| if index == 0 { calls } else { 0 };
        let progress = || progress(clock.now().since(start));
        let ended = end(&*clock, volumes.iter(), executing, progress, |_, _| ());
        let ended = executor.block_on_for(10 * STOP_TIMEOUT, ended);
        (ended, executor.now().since(start))
    }

    #[test]
    fn a_call_that_hangs_ends_the_stop_at_its_limit_and_holds_up_no_other_volume() {
        let (files, volumes) = volumes(["stuck", "other"]);
        let (ended, took) = ended(&volumes, 2, |_| 0);
        let Some(Err(ServeError::Stuck(which))) = ended else { panic!("{ended:?}") };
        assert_eq!(which, stuck("stuck", 2));
        assert_eq!(files.map(|files| files.stopped()), [false, true]);
        assert!(took >= STOP_TIMEOUT && took <= STOP_TIMEOUT + 2 * WATCH_INTERVAL, "{took:?}");
    }

    #[test]
    fn a_shutdown_that_hangs_holds_up_no_other_volume() {
        let (files, volumes) = volumes(["stuck", "other"]);
        files[0].hangs.set(true);
        let (ended, _) = ended(&volumes, 0, |_| 0);
        let Some(Err(error)) = ended else { panic!("{ended:?}") };
        assert!(matches!(&error, ServeError::Stuck(which) if *which == stuck("stuck", 0)));
        let words = error.to_string();
        assert!(words.contains("volume stuck waits for its disk"), "{words}");
        assert_eq!(files.map(|files| files.stopped()), [false, true]);
    }

    #[test]
    fn a_stop_whose_disks_make_progress_goes_on() {
        let (_, volumes) = volumes(["slow", "other"]);
        let until = 4 * STOP_TIMEOUT;
        // A call of a disk ends every half of the limit, and then none.
        let (ended, took) =
            ended(&volumes, 1, |now| now.min(until).as_secs() / (STOP_TIMEOUT.as_secs() / 2));
        assert!(matches!(ended, Some(Err(ServeError::Stuck(_)))), "{ended:?}");
        assert!(took >= until + STOP_TIMEOUT - WATCH_INTERVAL, "{took:?}");
    }
}
