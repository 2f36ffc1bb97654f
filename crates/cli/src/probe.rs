//! Probes the disks of a set before a server starts on them.
//!
//! Each listed disk is read by a thread of its own, so that signals are handled meanwhile. A disk
//! that has not answered for [`REPORT_AFTER`] is reported. After [`GIVE_UP_AFTER`] the start
//! continues without it if the others make a set by themselves; otherwise it waits for the disk
//! indefinitely.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, LocalBoxFuture, join_all, select};
use raid::Read;
use raid::assembly::assemble_without;
use raid::label::Label;
use runtime::{Clock, Runtime};
use server::reactor::elsewhere;

use crate::failure::Failure;
use crate::members::labels_at;
use crate::set_state;
use crate::volume::Volume;
use crate::words;

/// Time after which a silent disk is reported.
const REPORT_AFTER: Duration = Duration::from_secs(5);
/// Time after which a silent disk is left out if the set does not need it.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The labels of a disk, or nothing if it has none.
type Answer = Option<Read>;
/// Answers by the paths of the disks.
type Answers = BTreeMap<PathBuf, Answer>;

/// Finds the silent disks of a volume's set that the set does not need.
///
/// # Errors
/// [`Failure`] if the state of the set cannot be read.
pub(crate) async fn silent_disks(
    volume: &Volume,
    runtime: &Runtime,
) -> Result<BTreeSet<PathBuf>, Failure> {
    let Some(raid) = &volume.settings.raid else { return Ok(BTreeSet::new()) };
    let witness = volume.folder.as_deref().map(|folder| set_state::read(folder, &raid.set));
    let witness = witness.transpose()?.flatten();
    let is_enough = |answers: &Answers| {
        let of_set = answers.values().flatten().filter(|read| read.label.set == raid.set);
        let reads: Vec<&Read> = of_set.collect();
        let labels: Vec<Label> = reads.iter().map(|read| read.label.clone()).collect();
        let left: Vec<usize> =
            (0..reads.len()).filter(|&place| reads[place].is_overwritten).collect();
        assemble_without(&left, &labels, witness.as_ref(), volume.is_degraded_meant).is_ok()
    };
    let read = |path: PathBuf| -> LocalBoxFuture<'static, Answer> {
        Box::pin(elsewhere(move || labels_at(&path).ok()))
    };
    let report = |disk: &Path, what: &str| {
        let (path, disk) = (volume.path.display(), disk.display());
        words::say(format_args!("{path}: {disk} has not answered for {what}"));
    };
    let disks = raid.members.iter().chain(&raid.spares).cloned().collect();
    Ok(silent_of(disks, read, is_enough, report, &*runtime.clock).await)
}

/// Finds the disks that do not answer a read, once the others are enough.
async fn silent_of(
    disks: BTreeSet<PathBuf>,
    read: impl Fn(PathBuf) -> LocalBoxFuture<'static, Answer>,
    is_enough: impl Fn(&Answers) -> bool,
    report: impl Fn(&Path, &str),
    clock: &dyn Clock,
) -> BTreeSet<PathBuf> {
    let (begun, answers) = (clock.now(), Rc::new(RefCell::new(Answers::new())));
    let reads = disks.iter().map(|disk| {
        let (disk, answer, answers) = (disk.clone(), read(disk.clone()), answers.clone());
        async move {
            let answer = answer.await;
            answers.borrow_mut().insert(disk, answer);
        }
    });
    let mut all = pin!(join_all(reads));
    let mut reported = BTreeSet::new();
    loop {
        let pause = pin!(clock.sleep(POLL_INTERVAL));
        if let Either::Left(_) = select(all.as_mut(), pause).await {
            return BTreeSet::new();
        }
        let (answers, waited) = (answers.borrow(), clock.now().since(begun));
        let silent: BTreeSet<PathBuf> =
            disks.iter().filter(|&disk| !answers.contains_key(disk)).cloned().collect();
        if waited >= REPORT_AFTER {
            for disk in &silent {
                if reported.insert(disk.clone()) {
                    report(disk, "5 s; the start waits for it");
                }
            }
        }
        if waited >= GIVE_UP_AFTER && is_enough(&answers) {
            silent.iter().for_each(|disk| report(disk, "30 s; the set is opened without it"));
            return silent;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use sim::Executor;

    use super::*;

    /// Probes three disks, of which one answers after some seconds or never. Returns the disks that
    /// were given up, and the reports with their seconds.
    fn probed(
        answers_after: Option<u64>,
        is_needed: bool,
    ) -> (Option<BTreeSet<PathBuf>>, Vec<(u64, String)>) {
        let executor = Executor::new(1);
        let runtime = executor.runtime();
        let (clock, reports) = (runtime.clock.clone(), RefCell::new(Vec::new()));
        let begun = clock.now();
        let silent = executor.block_on(async {
            let read = |path: PathBuf| -> LocalBoxFuture<'static, Answer> {
                let clock = clock.clone();
                Box::pin(async move {
                    match answers_after.filter(|_| path.ends_with("late")) {
                        Some(seconds) => clock.sleep(Duration::from_secs(seconds)).await,
                        None if path.ends_with("late") => pending().await,
                        None => {}
                    }
                    None
                })
            };
            let report = |disk: &Path, what: &str| {
                let seconds = clock.now().since(begun).as_secs();
                reports.borrow_mut().push((seconds, format!("{}: {what}", disk.display())));
            };
            let disks = ["a", "b", "late"].map(PathBuf::from).into();
            let probing =
                silent_of(disks, read, |known| !is_needed && known.len() == 2, report, &*clock);
            let end = clock.sleep(Duration::from_secs(3600));
            match select(pin!(probing), pin!(end)).await {
                Either::Left((silent, _)) => Some(silent),
                Either::Right(_) => None,
            }
        });
        (silent, reports.into_inner())
    }

    #[test]
    fn a_disk_that_does_not_answer_is_reported_and_waited_for_while_it_is_needed() {
        let (none, late) = (Some(BTreeSet::new()), Some([PathBuf::from("late")].into()));
        let first = (5, "late: 5 s; the start waits for it".to_owned());
        let last = (30, "late: 30 s; the set is opened without it".to_owned());
        assert_eq!(probed(Some(3), true), (none.clone(), vec![]), "it is a little slow");
        assert_eq!(probed(Some(20), false), (none.clone(), vec![first.clone()]));
        assert_eq!(probed(None, false), (late, vec![first.clone(), last]));
        assert_eq!(probed(Some(600), true), (none, vec![first.clone()]), "it is needed");
        assert_eq!(probed(None, true), (None, vec![first]), "without end");
    }
}
