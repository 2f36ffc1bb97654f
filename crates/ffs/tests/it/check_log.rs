//! Logs of volumes that are checked and repaired: their changes are replayed, or nothing is done.

use std::rc::Rc;

use block::BlockDevice;
use ffs::check_log::{LogUse, prepare};
use ffs::{OpenError, OpenOptions};
use fsck::{CheckOptions, Invariant, LogState, Severity, check};
use runtime::Timestamp;
use sim::Image;
use ufs2::mkfs::{MkfsOptions, mkfs};

use crate::common::chains::{
    repair_without_a_log, repairs_that_are_cut, stop_in_the_middle, with_a_chain,
};
use crate::common::cutting::{Pair, after_cut};
use crate::common::volume::open_with_log;
use crate::common::{MemoryDisk, Seeded};

#[test]
fn a_repair_finishes_what_was_cut_and_may_be_cut_at_every_event() {
    repairs_that_are_cut(1).unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn a_clean_stop_waits_for_what_a_cut_left_in_its_middle() {
    stop_in_the_middle(1).unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn a_volume_whose_log_is_not_at_hand_is_not_repaired() {
    repair_without_a_log(1).unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// Result of preparing a crashed volume, with another log and without any.
fn prepared(log: Option<Image>, log_use: LogUse) -> Result<LogState, OpenError> {
    let (images, _) = with_a_chain(1);
    let before = [images.home.fingerprint(), log.as_ref().map_or(0, Image::fingerprint)];
    let (executor, disks) = after_cut(1, Pair { home: images.home, log });
    let (home, log) = (disks.home.clone() as _, disks.log.clone().map(|log| log as _));
    let runtime = executor.runtime();
    let prepared = executor.block_on(prepare(&home, log.as_ref(), &runtime, log_use));
    let log = disks.log.as_ref().map_or(0, |log| log.contents().fingerprint());
    assert_eq!([disks.home.contents().fingerprint(), log], before, "something was written");
    prepared.map(|prepared| prepared.state)
}

#[test]
fn a_look_without_the_log_says_that_it_is_missing() {
    for log in [None, Some(Image::zeroed(4 << 20))] {
        assert_eq!(prepared(log, LogUse::Look).expect("it may be looked at"), LogState::Missing);
    }
}

#[test]
fn a_repair_without_the_log_is_refused_as_the_server_refuses_it() {
    assert!(matches!(prepared(None, LogUse::Replay), Err(OpenError::LogMissing)));
    let other = Some(Image::zeroed(4 << 20));
    assert!(matches!(prepared(other, LogUse::Replay), Err(OpenError::LogForeign)));
}

/// Afterwards the log is put away: nothing of it is ever replayed.
#[test]
fn what_is_given_up_is_listed_as_lost_and_never_comes_back() {
    let (images, _) = with_a_chain(1);
    let (executor, disks) = after_cut(1, images);
    let (home, log) = (disks.home.clone() as _, disks.log.clone().map(|log| log as _));
    let runtime = executor.runtime();
    executor.block_on(async {
        // As if the log were missing.
        let state = prepare(&home, None, &runtime, LogUse::GiveUp).await.expect("asked for").state;
        let options = CheckOptions { repair: true, log: state, ..CheckOptions::default() };
        let report = check(&*home, &runtime, &options, &mut |_| ()).await.expect("it ends");
        let list = &report.findings.list;
        let loss = list.iter().find(|finding| finding.invariant == Invariant::LogHome);
        assert_eq!(loss.expect("it is told").severity, Severity::Loss);
        assert!(report.log_since_seconds.is_some() && report.repaired);
        // The log turns up again.
        for log_use in [LogUse::Look, LogUse::Replay] {
            let refused = prepare(&home, log.as_ref(), &runtime, log_use).await;
            assert!(matches!(refused, Err(OpenError::LogLeft)), "{refused:?}");
        }
        prepare(&home, log.as_ref(), &runtime, LogUse::GiveUp).await.expect("asked for");
        let again = prepare(&home, log.as_ref(), &runtime, LogUse::Replay).await;
        assert_eq!(again.expect("it is put away").replayed, None);
    });
}

/// A volume that needs no log gets this error for the log of another volume that crashed.
#[test]
fn a_log_that_another_volume_needs_is_left_alone() {
    let (images, _) = with_a_chain(1);
    let (executor, disks) = after_cut(1, images);
    let disk = disks.log.expect("it has a log");
    let (before, log) = (disk.contents().fingerprint(), disk.clone() as Rc<dyn BlockDevice>);
    let runtime = executor.runtime();
    executor.block_on(async {
        let clean: Rc<dyn BlockDevice> = Rc::new(MemoryDisk::new(8 << 20));
        let (options, now) = (MkfsOptions::default(), Timestamp { seconds: 1, nanoseconds: 0 });
        mkfs(&*clean, &options, &Seeded::new(99), now).await.expect("the disk holds it");
        let prepared = prepare(&clean, Some(&log), &runtime, LogUse::GiveUp).await;
        assert!(!prepared.expect("it needs no log").has_given_up);
        let options = OpenOptions::default();
        let refused = open_with_log(clean, Some(log), runtime.clone(), &options, &mut |_| ()).await;
        assert!(matches!(refused, Err(OpenError::LogAnothers)), "{:?}", refused.err());
    });
    assert_eq!(disk.contents().fingerprint(), before, "something was written");
}
