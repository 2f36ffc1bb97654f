//! Each procedure once, called like a real client does.

use nfs3_client::MountClient;
use nfs3_client::tokio::TokioIo;
use nfs3_types::mount::dirpath;
use nfs3_types::nfs3::{
    ACCESS3args, COMMIT3args, CREATE3args, FSINFO3args, FSSTAT3args, GETATTR3args, LINK3args,
    LOOKUP3args, MKDIR3args, MKNOD3args, Nfs3Option, PATHCONF3args, READ3args, READDIR3args,
    READDIRPLUS3args, READLINK3args, REMOVE3args, RENAME3args, RMDIR3args, SETATTR3args,
    SYMLINK3args, WRITE3args, cookieverf3, createhow3, createverf3, devicedata3, ftype3,
    mknoddata3, nfs_fh3, sattr3, specdata3, stable_how, symlinkdata3,
};
use nfs3_types::rpc::opaque_auth;
use nfs3_types::xdr_codec::Opaque;

use crate::fixture::{Client, Fixture, at, root_credential, with_default};

async fn create(client: &mut Client, root: &nfs_fh3, name: &str) -> nfs_fh3 {
    let how = createhow3::GUARDED(sattr3::default());
    let made = client.create(&CREATE3args { where_: at(root, name), how }).await;
    made.expect("a reply").unwrap().obj.unwrap()
}

#[test]
fn the_mount_program() {
    with_default(async |fixture: Fixture| {
        let io = TokioIo::new(fixture.connect().await);
        let none = opaque_auth::default();
        let mut mount = MountClient::new_with_auth(io, root_credential(), none);
        mount.null().await.expect("a reply");
        let path = || dirpath(Opaque::borrowed(b"/data"));
        let mounted = mount.mnt(path()).await.expect("it is exported");
        assert_eq!(mounted.auth_flavors, [1, 0]);
        assert_eq!(mount.dump().await.expect("a reply").0.len(), 1);
        assert_eq!(mount.export().await.expect("a reply").0.len(), 1);
        mount.umnt(path()).await.expect("a reply");
        assert_eq!(mount.dump().await.expect("a reply").0.len(), 0);
        mount.umntall().await.expect("a reply");
    });
}

#[test]
fn files_and_their_data() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        client.null().await.expect("a reply");
        let file = create(&mut client, &root, "file").await;
        let write = WRITE3args {
            file: file.clone(),
            offset: 3,
            count: 5,
            stable: stable_how::UNSTABLE,
            data: Opaque::borrowed(b"hello"),
        };
        let written = client.write(&write).await.expect("a reply").unwrap();
        assert_eq!(written.count, 5);
        let commit = COMMIT3args { file: file.clone(), offset: 0, count: 0 };
        let committed = client.commit(&commit).await.expect("a reply").unwrap();
        assert_eq!(committed.verf, written.verf);
        let read = READ3args { file: file.clone(), offset: 1, count: 100 };
        let read = client.read(&read).await.expect("a reply").unwrap();
        assert_eq!((&read.data[..], read.count, read.eof), (&b"\0\0hello"[..], 7, true));

        let set = SETATTR3args {
            object: file.clone(),
            new_attributes: sattr3 { size: Nfs3Option::Some(4), ..sattr3::default() },
            guard: Nfs3Option::None,
        };
        let set = client.setattr(&set).await.expect("a reply").unwrap();
        let Nfs3Option::Some(before) = set.obj_wcc.before else { panic!("it is known") };
        assert_eq!(before.size, 8);
        let got = client.getattr(&GETATTR3args { object: file.clone() }).await;
        let attributes = got.expect("a reply").unwrap().obj_attributes;
        assert_eq!((attributes.size, attributes.fsid), (4, 7));
        let access = client.access(&ACCESS3args { object: file, access: 0x3f }).await;
        assert_ne!(access.expect("a reply").unwrap().access, 0);
    });
}

#[test]
fn an_exclusive_create_is_answered_again_for_the_same_verifier_alone() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        let mut made = Vec::new();
        for verifier in [*b"verifier", *b"verifier", *b"another!"] {
            let how = createhow3::EXCLUSIVE(createverf3(verifier));
            let args = CREATE3args { where_: at(&root, "file"), how };
            made.push(client.create(&args).await.expect("a reply"));
        }
        let third = made.pop().expect("three");
        assert_eq!(refusal(third), "NFS3ERR_EXIST");
        let [first, second] = <[_; 2]>::try_from(made).expect("two");
        assert_eq!(first.unwrap().obj, second.unwrap().obj);
    });
}

#[test]
fn names_and_links() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        let file = create(&mut client, &root, "file").await;
        let mkdir = MKDIR3args { where_: at(&root, "dir"), attributes: sattr3::default() };
        let made = client.mkdir(&mkdir).await.expect("a reply").unwrap();
        let directory = made.obj.unwrap();

        let link = LINK3args { file: file.clone(), link: at(&directory, "link") };
        let linked = client.link(&link).await.expect("a reply").unwrap();
        assert_eq!(linked.file_attributes.unwrap().nlink, 2);
        let rename = RENAME3args { from: at(&directory, "link"), to: at(&root, "moved") };
        client.rename(&rename).await.expect("a reply").unwrap();
        let lookup = LOOKUP3args { what: at(&root, "moved") };
        assert_eq!(client.lookup(&lookup).await.expect("a reply").unwrap().object, file);
        let remove = REMOVE3args { object: at(&root, "moved") };
        client.remove(&remove).await.expect("a reply").unwrap();
        assert_eq!(refusal(client.lookup(&lookup).await.expect("a reply")), "NFS3ERR_NOENT");
        let rmdir = RMDIR3args { object: at(&root, "dir") };
        client.rmdir(&rmdir).await.expect("a reply").unwrap();

        let symlink = symlinkdata3 {
            symlink_attributes: sattr3::default(),
            symlink_data: b"some/where".as_slice().into(),
        };
        let args = SYMLINK3args { where_: at(&root, "symlink"), symlink };
        let symlink = client.symlink(&args).await.expect("a reply").unwrap().obj.unwrap();
        let target = client.readlink(&READLINK3args { symlink }).await.expect("a reply").unwrap();
        assert_eq!(target.data.as_ref(), b"some/where");
    });
}

#[test]
fn devices_and_pipes() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        let spec = specdata3 { specdata1: 4, specdata2: 65 };
        let device = devicedata3 { dev_attributes: sattr3::default(), spec: spec.clone() };
        let args = MKNOD3args { where_: at(&root, "tty"), what: mknoddata3::NF3CHR(device) };
        let made = client.mknod(&args).await.expect("a reply").unwrap().obj.unwrap();
        let got = client.getattr(&GETATTR3args { object: made }).await.expect("a reply");
        let attributes = got.unwrap().obj_attributes;
        assert_eq!((attributes.type_, attributes.rdev), (ftype3::NF3CHR, spec));
        let what = mknoddata3::NF3FIFO(sattr3::default());
        let args = MKNOD3args { where_: at(&root, "pipe"), what };
        let made = client.mknod(&args).await.expect("a reply").unwrap();
        assert_eq!(made.obj_attributes.unwrap().type_, ftype3::NF3FIFO);
    });
}

#[test]
fn listings() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        for name in ["a", "b", "c"] {
            create(&mut client, &root, name).await;
        }
        let (cookie, cookieverf) = (0, cookieverf3::default());
        let args = READDIR3args { dir: root.clone(), cookie, cookieverf, count: 4096 };
        let listed = client.readdir(&args).await.expect("a reply").unwrap();
        let names: Vec<_> =
            listed.reply.entries.0.iter().map(|entry| entry.name.as_ref()).collect();
        assert_eq!(names, [&b"."[..], b"..", b"a", b"b", b"c"]);
        let (dircount, maxcount) = (4096, 8192);
        let args = READDIRPLUS3args { dir: root, cookie, cookieverf, dircount, maxcount };
        let listed = client.readdirplus(&args).await.expect("a reply").unwrap();
        assert!(listed.reply.eof);
        assert!(listed.reply.entries.0.iter().all(|entry| entry.name_handle.is_some()));
    });
}

#[test]
fn the_volume_and_its_limits() {
    with_default(async |fixture: Fixture| {
        let (mut client, root) = fixture.mounted().await;
        let stat = client.fsstat(&FSSTAT3args { fsroot: root.clone() }).await;
        assert_eq!(stat.expect("a reply").unwrap().tbytes, 1 << 30);
        let info = client.fsinfo(&FSINFO3args { fsroot: root.clone() }).await;
        let info = info.expect("a reply").unwrap();
        assert_eq!((info.rtmax, info.wtmax), (1 << 20, 1 << 20));
        assert_eq!(info.properties, 0x1b);
        let limits = client.pathconf(&PATHCONF3args { object: root }).await;
        let limits = limits.expect("a reply").unwrap();
        assert!(limits.no_trunc && limits.case_preserving && !limits.case_insensitive);
    });
}

fn refusal<T, E>(result: nfs3_types::nfs3::Nfs3Result<T, E>) -> String {
    match result {
        nfs3_types::nfs3::Nfs3Result::Ok(_) => "NFS3_OK".to_owned(),
        nfs3_types::nfs3::Nfs3Result::Err((status, _)) => status.to_string(),
    }
}
