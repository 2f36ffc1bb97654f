//! Snapshots over the protocol, through the server's dispatcher.

mod fixture;

use std::collections::{BTreeMap, BTreeSet};

use fixture::{Entry, Fixture, at, status};
use nfs3_types::mount::mountstat3;
use nfs3_types::nfs3::{
    ACCESS3args, ACCESS3res, COMMIT3args, COMMIT3res, CREATE3args, CREATE3res, FSINFO3args,
    FSINFO3res, FSSTAT3args, FSSTAT3res, LINK3args, LINK3res, MKDIR3args, MKDIR3res, MKNOD3args,
    MKNOD3res, NFS_PROGRAM, PATHCONF3args, PATHCONF3res, READLINK3args, READLINK3res, REMOVE3args,
    REMOVE3res, RENAME3args, RENAME3res, RMDIR3args, RMDIR3res, SETATTR3args, SETATTR3res,
    SYMLINK3args, SYMLINK3res, createhow3, mknoddata3, nfs_fh3, nfspath3, nfsstat3, sattr3,
    sattrguard3, symlinkdata3,
};
use nfs3_types::xdr_codec::Opaque;
use vfs::SnapshotsShown;

const HIDDEN: SnapshotsShown = SnapshotsShown::Hidden;
const VISIBLE: SnapshotsShown = SnapshotsShown::Visible;
const OFF: SnapshotsShown = SnapshotsShown::Off;
const ROFS: nfsstat3 = nfsstat3::NFS3ERR_ROFS;
const STALE: nfsstat3 = nfsstat3::NFS3ERR_STALE;
const NOENT: nfsstat3 = nfsstat3::NFS3ERR_NOENT;

/// A tree `/deep/deeper/deepest` with files of several sizes, a snapshot `first` of it, changes,
/// and a snapshot `second`.
fn furnished(shown: SnapshotsShown) -> (Fixture, nfs_fh3) {
    let fixture = Fixture::new(shown);
    let root = fixture.mount("/data").expect("a mount");
    let mut here = root.clone();
    for name in ["deep", "deeper", "deepest"] {
        here = fixture.mkdir(&here, name);
        fixture.file(&here, "small", b"as it was");
        fixture.file(&here, "large", &[7; 50_000]);
    }
    fixture.symlink(&here, "link", "../small");
    (0..40).for_each(|number| _ = fixture.file(&here, &format!("many {number}"), b"x"));
    fixture.pin("first");
    let small = fixture.walk(&root, "deep/deeper/small").expect("it is there");
    assert_eq!(fixture.write(&small, b"as it became"), nfsstat3::NFS3_OK);
    let new = fixture.mkdir(&root, "new");
    fixture.file(&new, "late", b"late");
    fixture.pin("second");
    (fixture, root)
}

fn found(fixture: &Fixture, from: &nfs_fh3, path: &str) -> nfs_fh3 {
    fixture.walk(from, path).unwrap_or_else(|status| panic!("{path}: {status:?}"))
}

#[test]
fn each_directory_has_its_snapshots_and_they_show_what_was_there() {
    for shown in [HIDDEN, VISIBLE] {
        let (fixture, root) = furnished(shown);
        for (path, content) in [
            ("deep/deeper/small", "as it became"),
            (".snapshot/first/deep/deeper/small", "as it was"),
            ("deep/.snapshot/first/deeper/small", "as it was"),
            ("deep/deeper/.snapshot/first/small", "as it was"),
            ("deep/deeper/.snapshot/second/small", "as it became"),
            (".snapshot/second/new/late", "late"),
        ] {
            let file = found(&fixture, &root, path);
            assert_eq!(fixture.read(&file).expect(path), content.as_bytes(), "{path}");
        }
        for path in [
            ".snapshot/first/new",
            "new/.snapshot/first", // it did not exist then
            ".snapshot/third",
            ".snapshot/first/.snapshot",
            ".snapshot/first/deep/.snapshot",
            ".snapshot/.snapshot",
        ] {
            assert_eq!(fixture.walk(&root, path), Err(NOENT), "{path}");
        }
        assert_eq!(fixture.names(&found(&fixture, &root, "new/.snapshot")), [".", "..", "second"]);
        let link = found(&fixture, &root, "deep/deeper/deepest/.snapshot/first/link");
        let args = READLINK3args { symlink: link };
        let target: READLINK3res<'_> = fixture.call(NFS_PROGRAM::NFSPROC3_READLINK, &args);
        assert_eq!(target.unwrap().data.0.as_ref(), b"../small");
    }
}

#[test]
fn the_way_up_leads_where_a_client_came_from() {
    let (fixture, root) = furnished(HIDDEN);
    for (path, up) in [
        (".snapshot", ""),
        ("deep/.snapshot", "deep"),
        (".snapshot/first", ".snapshot"),
        (".snapshot/first/deep", ".snapshot/first"),
        (".snapshot/first/deep/deeper/deepest", ".snapshot/first/deep/deeper"),
        ("deep/deeper/.snapshot/first", ".snapshot/first/deep"),
    ] {
        let here = found(&fixture, &root, path);
        let above = if up.is_empty() { root.clone() } else { found(&fixture, &root, up) };
        assert_eq!(fixture.lookup(&here, ".."), Ok(above.clone()), "{path}/..");
        assert_eq!(fixture.lookup(&here, "."), Ok(here.clone()), "{path}/.");
        let entries = fixture.readdirplus(&here, 4096);
        let told = |name: &str| {
            let entry = entries.iter().find(|entry| entry.name == name).expect("it is listed");
            entry.told.clone().expect("it is told").0
        };
        assert_eq!((told("."), told("..")), (here, above), "{path}");
    }
}

#[test]
fn a_listing_has_it_where_that_is_wanted() {
    let (fixture, root) = furnished(HIDDEN);
    let deepest = found(&fixture, &root, "deep/deeper/deepest");
    let held = found(&fixture, &root, ".snapshot/second/deep/deeper/deepest");
    let hidden = fixture.names(&deepest);
    assert!(!hidden.iter().any(|name| name == ".snapshot"), "{hidden:?}");
    for count in [200, 264, 300, 512, 4096, 1 << 16] {
        fixture.show(VISIBLE);
        let mut all: Vec<String> =
            fixture.readdir(&deepest, count).expect("listed").into_iter().map(|e| e.name).collect();
        assert_eq!(all.pop().as_deref(), Some(".snapshot"), "the last of {count}");
        all.sort();
        assert_eq!(all, hidden, "the others of {count}");
        let plus = fixture.readdirplus(&deepest, count.max(512));
        let last = plus.last().expect("not empty");
        let (handle, fileid) = last.told.clone().expect("with attributes");
        assert_eq!(fixture.lookup(&deepest, ".snapshot"), Ok(handle));
        assert_eq!((last.name.as_str(), fileid), (".snapshot", last.fileid));
        let inside = fixture.readdirplus(&held, count.max(512));
        let mut inside: Vec<String> = inside.into_iter().map(|entry| entry.name).collect();
        inside.sort();
        assert_eq!(inside, hidden, "in a snapshot it is not listed");
        fixture.show(OFF);
        let all = fixture.readdir(&deepest, count).expect("listed");
        assert_eq!(all.len(), hidden.len(), "{count}");
    }
}

#[test]
fn where_they_are_off_nothing_of_them_is_found_and_the_name_is_theirs() {
    let (fixture, root) = furnished(HIDDEN);
    let listing = found(&fixture, &root, ".snapshot");
    let held = found(&fixture, &root, ".snapshot/first/deep");
    fixture.show(OFF);
    assert_eq!(fixture.walk(&root, ".snapshot"), Err(NOENT));
    for handle in [&listing, &held] {
        assert_eq!(fixture.getattr(handle).err(), Some(STALE));
        assert_eq!(fixture.lookup(handle, "first").err(), Some(STALE));
        assert_eq!(fixture.readdir(handle, 4096).err(), Some(STALE));
    }
    assert_eq!(fixture.mount("/data/.snapshot"), Err(mountstat3::MNT3ERR_NOENT as u32));
    // A file of that name would be in the way when the handles are found again.
    let deep = found(&fixture, &root, "deep");
    let small = found(&fixture, &deep, "small");
    let exists = nfsstat3::NFS3ERR_EXIST;
    assert_eq!(making(&fixture, &root, ".snapshot"), [exists; 5]);
    assert_eq!(rename(&fixture, (&deep, "small"), (&root, ".snapshot")), exists);
    assert_eq!(link(&fixture, &small, (&root, ".snapshot")), exists);
    assert_eq!(taking(&fixture, &root, ".snapshot"), [NOENT; 2]);
    assert!(!fixture.names(&root).iter().any(|name| name == ".snapshot"));
    fixture.show(VISIBLE);
    assert_eq!(fixture.lookup(&root, ".snapshot"), Ok(listing));
    assert!(fixture.getattr(&held).is_ok(), "the handle is good again");
}

/// The status of each procedure that would make `name` in a directory.
fn making(fixture: &Fixture, directory: &nfs_fh3, name: &str) -> Vec<nfsstat3> {
    let where_ = || at(directory, name);
    let attributes = sattr3::default;
    let mut all = Vec::new();
    for how in [createhow3::UNCHECKED(attributes()), createhow3::GUARDED(attributes())] {
        let args = CREATE3args { where_: where_(), how };
        all.push(status(fixture.call::<CREATE3res>(NFS_PROGRAM::NFSPROC3_CREATE, &args)));
    }
    let args = MKDIR3args { where_: where_(), attributes: attributes() };
    all.push(status(fixture.call::<MKDIR3res>(NFS_PROGRAM::NFSPROC3_MKDIR, &args)));
    let symlink_data = nfspath3(Opaque::borrowed(b"target"));
    let symlink = symlinkdata3 { symlink_attributes: attributes(), symlink_data };
    let args = SYMLINK3args { where_: where_(), symlink };
    all.push(status(fixture.call::<SYMLINK3res>(NFS_PROGRAM::NFSPROC3_SYMLINK, &args)));
    let args = MKNOD3args { where_: where_(), what: mknoddata3::NF3FIFO(attributes()) };
    all.push(status(fixture.call::<MKNOD3res>(NFS_PROGRAM::NFSPROC3_MKNOD, &args)));
    all
}

/// The status of each procedure that would remove `name` from a directory.
fn taking(fixture: &Fixture, directory: &nfs_fh3, name: &str) -> [nfsstat3; 2] {
    let args = REMOVE3args { object: at(directory, name) };
    let removed = fixture.call::<REMOVE3res>(NFS_PROGRAM::NFSPROC3_REMOVE, &args);
    let args = RMDIR3args { object: at(directory, name) };
    [status(removed), status(fixture.call::<RMDIR3res>(NFS_PROGRAM::NFSPROC3_RMDIR, &args))]
}

fn rename(fixture: &Fixture, from: (&nfs_fh3, &str), to: (&nfs_fh3, &str)) -> nfsstat3 {
    let args = RENAME3args { from: at(from.0, from.1), to: at(to.0, to.1) };
    status(fixture.call::<RENAME3res>(NFS_PROGRAM::NFSPROC3_RENAME, &args))
}

fn link(fixture: &Fixture, file: &nfs_fh3, to: (&nfs_fh3, &str)) -> nfsstat3 {
    let args = LINK3args { file: file.clone(), link: at(to.0, to.1) };
    status(fixture.call::<LINK3res>(NFS_PROGRAM::NFSPROC3_LINK, &args))
}

fn setattr(fixture: &Fixture, object: &nfs_fh3) -> [nfsstat3; 2] {
    use nfs3_types::nfs3::Nfs3Option::Some as Set;
    let set = |new_attributes| {
        let guard = sattrguard3::None;
        let args = SETATTR3args { object: object.clone(), new_attributes, guard };
        status(fixture.call::<SETATTR3res>(NFS_PROGRAM::NFSPROC3_SETATTR, &args))
    };
    let mode = sattr3 { mode: Set(0o600), ..sattr3::default() };
    [set(mode), set(sattr3 { size: Set(3), ..sattr3::default() })]
}

#[test]
fn nothing_in_a_snapshot_changes() {
    let (fixture, root) = furnished(HIDDEN);
    let live = found(&fixture, &root, "deep");
    let live_file = found(&fixture, &root, "deep/small");
    for path in [".snapshot", ".snapshot/first", "deep/.snapshot", "deep/deeper/.snapshot/second"] {
        let held = found(&fixture, &root, path);
        let before = (fixture.getattr(&held).expect(path), fixture.names(&held));
        for name in ["new", "small", "deep", "first", ".snapshot"] {
            assert_eq!(making(&fixture, &held, name), [ROFS; 5], "{path}/{name}");
            assert_eq!(taking(&fixture, &held, name), [ROFS; 2], "{path}/{name}");
            assert_eq!(rename(&fixture, (&held, name), (&held, "other")), ROFS, "{path}/{name}");
            assert_eq!(rename(&fixture, (&held, name), (&live, "other")), ROFS, "out of {path}");
            assert_eq!(rename(&fixture, (&live, "small"), (&held, name)), ROFS, "into {path}");
            assert_eq!(link(&fixture, &live_file, (&held, name)), ROFS, "into {path}");
        }
        assert_eq!(setattr(&fixture, &held), [ROFS; 2], "{path}");
        assert_eq!(fixture.write(&held, b"x"), ROFS, "{path}");
        assert_eq!(link(&fixture, &held, (&live, "new")), ROFS, "{path}");
        let after = (fixture.getattr(&held).expect(path), fixture.names(&held));
        assert_eq!(format!("{after:?}"), format!("{before:?}"), "{path}");
    }
    let file = found(&fixture, &root, "deep/.snapshot/first/small");
    assert_eq!(fixture.write(&file, b"x"), ROFS);
    assert_eq!(setattr(&fixture, &file), [ROFS; 2]);
    assert_eq!(link(&fixture, &file, (&live, "new")), ROFS);
    assert_eq!(fixture.read(&file).expect("it is there"), b"as it was");
    assert_eq!(fixture.walk(&live, "new"), Err(NOENT), "nothing was made");
}

#[test]
fn the_name_by_which_they_are_found_is_taken() {
    let (fixture, root) = furnished(HIDDEN);
    for path in ["deep", "deep/deeper"] {
        let directory = found(&fixture, &root, path);
        let file = found(&fixture, &directory, "small");
        let exists = nfsstat3::NFS3ERR_EXIST;
        assert_eq!(making(&fixture, &directory, ".snapshot"), [exists; 5]);
        assert_eq!(taking(&fixture, &directory, ".snapshot"), [ROFS; 2]);
        assert_eq!(rename(&fixture, (&directory, ".snapshot"), (&root, "mine")), ROFS);
        assert_eq!(rename(&fixture, (&directory, "small"), (&root, ".snapshot")), exists);
        assert_eq!(link(&fixture, &file, (&directory, ".snapshot")), exists);
    }
    // A directory without files is empty, whatever lookups in it can find.
    let empty = fixture.mkdir(&root, "empty");
    fixture.pin("third");
    assert!(fixture.walk(&empty, ".snapshot/third").is_ok());
    assert_eq!(taking(&fixture, &root, "empty")[1], nfsstat3::NFS3_OK);
    assert_eq!(
        fixture.getattr(&found(&fixture, &root, ".snapshot/third/empty")).map(|_| ()),
        Ok(())
    );
}

#[test]
fn access_to_what_is_in_one_has_no_bit_of_writing() {
    const READ_LOOKUP: u32 = 0x01 | 0x02;
    let (fixture, root) = furnished(HIDDEN);
    let granted = |path: &str| {
        let args = ACCESS3args { object: found(&fixture, &root, path), access: 0x3f };
        fixture.call::<ACCESS3res>(NFS_PROGRAM::NFSPROC3_ACCESS, &args).unwrap().access
    };
    assert_eq!(granted("deep"), READ_LOOKUP | 0x04 | 0x08 | 0x10, "of what is live");
    assert_eq!(granted(".snapshot"), READ_LOOKUP);
    assert_eq!(granted(".snapshot/first"), READ_LOOKUP);
    assert_eq!(granted(".snapshot/first/deep"), READ_LOOKUP);
    assert_eq!(granted("deep/.snapshot/second/large"), 0x01);
}

#[test]
fn handles_outlive_restarts_and_are_stale_after_a_deletion() {
    let (fixture, root) = furnished(HIDDEN);
    let paths = ["", "/deep", "/deep/large", "/deep/deeper/deepest/link"];
    let handles = |fixture: &Fixture, name: &str| {
        paths.map(|path| found(fixture, &root, &format!(".snapshot/{name}{path}")))
    };
    let (first, second) = (handles(&fixture, "first"), handles(&fixture, "second"));
    let told = |fixture: &Fixture, all: &[nfs_fh3; 4]| {
        all.clone().map(|handle| fixture.getattr(&handle).map(|told| format!("{told:?}")))
    };
    let before = (told(&fixture, &first), told(&fixture, &second));
    let fixture = fixture.restarted(HIDDEN);
    assert_eq!((told(&fixture, &first), told(&fixture, &second)), before);
    fixture.delete("first", false);
    let check = |fixture: &Fixture| {
        assert_eq!(told(fixture, &first).map(Result::err), [(); 4].map(|()| Some(STALE)));
        assert_eq!(told(fixture, &second), before.1);
        assert_eq!(fixture.walk(&root, ".snapshot/first"), Err(NOENT));
        assert_eq!(fixture.names(&found(fixture, &root, ".snapshot")), [".", "..", "second"]);
        assert_eq!(making(fixture, &first[1], "new"), [STALE; 5]);
        assert_eq!(fixture.readdir(&first[1], 4096).err(), Some(STALE));
    };
    check(&fixture);
    let fixture = fixture.restarted(VISIBLE);
    check(&fixture);
    // A snapshot with the same name is another snapshot.
    fixture.pin("first");
    assert_eq!(told(&fixture, &first).map(Result::err), [(); 4].map(|()| Some(STALE)));
    assert_ne!(handles(&fixture, "first"), first);
    fixture.delete("second", true);
    assert_eq!(told(&fixture, &second).map(Result::err), [(); 4].map(|()| Some(STALE)));
}

/// Handles and a path of each, by file id; and the directories that were listed.
#[derive(Default)]
struct All(BTreeMap<u64, (Vec<u8>, String)>, BTreeSet<u64>);

/// Adds everything below a directory.
fn gather(fixture: &Fixture, (path, directory): (&str, &nfs_fh3), all: &mut All) {
    let plain = fixture.readdir(directory, 4096).expect(path);
    let plus = fixture.readdirplus(directory, 4096);
    for (Entry { name, fileid, told }, bare) in plus.into_iter().zip(plain) {
        let (handle, told_id) = told.expect("all can be told");
        let path = format!("{path}/{name}");
        let attributes = fixture.getattr(&handle).expect("it is there");
        assert_eq!([fileid, bare.fileid, attributes.fileid], [told_id; 3], "{path}");
        assert_eq!(attributes.fsid, 0xda7a, "{path}");
        let bytes = handle.data.to_vec();
        let first = all.0.entry(fileid).or_insert_with(|| (bytes.clone(), path.clone()));
        assert_eq!(first.0, bytes, "{path} and {} have one file id", first.1);
        let is_directory = attributes.type_ == nfs3_types::nfs3::ftype3::NF3DIR;
        if is_directory && all.1.insert(fileid) {
            gather(fixture, (&path, &handle), all);
        }
    }
}

#[test]
fn no_two_objects_have_the_same_file_id() {
    let (fixture, root) = furnished(VISIBLE);
    let mut all = All::default();
    gather(&fixture, ("", &root), &mut all);
    let one_tree = 3 + 3 * 2 + 1 + 40;
    // The live tree, two snapshots, and a `.snapshot` of each live directory.
    assert_eq!(all.0.len(), 1 + one_tree + 2 + 1 + one_tree + 1 + one_tree + 2 + 5);
}

#[test]
fn a_client_mounts_what_is_in_one() {
    let (fixture, root) = furnished(HIDDEN);
    for path in
        [".snapshot", ".snapshot/first", ".snapshot/first/deep/deeper", "deep/.snapshot/second"]
    {
        let mounted = fixture.mount(&format!("/data/{path}")).expect(path);
        assert_eq!(mounted, found(&fixture, &root, path), "{path}");
        let fsroot = mounted.clone();
        let full: FSSTAT3res =
            fixture.call(NFS_PROGRAM::NFSPROC3_FSSTAT, &FSSTAT3args { fsroot: fsroot.clone() });
        assert!(full.unwrap().tbytes > 0, "{path}");
        let fixed: FSINFO3res = fixture.call(NFS_PROGRAM::NFSPROC3_FSINFO, &FSINFO3args { fsroot });
        assert!(fixed.unwrap().maxfilesize > 0, "{path}");
        let names: PATHCONF3res =
            fixture.call(NFS_PROGRAM::NFSPROC3_PATHCONF, &PATHCONF3args { object: mounted });
        assert_eq!(names.unwrap().name_max, 255, "{path}");
    }
    for path in [".snapshot/third", "new/.snapshot/first", ".snapshot/first/new"] {
        let mounted = fixture.mount(&format!("/data/{path}"));
        assert_eq!(mounted, Err(mountstat3::MNT3ERR_NOENT as u32), "{path}");
    }
    let file = fixture.mount("/data/.snapshot/first/deep/small");
    assert_eq!(file, Err(mountstat3::MNT3ERR_NOTDIR as u32));
}

#[test]
fn what_is_durable_already_is_told_so_and_a_listing_is_no_file() {
    let (fixture, root) = furnished(HIDDEN);
    let commit = |path: &str| {
        let args = COMMIT3args { file: found(&fixture, &root, path), offset: 0, count: 0 };
        status(fixture.call::<COMMIT3res>(NFS_PROGRAM::NFSPROC3_COMMIT, &args))
    };
    assert_eq!(commit(".snapshot/first/deep/large"), nfsstat3::NFS3_OK);
    assert_eq!(commit(".snapshot"), commit("deep"), "of a directory");
    let listing = found(&fixture, &root, ".snapshot");
    let live = fixture.read(&root).expect_err("of a directory");
    assert_eq!(fixture.read(&listing), Err(live));
    let args = READLINK3args { symlink: listing };
    let target: READLINK3res<'_> = fixture.call(NFS_PROGRAM::NFSPROC3_READLINK, &args);
    assert_eq!(status(target), nfsstat3::NFS3ERR_INVAL);
}

/// A client rereads its cached `.snapshot` when the set of snapshots has changed.
#[test]
fn the_time_of_a_listing_changes_with_what_is_in_it() {
    let (fixture, root) = furnished(HIDDEN);
    let time = |fixture: &Fixture| {
        let told = fixture.getattr(&found(fixture, &root, "deep/.snapshot")).expect("it is there");
        (told.mtime.seconds, told.mtime.nseconds)
    };
    let at_first = time(&fixture);
    fixture.pin("third");
    let with_third = time(&fixture);
    assert!(with_third > at_first);
    fixture.delete("third", true);
    let without = time(&fixture);
    assert!(without > with_third);
    assert_eq!(time(&fixture.restarted(HIDDEN)), without);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_snapshot_that_can_be_changed_is_found() {
    namespace::planted::plant(Some(namespace::planted::Bug::WritableSnapshots));
    let found = std::panic::catch_unwind(access_to_what_is_in_one_has_no_bit_of_writing);
    namespace::planted::plant(None);
    assert!(found.is_err(), "the bug is not found");
}
