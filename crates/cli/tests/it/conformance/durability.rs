//! Data after a restart, a cut and a lost write.

use nfs3_types::nfs3::nfsstat3::*;
use nfs3_types::nfs3::*;

use crate::conformance::disk::Request;
use crate::conformance::fixture::{Fixture, with_volume};
use crate::conformance::user::User;

async fn unstable(user: &mut User, file: &nfs_fh3, data: &[u8]) -> writeverf3 {
    let written = user.write(file, 0, data, stable_how::UNSTABLE).await.expect("there is room");
    assert_eq!(written.committed as u32, stable_how::UNSTABLE as u32);
    written.verf
}

fn holds(data: &[u8], marker: &[u8]) -> bool {
    data.windows(marker.len()).any(|window| window == marker)
}

#[test]
fn the_verifier_is_one_within_a_boot_and_another_after_it() {
    with_volume(async |mut fixture: Fixture| {
        let mut seen = Vec::new();
        for round in 0..3 {
            let mut user = fixture.superuser().await;
            let top = user.root.clone();
            let file = user.file(&top, &format!("file-{round}"), 0o644).await.unwrap();
            let first = unstable(&mut user, &file, b"data").await;
            assert_eq!(user.commit(&file).await.unwrap().0, first.0);
            assert_eq!(unstable(&mut user, &file, b"more").await.0, first.0);
            assert_eq!(user.commit(&top).await.err(), Some(NFS3ERR_ISDIR));
            assert!(!seen.contains(&first.0), "round {round}");
            seen.push(first.0);
            if round == 0 { fixture.restart().await } else { fixture.cut().await }
        }
    });
}

#[test]
fn what_was_acknowledged_survives_a_cut() {
    with_volume(async |mut fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let directory = user.mkdir(&top, "directory", 0o755).await.unwrap();
        let sync = user.file(&directory, "sync", 0o644).await.unwrap();
        user.put(&sync, 0, b"written").await.unwrap();
        let committed = user.file(&directory, "committed", 0o644).await.unwrap();
        unstable(&mut user, &committed, b"committed").await;
        user.commit(&committed).await.unwrap();
        user.link(&sync, &top, "link").await.unwrap();
        user.rename((&directory, "committed"), (&top, "renamed")).await.unwrap();
        user.file(&top, "removed", 0o644).await.unwrap();
        user.remove(&top, "removed").await.unwrap();
        fixture.cut().await;
        let mut user = fixture.superuser().await;
        assert_eq!(user.names(&top).await, ["directory", "link", "renamed"]);
        assert_eq!(user.names(&directory).await, ["sync"]);
        assert_eq!(user.read(&sync, 0, 100).await, Ok((b"written".to_vec(), true)));
        assert_eq!(user.read(&committed, 0, 100).await, Ok((b"committed".to_vec(), true)));
        assert_eq!(user.getattr(&sync).await.unwrap().nlink, 2);
        fixture.judge().await;
    });
}

#[test]
fn unstable_data_is_lost_by_a_cut_only_with_its_verifier() {
    with_volume(async |mut fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let file = user.file(&top, "file", 0o644).await.unwrap();
        let before = unstable(&mut user, &file, b"unstable").await;
        fixture.cut().await;
        let mut user = fixture.superuser().await;
        assert_eq!(user.getattr(&file).await.unwrap().size, 0);
        assert_ne!(user.commit(&file).await.unwrap().0, before.0);
    });
}

#[test]
fn a_clean_stop_lands_unstable_data() {
    with_volume(async |mut fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let file = user.file(&top, "file", 0o644).await.unwrap();
        unstable(&mut user, &file, b"unstable").await;
        fixture.restart().await;
        let mut user = fixture.superuser().await;
        assert_eq!(user.read(&file, 0, 100).await, Ok((b"unstable".to_vec(), true)));
    });
}

#[test]
fn unstable_data_that_the_disk_refuses_fails_its_commit_and_changes_the_verifier() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let lost = user.file(&top, "lost", 0o644).await.unwrap();
        let kept = user.file(&top, "kept", 0o644).await.unwrap();
        let before = unstable(&mut user, &lost, b"poison").await;
        unstable(&mut user, &kept, b"harmless").await;
        fixture
            .disk
            .fail_when(|request| matches!(request, Request::Write(data) if holds(data, b"poison")));
        assert_eq!(user.commit(&lost).await, Err(NFS3ERR_IO));
        let now = user.commit(&kept).await.expect("another file goes on");
        assert_ne!(now.0, before.0, "whoever has unstable data must know");
        assert_eq!(user.read(&kept, 0, 100).await, Ok((b"harmless".to_vec(), true)));
        assert_eq!(user.read(&lost, 0, 100).await, Ok((vec![], true)));
        unstable(&mut user, &lost, b"medicine").await;
        assert_eq!(user.commit(&lost).await.unwrap().0, now.0);
        assert_eq!(user.read(&lost, 0, 100).await, Ok((b"medicine".to_vec(), true)));
        fixture.judge().await;
    });
}

#[test]
fn a_synchronous_write_that_the_disk_refuses_leaves_the_file_as_it_was() {
    with_volume(async |mut fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let file = user.file(&top, "file", 0o644).await.unwrap();
        user.put(&file, 0, b"old content").await.unwrap();
        fixture
            .disk
            .fail_when(|request| matches!(request, Request::Write(data) if holds(data, b"poison")));
        assert_eq!(user.put(&file, 0, b"poison").await, Err(NFS3ERR_IO));
        assert_eq!(user.put(&file, 100_000, b"poison").await, Err(NFS3ERR_IO));
        let target = [b"poison".as_slice(), &[b'x'; 200]].concat();
        assert_eq!(user.symlink(&top, "link", &target).await, Err(NFS3ERR_IO));
        for _ in 0..2 {
            assert_eq!(user.read(&file, 0, 100).await, Ok((b"old content".to_vec(), true)));
            assert_eq!(user.names(&top).await, ["file"]);
            fixture.cut().await;
            user = fixture.superuser().await;
        }
    });
}

#[test]
fn what_cannot_be_read_is_an_error_of_that_file_alone() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let bad = user.file(&top, "bad", 0o644).await.unwrap();
        let good = user.file(&top, "good", 0o644).await.unwrap();
        user.put(&bad, 0, b"scratched").await.unwrap();
        user.put(&good, 0, b"smooth").await.unwrap();
        let place = fixture.disk.find(b"scratched");
        fixture.disk.fail_when(move |request| match request {
            Request::Read(offset, length) => (*offset..offset + *length as u64).contains(&place),
            _ => false,
        });
        assert_eq!(user.read(&bad, 0, 100).await, Err(NFS3ERR_IO));
        assert_eq!(user.put(&bad, 3, b"partial").await, Err(NFS3ERR_IO));
        assert_eq!(user.getattr(&bad).await.unwrap().size, 9);
        assert_eq!(user.read(&good, 0, 100).await, Ok((b"smooth".to_vec(), true)));
        user.put(&good, 0, b"goes on").await.unwrap();
        fixture.disk.heal();
        assert_eq!(user.read(&bad, 0, 100).await, Ok((b"scratched".to_vec(), true)));
    });
}
