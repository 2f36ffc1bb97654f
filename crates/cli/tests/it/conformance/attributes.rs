//! GETATTR, SETATTR and ACCESS.

use nfs3_types::nfs3::nfsstat3::*;
use nfs3_types::nfs3::*;

use crate::conformance::fixture::{Fixture, with_volume};
use crate::conformance::user::{User, assert_same, mode, owner, size};

async fn bits(user: &mut User, file: &nfs_fh3) -> u32 {
    user.getattr(file).await.expect("it is there").mode
}

/// A file of user 10 and group 20, in the root.
async fn file_of_ten(fixture: &Fixture, name: &str, bits: u32) -> nfs_fh3 {
    let mut root = fixture.superuser().await;
    let top = root.root.clone();
    let file = root.file(&top, name, bits).await.unwrap();
    root.setattr(&file, owner(10, 20)).await.unwrap();
    root.setattr(&file, mode(bits)).await.unwrap();
    file
}

#[test]
fn a_new_file_has_the_attributes_that_were_asked_for() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let mut wish = owner(10, 20);
        wish.mode = Nfs3Option::Some(0o640);
        wish.size = Nfs3Option::Some(5000);
        let file = root.create(&top, "file", createhow3::UNCHECKED(wish)).await.unwrap();
        let found = root.getattr(&file).await.unwrap();
        assert_eq!(found.type_, ftype3::NF3REG);
        assert_eq!((found.mode, found.nlink, found.uid, found.gid), (0o640, 1, 10, 20));
        assert_eq!((found.size, found.fsid), (5000, 7));
        let top = root.getattr(&top).await.unwrap();
        assert_eq!((top.type_, top.fileid, top.nlink), (ftype3::NF3DIR, 2, 2));
    });
}

#[test]
fn times_are_set_to_the_nanosecond_and_stay() {
    with_volume(async |mut fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let file = root.file(&top, "file", 0o644).await.unwrap();
        let atime = nfstime3 { seconds: 1_000_000_000, nseconds: 123_456_789 };
        let mtime = nfstime3 { seconds: u32::MAX, nseconds: 999_999_999 };
        let wish = sattr3 {
            atime: set_atime::SET_TO_CLIENT_TIME(atime),
            mtime: set_mtime::SET_TO_CLIENT_TIME(mtime),
            ..sattr3::default()
        };
        root.setattr(&file, wish).await.unwrap();
        fixture.restart().await;
        let mut root = fixture.superuser().await;
        let found = root.getattr(&file).await.unwrap();
        assert_eq!((found.atime, found.mtime), (atime, mtime));
        assert!(found.ctime.seconds > 1_600_000_000 && found.ctime != mtime);
        let wrong = nfstime3 { seconds: 1, nseconds: 1_000_000_000 };
        let wish = sattr3 { mtime: set_mtime::SET_TO_CLIENT_TIME(wrong), ..sattr3::default() };
        assert_eq!(root.setattr(&file, wish).await.err(), Some(NFS3ERR_INVAL));
    });
}

#[test]
fn the_servers_time_is_set_by_whoever_may_write_another_time_by_the_owner_alone() {
    with_volume(async |fixture: Fixture| {
        let file = file_of_ten(&fixture, "file", 0o666).await;
        let closed = file_of_ten(&fixture, "closed", 0o644).await;
        let mut other = fixture.user(11, 21, &[]).await;
        let now = || sattr3 { mtime: set_mtime::SET_TO_SERVER_TIME, ..sattr3::default() };
        let then = || sattr3 {
            mtime: set_mtime::SET_TO_CLIENT_TIME(nfstime3 { seconds: 5, nseconds: 0 }),
            ..sattr3::default()
        };
        other.setattr(&file, now()).await.expect("he may write");
        assert_eq!(other.setattr(&file, then()).await.err(), Some(NFS3ERR_PERM));
        assert_eq!(other.setattr(&closed, now()).await.err(), Some(NFS3ERR_ACCES));
        let mut owner = fixture.user(10, 20, &[]).await;
        owner.setattr(&closed, then()).await.expect("it is his");
    });
}

#[test]
fn a_guarded_setattr_wants_the_change_time_of_now() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let file = root.file(&top, "file", 0o644).await.unwrap();
        let then = root.getattr(&file).await.unwrap().ctime;
        root.setattr_if(&file, mode(0o600), Nfs3Option::Some(then)).await.expect("unchanged");
        let stale = root.setattr_if(&file, mode(0o777), Nfs3Option::Some(then)).await;
        assert_eq!(stale.err(), Some(NFS3ERR_NOT_SYNC));
        let stale = root.setattr_if(&file, size(5), Nfs3Option::Some(then)).await;
        assert_eq!(stale.err(), Some(NFS3ERR_NOT_SYNC));
        assert_eq!(bits(&mut root, &file).await, 0o600);
    });
}

#[test]
fn setattr_tells_the_attributes_before_and_after() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let file = root.file(&top, "file", 0o644).await.unwrap();
        root.put(&file, 0, &[7; 3000]).await.unwrap();
        for wish in [size(100), mode(0o600), size(1_000_000), owner(5, 6)] {
            let before = root.getattr(&file).await.unwrap();
            let wcc = root.setattr(&file, wish).await.unwrap();
            let after = root.getattr(&file).await.unwrap();
            let told = wcc.before.unwrap();
            assert_eq!(
                (told.size, told.mtime, told.ctime),
                (before.size, before.mtime, before.ctime)
            );
            assert_same(&wcc.after.unwrap(), &after);
            assert!(after.ctime != before.ctime);
        }
    });
}

#[test]
fn a_file_is_cut_and_grown_by_its_size() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let file = root.file(&top, "file", 0o644).await.unwrap();
        root.put(&file, 0, &[7; 20_000]).await.unwrap();
        root.setattr(&file, size(10)).await.unwrap();
        root.setattr(&file, size(15)).await.unwrap();
        let expected = [vec![7; 10], vec![0; 5]].concat();
        assert_eq!(root.read(&file, 0, 100).await, Ok((expected, true)));
        root.setattr(&file, size(0)).await.unwrap();
        assert_eq!(root.getattr(&file).await.unwrap().used, 0);
        assert_eq!(root.setattr(&top, size(0)).await.err(), Some(NFS3ERR_ISDIR));
        let fifo = mknoddata3::NF3FIFO(sattr3::default());
        let pipe = root.mknod(&top, "pipe", fifo).await.unwrap();
        assert_eq!(root.setattr(&pipe, size(0)).await.err(), Some(NFS3ERR_INVAL));
    });
}

#[test]
fn only_the_owner_changes_the_mode_and_only_root_the_owner() {
    with_volume(async |fixture: Fixture| {
        let file = file_of_ten(&fixture, "file", 0o666).await;
        let mut other = fixture.user(11, 20, &[]).await;
        assert_eq!(other.setattr(&file, mode(0o777)).await.err(), Some(NFS3ERR_PERM));
        assert_eq!(other.setattr(&file, owner(11, 20)).await.err(), Some(NFS3ERR_PERM));
        let mut ten = fixture.user(10, 20, &[21]).await;
        ten.setattr(&file, mode(0o600)).await.expect("it is his");
        assert_eq!(ten.setattr(&file, owner(11, 20)).await.err(), Some(NFS3ERR_PERM));
        assert_eq!(ten.setattr(&file, owner(10, 22)).await.err(), Some(NFS3ERR_PERM));
        ten.setattr(&file, owner(10, 21)).await.expect("a group of his");
        assert_eq!(ten.getattr(&file).await.unwrap().gid, 21);
        assert_eq!(other.setattr(&file, size(0)).await.err(), Some(NFS3ERR_ACCES));
    });
}

#[test]
fn set_id_bits_go_with_a_change_of_content_owner_or_group() {
    with_volume(async |fixture: Fixture| {
        let file = file_of_ten(&fixture, "file", 0o6777).await;
        let mut root = fixture.superuser().await;
        let mut ten = fixture.user(10, 20, &[21]).await;
        assert_eq!(bits(&mut root, &file).await, 0o6777);
        ten.put(&file, 0, b"other content").await.unwrap();
        assert_eq!(bits(&mut root, &file).await, 0o777);
        root.setattr(&file, mode(0o6777)).await.unwrap();
        ten.setattr(&file, owner(10, 21)).await.unwrap();
        assert_eq!(bits(&mut root, &file).await, 0o777);
        root.setattr(&file, mode(0o6777)).await.unwrap();
        ten.setattr(&file, size(3)).await.unwrap();
        assert_eq!(bits(&mut root, &file).await, 0o777);
        root.setattr(&file, mode(0o6777)).await.unwrap();
        root.put(&file, 0, b"the superuser may").await.unwrap();
        assert_eq!(bits(&mut root, &file).await, 0o6777);
    });
}

#[test]
fn the_owner_does_what_he_likes_with_his_data() {
    with_volume(async |fixture: Fixture| {
        let file = file_of_ten(&fixture, "file", 0).await;
        let mut ten = fixture.user(10, 99, &[]).await;
        ten.put(&file, 0, b"data").await.expect("an open file outlives chmod");
        assert_eq!(ten.read(&file, 0, 10).await, Ok((b"data".to_vec(), true)));
        ten.setattr(&file, size(2)).await.expect("so it may be cut");
        let mut other = fixture.user(11, 20, &[]).await;
        assert_eq!(other.read(&file, 0, 10).await, Err(NFS3ERR_ACCES));
        assert_eq!(other.put(&file, 0, b"data").await, Err(NFS3ERR_ACCES));
        assert_eq!(other.commit(&file).await, Err(NFS3ERR_ACCES));
        assert_eq!(ten.access(&file, 0x3f).await, Ok(0));
    });
}

#[test]
fn further_groups_count() {
    with_volume(async |fixture: Fixture| {
        let file = file_of_ten(&fixture, "file", 0o060).await;
        let mut member = fixture.user(11, 99, &[1, 2, 20]).await;
        let rights = ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND;
        assert_eq!(member.access(&file, 0x3f).await, Ok(rights));
        member.put(&file, 0, b"data").await.expect("the group may");
        let mut stranger = fixture.user(11, 99, &[1, 2]).await;
        assert_eq!(stranger.access(&file, 0x3f).await, Ok(0));
        assert_eq!(stranger.read(&file, 0, 1).await, Err(NFS3ERR_ACCES));
    });
}

#[test]
fn access_tells_of_the_rights_that_were_asked_about() {
    with_volume(async |fixture: Fixture| {
        let file = file_of_ten(&fixture, "file", 0o754).await;
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        root.setattr(&top, mode(0o755)).await.unwrap();
        let (read, run) = (ACCESS3_READ, ACCESS3_EXECUTE);
        let write = ACCESS3_MODIFY | ACCESS3_EXTEND;
        let expected = [(10, 1, read | write | run), (11, 20, read | run), (11, 21, read)];
        for (uid, gid, rights) in expected {
            let mut user = fixture.user(uid, gid, &[]).await;
            assert_eq!(user.access(&file, u32::MAX).await, Ok(rights), "{uid} {gid}");
            assert_eq!(user.access(&file, read).await, Ok(read));
            assert_eq!(user.access(&top, 0x3f).await, Ok(read | ACCESS3_LOOKUP));
        }
        let all = read | write | ACCESS3_LOOKUP | ACCESS3_DELETE;
        assert_eq!(root.access(&top, 0x3f).await, Ok(all));
        assert_eq!(root.access(&file, 0x3f).await, Ok(read | write | run));
    });
}
