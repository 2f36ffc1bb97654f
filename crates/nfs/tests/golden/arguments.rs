//! Arguments of the 22 procedures of NFS version 3.

use bytes::Bytes;
use nfs::nfs3::arguments::{
    AccessArgs, CommitArgs, CreateArgs, CreateHow, DirectoryName, FsinfoArgs, FsstatArgs,
    GetattrArgs, LinkArgs, LookupArgs, MkdirArgs, MknodArgs, MknodWhat, PathconfArgs, ReadArgs,
    ReaddirArgs, ReaddirplusArgs, ReadlinkArgs, RemoveArgs, RenameArgs, RmdirArgs, SetattrArgs,
    SymlinkArgs, WriteArgs,
};
use nfs::nfs3::{
    Arguments, Device, FileKind, Procedure, SetAttributes, SetTime, Stability, Time, Verifier,
};
use nfs::xdr::{DecodeError, Decoder};

use crate::{HANDLE, wire};

/// `diropargs3` of [`NAME`].
const NAMED: &str = "
    00000003 646972 00              # directory 'dir'
    00000005 66696c65 31 ffffff     # name 'file1', padding that is not zero
";

const NAME: DirectoryName<'static> = DirectoryName { directory: b"dir", name: b"file1" };

/// `sattr3` of [`MODE_AND_TIMES`].
const SET: &str = "
    00000001 000001ed               # mode 0755
    00000000                        # uid
    00000000                        # gid
    00000000                        # size
    00000001                        # atime SET_TO_SERVER_TIME
    00000002 00000010 00000020      # mtime SET_TO_CLIENT_TIME
";

const MODE_AND_TIMES: SetAttributes = SetAttributes {
    mode: Some(0o755),
    uid: None,
    gid: None,
    size: None,
    atime: Some(SetTime::Now),
    mtime: Some(SetTime::To(Time { seconds: 16, nanoseconds: 32 })),
};

/// Asserts that `text` decodes as the arguments of `procedure`, that no shorter text does, and that
/// nothing may follow it.
#[track_caller]
fn assert_decodes(procedure: Procedure, text: &str, arguments: &Arguments<'_>) {
    let bytes = wire(text);
    let longer = [&bytes[..], &[0; 4]].concat();
    let decode = |bytes| Arguments::decode(procedure, Decoder::new(bytes));
    assert_eq!(decode(&bytes).as_ref(), Ok(arguments));
    for length in 0..bytes.len() {
        assert_eq!(decode(&bytes[..length]), Err(DecodeError::Short), "{length} bytes of it");
    }
    assert_eq!(decode(&longer), Err(DecodeError::Trailing(4)));
}

#[track_caller]
fn assert_garbage(procedure: Procedure, text: &str, error: DecodeError) {
    let bytes = wire(text);
    assert_eq!(Arguments::decode(procedure, Decoder::new(&bytes)), Err(error));
}

#[test]
fn null() {
    assert_decodes(Procedure::Null, "", &Arguments::Null);
}

#[test]
fn getattr() {
    let arguments = Arguments::Getattr(GetattrArgs { object: b"handle" });
    assert_decodes(Procedure::Getattr, HANDLE, &arguments);
}

#[test]
fn setattr_with_everything() {
    let text = "
        00000003 646972 00              # object
        00000001 000001a4               # mode
        00000001 000003e8               # uid
        00000001 00000064               # gid
        00000001 00000001 00000000      # size
        00000002 00000003 00000004      # atime SET_TO_CLIENT_TIME
        00000001                        # mtime SET_TO_SERVER_TIME
        00000001 00000005 00000006      # guard
    ";
    let attributes = SetAttributes {
        mode: Some(0o644),
        uid: Some(1000),
        gid: Some(100),
        size: Some(1 << 32),
        atime: Some(SetTime::To(Time { seconds: 3, nanoseconds: 4 })),
        mtime: Some(SetTime::Now),
    };
    let guard = Some(Time { seconds: 5, nanoseconds: 6 });
    let arguments = Arguments::Setattr(SetattrArgs { object: b"dir", attributes, guard });
    assert_decodes(Procedure::Setattr, text, &arguments);
}

#[test]
fn setattr_with_nothing() {
    let text = format!("{HANDLE} 00000000 00000000 00000000 00000000 00000000 00000000 00000000");
    let attributes = SetAttributes::default();
    let arguments = Arguments::Setattr(SetattrArgs { object: b"handle", attributes, guard: None });
    assert_decodes(Procedure::Setattr, &text, &arguments);
}

#[test]
fn lookup() {
    assert_decodes(Procedure::Lookup, NAMED, &Arguments::Lookup(LookupArgs { what: NAME }));
}

#[test]
fn access() {
    let arguments = Arguments::Access(AccessArgs { object: b"handle", access: 0x3f });
    assert_decodes(Procedure::Access, &format!("{HANDLE} 0000003f"), &arguments);
}

#[test]
fn readlink() {
    let arguments = Arguments::Readlink(ReadlinkArgs { symlink: b"handle" });
    assert_decodes(Procedure::Readlink, HANDLE, &arguments);
}

#[test]
fn read() {
    let text = format!("{HANDLE} 00000002 00000001 # offset\n 00100000 # count");
    let arguments = ReadArgs { file: b"handle", offset: 0x2_0000_0001, count: 1 << 20 };
    assert_decodes(Procedure::Read, &text, &Arguments::Read(arguments));
}

#[test]
fn write() {
    let text = "
        00000003 646972 00      # file
        00000000 00001000       # offset
        00000005                # count
        00000002                # stable FILE_SYNC
        00000005 68656c6c 6f 000000
    ";
    let arguments = WriteArgs {
        file: b"dir",
        offset: 4096,
        count: 5,
        stable: Stability::FileSync,
        data: vec![Bytes::from_static(b"hello")],
    };
    assert_decodes(Procedure::Write, text, &Arguments::Write(arguments));
}

#[test]
fn create_unchecked() {
    let how = CreateHow::Unchecked(MODE_AND_TIMES);
    let arguments = Arguments::Create(CreateArgs { location: NAME, how });
    assert_decodes(Procedure::Create, &format!("{NAMED} 00000000 {SET}"), &arguments);
}

#[test]
fn create_guarded() {
    let how = CreateHow::Guarded(MODE_AND_TIMES);
    let arguments = Arguments::Create(CreateArgs { location: NAME, how });
    assert_decodes(Procedure::Create, &format!("{NAMED} 00000001 {SET}"), &arguments);
}

#[test]
fn create_exclusive() {
    let how = CreateHow::Exclusive(Verifier(*b"\x01\x02\x03\x04\x05\x06\x07\x08"));
    let arguments = Arguments::Create(CreateArgs { location: NAME, how });
    let text = format!("{NAMED} 00000002 01020304 05060708");
    assert_decodes(Procedure::Create, &text, &arguments);
}

#[test]
fn mkdir() {
    let arguments = Arguments::Mkdir(MkdirArgs { location: NAME, attributes: MODE_AND_TIMES });
    assert_decodes(Procedure::Mkdir, &format!("{NAMED} {SET}"), &arguments);
}

#[test]
fn symlink() {
    let text = format!("{NAMED} {SET} 00000004 2e2e2f78 # path '../x'");
    let arguments = SymlinkArgs { location: NAME, attributes: MODE_AND_TIMES, target: b"../x" };
    assert_decodes(Procedure::Symlink, &text, &Arguments::Symlink(arguments));
}

#[test]
fn mknod_of_each_kind() {
    let device = Device { major: 3, minor: 4 };
    let kinds = [
        ("00000003", " 00000003 00000004", MknodWhat::BlockDevice(MODE_AND_TIMES, device)),
        ("00000004", " 00000003 00000004", MknodWhat::CharacterDevice(MODE_AND_TIMES, device)),
        ("00000006", "", MknodWhat::Socket(MODE_AND_TIMES)),
        ("00000007", "", MknodWhat::Fifo(MODE_AND_TIMES)),
    ];
    for (number, device, what) in kinds {
        let text = format!("{NAMED} {number} {SET} {device}");
        let arguments = Arguments::Mknod(MknodArgs { location: NAME, what });
        assert_decodes(Procedure::Mknod, &text, &arguments);
    }
}

#[test]
fn mknod_of_a_kind_that_it_does_not_make_has_no_attributes() {
    let kinds = [
        ("00000001", FileKind::Regular),
        ("00000002", FileKind::Directory),
        ("00000005", FileKind::Symlink),
    ];
    for (number, kind) in kinds {
        let what = MknodWhat::Other(kind);
        let arguments = Arguments::Mknod(MknodArgs { location: NAME, what });
        assert_decodes(Procedure::Mknod, &format!("{NAMED} {number}"), &arguments);
    }
}

#[test]
fn remove() {
    assert_decodes(Procedure::Remove, NAMED, &Arguments::Remove(RemoveArgs { object: NAME }));
}

#[test]
fn rmdir() {
    assert_decodes(Procedure::Rmdir, NAMED, &Arguments::Rmdir(RmdirArgs { object: NAME }));
}

#[test]
fn rename() {
    let text = format!("{NAMED} 00000001 64000000 00000002 66320000 # 'd', 'f2'");
    let to = DirectoryName { directory: b"d", name: b"f2" };
    let arguments = Arguments::Rename(RenameArgs { from: NAME, to });
    assert_decodes(Procedure::Rename, &text, &arguments);
}

#[test]
fn link() {
    let arguments = Arguments::Link(LinkArgs { file: b"handle", link: NAME });
    assert_decodes(Procedure::Link, &format!("{HANDLE} {NAMED}"), &arguments);
}

#[test]
fn readdir() {
    let text = format!(
        "{HANDLE}
        00000000 00000abc   # cookie
        0a0b0c0d 0e0f1011   # cookieverf
        00002000            # count"
    );
    let arguments = ReaddirArgs {
        directory: b"handle",
        cookie: 0xabc,
        cookie_verifier: Verifier(*b"\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11"),
        count: 8192,
    };
    assert_decodes(Procedure::Readdir, &text, &Arguments::Readdir(arguments));
}

#[test]
fn readdirplus() {
    let text = format!(
        "{HANDLE}
        00000000 00000abc   # cookie
        0a0b0c0d 0e0f1011   # cookieverf
        00001000            # dircount
        00008000            # maxcount"
    );
    let arguments = ReaddirplusArgs {
        directory: b"handle",
        cookie: 0xabc,
        cookie_verifier: Verifier(*b"\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11"),
        dircount: 4096,
        maxcount: 32768,
    };
    assert_decodes(Procedure::Readdirplus, &text, &Arguments::Readdirplus(arguments));
}

#[test]
fn fsstat() {
    let arguments = Arguments::Fsstat(FsstatArgs { root: b"handle" });
    assert_decodes(Procedure::Fsstat, HANDLE, &arguments);
}

#[test]
fn fsinfo() {
    let arguments = Arguments::Fsinfo(FsinfoArgs { root: b"handle" });
    assert_decodes(Procedure::Fsinfo, HANDLE, &arguments);
}

#[test]
fn pathconf() {
    let arguments = Arguments::Pathconf(PathconfArgs { object: b"handle" });
    assert_decodes(Procedure::Pathconf, HANDLE, &arguments);
}

#[test]
fn commit() {
    let text = format!("{HANDLE} 00000000 00010000 # offset\n 00000000 # count: to the end");
    let arguments = CommitArgs { file: b"handle", offset: 65536, count: 0 };
    assert_decodes(Procedure::Commit, &text, &Arguments::Commit(arguments));
}

#[test]
fn a_handle_of_64_bytes_is_the_longest() {
    let longest = format!("00000040 {}", "ab".repeat(64));
    let arguments = Arguments::Getattr(GetattrArgs { object: &[0xab; 64] });
    assert_decodes(Procedure::Getattr, &longest, &arguments);
    let longer = format!("00000041 {} ab000000", "ab".repeat(64));
    let error = DecodeError::TooLong { length: 65, limit: 64 };
    assert_garbage(Procedure::Getattr, &longer, error);
}

#[test]
fn a_length_beyond_the_record_is_short_and_not_allocated() {
    let text = "00000003 646972 00 ffffffff 61616161";
    assert_garbage(Procedure::Lookup, text, DecodeError::Short);
}

#[test]
fn values_that_an_enumeration_does_not_have_are_garbage() {
    let bad = |of, value| DecodeError::BadValue { of, value };
    let cases = [
        (Procedure::Mknod, format!("{NAMED} 00000008"), bad("ftype3", 8)),
        (Procedure::Mknod, format!("{NAMED} 00000000"), bad("ftype3", 0)),
        (Procedure::Create, format!("{NAMED} 00000003"), bad("createmode3", 3)),
        (Procedure::Setattr, format!("{HANDLE} 00000002"), bad("bool", 2)),
        (
            Procedure::Setattr,
            format!("{HANDLE} 00000000 00000000 00000000 00000000 00000003"),
            bad("time_how", 3),
        ),
        (
            Procedure::Write,
            format!("{HANDLE} 00000000 00000000 00000000 00000003"),
            bad("stable_how", 3),
        ),
    ];
    for (procedure, text, error) in cases {
        assert_garbage(procedure, &text, error);
    }
}

#[test]
fn numbers_and_names_of_procedures_agree_with_the_rfc() {
    let names = [
        "NULL",
        "GETATTR",
        "SETATTR",
        "LOOKUP",
        "ACCESS",
        "READLINK",
        "READ",
        "WRITE",
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
        "FSSTAT",
        "FSINFO",
        "PATHCONF",
        "COMMIT",
    ];
    for (number, name) in (0..).zip(names) {
        let procedure = Procedure::from_number(number).expect("22 procedures");
        assert_eq!((procedure as u32, procedure.name()), (number, name));
    }
    assert_eq!(Procedure::from_number(22), None);
}
