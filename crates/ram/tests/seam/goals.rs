//! A rename whose target directory is removed while the rename waits for the other one.

use std::pin::pin;

use futures::FutureExt;
use namespace::Object;
use vfs::{FileSystem, FsError, Requester};

use crate::{Fixture, name};

/// A name that does not exist is moved to a directory whose removal comes first.
fn moves_into_what_goes() -> Result<(), FsError> {
    let fixture = Fixture::new();
    let (root, who) = (fixture.files.root(), Requester::root());
    let [missing, directory] = [name("missing"), name("directory")];
    let goal = fixture.make_directory(root, "directory");
    let node = fixture.executor.block_on(fixture.files.store().node(root)).expect("it is there");
    let held = fixture.executor.block_on(node.lock().shared());
    let mut removing = pin!(fixture.files.rmdir(&who, root, &directory));
    assert!(removing.as_mut().now_or_never().is_none(), "it waits for the root directory");
    let mut moving = pin!(fixture.files.rename(&who, root, &missing, goal, &missing));
    assert!(moving.as_mut().now_or_never().is_none(), "and the rename behind it");
    drop(held);
    drop(fixture.executor.block_on(removing));
    let sealed = fixture.executor.block_on(moving);
    fixture.make_all_durable();
    fixture.executor.block_on(sealed.open()).expect("it runs").into_inner().result
}

#[test]
fn a_rename_to_a_directory_that_is_gone_says_so_also_of_a_missing_name() {
    assert_eq!(moves_into_what_goes(), Err(FsError::Stale));
}

#[cfg(feature = "planted-bugs")]
#[test]
fn forgotten_goals_are_found() {
    namespace::planted::plant(Some(namespace::planted::Bug::ForgottenGoals));
    let result = moves_into_what_goes();
    namespace::planted::plant(None);
    assert_eq!(result, Err(FsError::NoEntry), "of a directory that was there with the name gone");
}
