//! Attributes reported for a truncation that takes several Updates: those before the first and
//! after the last, and none in between.

use std::rc::Rc;

use block::Verb;
use vfs::{FileSystem, SetAttributes, Stability, Wcc};

use crate::common::behind::{POLICIES, new_disks, new_volume};
use crate::common::calls::{caller, size_and_answer};
use crate::common::volume::try_open_pair;
use sim::{Disk, Effect, Executor, Fault};

/// So long that it is truncated in three steps.
const LONG: u64 = 10 << 20;
const SHORT: u64 = 5_000;

/// Attributes from a SETATTR of the size, from GETATTR before, and from GETATTR after.
fn told(has_log: bool) -> (Wcc, [vfs::Attributes; 2]) {
    let executor = Executor::new(3);
    let disks = new_disks(&executor, has_log);
    executor.block_on(async {
        let (volume, _) = new_volume(executor.runtime(), &disks).await;
        let volume = Rc::new(volume);
        let file = volume.create(volume.files.root(), "file").await.expect("new");
        for at in (0..LONG).step_by(1 << 20) {
            volume.write(file, at, vec![7; 1 << 20], Stability::FileSync).await.expect("room");
        }
        let attributes = async || {
            let sealed = volume.files.getattr(file).await;
            sealed.open().await.expect("running").into_inner().expect("there")
        };
        let before = attributes().await;
        let changes =
            SetAttributes { size: Some(SHORT), mode: Some(0o600), ..SetAttributes::default() };
        let sealed = volume.files.setattr(&volume.root, file, changes, None).await;
        let answer = sealed.open().await.expect("running").into_inner();
        answer.result.expect("there is no need for room");
        (answer.about, [before, attributes().await])
    })
}

fn is_right((wcc, [before, after]): &(Wcc, [vfs::Attributes; 2])) -> bool {
    wcc.before == Some(vfs::WccBefore::from(before)) && wcc.after == Some(*after)
}

#[test]
fn a_truncation_in_steps_tells_the_attributes_before_the_first_and_after_the_last() {
    for has_log in POLICIES {
        let told = told(has_log);
        assert_eq!((told.1[0].size, told.1[1].size), (LONG, SHORT));
        assert!(is_right(&told), "log: {has_log}: {told:?}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn attributes_of_a_step_in_between_are_noticed() {
    for has_log in POLICIES {
        namespace::planted::plant(Some(namespace::planted::Bug::LateBefore));
        let late = told(has_log);
        namespace::planted::plant(None);
        vnode::planted::plant(Some(vnode::planted::Bug::FirstStepTold));
        let first = told(has_log);
        vnode::planted::plant(None);
        for told in [late, first] {
            assert!(!is_right(&told), "log: {has_log}: {told:?}");
        }
    }
}

/// A truncation with one failed read, whichever it is: the answer that is remembered after a kill
/// is the one that the caller got, if the truncation has begun.
fn failures_are_remembered() -> Result<(), String> {
    let executor = Executor::new(3);
    let disks = new_disks(&executor, true);
    executor.block_on(async {
        let (volume, _) = new_volume(executor.runtime(), &disks).await;
        let file = volume.create(volume.files.root(), "file").await.expect("new");
        for at in (0..LONG).step_by(1 << 20) {
            volume.write(file, at, vec![7; 1 << 20], Stability::FileSync).await.expect("room");
        }
        volume.files.shutdown().await.expect("nothing fails");
    });
    let stopped = disks.map(|disk| disk.contents());
    let mut failed = 0;
    for nth in 1..20 {
        let executor = Executor::new(nth);
        let disks = stopped.map(|image| Disk::new(&executor, image.clone()));
        let (has_begun, is_done) = executor.block_on(async {
            let opened = try_open_pair(executor.runtime(), &disks).await;
            let volume = opened.unwrap_or_else(|error| panic!("{error}")).0;
            let file = volume.lookup(volume.files.root(), "file").await.expect("there");
            disks.home.inject(Fault::on(Verb::Read, Effect::Eio).nth(nth));
            let changes = SetAttributes { size: Some(SHORT), ..SetAttributes::default() };
            let sealed = volume.files.setattr(&caller(0, 0), file, changes, None).await;
            let answer = sealed.open().await.expect("running").into_inner();
            (answer.about.after.is_some_and(|it| it.size < LONG), answer.result.is_ok())
        });
        let disks = disks.map(|disk| Disk::new(&executor, disk.contents()));
        let (size, held) = executor.block_on(async {
            let opened = try_open_pair(executor.runtime(), &disks).await;
            size_and_answer(&opened.map_err(|error| error.to_string())?.0).await
        })?;
        let has_failed = held.first().map(|it| it.answered.outcome.has_failed);
        if has_failed != has_begun.then_some(!is_done) || (size == SHORT) != has_begun {
            return Err(format!("read {nth}: done {is_done}, remembered {has_failed:?}, {size}"));
        }
        failed += u64::from(has_begun && !is_done);
    }
    if failed > 0 { Ok(()) } else { Err("no later step has failed".to_owned()) }
}

#[test]
fn a_truncation_of_which_a_later_step_fails_is_remembered_so() {
    assert_eq!(failures_are_remembered(), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_failure_that_is_remembered_as_done_is_found() {
    vnode::planted::plant(Some(vnode::planted::Bug::UntoldFailures));
    let done = failures_are_remembered();
    vnode::planted::plant(None);
    assert!(done.is_err(), "the first step's answer is remembered");
}
