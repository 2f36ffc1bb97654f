//! Arguments that the peer writes and we read, and that we write as it does.

use bytes::Bytes;
use nfs::nfs3::arguments::{
    AccessArgs, CommitArgs, CreateArgs, CreateHow, DirectoryName, LinkArgs, LookupArgs, MkdirArgs,
    MknodArgs, MknodWhat, ReadArgs, ReaddirArgs, ReaddirplusArgs, RenameArgs, SetattrArgs,
    SymlinkArgs, WriteArgs,
};
use nfs::nfs3::{Arguments, Device, Procedure, SetAttributes, SetTime, Stability, Time, Verifier};
use nfs::rpc::{self, Caller};
use nfs::xdr::{Decoder, UNIT};
use nfs3_types::nfs3 as peer;
use nfs3_types::xdr_codec::Pack;

use crate::{peer_handle, peer_time};

#[track_caller]
fn assert_read(procedure: Procedure, theirs: &impl Pack, ours: &Arguments<'_>) {
    let mut bytes = Vec::new();
    theirs.pack(&mut bytes).expect("a vector takes everything");
    assert_eq!(Arguments::decode(procedure, Decoder::new(&bytes)).as_ref(), Ok(ours));
    let mut call = rpc::call(0, 0, 0, 0, &Caller::none());
    let header = call.length();
    call.value(ours);
    let written = call.finish().concat().split_off(UNIT + header);
    assert_eq!(written, bytes, "what we write is what the peer writes");
}

fn peer_name<'a>(directory: &[u8], name: &'a [u8]) -> peer::diropargs3<'a> {
    peer::diropargs3 { dir: peer_handle(directory), name: peer::filename3(name.into()) }
}

const NAME: DirectoryName<'static> = DirectoryName { directory: b"directory", name: b"name" };

fn named() -> peer::diropargs3<'static> {
    peer_name(b"directory", b"name")
}

const SET: SetAttributes = SetAttributes {
    mode: Some(1),
    uid: Some(2),
    gid: None,
    size: Some(4 << 32),
    atime: Some(SetTime::To(Time { seconds: 5, nanoseconds: 6 })),
    mtime: Some(SetTime::Now),
};

fn set() -> peer::sattr3 {
    peer::sattr3 {
        mode: peer::Nfs3Option::Some(1),
        uid: peer::Nfs3Option::Some(2),
        gid: peer::Nfs3Option::None,
        size: peer::Nfs3Option::Some(4 << 32),
        atime: peer::set_atime::SET_TO_CLIENT_TIME(peer_time(5, 6)),
        mtime: peer::set_mtime::SET_TO_SERVER_TIME,
    }
}

#[test]
fn setattr() {
    let theirs = peer::SETATTR3args {
        object: peer_handle(b"file"),
        new_attributes: set(),
        guard: peer::Nfs3Option::Some(peer_time(7, 8)),
    };
    let guard = Some(Time { seconds: 7, nanoseconds: 8 });
    let ours = Arguments::Setattr(SetattrArgs { object: b"file", attributes: SET, guard });
    assert_read(Procedure::Setattr, &theirs, &ours);
}

#[test]
fn lookup_and_access() {
    let ours = Arguments::Lookup(LookupArgs { what: NAME });
    assert_read(Procedure::Lookup, &peer::LOOKUP3args { what: named() }, &ours);
    let theirs = peer::ACCESS3args { object: peer_handle(b"file"), access: 9 };
    let ours = Arguments::Access(AccessArgs { object: b"file", access: 9 });
    assert_read(Procedure::Access, &theirs, &ours);
}

#[test]
fn read_write_and_commit() {
    let theirs = peer::READ3args { file: peer_handle(b"file"), offset: 1 << 40, count: 3 };
    let ours = ReadArgs { file: b"file", offset: 1 << 40, count: 3 };
    assert_read(Procedure::Read, &theirs, &Arguments::Read(ours));
    let theirs = peer::WRITE3args {
        file: peer_handle(b"file"),
        offset: 1 << 40,
        count: 7,
        stable: peer::stable_how::DATA_SYNC,
        data: b"payload"[..].into(),
    };
    let ours = WriteArgs {
        file: b"file",
        offset: 1 << 40,
        count: 7,
        stable: Stability::DataSync,
        data: vec![Bytes::from_static(b"payload")],
    };
    assert_read(Procedure::Write, &theirs, &Arguments::Write(ours));
    let theirs = peer::COMMIT3args { file: peer_handle(b"file"), offset: 1 << 40, count: 3 };
    let ours = CommitArgs { file: b"file", offset: 1 << 40, count: 3 };
    assert_read(Procedure::Commit, &theirs, &Arguments::Commit(ours));
}

#[test]
fn create_in_three_ways() {
    let verifier = *b"verifier";
    let ways = [
        (peer::createhow3::UNCHECKED(set()), CreateHow::Unchecked(SET)),
        (peer::createhow3::GUARDED(set()), CreateHow::Guarded(SET)),
        (
            peer::createhow3::EXCLUSIVE(peer::createverf3(verifier)),
            CreateHow::Exclusive(Verifier(verifier)),
        ),
    ];
    for (theirs, how) in ways {
        let theirs = peer::CREATE3args { where_: named(), how: theirs };
        let ours = Arguments::Create(CreateArgs { location: NAME, how });
        assert_read(Procedure::Create, &theirs, &ours);
    }
}

#[test]
fn mkdir_and_symlink() {
    let theirs = peer::MKDIR3args { where_: named(), attributes: set() };
    let ours = Arguments::Mkdir(MkdirArgs { location: NAME, attributes: SET });
    assert_read(Procedure::Mkdir, &theirs, &ours);
    let symlink = peer::symlinkdata3 {
        symlink_attributes: set(),
        symlink_data: peer::nfspath3(b"target"[..].into()),
    };
    let theirs = peer::SYMLINK3args { where_: named(), symlink };
    let ours = SymlinkArgs { location: NAME, attributes: SET, target: b"target" };
    assert_read(Procedure::Symlink, &theirs, &Arguments::Symlink(ours));
}

#[test]
fn mknod() {
    let spec = || peer::specdata3 { specdata1: 10, specdata2: 11 };
    let device = || peer::devicedata3 { dev_attributes: set(), spec: spec() };
    let number = Device { major: 10, minor: 11 };
    let kinds = [
        (peer::mknoddata3::NF3CHR(device()), MknodWhat::CharacterDevice(SET, number)),
        (peer::mknoddata3::NF3BLK(device()), MknodWhat::BlockDevice(SET, number)),
        (peer::mknoddata3::NF3SOCK(set()), MknodWhat::Socket(SET)),
        (peer::mknoddata3::NF3FIFO(set()), MknodWhat::Fifo(SET)),
    ];
    for (theirs, what) in kinds {
        let theirs = peer::MKNOD3args { where_: named(), what: theirs };
        let ours = Arguments::Mknod(MknodArgs { location: NAME, what });
        assert_read(Procedure::Mknod, &theirs, &ours);
    }
}

#[test]
fn rename_and_link() {
    let theirs = peer::RENAME3args { from: named(), to: peer_name(b"other", b"new name") };
    let to = DirectoryName { directory: b"other", name: b"new name" };
    let ours = Arguments::Rename(RenameArgs { from: NAME, to });
    assert_read(Procedure::Rename, &theirs, &ours);
    let theirs = peer::LINK3args { file: peer_handle(b"file"), link: named() };
    let ours = Arguments::Link(LinkArgs { file: b"file", link: NAME });
    assert_read(Procedure::Link, &theirs, &ours);
}

#[test]
fn readdir_and_readdirplus() {
    let cookie_verifier = Verifier(*b"verifier");
    let theirs = peer::READDIR3args {
        dir: peer_handle(b"directory"),
        cookie: 1 << 40,
        cookieverf: peer::cookieverf3(*b"verifier"),
        count: 3,
    };
    let directory = &b"directory"[..];
    let ours = ReaddirArgs { directory, cookie: 1 << 40, cookie_verifier, count: 3 };
    assert_read(Procedure::Readdir, &theirs, &Arguments::Readdir(ours));
    let theirs = peer::READDIRPLUS3args {
        dir: peer_handle(b"directory"),
        cookie: 1 << 40,
        cookieverf: peer::cookieverf3(*b"verifier"),
        dircount: 3,
        maxcount: 4,
    };
    let cookie = 1 << 40;
    let ours = ReaddirplusArgs { directory, cookie, cookie_verifier, dircount: 3, maxcount: 4 };
    assert_read(Procedure::Readdirplus, &theirs, &Arguments::Readdirplus(ours));
}
