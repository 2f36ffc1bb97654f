//! From a path to the first handle.

use std::pin::pin;

use crate::fixture::{Client, Fixture, at, local};
use dispatch::{Export, Exports, Limits};
use futures::FutureExt;
use nfs::record::Record;
use nfs3_types::mount::{self, MOUNT_PROGRAM, dirpath, exports, mountlist};
use nfs3_types::nfs3::{
    MKDIR3args, MKDIR3res, NFS_PROGRAM, SYMLINK3args, SYMLINK3res, nfs_fh3, sattr3, symlinkdata3,
};
use nfs3_types::xdr_codec::{Opaque, Void};
use runtime::sync::STEPS_OF_A_TURN;

/// /data/a/b, /data/file, /data/link -> a
fn furnished() -> (Fixture, nfs_fh3, nfs_fh3) {
    let mut fixture = Fixture::new();
    let root = fixture.mount(&local(), "/data").expect("a mount");
    let a = fixture.mkdir(&local(), &root, "a");
    let b = fixture.mkdir(&local(), &a, "b");
    fixture.create(&local(), &root, "file");
    let symlink = symlinkdata3 {
        symlink_attributes: sattr3::default(),
        symlink_data: b"a".as_slice().into(),
    };
    let args = SYMLINK3args { where_: at(&root, "link"), symlink };
    let made: SYMLINK3res = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_SYMLINK, &args);
    made.unwrap();
    (fixture, root, b)
}

#[test]
fn paths_lead_to_directories_of_their_volume_and_never_out_of_it() {
    let (mut fixture, root, b) = furnished();
    for path in ["/data", "data", "/data/", "//data//", "/data/..", "/data/../..", "/data/a/.."] {
        assert_eq!(fixture.mount(&local(), path).expect(path), root, "{path}");
    }
    for path in ["/data/a/b", "/data//a/./b/", "/data/a/b/../b", "/data/../a/b"] {
        assert_eq!(fixture.mount(&local(), path).expect(path), b, "{path}");
    }
}

#[test]
fn a_long_path_gives_way() {
    let (fixture, ..) = furnished();
    let path = format!("/data{}", "/.".repeat(3 * STEPS_OF_A_TURN as usize));
    let target = (mount::PROGRAM, mount::VERSION, MOUNT_PROGRAM::MOUNTPROC3_MNT as u32);
    let record = local().record(1, target, &dirpath(Opaque::borrowed(path.as_bytes())));
    let dispatcher = fixture.dispatcher.clone();
    let mut call = pin!(dispatcher.call(local().address, Record::whole(record)));
    let pauses = std::iter::from_fn(|| call.as_mut().now_or_never().is_none().then_some(()));
    assert_eq!(pauses.count(), 3);
}

#[test]
fn paths_that_lead_nowhere_say_why() {
    let (mut fixture, ..) = furnished();
    let long = format!("/data/{}", "n".repeat(300));
    for (path, status) in [
        ("/", "NOENT"),
        ("", "NOENT"),
        ("/dat", "NOENT"),
        ("/data/none", "NOENT"),
        ("/data/../other", "NOENT"),
        ("/data/file", "NOTDIR"),
        ("/data/file/x", "NOTDIR"),
        ("/data/link", "NOTDIR"),
        (&long, "NAMETOOLONG"),
        ("/data/a\0b", "INVAL"),
    ] {
        let refused = fixture.mount(&local(), path).expect_err(path);
        assert_eq!(refused.to_string(), format!("MNT3ERR_{status}"), "{path}");
    }
}

#[test]
fn a_mount_leads_nowhere_where_lookups_would_not() {
    let (mut fixture, root, _) = furnished();
    let owner = Client::user("127.0.0.1", 5, 5, &[]);
    let private = fixture.mkdir(&owner, &root, "private"); // mode 0600: not searchable
    fixture.mkdir(&local(), &private, "inner");
    let stranger = Client::user("127.0.0.1", 6, 6, &[]);
    let refused = fixture.mount(&stranger, "/data/private/inner").expect_err("not his");
    assert_eq!(refused.to_string(), "MNT3ERR_ACCES");
    assert!(fixture.mount(&local(), "/data/private/inner").is_ok());
}

fn dump(fixture: &mut Fixture) -> Vec<(String, String)> {
    let list: mountlist<'_, '_> =
        fixture.call_mount(&local(), MOUNT_PROGRAM::MOUNTPROC3_DUMP, &Void);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mounts = list.0.iter();
    mounts.map(|mount| (text(&mount.ml_hostname.0), text(&mount.ml_directory.0))).collect()
}

#[test]
fn what_is_mounted_is_listed_until_it_is_unmounted() {
    let mut fixture = Fixture::new();
    fixture.mount(&local(), "/data").expect("a mount");
    fixture.mount(&local(), "/data").expect("the same again");
    fixture.mount(&local(), "/other").expect("a mount");
    fixture.mount(&local(), "/none").expect_err("no such volume");
    let mounted = |path: &str| ("127.0.0.1".to_owned(), path.to_owned());
    assert_eq!(dump(&mut fixture), [mounted("/data"), mounted("/other")]);
    let path = dirpath(Opaque::borrowed(b"/data"));
    let Void = fixture.call_mount(&local(), MOUNT_PROGRAM::MOUNTPROC3_UMNT, &path);
    assert_eq!(dump(&mut fixture), [mounted("/other")]);
    let Void = fixture.call_mount(&local(), MOUNT_PROGRAM::MOUNTPROC3_UMNTALL, &Void);
    assert_eq!(dump(&mut fixture), []);
}

#[test]
fn the_list_of_mounts_is_bounded() {
    let mut fixture = Fixture::new();
    for client in 0..1_500 {
        let address = format!("127.0.{}.{}", client / 250, client % 250);
        fixture.mount(&Client::root(&address), "/data").expect("a mount");
    }
    let list = dump(&mut fixture);
    assert_eq!(list.len(), 1024);
    assert_eq!(list.last().expect("some").0, "127.0.5.249");
}

#[test]
fn a_client_that_mounts_a_lot_or_in_many_spellings_takes_no_place_of_others() {
    let (mut fixture, _, _) = furnished();
    let other = Client::root("127.0.0.2");
    fixture.mount(&other, "/data").expect("a mount");
    for spelling in 0..1_500 {
        let path = format!("/data{}", "/.".repeat(spelling % 400));
        fixture.mount(&local(), &path).expect("the same directory");
    }
    let [other, ours] = ["127.0.0.2", "127.0.0.1"].map(|it| (it.to_owned(), "/data".to_owned()));
    assert_eq!(dump(&mut fixture), [other.clone(), ours]);
    let root = fixture.mount(&local(), "/data").expect("a mount");
    for number in 0..100 {
        let name = format!("dir-{number}");
        let args = MKDIR3args { where_: at(&root, &name), attributes: Default::default() };
        let made: MKDIR3res = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_MKDIR, &args);
        made.unwrap();
        fixture.mount(&local(), &format!("/data/{name}")).expect("a mount");
    }
    let list = dump(&mut fixture);
    assert_eq!(list.len(), 1 + 32);
    assert_eq!((&list[0], list[32].1.as_str()), (&other, "/data/dir-99"), "the oldest go");
    // UMNT finds the mount in any spelling.
    let path = dirpath(Opaque::borrowed(b"//data/../dir-99/"));
    let Void = fixture.call_mount(&local(), MOUNT_PROGRAM::MOUNTPROC3_UMNT, &path);
    assert_eq!(dump(&mut fixture).len(), 32);
}

#[test]
fn the_list_of_exports_follows_the_rules_and_its_memory_is_what_it_takes() {
    let mut fixture = Fixture::new();
    let list = |fixture: &mut Fixture| -> usize {
        let list: exports<'_, '_> =
            fixture.call_mount(&local(), MOUNT_PROGRAM::MOUNTPROC3_EXPORT, &Void);
        list.0.len()
    };
    assert_eq!(list(&mut fixture), 2);
    let mut rules = Exports::default();
    rules.insert("other", Export::new(Vec::new()).expect("no rules"));
    fixture.dispatcher.set_exports(rules);
    assert_eq!(list(&mut fixture), 1);
    // A stranger may have as many replies waiting as its share allows, which is 512 KiB of 8 MiB.
    let session = fixture.dispatcher.connect([10, 0, 0, 1].into());
    let target = (nfs3_types::mount::PROGRAM, nfs3_types::mount::VERSION, 5);
    let mut taken = Vec::new();
    loop {
        let record = local().record(taken.len() as u32, target, &Void);
        let party = session.party(&record);
        let memory =
            session.request_memory(party, record.len()).now_or_never().expect("it is free");
        match session.call(Record::whole(record), memory).now_or_never() {
            Some(reply) => taken.push(reply.expect("a list")),
            None => break,
        }
    }
    assert_eq!(taken.len(), (512 << 10) / 512, "short ones count for 512 bytes");
    drop(taken.pop());
    let record = local().record(1, target, &Void);
    let memory = session.request_memory(0, record.len()).now_or_never().expect("it is free");
    assert!(session.call(Record::whole(record), memory).now_or_never().is_some());
}

#[test]
fn exports_are_listed_with_their_networks_and_closed_ones_are_not() {
    let mut rules = Exports::default();
    rules.insert("other", Export::new(Vec::new()).expect("no rules"));
    let mut fixture = Fixture::with(rules, Limits::default());
    let list: exports<'_, '_> =
        fixture.call_mount(&local(), MOUNT_PROGRAM::MOUNTPROC3_EXPORT, &Void);
    let [node] = &list.0[..] else { panic!("one volume is open") };
    assert_eq!(*node.ex_dir.0, *b"/data");
    let groups: Vec<&[u8]> = node.ex_groups.0.iter().map(|group| &*group.0.0).collect();
    assert_eq!(groups, [b"127.0.0.0/8".as_slice(), b"::1/128"]);
}
