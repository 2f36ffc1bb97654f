//! READ, WRITE and COMMIT.

use nfs3_types::nfs3::nfsstat3::*;
use nfs3_types::nfs3::*;
use nfs3_types::xdr_codec::Opaque;

use crate::conformance::fixture::{Fixture, with_volume};
use crate::conformance::user::{User, assert_same, size};

async fn new_file(fixture: &Fixture) -> (User, nfs_fh3) {
    let mut user = fixture.superuser().await;
    let top = user.root.clone();
    let file = user.file(&top, "file", 0o644).await.unwrap();
    (user, file)
}

#[test]
fn a_read_ends_where_the_file_ends() {
    with_volume(async |fixture: Fixture| {
        let (mut user, file) = new_file(&fixture).await;
        assert_eq!(user.read(&file, 0, 10).await, Ok((vec![], true)));
        user.put(&file, 0, b"0123456789").await.unwrap();
        let ends = [(0, 9, false), (0, 10, true), (0, 11, true), (9, 1, true), (4, 2, false)];
        for (offset, count, eof) in ends {
            let end = (offset + count as usize).min(10);
            let expected = b"0123456789"[offset..end].to_vec();
            assert_eq!(user.read(&file, offset as u64, count).await, Ok((expected, eof)));
        }
        for offset in [10, 11, 1 << 40, u64::MAX] {
            assert_eq!(user.read(&file, offset, 10).await, Ok((vec![], true)), "{offset}");
        }
        assert_eq!(user.read(&file, 3, 0).await, Ok((vec![], false)));
    });
}

#[test]
fn what_was_never_written_is_zero_and_takes_no_room() {
    with_volume(async |fixture: Fixture| {
        let (mut user, file) = new_file(&fixture).await;
        user.put(&file, 3 << 20, b"far").await.unwrap();
        let found = user.getattr(&file).await.unwrap();
        assert_eq!(found.size, (3 << 20) + 3);
        assert!(found.used < 64 << 10, "{}", found.used);
        let (hole, eof) = user.read(&file, 100, 100_000).await.unwrap();
        assert!(!eof && hole.len() == 100_000 && hole.iter().all(|&byte| byte == 0));
        let (end, eof) = user.read(&file, (3 << 20) - 5, 100).await.unwrap();
        assert_eq!((&end[..], eof), (&b"\0\0\0\0\0far"[..], true));
    });
}

#[test]
fn pieces_in_any_order_make_the_file() {
    with_volume(async |fixture: Fixture| {
        let (mut user, file) = new_file(&fixture).await;
        let content: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        for (index, offset) in [250_000, 50_000, 0, 150_000, 100_000, 200_000].iter().enumerate() {
            let piece = &content[*offset..offset + 50_000];
            let how = [stable_how::UNSTABLE, stable_how::DATA_SYNC, stable_how::FILE_SYNC];
            let how = how[index % 3];
            user.write(&file, *offset as u64, piece, how).await.unwrap();
        }
        let (found, eof) = user.read(&file, 0, 1 << 20).await.unwrap();
        assert!(found == content && eof);
        fixture.judge().await;
    });
}

#[test]
fn a_write_tells_the_attributes_before_and_after() {
    with_volume(async |fixture: Fixture| {
        let (mut user, file) = new_file(&fixture).await;
        for how in [stable_how::UNSTABLE, stable_how::DATA_SYNC, stable_how::FILE_SYNC] {
            let before = user.getattr(&file).await.unwrap();
            let written = user.write(&file, before.size, b"more", how).await.unwrap();
            let told = written.file_wcc.before.unwrap();
            assert_eq!(
                (told.size, told.mtime, told.ctime),
                (before.size, before.mtime, before.ctime)
            );
            let after = written.file_wcc.after.unwrap();
            assert_eq!(after.size, before.size + 4);
            assert!(after.mtime != before.mtime);
            assert_same(&user.getattr(&file).await.unwrap(), &after);
        }
    });
}

#[test]
fn a_write_is_at_least_as_durable_as_was_asked() {
    with_volume(async |fixture: Fixture| {
        let (mut user, file) = new_file(&fixture).await;
        let rank = |how: stable_how| how as u32;
        for how in [stable_how::UNSTABLE, stable_how::DATA_SYNC, stable_how::FILE_SYNC] {
            let written = user.write(&file, 0, b"data", how).await.unwrap();
            assert!(rank(written.committed) >= rank(how));
            assert_eq!(user.commit(&file).await.unwrap().0, written.verf.0);
        }
    });
}

#[test]
fn nothing_is_written_behind_the_largest_size() {
    with_volume(async |fixture: Fixture| {
        let (mut user, file) = new_file(&fixture).await;
        let largest = user.fsinfo(&file).await.unwrap().maxfilesize;
        user.put(&file, largest - 3, b"end").await.expect("the last bytes of all");
        assert_eq!(user.getattr(&file).await.unwrap().size, largest);
        assert_eq!(user.read(&file, largest - 4, 10).await, Ok((b"\0end".to_vec(), true)));
        assert_eq!(user.put(&file, largest - 2, b"end").await, Err(NFS3ERR_FBIG));
        assert_eq!(user.put(&file, largest, b"x").await, Err(NFS3ERR_FBIG));
        assert_eq!(user.put(&file, u64::MAX, b"x").await, Err(NFS3ERR_FBIG));
        assert_eq!(user.setattr(&file, size(largest + 1)).await.err(), Some(NFS3ERR_FBIG));
        user.setattr(&file, size(largest)).await.expect("no longer than allowed");
        user.setattr(&file, size(0)).await.expect("and back");
        assert_eq!(user.getattr(&file).await.unwrap().used, 0);
        fixture.judge().await;
    });
}

#[test]
fn a_write_of_nothing_changes_nothing() {
    with_volume(async |fixture: Fixture| {
        let (mut user, file) = new_file(&fixture).await;
        let before = user.getattr(&file).await.unwrap();
        user.put(&file, 1 << 20, b"").await.unwrap();
        assert_same(&user.getattr(&file).await.unwrap(), &before);
    });
}

#[test]
fn a_write_that_contradicts_itself_is_refused() {
    with_volume(async |fixture: Fixture| {
        let (mut user, file) = new_file(&fixture).await;
        let data = Opaque::borrowed(b"four".as_slice());
        let stable = stable_how::FILE_SYNC;
        let args = WRITE3args { file: file.clone(), offset: 0, count: 3, stable, data };
        match user.client.write(&args).await.expect("a reply") {
            Nfs3Result::Err((status, _)) => assert_eq!(status, NFS3ERR_INVAL),
            Nfs3Result::Ok(_) => panic!("it was believed"),
        }
        assert_eq!(user.getattr(&file).await.unwrap().size, 0);
    });
}

#[test]
fn what_is_neither_file_nor_directory_has_no_data() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let link = user.symlink(&top, "link", b"target").await.unwrap();
        let fifo = mknoddata3::NF3FIFO(sattr3::default());
        let pipe = user.mknod(&top, "pipe", fifo).await.unwrap();
        for file in [link, pipe] {
            assert_eq!(user.read(&file, 0, 1).await, Err(NFS3ERR_INVAL));
            assert_eq!(user.put(&file, 0, b"x").await, Err(NFS3ERR_INVAL));
            assert_eq!(user.commit(&file).await, Err(NFS3ERR_INVAL));
        }
    });
}

#[test]
fn the_largest_transfer_goes_in_one_piece() {
    with_volume(async |fixture: Fixture| {
        let (mut user, file) = new_file(&fixture).await;
        let most = user.fsinfo(&file).await.unwrap().wtmax;
        let content: Vec<u8> = (0..most).map(|i| (i % 253) as u8).collect();
        let written = user.write(&file, 1, &content, stable_how::UNSTABLE).await.unwrap();
        assert_eq!(written.count, most);
        user.commit(&file).await.unwrap();
        let (found, eof) = user.read(&file, 1, u32::MAX).await.unwrap();
        assert!(found == content && eof);
    });
}
