//! The walk up from a directory, which a rename makes while other tasks run.

use std::pin::pin;

use futures::FutureExt;
use ram::Disk;
use runtime::sync::STEPS_OF_A_TURN;
use vfs::{FileSystem, FsError, ObjectId, Requester};

use crate::{Fixture, NOW, name};

/// Levels that the walk visits before it yields.
const TURN: usize = STEPS_OF_A_TURN as usize;

/// An engine with room for many directories.
fn roomy() -> Fixture {
    Fixture::on(Disk::new(16 << 20, NOW))
}

/// A chain of directories, each in the one before, the first in the root.
fn line(fixture: &Fixture, text: &str, levels: usize) -> Vec<ObjectId> {
    let mut parent = fixture.files.root();
    let next = |level| {
        parent = fixture.make_directory(parent, &format!("{text}{level}"));
        parent
    };
    (0..levels).map(next).collect()
}

/// The result of a rename, if `meanwhile` runs in its first pause; and the number of pauses.
fn paused(
    fixture: &Fixture,
    from: (ObjectId, &str),
    to: (ObjectId, &str),
    meanwhile: impl FnOnce(),
) -> (Result<(), FsError>, usize) {
    let (who, old, new) = (Requester::root(), name(from.1), name(to.1));
    let mut moving = pin!(fixture.files.rename(&who, from.0, &old, to.0, &new));
    let (mut meanwhile, mut pauses) = (Some(meanwhile), 0);
    let sealed = loop {
        if let Some(sealed) = moving.as_mut().now_or_never() {
            break sealed;
        }
        pauses += 1;
        meanwhile.take().into_iter().for_each(|meanwhile| meanwhile());
    };
    fixture.make_all_durable();
    let answer = fixture.executor.block_on(sealed.open()).expect("it runs").into_inner();
    (answer.result, pauses)
}

#[test]
fn a_long_climb_gives_way() {
    let fixture = roomy();
    let root = fixture.files.root();
    let deep = line(&fixture, "d", 3 * TURN + 1);
    fixture.make_directory(root, "other");
    let (moved, pauses) = paused(&fixture, (root, "other"), (deep[3 * TURN], "moved"), || ());
    assert_eq!((moved, pauses), (Ok(()), 3));
}

/// The walk has seen the whole path when the first directory on it moves below the one that is to
/// move.
fn moves_below_each_other() -> Result<(), FsError> {
    let fixture = roomy();
    let root = fixture.files.root();
    let (one, other) = (line(&fixture, "a", 1), line(&fixture, "b", TURN));
    let meanwhile = || fixture.rename((root, "b0"), (one[0], "b0"));
    paused(&fixture, (root, "a0"), (other[TURN - 1], "a0"), meanwhile).0
}

#[test]
fn of_two_directories_that_move_below_each_other_one_stays_where_it_is() {
    assert_eq!(moves_below_each_other(), Err(FsError::Invalid));
}

/// The walk has left a directory when that moves up, and its old parent moves below it.
fn moves_past_a_climb() -> Result<(), FsError> {
    let fixture = roomy();
    let root = fixture.files.root();
    let deep = line(&fixture, "d", TURN + 6);
    fixture.make_directory(root, "other");
    let lowest = deep[TURN + 5];
    let meanwhile = || {
        fixture.rename((deep[5], "d6"), (root, "d6"));
        fixture.rename((deep[4], "d5"), (lowest, "d5"));
    };
    paused(&fixture, (root, "other"), (lowest, "moved"), meanwhile).0
}

#[test]
fn a_climb_that_is_overtaken_finds_no_circle_where_none_ever_was() {
    assert_eq!(moves_past_a_climb(), Ok(()));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn overtaken_climbs_are_found() {
    namespace::planted::plant(Some(namespace::planted::Bug::OvertakenClimbs));
    let results = [moves_below_each_other(), moves_past_a_climb()];
    namespace::planted::plant(None);
    assert_eq!(results, [Ok(()), Err(FsError::Corrupt)], "a circle, and an error for nothing");
}
