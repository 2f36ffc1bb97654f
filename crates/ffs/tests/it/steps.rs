//! What is told of a truncation that takes several Updates: the attributes before the first and
//! after the last, and none in between.

use std::rc::Rc;

use vfs::{FileSystem, SetAttributes, Stability, Wcc};

use crate::common::behind::{POLICIES, new_disks, new_volume};
use sim::Executor;

/// So long that it is cut in three steps.
const LONG: u64 = 10 << 20;
const SHORT: u64 = 5_000;

/// What a SETATTR of the size tells, the attributes that GETATTR told before, and those after.
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
