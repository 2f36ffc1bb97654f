//! A full volume, and the space it reports.

use nfs3_types::nfs3::nfsstat3::*;
use nfs3_types::nfs3::*;

use crate::conformance::fixture::{Fixture, with_volume, with_volume_of};
use crate::conformance::user::{User, assert_same, owner};

/// Four blocks, which are reserved for truncations.
const KEPT: u64 = 4 * 8192;

/// Appends until not even a fragment fits; returns the final length.
async fn fill(user: &mut User, file: &nfs_fh3) -> u64 {
    let mut end = 0;
    let mut piece = 65_536;
    while piece >= 1024 {
        match user.put(file, end, &vec![7; piece]).await {
            Ok(()) => end += piece as u64,
            Err(status) => {
                assert_eq!(status, NFS3ERR_NOSPC);
                piece /= 2;
            }
        }
    }
    end
}

#[test]
fn a_full_volume_refuses_what_needs_room_and_nothing_else() {
    with_volume_of(4 << 20, async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let empty = user.fsstat(&top).await.unwrap();
        let file = user.file(&top, "file", 0o644).await.unwrap();
        let small = user.file(&top, "small", 0o644).await.unwrap();
        let full = user.mkdir(&top, "full", 0o755).await.unwrap();
        let end = fill(&mut user, &file).await;
        assert!(end > 2 << 20, "{end} bytes fit");
        // Fills the space that a large file could not use, because it might have needed a block of
        // pointers, too.
        fill(&mut user, &small).await;
        let other = user.file(&top, "other", 0o644).await.unwrap();
        let unstable = user.write(&other, 0, &[1; 8192], stable_how::UNSTABLE).await;
        assert_eq!(unstable.err(), Some(NFS3ERR_NOSPC), "told now, not at COMMIT");
        // A block for a directory, a long target, a directory that has to grow.
        let mut made = 0;
        while let Ok(directory) = user.mkdir(&top, &format!("new-{made}"), 0o755).await {
            assert_eq!(user.names(&directory).await, [""; 0]);
            made += 1;
            assert!(made < 100, "fragments that no file could use");
        }
        assert_eq!(user.mkdir(&top, "new", 0o755).await, Err(NFS3ERR_NOSPC));
        assert_eq!(user.symlink(&top, "link", &[b'x'; 500]).await, Err(NFS3ERR_NOSPC));
        let mut made = 0;
        let refused = loop {
            let name = format!("{made}-{}", "n".repeat(240));
            match user.link(&file, &full, &name).await {
                Ok(_) => made += 1,
                Err(status) => break status,
            }
            assert!(made < 100, "a directory without room for more does not grow for ever");
        };
        assert_eq!(refused, NFS3ERR_NOSPC);
        let long = format!("other-{}", "n".repeat(240));
        let moved = user.rename((&top, "small"), (&full, &long)).await;
        assert_eq!(moved.err(), Some(NFS3ERR_NOSPC));

        user.put(&file, 0, &[8; 50_000]).await.expect("what is there is overwritten");
        assert_eq!(user.getattr(&file).await.unwrap().size, end);
        for name in user.names(&full).await {
            user.remove(&full, &name).await.expect("removing needs no room");
        }
        for name in ["file", "small", "other"] {
            user.remove(&top, name).await.expect("removing needs no room");
        }
        user.rmdir(&top, "full").await.unwrap();
        let room = vec![9; 1 << 20];
        let again = user.file(&top, "again", 0o644).await.unwrap();
        user.put(&again, 0, &room).await.expect("what was removed is free");
        user.remove(&top, "again").await.unwrap();
        assert_eq!(user.fsstat(&top).await.unwrap().tbytes, empty.tbytes);
        fixture.judge().await;
    });
}

/// Creates files in a directory and writes until not one fragment is free. Every tail length
/// occurs, UNSTABLE and durable by turns; COMMIT never meets a full disk.
async fn fill_files(user: &mut User, directory: &nfs_fh3, count: usize) {
    let mut files = Vec::new();
    for index in 0..count {
        files.push(user.file(directory, &index.to_string(), 0o644).await.expect("room for a name"));
    }
    let mut size = 20_480;
    for (index, file) in files.iter().enumerate() {
        let how = [stable_how::UNSTABLE, stable_how::FILE_SYNC][index % 2];
        loop {
            let length = if size > 16_384 { size - index % 8 * 1024 } else { size };
            match user.write(file, 0, &vec![index as u8 | 1; length], how).await {
                Ok(_) => break,
                Err(status) => assert_eq!(status, NFS3ERR_NOSPC),
            }
            let found = user.getattr(file).await.unwrap();
            assert_eq!((found.size, found.used), (0, 0), "half of a refused WRITE");
            if size == 1024 {
                return;
            }
            size = (size / 2).max(1024);
        }
        user.commit(file).await.expect("what was taken has its place");
    }
    panic!("{count} files are too few");
}

#[test]
fn a_volume_is_filled_and_emptied_again_and_again() {
    with_volume_of(3 << 20, async |mut fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let empty = root.fsstat(&top).await.unwrap();
        let used = root.getattr(&top).await.unwrap().used;
        for round in 0..6 {
            let uid = [0, 10][round % 2];
            let home = root.mkdir(&top, "home", 0o755).await.unwrap();
            root.setattr(&home, owner(uid, uid)).await.unwrap();
            let mut user = fixture.user(uid, uid, &[]).await;
            fill_files(&mut user, &home, 300).await;
            let full = user.fsstat(&top).await.unwrap();
            assert_eq!(full.abytes, 0, "round {round}: all that may be taken is taken");
            assert!(full.fbytes >= KEPT, "round {round}: nobody has what is kept");
            assert_eq!(full.fbytes > KEPT, uid != 0, "round {round}: the reserve is left");
            if round > 3 {
                fixture.cut().await;
                root = fixture.superuser().await;
                user = fixture.user(uid, uid, &[]).await;
            }
            for index in (0..300).rev() {
                let name = index.to_string();
                user.remove(&home, &name).await.expect("removing needs no room");
            }
            root.rmdir(&top, "home").await.unwrap();
            let (now, grown) =
                (root.fsstat(&top).await.unwrap(), root.getattr(&top).await.unwrap());
            assert_eq!(now.fbytes + (grown.used - used), empty.fbytes, "round {round}");
            assert_eq!(now.ffiles, empty.ffiles, "round {round}");
        }
        fixture.judge().await;
    });
}

#[test]
fn inodes_run_out_like_space() {
    with_volume_of(1 << 20, async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let free = user.fsstat(&top).await.unwrap().ffiles;
        let mut made = 0;
        let refused = loop {
            match user.file(&top, &made.to_string(), 0o644).await {
                Ok(_) => made += 1,
                Err(status) => break status,
            }
        };
        assert_eq!(refused, NFS3ERR_NOSPC);
        assert_eq!(user.fsstat(&top).await.unwrap().ffiles, free - made);
        let fifo = || mknoddata3::NF3FIFO(sattr3::default());
        assert_eq!(user.mknod(&top, "pipe", fifo()).await, Err(NFS3ERR_NOSPC));
        user.remove(&top, "0").await.unwrap();
        user.mknod(&top, "pipe", fifo()).await.expect("one is free again");
        fixture.judge().await;
    });
}

#[test]
fn fsstat_counts_what_is_used() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let before = user.fsstat(&top).await.unwrap();
        assert!(before.tbytes > 20 << 20 && before.tbytes < 24 << 20);
        assert!(before.fbytes <= before.tbytes && before.ffiles <= before.tfiles);
        assert_eq!(before.fbytes, before.abytes + KEPT, "the superuser may use all else");
        let file = user.file(&top, "file", 0o644).await.unwrap();
        user.put(&file, 0, &vec![7; 80 << 10]).await.unwrap();
        let after = user.fsstat(&file).await.unwrap();
        let used = user.getattr(&file).await.unwrap().used;
        assert_eq!((before.fbytes - after.fbytes, before.ffiles - after.ffiles), (used, 1));
        assert_eq!((after.tbytes, after.tfiles), (before.tbytes, before.tfiles));
        let of_user = fixture.user(10, 10, &[]).await.fsstat(&top).await.unwrap();
        assert_eq!(of_user.fbytes, after.fbytes);
        let reserve = after.abytes - of_user.abytes;
        assert!(reserve > after.tbytes / 20 && reserve < after.tbytes / 10, "{reserve}");
    });
}

#[test]
fn fsinfo_and_pathconf_tell_the_limits() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let info = user.fsinfo(&top).await.unwrap();
        assert_eq!((info.rtmax, info.rtpref, info.rtmult), (1 << 20, 1 << 20, 8192));
        assert_eq!((info.wtmax, info.wtpref, info.wtmult), (1 << 20, 1 << 20, 8192));
        assert_eq!(info.dtpref, 64 << 10);
        assert_eq!(info.time_delta, nfstime3 { seconds: 0, nseconds: 1 });
        let properties = FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME;
        assert_eq!(info.properties, properties);
        // 12 blocks and three levels of 1024 pointers each, with blocks of 8 KiB.
        let blocks = 12 + (1 << 10) + (1 << 20) + (1u64 << 30);
        assert_eq!(info.maxfilesize, blocks * 8192 - 1);
        let limits = user.pathconf(&top).await.unwrap();
        assert_eq!((limits.linkmax, limits.name_max), (65_500, 255));
        assert!(limits.no_trunc && limits.chown_restricted);
        assert!(limits.case_preserving && !limits.case_insensitive);
        assert_same(&limits.obj_attributes.unwrap(), &user.getattr(&top).await.unwrap());
    });
}
