//! RENAME, and sticky directories.

use nfs3_types::nfs3::nfsstat3::*;
use nfs3_types::nfs3::*;

use crate::conformance::fixture::{Fixture, with_volume};
use crate::conformance::user::{User, assert_same, mode, owner};

async fn links(user: &mut User, file: &nfs_fh3) -> u32 {
    user.getattr(file).await.expect("it is there").nlink
}

#[test]
fn a_file_moves_and_replaces_what_had_the_name() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let one = root.mkdir(&top, "one", 0o755).await.unwrap();
        let two = root.mkdir(&top, "two", 0o755).await.unwrap();
        let file = root.file(&one, "file", 0o644).await.unwrap();
        let old = root.file(&two, "new", 0o644).await.unwrap();
        let kept = root.file(&two, "linked", 0o644).await.unwrap();
        root.link(&kept, &one, "link").await.unwrap();
        let moved = root.rename((&one, "file"), (&two, "new")).await.unwrap();
        assert_same(&moved.fromdir_wcc.after.unwrap(), &root.getattr(&one).await.unwrap());
        assert_same(&moved.todir_wcc.after.unwrap(), &root.getattr(&two).await.unwrap());
        assert!(moved.fromdir_wcc.before.unwrap().mtime != root.getattr(&one).await.unwrap().mtime);
        assert_eq!(root.lookup(&one, "file").await, Err(NFS3ERR_NOENT));
        assert_eq!(root.lookup(&two, "new").await, Ok(file.clone()));
        assert_eq!(root.getattr(&old).await.err(), Some(NFS3ERR_STALE));
        root.rename((&two, "new"), (&two, "linked")).await.unwrap();
        assert_eq!(links(&mut root, &kept).await, 1);
        assert_eq!(links(&mut root, &file).await, 1);
        assert_eq!(root.names(&two).await, ["linked"]);
    });
}

#[test]
fn two_names_of_one_file_both_stay() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let file = root.file(&top, "one", 0o644).await.unwrap();
        root.link(&file, &top, "two").await.unwrap();
        let before = root.getattr(&top).await.unwrap();
        root.rename((&top, "one"), (&top, "two")).await.unwrap();
        root.rename((&top, "one"), (&top, "one")).await.unwrap();
        assert_eq!(root.names(&top).await, ["one", "two"]);
        assert_eq!(links(&mut root, &file).await, 2);
        assert_eq!(root.getattr(&top).await.unwrap().mtime, before.mtime);
    });
}

#[test]
fn a_directory_takes_its_parent_along() {
    with_volume(async |mut fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let one = root.mkdir(&top, "one", 0o755).await.unwrap();
        let two = root.mkdir(&top, "two", 0o755).await.unwrap();
        let child = root.mkdir(&one, "child", 0o755).await.unwrap();
        root.file(&child, "file", 0o644).await.unwrap();
        root.rename((&one, "child"), (&two, "moved")).await.unwrap();
        for _ in 0..2 {
            assert_eq!(root.lookup(&child, "..").await, Ok(two.clone()));
            assert_eq!(root.lookup(&two, "moved").await, Ok(child.clone()));
            assert_eq!(root.names(&child).await, ["file"]);
            assert_eq!((links(&mut root, &one).await, links(&mut root, &two).await), (2, 3));
            fixture.cut().await;
            root = fixture.superuser().await;
        }
        root.rename((&two, "moved"), (&two, "again")).await.unwrap();
        assert_eq!((links(&mut root, &two).await, links(&mut root, &child).await), (3, 2));
    });
}

#[test]
fn a_directory_replaces_an_empty_directory_alone() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let one = root.mkdir(&top, "one", 0o755).await.unwrap();
        let two = root.mkdir(&top, "two", 0o755).await.unwrap();
        let full = root.mkdir(&two, "full", 0o755).await.unwrap();
        root.file(&full, "file", 0o644).await.unwrap();
        root.file(&top, "file", 0o644).await.unwrap();
        let mut refused =
            async |from: &str, to: (&nfs_fh3, &str)| root.rename((&top, from), to).await.err();
        assert_eq!(refused("one", (&two, "full")).await, Some(NFS3ERR_NOTEMPTY));
        assert_eq!(refused("one", (&top, "file")).await, Some(NFS3ERR_NOTDIR));
        assert_eq!(refused("file", (&top, "one")).await, Some(NFS3ERR_ISDIR));
        root.remove(&full, "file").await.unwrap();
        root.rename((&top, "one"), (&two, "full")).await.unwrap();
        assert_eq!(root.getattr(&full).await.err(), Some(NFS3ERR_STALE));
        assert_eq!(root.lookup(&two, "full").await, Ok(one.clone()));
        assert_eq!((links(&mut root, &top).await, links(&mut root, &two).await), (3, 3));
        root.mkdir(&two, "empty", 0o755).await.unwrap();
        root.rename((&two, "full"), (&two, "empty")).await.unwrap();
        assert_eq!((links(&mut root, &one).await, links(&mut root, &two).await), (2, 3));
        fixture.judge().await;
    });
}

#[test]
fn a_directory_does_not_move_into_itself() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let one = root.mkdir(&top, "one", 0o755).await.unwrap();
        let two = root.mkdir(&one, "two", 0o755).await.unwrap();
        let three = root.mkdir(&two, "three", 0o755).await.unwrap();
        for below in [&one, &two, &three] {
            let moved = root.rename((&top, "one"), (below, "new")).await;
            assert_eq!(moved.err(), Some(NFS3ERR_INVAL));
        }
        let over_its_parent = root.rename((&two, "three"), (&one, "two")).await;
        assert_eq!(over_its_parent.err(), Some(NFS3ERR_NOTEMPTY));
        root.rename((&two, "three"), (&top, "three")).await.expect("upwards is well");
        assert_eq!(links(&mut root, &two).await, 2);
    });
}

#[test]
fn in_a_sticky_directory_names_belong_to_their_owners() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let shared = root.mkdir(&top, "shared", 0o755).await.unwrap();
        root.setattr(&shared, owner(30, 30)).await.unwrap();
        root.setattr(&shared, mode(0o1777)).await.unwrap();
        let mut ten = fixture.user(10, 20, &[]).await;
        let mut eleven = fixture.user(11, 20, &[]).await;
        for name in ["a", "b", "c"] {
            ten.file(&shared, name, 0o666).await.unwrap();
        }
        ten.mkdir(&shared, "directory", 0o777).await.unwrap();
        eleven.file(&shared, "mine", 0o644).await.unwrap();
        assert_eq!(eleven.remove(&shared, "a").await.err(), Some(NFS3ERR_PERM));
        assert_eq!(eleven.rmdir(&shared, "directory").await.err(), Some(NFS3ERR_PERM));
        let taken = eleven.rename((&shared, "a"), (&shared, "d")).await;
        assert_eq!(taken.err(), Some(NFS3ERR_PERM));
        let replaced = eleven.rename((&shared, "mine"), (&shared, "a")).await;
        assert_eq!(replaced.err(), Some(NFS3ERR_PERM));
        ten.remove(&shared, "a").await.expect("it is his");
        let mut thirty = fixture.user(30, 30, &[]).await;
        thirty.remove(&shared, "b").await.expect("the directory is his");
        root.remove(&shared, "c").await.expect("the superuser may");
        assert_eq!(root.names(&shared).await, ["directory", "mine"]);
    });
}

/// A move changes its "..", which is content of the directory itself.
#[test]
fn who_may_not_write_a_directory_does_not_move_it_elsewhere() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        root.setattr(&top, mode(0o777)).await.unwrap();
        root.mkdir(&top, "moving", 0o755).await.unwrap();
        let other = root.mkdir(&top, "other", 0o777).await.unwrap();
        let mut user = fixture.user(10, 20, &[]).await;
        let moved = user.rename((&top, "moving"), (&other, "moving")).await;
        assert_eq!(moved.err(), Some(NFS3ERR_ACCES));
        user.rename((&top, "moving"), (&top, "renamed")).await.expect("it stays where it is");
    });
}
