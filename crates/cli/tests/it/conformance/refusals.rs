//! Refusals that many procedures share, tested for all of them.

use nfs3_types::nfs3::nfsstat3::*;
use nfs3_types::nfs3::*;

use crate::conformance::disk::Request;
use crate::conformance::fixture::{Fixture, with_volume};
use crate::conformance::user::{Outcome, User, mode};

fn status<T>(outcome: Outcome<T>) -> nfsstat3 {
    outcome.err().unwrap_or(NFS3_OK)
}

/// The status of every procedure but NULL for `handle` and, where it takes one, for `name` in it.
async fn ask_all(user: &mut User, handle: &nfs_fh3, name: &str) -> Vec<(&'static str, nfsstat3)> {
    let start = (0, cookieverf3::default());
    let (guarded, fifo) =
        (createhow3::GUARDED(sattr3::default()), mknoddata3::NF3FIFO(sattr3::default()));
    vec![
        ("GETATTR", status(user.getattr(handle).await)),
        ("SETATTR", status(user.setattr(handle, mode(0o755)).await)),
        ("LOOKUP", status(user.lookup(handle, name).await)),
        ("ACCESS", status(user.access(handle, 0x3f).await)),
        ("READLINK", status(user.readlink(handle).await)),
        ("READ", status(user.read(handle, 0, 1).await)),
        ("WRITE", status(user.put(handle, 0, b"x").await)),
        ("CREATE", status(user.create(handle, name, guarded).await)),
        ("MKDIR", status(user.mkdir(handle, name, 0o755).await)),
        ("SYMLINK", status(user.symlink(handle, name, b"target").await)),
        ("MKNOD", status(user.mknod(handle, name, fifo).await)),
        ("REMOVE", status(user.remove(handle, name).await)),
        ("RMDIR", status(user.rmdir(handle, name).await)),
        ("RENAME", status(user.rename((handle, name), (handle, "to")).await)),
        ("LINK", status(user.link(handle, handle, name).await)),
        ("READDIR", status(user.readdir(handle, start, 4096).await)),
        ("READDIRPLUS", status(user.readdirplus(handle, start, (4096, 4096)).await)),
        ("FSSTAT", status(user.fsstat(handle).await)),
        ("FSINFO", status(user.fsinfo(handle).await)),
        ("PATHCONF", status(user.pathconf(handle).await)),
        ("COMMIT", status(user.commit(handle).await)),
    ]
}

/// Asserts that exactly `procedures` were answered with `expected`.
#[track_caller]
fn assert_who(answers: &[(&str, nfsstat3)], expected: nfsstat3, procedures: &[&str]) {
    let with_it = answers.iter().filter(|(_, status)| *status == expected);
    let with_it: Vec<&str> = with_it.map(|(procedure, _)| *procedure).collect();
    assert_eq!(with_it, procedures, "{answers:?}");
}

#[track_caller]
fn assert_all(answers: &[(&str, nfsstat3)], expected: nfsstat3) {
    assert_eq!(answers.len(), 21);
    for (procedure, status) in answers {
        assert_eq!(*status, expected, "{procedure}");
    }
}

#[test]
fn bytes_that_are_no_handle_are_a_bad_handle() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let mut damaged = user.root.data.to_vec();
        damaged[20] ^= 1;
        for bytes in [damaged, vec![], vec![7; 28], vec![7; 64]] {
            let handle = nfs_fh3 { data: bytes.into() };
            assert_all(&ask_all(&mut user, &handle, "name").await, NFS3ERR_BADHANDLE);
        }
    });
}

#[test]
fn a_handle_is_stale_when_its_file_is_gone_and_when_its_inode_is_used_again() {
    with_volume(async |mut fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let file = user.file(&top, "file", 0o644).await.unwrap();
        let number = user.getattr(&file).await.unwrap().fileid;
        user.remove(&top, "file").await.unwrap();
        assert_all(&ask_all(&mut user, &file, "name").await, NFS3ERR_STALE);

        let mut made = 0;
        loop {
            let new = user.file(&top, &format!("new-{made}"), 0o644).await.unwrap();
            made += 1;
            if user.getattr(&new).await.unwrap().fileid == number {
                assert_ne!(new, file);
                break;
            }
            assert!(made < 1000, "the inode is free and the lowest");
        }
        assert_all(&ask_all(&mut user, &file, "name").await, NFS3ERR_STALE);
        fixture.restart().await;
        let mut user = fixture.superuser().await;
        assert_all(&ask_all(&mut user, &file, "name").await, NFS3ERR_STALE);
    });
}

#[test]
fn a_removed_directory_is_stale() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let directory = user.mkdir(&top, "directory", 0o755).await.unwrap();
        user.rmdir(&top, "directory").await.unwrap();
        assert_all(&ask_all(&mut user, &directory, "name").await, NFS3ERR_STALE);
    });
}

#[test]
fn a_volume_that_is_exported_to_be_read_is_not_changed() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        user.file(&top, "file", 0o644).await.unwrap();
        let fixed = fixture.mount("/fixed").await;
        let answers = ask_all(&mut user, &fixed, "file").await;
        let changing = [
            "SETATTR", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME",
            "LINK",
        ];
        assert_who(&answers, NFS3ERR_ROFS, &changing);
        assert_eq!(user.names(&top).await, ["file"]);
        let granted = user.access(&fixed, 0x3f).await.unwrap();
        assert_eq!(granted, ACCESS3_READ | ACCESS3_LOOKUP);
    });
}

#[test]
fn a_client_that_is_not_admitted_gets_nothing() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let mut bytes = user.root.data.to_vec();
        // The handle of the same root in the volume that no client may use.
        bytes[11] = 10;
        let check = crc32c(&bytes[..24]).to_be_bytes();
        bytes[24..].copy_from_slice(&check);
        let handle = nfs_fh3 { data: bytes.into() };
        assert_all(&ask_all(&mut user, &handle, "name").await, NFS3ERR_ACCES);
    });
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

#[test]
fn a_file_is_no_directory() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let file = user.file(&top, "file", 0o644).await.unwrap();
        let answers = ask_all(&mut user, &file, "name").await;
        let in_directories = [
            "LOOKUP",
            "CREATE",
            "MKDIR",
            "SYMLINK",
            "MKNOD",
            "REMOVE",
            "RMDIR",
            "RENAME",
            "LINK",
            "READDIR",
            "READDIRPLUS",
        ];
        assert_who(&answers, NFS3ERR_NOTDIR, &in_directories);
        assert_who(&answers, NFS3ERR_INVAL, &["READLINK"]);
    });
}

#[test]
fn a_directory_is_no_file() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let answers = ask_all(&mut user, &top, "missing").await;
        assert_who(&answers, NFS3ERR_ISDIR, &["READ", "WRITE", "COMMIT"]);
        assert_who(&answers, NFS3ERR_INVAL, &["READLINK"]);
    });
}

#[test]
fn what_is_not_there_is_not_found() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let missing = "missing";
        assert_eq!(user.lookup(&top, missing).await, Err(NFS3ERR_NOENT));
        assert_eq!(user.remove(&top, missing).await.err(), Some(NFS3ERR_NOENT));
        assert_eq!(user.rmdir(&top, missing).await.err(), Some(NFS3ERR_NOENT));
        let renamed = user.rename((&top, missing), (&top, "to")).await;
        assert_eq!(renamed.err(), Some(NFS3ERR_NOENT));
    });
}

#[test]
fn names_are_refused_as_the_protocol_says() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let with_names =
            ["LOOKUP", "CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK"];
        let answers = ask_all(&mut user, &top, &"n".repeat(256)).await;
        assert_who(&answers, NFS3ERR_NAMETOOLONG, &with_names);
        let answers = ask_all(&mut user, &top, "").await;
        assert_who(&answers, NFS3ERR_ACCES, &with_names);
        for name in ["a/b", "a\0b"] {
            let answers = ask_all(&mut user, &top, name).await;
            let refused: Vec<_> =
                answers.iter().filter(|(procedure, _)| with_names.contains(procedure)).collect();
            assert!(refused.iter().all(|(_, status)| *status == NFS3ERR_INVAL), "{refused:?}");
        }
        user.file(&top, &"n".repeat(255), 0o644).await.expect("the longest name");
    });
}

#[test]
fn dot_and_dot_dot_are_neither_made_nor_removed() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let directory = user.mkdir(&top, "directory", 0o755).await.unwrap();
        assert_eq!(user.lookup(&directory, ".").await.as_ref(), Ok(&directory));
        assert_eq!(user.lookup(&directory, "..").await.as_ref(), Ok(&top));
        assert_eq!(user.lookup(&top, "..").await.as_ref(), Ok(&top));
        for name in [".", ".."] {
            let answers = ask_all(&mut user, &directory, name).await;
            assert_who(&answers, NFS3ERR_EXIST, &["CREATE", "MKDIR", "SYMLINK", "MKNOD"]);
            assert_eq!(user.remove(&directory, name).await.err(), Some(NFS3ERR_INVAL));
            let from = user.rename((&directory, name), (&top, "to")).await;
            assert_eq!(from.err(), Some(NFS3ERR_INVAL));
            let to = user.rename((&top, "directory"), (&directory, name)).await;
            assert_eq!(to.err(), Some(NFS3ERR_INVAL));
        }
        assert_eq!(user.rmdir(&directory, ".").await.err(), Some(NFS3ERR_INVAL));
        assert_eq!(user.rmdir(&directory, "..").await.err(), Some(NFS3ERR_NOTEMPTY));
        assert_eq!(user.names(&directory).await, [""; 0]);
    });
}

#[test]
fn volumes_are_not_linked_together() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let other = fixture.mount("/other").await;
        let file = user.file(&top, "file", 0o644).await.unwrap();
        let linked = user.link(&file, &other, "link").await;
        assert_eq!(linked.err(), Some(NFS3ERR_XDEV));
        let renamed = user.rename((&top, "file"), (&other, "file2")).await;
        assert_eq!(renamed.err(), Some(NFS3ERR_XDEV));
    });
}

/// A failed metadata write stops the volume. Until it is opened again, every answer about a file is
/// an error, because changes in memory may be lost.
#[test]
fn a_volume_that_has_stopped_answers_with_an_error_until_it_is_opened_again() {
    with_volume(async |mut fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let file = user.file(&top, "kept", 0o644).await.unwrap();
        user.put(&file, 0, b"kept").await.unwrap();
        fixture.disk.fail_when(|request| matches!(request, Request::Flush));
        assert_eq!(user.file(&top, "lost", 0o644).await, Err(NFS3ERR_IO));
        fixture.disk.heal();
        assert_all(&ask_all(&mut user, &top, "kept").await, NFS3ERR_IO);
        assert_all(&ask_all(&mut user, &file, "kept").await, NFS3ERR_IO);
        user.client.null().await.expect("the server itself lives");
        fixture.cut().await;
        let mut user = fixture.superuser().await;
        assert_eq!(user.read(&file, 0, 10).await, Ok((b"kept".to_vec(), true)));
        user.file(&top, "new", 0o644).await.expect("it goes on");
    });
}
