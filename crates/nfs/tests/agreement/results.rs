//! Results that the peer reads, and that we read, too.

use bytes::Bytes;
use nfs::nfs3::results::{
    AccessOk, CommitOk, CreateOk, Entry, EntryPlus, FsinfoOk, FsstatOk, LinkWcc, LookupOk,
    PathconfOk, Properties, ReadOk, ReaddirOk, ReaddirplusOk, ReadlinkOk, RenameWcc, WriteOk,
};
use nfs::nfs3::{
    Attributes, Device, Failure, FileKind, Handle, Outcome, Stability, Status, Time, Verifier, Wcc,
    WccAttributes,
};
use nfs::rpc;
use nfs::xdr::{Decode, Decoder, Encode};
use nfs3_types::nfs3 as peer;
use nfs3_types::nfs3::Nfs3Option;
use nfs3_types::xdr_codec::{List, Opaque, Unpack};

use crate::{peer_handle, peer_time};

/// The encoding of a value on the wire.
fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut reply = rpc::success(0);
    reply.value(value);
    reply.finish().concat().split_off(28)
}

/// Asserts that both the peer and we read `theirs` in the bytes that we write, all of them, and
/// that nothing shorter or longer is accepted.
#[track_caller]
fn assert_written<O, T>(ours: &O, theirs: &T)
where
    O: Encode + for<'a> Decode<'a>,
    T: Unpack + std::fmt::Debug,
{
    let bytes = encoded(ours);
    let mut from = Decoder::new(&bytes);
    let back: O = from.value().expect("we can read it");
    assert_eq!(from.finish(), Ok(()));
    assert_eq!(encoded(&back), bytes);
    for cut in (0..bytes.len()).step_by(4) {
        let mut from = Decoder::new(&bytes[..cut]);
        assert!(from.value::<O>().is_err(), "{cut} of {} bytes are no result", bytes.len());
    }
    let (read, length) = T::unpack(&mut &bytes[..]).expect("the peer can read it");
    assert_eq!(length, bytes.len());
    assert_eq!(format!("{read:?}"), format!("{theirs:?}"));
}

fn time(seconds: u32, nanoseconds: u32) -> Time {
    Time { seconds, nanoseconds }
}

/// Attributes identified by their file's number.
fn attributes(fileid: u64) -> Attributes {
    Attributes {
        kind: FileKind::Socket,
        mode: 2,
        nlink: 3,
        uid: 4,
        gid: 5,
        size: 6,
        used: 7,
        device: Device { major: 8, minor: 9 },
        fsid: 10,
        fileid,
        atime: time(12, 13),
        mtime: time(14, 15),
        ctime: time(16, 17),
    }
}

fn peer_attributes(fileid: u64) -> peer::fattr3 {
    peer::fattr3 {
        type_: peer::ftype3::NF3SOCK,
        mode: 2,
        nlink: 3,
        uid: 4,
        gid: 5,
        size: 6,
        used: 7,
        rdev: peer::specdata3 { specdata1: 8, specdata2: 9 },
        fsid: 10,
        fileid,
        atime: peer_time(12, 13),
        mtime: peer_time(14, 15),
        ctime: peer_time(16, 17),
    }
}

/// A change identified by the size before it.
fn wcc(size: u64) -> Wcc {
    let before = WccAttributes { size, mtime: time(1, 2), ctime: time(3, 4) };
    Wcc { before: Some(before), after: Some(attributes(size)) }
}

fn peer_wcc(size: u64) -> peer::wcc_data {
    let before = peer::wcc_attr { size, mtime: peer_time(1, 2), ctime: peer_time(3, 4) };
    let after = Nfs3Option::Some(peer_attributes(size));
    peer::wcc_data { before: Nfs3Option::Some(before), after }
}

const VERIFIER: Verifier = Verifier(*b"verifier");

fn handle() -> Handle {
    Handle::new(b"a handle").expect("eight bytes are a handle")
}

#[test]
fn getattr() {
    let ours: Outcome<_, ()> = Ok(attributes(1));
    let theirs = peer::GETATTR3resok { obj_attributes: peer_attributes(1) };
    assert_written(&ours, &peer::GETATTR3res::Ok(theirs));
}

#[test]
fn lookup() {
    let (attributes, directory) = (Some(attributes(1)), Some(attributes(2)));
    let ours: Outcome<_, ()> = Ok(LookupOk { object: handle(), attributes, directory });
    let theirs = peer::LOOKUP3resok {
        object: peer_handle(b"a handle"),
        obj_attributes: Nfs3Option::Some(peer_attributes(1)),
        dir_attributes: Nfs3Option::Some(peer_attributes(2)),
    };
    assert_written(&ours, &peer::LOOKUP3res::Ok(theirs));
}

#[test]
fn access_and_readlink() {
    let ours: Outcome<_, ()> = Ok(AccessOk { attributes: None, access: 3 });
    let theirs = peer::ACCESS3resok { obj_attributes: Nfs3Option::None, access: 3 };
    assert_written(&ours, &peer::ACCESS3res::Ok(theirs));
    let target = Bytes::from_static(b"target");
    let ours: Outcome<_, ()> = Ok(ReadlinkOk { attributes: None, target });
    let theirs = peer::READLINK3resok {
        symlink_attributes: Nfs3Option::None,
        data: peer::nfspath3(Opaque::owned(b"target".to_vec())),
    };
    assert_written(&ours, &peer::READLINK3res::Ok(theirs));
}

#[test]
fn read_in_pieces() {
    let data = vec![Bytes::from(vec![1; 1000]), Bytes::from(vec![2; 3]), Bytes::from(vec![3; 999])];
    let whole = data.concat();
    let ours: Outcome<_, ()> = Ok(ReadOk { attributes: Some(attributes(1)), eof: true, data });
    let theirs = peer::READ3resok {
        file_attributes: Nfs3Option::Some(peer_attributes(1)),
        count: 2002,
        eof: true,
        data: whole.into(),
    };
    assert_written(&ours, &peer::READ3res::Ok(theirs));
}

#[test]
fn write_and_commit() {
    let committed = Stability::DataSync;
    let ours: Outcome<_, ()> = Ok(WriteOk { wcc: wcc(1), count: 2, committed, verifier: VERIFIER });
    let verf = peer::writeverf3(*b"verifier");
    let committed = peer::stable_how::DATA_SYNC;
    let theirs = peer::WRITE3resok { file_wcc: peer_wcc(1), count: 2, committed, verf };
    assert_written(&ours, &peer::WRITE3res::Ok(theirs));
    let ours: Outcome<_, ()> = Ok(CommitOk { wcc: wcc(1), verifier: VERIFIER });
    let theirs = peer::COMMIT3resok { file_wcc: peer_wcc(1), verf };
    assert_written(&ours, &peer::COMMIT3res::Ok(theirs));
}

#[test]
fn create() {
    let (attributes, directory) = (Some(attributes(1)), wcc(2));
    let ours: Outcome<_, ()> = Ok(CreateOk { object: Some(handle()), attributes, directory });
    let theirs = peer::CREATE3resok {
        obj: Nfs3Option::Some(peer_handle(b"a handle")),
        obj_attributes: Nfs3Option::Some(peer_attributes(1)),
        dir_wcc: peer_wcc(2),
    };
    assert_written(&ours, &peer::CREATE3res::Ok(theirs));
}

#[test]
fn rename_and_link() {
    let ours: Outcome<_, ()> = Ok(RenameWcc { from: wcc(1), to: wcc(2) });
    let theirs = peer::RENAME3resok { fromdir_wcc: peer_wcc(1), todir_wcc: peer_wcc(2) };
    assert_written(&ours, &peer::RENAME3res::Ok(theirs));
    let about = LinkWcc { file: Some(attributes(1)), directory: wcc(2) };
    let ours: Outcome<(), _> = Err(Failure { status: Status::Exists, about });
    let theirs = peer::LINK3resfail {
        file_attributes: Nfs3Option::Some(peer_attributes(1)),
        linkdir_wcc: peer_wcc(2),
    };
    assert_written(&ours, &peer::LINK3res::Err((peer::nfsstat3::NFS3ERR_EXIST, theirs)));
}

#[test]
fn readdir_and_readdirplus() {
    let entry = || Entry { fileid: 1, name: Bytes::from_static(b"name"), cookie: 2 };
    let name = || peer::filename3(Opaque::owned(b"name".to_vec()));
    let (directory, cookie_verifier, eof) = (Some(attributes(3)), VERIFIER, true);
    let entries = vec![entry(), entry()];
    let ours: Outcome<_, ()> = Ok(ReaddirOk { directory, cookie_verifier, entries, eof });
    let peer_entry = || peer::entry3 { fileid: 1, name: name(), cookie: 2 };
    let theirs = peer::READDIR3resok {
        dir_attributes: Nfs3Option::Some(peer_attributes(3)),
        cookieverf: peer::cookieverf3(*b"verifier"),
        reply: peer::dirlist3 { entries: List(vec![peer_entry(), peer_entry()]), eof },
    };
    assert_written(&ours, &peer::READDIR3res::Ok(theirs));

    let (attributes, handle) = (Some(attributes(4)), Some(handle()));
    let entries = vec![EntryPlus { entry: entry(), attributes, handle }];
    let ours: Outcome<_, ()> = Ok(ReaddirplusOk { directory, cookie_verifier, entries, eof });
    let peer_entry = peer::entryplus3 {
        fileid: 1,
        name: name(),
        cookie: 2,
        name_attributes: Nfs3Option::Some(peer_attributes(4)),
        name_handle: Nfs3Option::Some(peer_handle(b"a handle")),
    };
    let theirs = peer::READDIRPLUS3resok {
        dir_attributes: Nfs3Option::Some(peer_attributes(3)),
        cookieverf: peer::cookieverf3(*b"verifier"),
        reply: peer::dirlistplus3 { entries: List(vec![peer_entry]), eof },
    };
    assert_written(&ours, &peer::READDIRPLUS3res::Ok(theirs));
}

#[test]
fn fsstat() {
    let ours: Outcome<_, ()> = Ok(FsstatOk {
        attributes: None,
        total_bytes: 1,
        free_bytes: 2,
        available_bytes: 3,
        total_files: 4,
        free_files: 5,
        available_files: 6,
        invariant_seconds: 7,
    });
    let theirs = peer::FSSTAT3resok {
        obj_attributes: Nfs3Option::None,
        tbytes: 1,
        fbytes: 2,
        abytes: 3,
        tfiles: 4,
        ffiles: 5,
        afiles: 6,
        invarsec: 7,
    };
    assert_written(&ours, &peer::FSSTAT3res::Ok(theirs));
}

#[test]
fn fsinfo() {
    let properties = Properties { hard_links: true, can_set_time: true, ..Default::default() };
    let ours: Outcome<_, ()> = Ok(FsinfoOk {
        attributes: None,
        read_max: 1,
        read_preferred: 2,
        read_multiple: 3,
        write_max: 4,
        write_preferred: 5,
        write_multiple: 6,
        readdir_preferred: 7,
        max_file_size: 8,
        time_delta: time(9, 10),
        properties,
    });
    let theirs = peer::FSINFO3resok {
        obj_attributes: Nfs3Option::None,
        rtmax: 1,
        rtpref: 2,
        rtmult: 3,
        wtmax: 4,
        wtpref: 5,
        wtmult: 6,
        dtpref: 7,
        maxfilesize: 8,
        time_delta: peer_time(9, 10),
        properties: peer::FSF3_LINK | peer::FSF3_CANSETTIME,
    };
    assert_written(&ours, &peer::FSINFO3res::Ok(theirs));
}

#[test]
fn pathconf() {
    let ours: Outcome<_, ()> = Ok(PathconfOk {
        attributes: None,
        link_max: 1,
        name_max: 2,
        no_trunc: true,
        chown_restricted: false,
        case_insensitive: false,
        case_preserving: true,
    });
    let theirs = peer::PATHCONF3resok {
        obj_attributes: Nfs3Option::None,
        linkmax: 1,
        name_max: 2,
        no_trunc: true,
        chown_restricted: false,
        case_insensitive: false,
        case_preserving: true,
    };
    assert_written(&ours, &peer::PATHCONF3res::Ok(theirs));
}
