//! CREATE, MKDIR, MKNOD.

use std::io::Write;

use nfs3_client::rpc::RpcClient;
use nfs3_types::nfs3::nfsstat3::*;
use nfs3_types::nfs3::*;
use nfs3_types::xdr_codec::Pack;

use crate::conformance::fixture::{Fixture, with_volume};
use crate::conformance::user::{assert_same, at, mode, owner, size};

fn exclusive(verifier: &[u8; 8]) -> createhow3 {
    createhow3::EXCLUSIVE(createverf3(*verifier))
}

#[test]
fn a_guarded_create_wants_a_new_name_an_unchecked_one_takes_what_is_there() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let file = root.file(&top, "file", 0o644).await.unwrap();
        root.put(&file, 0, b"content").await.unwrap();
        assert_eq!(root.file(&top, "file", 0o600).await, Err(NFS3ERR_EXIST));
        let unchecked = createhow3::UNCHECKED(mode(0o600));
        assert_eq!(root.create(&top, "file", unchecked).await, Ok(file.clone()));
        let found = root.getattr(&file).await.unwrap();
        assert_eq!((found.size, found.mode), (7, 0o644));
        let cut = createhow3::UNCHECKED(size(0));
        assert_eq!(root.create(&top, "file", cut).await, Ok(file.clone()));
        assert_eq!(root.getattr(&file).await.unwrap().size, 0);
    });
}

#[test]
fn an_unchecked_create_of_what_is_no_file_is_refused() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        root.mkdir(&top, "directory", 0o755).await.unwrap();
        root.symlink(&top, "link", b"target").await.unwrap();
        let mut make = async |name| {
            let how = createhow3::UNCHECKED(size(0));
            root.create(&top, name, how).await.err()
        };
        assert_eq!(make("directory").await, Some(NFS3ERR_ISDIR));
        assert_eq!(make("link").await, Some(NFS3ERR_EXIST));
    });
}

#[test]
fn an_exclusive_create_is_known_again_by_its_verifier_even_after_a_restart() {
    with_volume(async |mut fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let file = root.create(&top, "file", exclusive(b"verifier")).await.unwrap();
        let zero = root.create(&top, "zero", exclusive(&[0; 8])).await.unwrap();
        root.file(&top, "guarded", 0o644).await.unwrap();
        for round in 0..3 {
            match round {
                1 => fixture.restart().await,
                2 => fixture.cut().await,
                _ => {}
            }
            let mut root = fixture.superuser().await;
            let again = root.create(&top, "file", exclusive(b"verifier")).await;
            assert_eq!(again, Ok(file.clone()), "round {round}");
            assert_eq!(root.create(&top, "zero", exclusive(&[0; 8])).await, Ok(zero.clone()));
            for (name, verifier) in [("file", b"verifieR"), ("zero", b"\0\0\0\0\0\0\0\x01")] {
                let other = root.create(&top, name, exclusive(verifier)).await;
                assert_eq!(other, Err(NFS3ERR_EXIST), "round {round}");
            }
            let other = root.create(&top, "guarded", exclusive(&[0; 8])).await;
            assert_eq!(other, Err(NFS3ERR_EXIST), "round {round}");
        }
    });
}

/// The reply cache does not matter here: each call has an xid of its own.
#[test]
fn a_verifier_goes_with_the_first_write_or_change_of_attributes() {
    with_volume(async |mut fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let names = ["unstable", "stable", "mode", "longer", "linked"];
        for name in names {
            let file = root.create(&top, name, exclusive(b"verifier")).await.unwrap();
            match name {
                "unstable" => drop(root.write(&file, 0, b"x", stable_how::UNSTABLE).await.unwrap()),
                "stable" => root.put(&file, 0, b"x").await.unwrap(),
                "mode" => drop(root.setattr(&file, mode(0o640)).await.unwrap()),
                "longer" => drop(root.setattr(&file, size(100)).await.unwrap()),
                _ => drop(root.link(&file, &top, "other").await.unwrap()),
            }
        }
        for round in 0..2 {
            let mut root = fixture.superuser().await;
            for name in names {
                let again = root.create(&top, name, exclusive(b"verifier")).await.map(drop);
                let expected = if name == "linked" { Ok(()) } else { Err(NFS3ERR_EXIST) };
                assert_eq!(again, expected, "{name}, round {round}");
            }
            fixture.restart().await;
        }
    });
}

#[test]
fn a_create_tells_of_the_file_and_of_its_directory_before_and_after() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let before = root.getattr(&top).await.unwrap();
        let args = MKDIR3args { where_: at(&top, &b"new"[..]), attributes: mode(0o750) };
        let made = root.client.mkdir(&args).await.expect("a reply").unwrap();
        let told = made.dir_wcc.before.unwrap();
        assert_eq!((told.size, told.mtime, told.ctime), (before.size, before.mtime, before.ctime));
        let after = root.getattr(&top).await.unwrap();
        assert_same(&made.dir_wcc.after.unwrap(), &after);
        assert!(after.mtime != before.mtime);
        assert_eq!((before.nlink, after.nlink), (2, 3));
        let new = root.getattr(&made.obj.unwrap()).await.unwrap();
        assert_same(&made.obj_attributes.unwrap(), &new);
        assert_eq!((new.type_, new.mode, new.nlink), (ftype3::NF3DIR, 0o750, 2));

        // A refusal has the attributes of the directory, too.
        match root.client.mkdir(&args).await.expect("a reply") {
            Nfs3Result::Err((status, refused)) => {
                assert_eq!(status, NFS3ERR_EXIST);
                assert_same(&refused.dir_wcc.after.unwrap(), &after);
            }
            Nfs3Result::Ok(_) => panic!("made twice"),
        }
    });
}

#[test]
fn every_name_that_is_there_is_in_the_way() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let file = root.file(&top, "name", 0o644).await.unwrap();
        let fifo = mknoddata3::NF3FIFO(sattr3::default());
        assert_eq!(root.mkdir(&top, "name", 0o755).await, Err(NFS3ERR_EXIST));
        assert_eq!(root.symlink(&top, "name", b"x").await, Err(NFS3ERR_EXIST));
        assert_eq!(root.mknod(&top, "name", fifo).await, Err(NFS3ERR_EXIST));
        assert_eq!(root.link(&file, &top, "name").await.err(), Some(NFS3ERR_EXIST));
    });
}

#[test]
fn devices_keep_their_numbers() {
    with_volume(async |mut fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let numbers = |major, minor| specdata3 { specdata1: major, specdata2: minor };
        let device =
            |major, minor| devicedata3 { dev_attributes: mode(0o600), spec: numbers(major, minor) };
        let mut made = Vec::new();
        for (index, (major, minor)) in
            [(4, 65), (0, 0), (255, 255), (300, 70_000)].iter().enumerate()
        {
            let what = mknoddata3::NF3CHR(device(*major, *minor));
            let file = root.mknod(&top, &format!("c{index}"), what).await.unwrap();
            made.push((file, ftype3::NF3CHR, numbers(*major, *minor)));
            let what = mknoddata3::NF3BLK(device(*major, *minor));
            let file = root.mknod(&top, &format!("b{index}"), what).await.unwrap();
            made.push((file, ftype3::NF3BLK, numbers(*major, *minor)));
        }
        for (name, what, kind) in [
            ("pipe", mknoddata3::NF3FIFO(mode(0o600)), ftype3::NF3FIFO),
            ("socket", mknoddata3::NF3SOCK(mode(0o600)), ftype3::NF3SOCK),
        ] {
            made.push((root.mknod(&top, name, what).await.unwrap(), kind, numbers(0, 0)));
        }
        fixture.restart().await;
        let mut root = fixture.superuser().await;
        for (file, kind, rdev) in made {
            let found = root.getattr(&file).await.unwrap();
            assert_eq!((found.type_, found.rdev, found.mode), (kind, rdev, 0o600));
        }
        fixture.judge().await;
    });
}

#[test]
fn only_the_superuser_makes_devices() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        root.setattr(&top, mode(0o777)).await.unwrap();
        let mut user = fixture.user(10, 20, &[]).await;
        let device = || devicedata3 { dev_attributes: mode(0o600), spec: specdata3::default() };
        let refused = user.mknod(&top, "c", mknoddata3::NF3CHR(device())).await;
        assert_eq!(refused, Err(NFS3ERR_PERM));
        let refused = user.mknod(&top, "b", mknoddata3::NF3BLK(device())).await;
        assert_eq!(refused, Err(NFS3ERR_PERM));
        user.mknod(&top, "pipe", mknoddata3::NF3FIFO(mode(0o600))).await.expect("everybody may");
    });
}

/// Arguments of a MKNOD that the client library would not send.
struct MknodOf<'a>(diropargs3<'a>, ftype3);

impl Pack for MknodOf<'_> {
    fn packed_size(&self) -> usize {
        self.0.packed_size() + self.1.packed_size()
    }

    fn pack(&self, out: &mut impl Write) -> nfs3_types::xdr_codec::Result<usize> {
        Ok(self.0.pack(out)? + self.1.pack(out)?)
    }
}

#[test]
fn files_directories_and_links_are_not_made_by_mknod() {
    with_volume(async |fixture: Fixture| {
        let root = fixture.superuser().await;
        for kind in [ftype3::NF3REG, ftype3::NF3DIR, ftype3::NF3LNK] {
            let args = MknodOf(at(&root.root, &b"name"[..]), kind);
            let mut client = RpcClient::new(fixture.connect().await);
            let answer = client.call::<_, MKNOD3res>(PROGRAM, VERSION, 11, &args).await;
            match answer.expect("a reply") {
                Nfs3Result::Err((status, _)) => assert_eq!(status, NFS3ERR_BADTYPE),
                Nfs3Result::Ok(_) => panic!("{kind:?} was made"),
            }
        }
    });
}

#[test]
fn who_may_not_write_a_directory_makes_nothing_in_it() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        root.setattr(&top, mode(0o755)).await.unwrap();
        let file = root.file(&top, "file", 0o644).await.unwrap();
        let mut user = fixture.user(10, 20, &[]).await;
        let fifo = mknoddata3::NF3FIFO(mode(0o600));
        assert_eq!(user.file(&top, "new", 0o644).await, Err(NFS3ERR_ACCES));
        assert_eq!(user.mkdir(&top, "new", 0o755).await, Err(NFS3ERR_ACCES));
        assert_eq!(user.symlink(&top, "new", b"x").await, Err(NFS3ERR_ACCES));
        assert_eq!(user.mknod(&top, "new", fifo).await, Err(NFS3ERR_ACCES));
        assert_eq!(user.link(&file, &top, "new").await.err(), Some(NFS3ERR_ACCES));
        assert_eq!(user.remove(&top, "file").await.err(), Some(NFS3ERR_ACCES));
        let renamed = user.rename((&top, "file"), (&top, "new")).await;
        assert_eq!(renamed.err(), Some(NFS3ERR_ACCES));
        root.setattr(&top, mode(0o700)).await.unwrap();
        assert_eq!(user.lookup(&top, "file").await, Err(NFS3ERR_ACCES));
        let start = (0, cookieverf3::default());
        assert_eq!(user.readdir(&top, start, 4096).await.err(), Some(NFS3ERR_ACCES));
        let listed = user.readdirplus(&top, start, (4096, 4096)).await;
        assert_eq!(listed.err(), Some(NFS3ERR_ACCES));
        assert_eq!(user.rmdir(&top, "file").await.err(), Some(NFS3ERR_ACCES));
    });
}

#[test]
fn a_new_file_belongs_to_its_maker_and_to_the_group_of_its_directory() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        root.setattr(&top, owner(0, 77)).await.unwrap();
        root.setattr(&top, mode(0o777)).await.unwrap();
        let mut user = fixture.user(10, 20, &[21]).await;
        let file = user.file(&top, "file", 0o7644).await.unwrap();
        let found = user.getattr(&file).await.unwrap();
        assert_eq!((found.uid, found.gid), (10, 77));
        assert_eq!(found.mode, 0o5644); // a foreign group loses set-gid; sticky stays
    });
}

#[test]
fn a_create_that_is_refused_leaves_no_file() {
    with_volume(async |fixture: Fixture| {
        let mut root = fixture.superuser().await;
        let top = root.root.clone();
        let largest = root.fsinfo(&top).await.unwrap().maxfilesize;
        for how in [createhow3::GUARDED, createhow3::UNCHECKED] {
            let made = root.create(&top, "file", how(size(largest + 1))).await;
            assert_eq!(made, Err(NFS3ERR_FBIG));
        }
        assert_eq!(root.names(&top).await, [""; 0]);
    });
}
