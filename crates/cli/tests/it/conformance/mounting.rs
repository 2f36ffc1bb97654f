//! The six procedures of MOUNT.

use nfs3_types::mount::{dirpath, mountstat3};
use nfs3_types::nfs3::nfs_fh3;
use nfs3_types::xdr_codec::Opaque;

use crate::conformance::fixture::{Fixture, with_volume};

fn path(text: &str) -> dirpath<'_> {
    dirpath(Opaque::borrowed(text.as_bytes()))
}

#[test]
fn what_is_mounted_is_remembered_until_it_is_not() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await; // has mounted /data
        let top = user.root.clone();
        user.mkdir(&top, "directory", 0o755).await.unwrap();
        let mut mount = fixture.mount_client(0).await;
        mount.null().await.expect("a reply");
        mount.mnt(path("/data/directory")).await.expect("it is exported");
        mount.mnt(path("/fixed")).await.expect("it is exported");
        assert_eq!(mount.dump().await.expect("a reply").0.len(), 3);
        mount.umnt(path("/data")).await.expect("a reply");
        assert_eq!(mount.dump().await.expect("a reply").0.len(), 2);
        mount.umntall().await.expect("a reply");
        assert_eq!(mount.dump().await.expect("a reply").0.len(), 0);
    });
}

#[test]
fn what_nobody_may_use_is_not_exported() {
    with_volume(async |fixture: Fixture| {
        let mut mount = fixture.mount_client(0).await;
        let exports = mount.export().await.expect("a reply").0;
        let mut names: Vec<_> =
            exports.iter().map(|export| export.ex_dir.0.as_ref().to_vec()).collect();
        names.sort();
        assert_eq!(names, [b"/data".as_slice(), b"/fixed", b"/other"]);
    });
}

#[test]
fn a_directory_below_a_root_is_mounted_by_its_path() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        let one = user.mkdir(&top, "one", 0o755).await.unwrap();
        let two = user.mkdir(&one, "two", 0o755).await.unwrap();
        assert_eq!(fixture.mount("/data/one/two").await, two);
        assert_eq!(fixture.mount("//data//one/./two/..").await, one);
        let mounted = fixture.mount_client(0).await.mnt(path("/data")).await.unwrap();
        assert_eq!(mounted.auth_flavors, [1, 0]);
        assert_eq!(nfs_fh3 { data: mounted.fhandle.0 }, top);
    });
}

#[test]
fn what_cannot_be_mounted_is_refused_with_the_reason() {
    with_volume(async |fixture: Fixture| {
        let mut user = fixture.superuser().await;
        let top = user.root.clone();
        user.file(&top, "file", 0o644).await.unwrap();
        user.mkdir(&top, "secret", 0o700).await.unwrap();
        user.symlink(&top, "link", b"secret").await.unwrap();
        let refusals = [
            ("/missing", mountstat3::MNT3ERR_NOENT),
            ("", mountstat3::MNT3ERR_NOENT),
            ("/data/missing", mountstat3::MNT3ERR_NOENT),
            ("/data/file", mountstat3::MNT3ERR_NOTDIR),
            ("/data/link", mountstat3::MNT3ERR_NOTDIR),
            ("/closed", mountstat3::MNT3ERR_ACCES),
            ("/data/secret/inside", mountstat3::MNT3ERR_ACCES),
        ];
        for (text, expected) in refusals {
            let refused = fixture.mount_client(10).await.mnt(path(text)).await.err();
            let refused = refused.unwrap_or_else(|| panic!("{text} was mounted"));
            let said = format!("{refused:?}");
            assert!(said.contains(&format!("{expected:?}")), "{text}: {said}");
        }
        let long = format!("/data/{}", "n".repeat(256));
        let refused = fixture.mount_client(0).await.mnt(path(&long)).await.err();
        assert!(format!("{refused:?}").contains("MNT3ERR_NAMETOOLONG"), "{refused:?}");
    });
}
