//! Results of procedures that succeed; READDIR and READDIRPLUS have a file of their own.

use bytes::Bytes;
use nfs::nfs3::results::{
    AccessOk, AccessResult, CommitOk, CommitResult, CreateOk, CreateResult, FsinfoOk, FsinfoResult,
    FsstatOk, FsstatResult, GetattrResult, LinkResult, LinkWcc, LookupOk, LookupResult, PathconfOk,
    PathconfResult, Properties, ReadOk, ReadResult, ReadlinkOk, ReadlinkResult, RenameResult,
    RenameWcc, SetattrResult, WriteOk, WriteResult,
};
use nfs::nfs3::{Attributes, Device, FileKind, Stability, Time, Verifier, Wcc};
use nfs::rpc;

use crate::{
    ATTRIBUTES, HANDLE, NO_WCC, assert_encodes, attributes, encoded, handle, sent, some_attributes,
    some_wcc, wcc,
};

const VERIFIER: Verifier = Verifier(*b"\x11\x22\x33\x44\x55\x66\x77\x88");

#[test]
fn null_has_no_results() {
    assert_eq!(sent(&rpc::success(1).finish()).len(), 28);
}

#[test]
fn getattr() {
    let result: GetattrResult = Ok(attributes());
    assert_encodes(&result, &format!("00000000 {ATTRIBUTES}"));
}

#[test]
fn the_number_of_each_kind_of_file() {
    let kinds = [
        FileKind::Regular,
        FileKind::Directory,
        FileKind::BlockDevice,
        FileKind::CharacterDevice,
        FileKind::Symlink,
        FileKind::Socket,
        FileKind::Fifo,
    ];
    for (number, kind) in (1..).zip(kinds) {
        let attributes = Attributes { kind, device: Device::default(), ..attributes() };
        assert_eq!(encoded(&attributes)[..4], u32::to_be_bytes(number));
        assert_eq!(encoded(&attributes).len(), Attributes::SIZE);
    }
}

#[test]
fn setattr_remove_and_rmdir_give_the_change_of_one_object() {
    let result: SetattrResult = Ok(wcc());
    assert_encodes(&result, &format!("00000000 {}", some_wcc()));
    let result: SetattrResult = Ok(Wcc { before: None, after: Some(attributes()) });
    assert_encodes(&result, &format!("00000000 00000000 {}", some_attributes()));
}

#[test]
fn lookup() {
    let result: LookupResult =
        Ok(LookupOk { object: handle(), attributes: Some(attributes()), directory: None });
    assert_encodes(&result, &format!("00000000 {HANDLE} {} 00000000", some_attributes()));
}

#[test]
fn access() {
    let result: AccessResult = Ok(AccessOk { attributes: Some(attributes()), access: 0x1f });
    assert_encodes(&result, &format!("00000000 {} 0000001f", some_attributes()));
}

#[test]
fn readlink() {
    let target = Bytes::from_static(b"../elsewhere");
    let result: ReadlinkResult = Ok(ReadlinkOk { attributes: None, target });
    assert_encodes(&result, "00000000 00000000 0000000c 2e2e2f65 6c736577 68657265");
}

#[test]
fn read_of_an_odd_length() {
    let data = vec![Bytes::from_static(b"he"), Bytes::from_static(b"llo")];
    let result: ReadResult = Ok(ReadOk { attributes: Some(attributes()), eof: true, data });
    let text = format!(
        "00000000 {}
        00000005                # count
        00000001                # eof
        00000005 68656c6c 6f 000000",
        some_attributes()
    );
    assert_encodes(&result, &text);
}

#[test]
fn read_at_the_end_of_the_file() {
    let result: ReadResult = Ok(ReadOk { attributes: None, eof: true, data: Vec::new() });
    assert_encodes(&result, "00000000 00000000 00000000 00000001 00000000");
}

#[test]
fn write() {
    let committed = [
        (Stability::Unstable, "00000000"),
        (Stability::DataSync, "00000001"),
        (Stability::FileSync, "00000002"),
    ];
    for (committed, number) in committed {
        let ok = WriteOk { wcc: wcc(), count: 0x8000, committed, verifier: VERIFIER };
        let result: WriteResult = Ok(ok);
        let text = format!("00000000 {} 00008000 {number} 11223344 55667788", some_wcc());
        assert_encodes(&result, &text);
    }
}

#[test]
fn create_mkdir_symlink_and_mknod() {
    let result: CreateResult =
        Ok(CreateOk { object: Some(handle()), attributes: Some(attributes()), directory: wcc() });
    let text = format!("00000000 00000001 {HANDLE} {} {}", some_attributes(), some_wcc());
    assert_encodes(&result, &text);
}

#[test]
fn create_without_what_is_optional() {
    let ok = CreateOk { object: None, attributes: None, directory: Wcc::default() };
    let result: CreateResult = Ok(ok);
    assert_encodes(&result, &format!("00000000 00000000 00000000 {NO_WCC}"));
}

#[test]
fn rename() {
    let result: RenameResult = Ok(RenameWcc { from: wcc(), to: Wcc::default() });
    assert_encodes(&result, &format!("00000000 {} {NO_WCC}", some_wcc()));
}

#[test]
fn link() {
    let result: LinkResult = Ok(LinkWcc { file: Some(attributes()), directory: wcc() });
    assert_encodes(&result, &format!("00000000 {} {}", some_attributes(), some_wcc()));
}

#[test]
fn fsstat() {
    let result: FsstatResult = Ok(FsstatOk {
        attributes: None,
        total_bytes: 0x1_0000_0000,
        free_bytes: 2,
        available_bytes: 3,
        total_files: 4,
        free_files: 5,
        available_files: 6,
        invariant_seconds: 7,
    });
    let text = "
        00000000 00000000
        00000001 00000000   # tbytes
        00000000 00000002   # fbytes
        00000000 00000003   # abytes
        00000000 00000004   # tfiles
        00000000 00000005   # ffiles
        00000000 00000006   # afiles
        00000007            # invarsec
    ";
    assert_encodes(&result, text);
}

#[test]
fn fsinfo() {
    let result: FsinfoResult = Ok(FsinfoOk {
        attributes: None,
        read_max: 0x10_0000,
        read_preferred: 0x8_0000,
        read_multiple: 0x1000,
        write_max: 0x20_0000,
        write_preferred: 0x4_0000,
        write_multiple: 0x200,
        readdir_preferred: 0x2000,
        max_file_size: 0x7fff_ffff_ffff_ffff,
        time_delta: Time { seconds: 0, nanoseconds: 1 },
        properties: Properties {
            hard_links: true,
            symbolic_links: true,
            homogeneous: true,
            can_set_time: true,
        },
    });
    let text = "
        00000000 00000000
        00100000 00080000 00001000  # rtmax, rtpref, rtmult
        00200000 00040000 00000200  # wtmax, wtpref, wtmult
        00002000                    # dtpref
        7fffffff ffffffff           # maxfilesize
        00000000 00000001           # time_delta
        0000001b                    # LINK, SYMLINK, HOMOGENEOUS, CANSETTIME
    ";
    assert_encodes(&result, text);
}

#[test]
fn each_property_has_its_bit() {
    let none = Properties::default();
    assert_encodes(&none, "00000000");
    assert_encodes(&Properties { hard_links: true, ..none }, "00000001");
    assert_encodes(&Properties { symbolic_links: true, ..none }, "00000002");
    assert_encodes(&Properties { homogeneous: true, ..none }, "00000008");
    assert_encodes(&Properties { can_set_time: true, ..none }, "00000010");
}

#[test]
fn pathconf() {
    let result: PathconfResult = Ok(PathconfOk {
        attributes: Some(attributes()),
        link_max: 32767,
        name_max: 255,
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    });
    let text = format!(
        "00000000 {}
        00007fff 000000ff                       # linkmax, name_max
        00000001 00000001 00000000 00000001     # no_trunc, chown, insensitive, preserving",
        some_attributes()
    );
    assert_encodes(&result, &text);
}

#[test]
fn commit() {
    let result: CommitResult = Ok(CommitOk { wcc: wcc(), verifier: VERIFIER });
    assert_encodes(&result, &format!("00000000 {} 11223344 55667788", some_wcc()));
}
