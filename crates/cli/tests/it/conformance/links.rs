//! SYMLINK, READLINK, LINK, and REMOVE of one name of several.

use nfs3_types::nfs3::nfsstat3::*;
use nfs3_types::nfs3::*;

use crate::conformance::fixture::{Fixture, with_volume};
use crate::conformance::user::{assert_same, owner};

#[test]
fn symbolic_links_of_all_lengths_are_read_back() {
    with_volume(async |mut fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let mut made = Vec::new();
        for length in [1, 119, 120, 121, 1023, 1024, 4094, 4095] {
            let target: Vec<u8> = (0..length).map(|i| b'a' + (i % 26) as u8).collect();
            let link = root.symlink(&top, &format!("link-{length}"), &target).await.unwrap();
            let found = root.getattr(&link).await.unwrap();
            assert_eq!((found.type_, found.size), (ftype3::NF3LNK, length as u64));
            made.push((link, target));
        }
        fixture.restart().await;
        let mut root = fixture.superuser().await;
        for (link, target) in made {
            assert_eq!(root.readlink(&link).await, Ok(target));
        }
        fixture.judge().await;
    });
}

#[test]
fn a_target_that_nobody_could_follow_is_refused() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        assert_eq!(root.symlink(&top, "link", &[b'x'; 4096]).await, Err(NFS3ERR_NAMETOOLONG));
        assert_eq!(root.symlink(&top, "link", b"").await, Err(NFS3ERR_INVAL));
        assert_eq!(root.symlink(&top, "link", b"a\0b").await, Err(NFS3ERR_INVAL));
        assert_eq!(root.names(&top).await, [""; 0]);
    });
}

#[test]
fn a_file_lives_as_long_as_it_has_a_name() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let file = root.file(&top, "one", 0o644).await.unwrap();
        root.put(&file, 0, b"data").await.unwrap();
        let before = root.getattr(&file).await.unwrap();
        let linked = root.link(&file, &top, "two").await.unwrap();
        let after = root.getattr(&file).await.unwrap();
        assert_same(&linked.file_attributes.unwrap(), &after);
        assert_same(&linked.linkdir_wcc.after.unwrap(), &root.getattr(&top).await.unwrap());
        assert!(after.nlink == 2 && after.ctime != before.ctime && after.mtime == before.mtime);
        assert_eq!(root.lookup(&top, "two").await, Ok(file.clone()));
        let removed = root.remove(&top, "one").await.unwrap();
        assert_same(&removed.after.unwrap(), &root.getattr(&top).await.unwrap());
        assert_eq!(root.getattr(&file).await.unwrap().nlink, 1);
        assert_eq!(root.read(&file, 0, 10).await, Ok((b"data".to_vec(), true)));
        root.remove(&top, "two").await.unwrap();
        assert_eq!(root.getattr(&file).await.err(), Some(NFS3ERR_STALE));
    });
}

#[test]
fn symbolic_links_and_pipes_have_hard_links_directories_have_none() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let directory = root.mkdir(&top, "directory", 0o755).await.unwrap();
        assert_eq!(root.link(&directory, &top, "again").await.err(), Some(NFS3ERR_PERM));
        let link = root.symlink(&top, "link", b"target").await.unwrap();
        root.link(&link, &directory, "other").await.unwrap();
        assert_eq!(root.getattr(&link).await.unwrap().nlink, 2);
        assert_eq!(root.lookup(&directory, "other").await, Ok(link));
    });
}

#[test]
fn a_directory_is_not_removed_as_a_file_nor_a_file_as_a_directory() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let directory = root.mkdir(&top, "directory", 0o755).await.unwrap();
        root.file(&directory, "file", 0o644).await.unwrap();
        assert_eq!(root.remove(&top, "directory").await.err(), Some(NFS3ERR_ISDIR));
        assert_eq!(root.rmdir(&directory, "file").await.err(), Some(NFS3ERR_NOTDIR));
        assert_eq!(root.rmdir(&top, "directory").await.err(), Some(NFS3ERR_NOTEMPTY));
        root.remove(&directory, "file").await.unwrap();
        let removed = root.rmdir(&top, "directory").await.unwrap();
        let after = root.getattr(&top).await.unwrap();
        assert_same(&removed.after.unwrap(), &after);
        assert_eq!(after.nlink, 2);
    });
}

/// FreeBSD's 16-bit count allows 65 500. The first 65 498 names exist only in the link count.
#[test]
fn a_file_has_at_most_65500_names() {
    with_volume(async |mut fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let file = root.file(&top, "name", 0o644).await.unwrap();
        root.setattr(&file, owner(0xfeed_beef, 20)).await.unwrap();
        fixture
            .restart_after(|disk| {
                let uid = disk.find(&0xfeed_beef_u32.to_le_bytes());
                disk.put(uid - 2, &65_498_u16.to_le_bytes()); // the link count is before the owner
            })
            .await;
        let mut root = fixture.superuser().await;
        let limit = root.pathconf(&file).await.unwrap().linkmax;
        assert_eq!(limit, 65_500);
        root.link(&file, &top, "one").await.unwrap();
        root.link(&file, &top, "two").await.unwrap();
        assert_eq!(root.getattr(&file).await.unwrap().nlink, limit);
        assert_eq!(root.link(&file, &top, "more").await.err(), Some(NFS3ERR_MLINK));
        // During a rename the file has both names: one too many.
        let renamed = root.rename((&top, "name"), (&top, "other")).await;
        assert_eq!(renamed.err(), Some(NFS3ERR_MLINK));
        root.remove(&top, "two").await.unwrap();
        root.link(&file, &top, "more").await.expect("there is room for one");
        assert_eq!(root.names(&top).await, ["more", "name", "one"]);
    });
}

/// Every directory in a directory has a link to it: "..".
#[test]
fn a_directory_has_at_most_65498_directories() {
    with_volume(async |mut fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let directory = root.mkdir(&top, "directory", 0o755).await.unwrap();
        root.mkdir(&top, "moving", 0o755).await.unwrap();
        root.setattr(&directory, owner(0xfeed_beef, 20)).await.unwrap();
        fixture
            .restart_after(|disk| {
                let uid = disk.find(&0xfeed_beef_u32.to_le_bytes());
                disk.put(uid - 2, &65_499_u16.to_le_bytes());
            })
            .await;
        let mut root = fixture.superuser().await;
        root.mkdir(&directory, "last", 0o755).await.unwrap();
        assert_eq!(root.mkdir(&directory, "more", 0o755).await, Err(NFS3ERR_MLINK));
        let moved = root.rename((&top, "moving"), (&directory, "more")).await;
        assert_eq!(moved.err(), Some(NFS3ERR_MLINK));
        root.rename((&top, "moving"), (&directory, "last")).await.expect("one for one");
    });
}
