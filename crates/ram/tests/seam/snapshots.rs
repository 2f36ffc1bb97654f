//! Snapshots, where Updates become durable when the test says so.

use vfs::{CreateHow, FileSystem, FsError, Requester, SetAttributes, Wcc};

use crate::{Fixture, name};

#[test]
fn of_what_is_no_directory_nothing_is_told_when_a_name_is_to_change_in_it() {
    let fixture = Fixture::new();
    fixture.create("file");
    let (who, run, files) = (Requester::root(), &fixture.executor, &fixture.files);
    let (root, old, new) = (files.root(), name("file"), name("new"));
    let file = run.block_on(files.lookup(&who.who, root, &old));
    fixture.make_all_durable();
    let file = run.block_on(file.open()).expect("it runs").into_inner().result;
    let file = file.expect("it is there").id;
    let how = CreateHow::Guarded(SetAttributes::default());
    let made = run.block_on(async { files.create(&who, file, &new, how).await.open().await });
    let made = made.expect("it runs").into_inner();
    assert_eq!((made.result.err(), made.about), (Some(FsError::NotDirectory), Wcc::default()));
    let gone = run.block_on(async { files.remove(&who, file, &new).await.open().await });
    let gone = gone.expect("it runs").into_inner();
    assert_eq!((gone.result.err(), gone.about), (Some(FsError::NotDirectory), Wcc::default()));
    let moved = files.rename(&who, root, &old, file, &new);
    let moved = run.block_on(async { moved.await.open().await }).expect("it runs").into_inner();
    assert_eq!(moved.result.err(), Some(FsError::NotDirectory));
    assert!(moved.about.0.after.is_some(), "of the one that is a directory it is told");
    assert_eq!(moved.about.1, Wcc::default());
}
