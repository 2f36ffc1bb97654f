//! MOUNT version 3 (RFC 1813, appendix I).

use bytes::Bytes;
use nfs::mount::{
    Arguments, Export, ExportList, MntArgs, MntOk, MntResult, Mount, MountList, Procedure, Status,
    UmntArgs,
};
use nfs::xdr::{DecodeError, Decoder};

use crate::{HANDLE, assert_encodes, handle, wire};

#[track_caller]
fn assert_decodes(procedure: Procedure, text: &str, arguments: Arguments<'_>) {
    let bytes = wire(text);
    let longer = [&bytes[..], &[0; 4]].concat();
    let decode = |bytes| Arguments::decode(procedure, Decoder::new(bytes));
    assert_eq!(decode(&bytes), Ok(arguments));
    for length in 0..bytes.len() {
        assert_eq!(decode(&bytes[..length]), Err(DecodeError::Short), "{length} bytes of it");
    }
    assert_eq!(decode(&longer), Err(DecodeError::Trailing(4)));
}

#[test]
fn arguments_of_mnt_and_umnt_are_a_path() {
    let text = "00000005 2f686f6d 65 000000";
    assert_decodes(Procedure::Mnt, text, Arguments::Mnt(MntArgs { path: b"/home" }));
    assert_decodes(Procedure::Umnt, text, Arguments::Umnt(UmntArgs { path: b"/home" }));
}

#[test]
fn the_other_procedures_have_no_arguments() {
    assert_decodes(Procedure::Null, "", Arguments::Null);
    assert_decodes(Procedure::Dump, "", Arguments::Dump);
    assert_decodes(Procedure::Umntall, "", Arguments::Umntall);
    assert_decodes(Procedure::Export, "", Arguments::Export);
}

#[test]
fn a_path_has_at_most_1024_bytes() {
    let bytes = wire(&format!("00000404 {}", "61".repeat(1028)));
    let error = DecodeError::TooLong { length: 1028, limit: 1024 };
    assert_eq!(Arguments::decode(Procedure::Mnt, Decoder::new(&bytes)), Err(error));
}

#[test]
fn mnt_gives_a_handle_and_flavors() {
    let result: MntResult = Ok(MntOk { handle: handle(), flavors: vec![1, 0] });
    let text = format!("00000000 {HANDLE} 00000002 00000001 00000000 # AUTH_SYS, AUTH_NONE");
    assert_encodes(&result, &text);
}

#[test]
fn mnt_refuses_with_a_status_alone() {
    let statuses = [
        (Status::NotOwner, 1),
        (Status::NoEntry, 2),
        (Status::Io, 5),
        (Status::Access, 13),
        (Status::NotDirectory, 20),
        (Status::Invalid, 22),
        (Status::NameTooLong, 63),
        (Status::NotSupported, 10004),
        (Status::ServerFault, 10006),
    ];
    for (status, number) in statuses {
        let result: MntResult = Err(status);
        assert_encodes(&result, &format!("{number:08x}"));
    }
}

#[test]
fn dump_lists_who_mounted_what() {
    let mounts = [("box", "/a"), ("10.0.0.1", "/home")].map(|(client, path)| Mount {
        client: Bytes::from_static(client.as_bytes()),
        path: Bytes::from_static(path.as_bytes()),
    });
    let text = "
        00000001 00000003 626f78 00         00000002 2f61 0000
        00000001 00000008 31302e30 2e302e31 00000005 2f686f6d 65 000000
        00000000
    ";
    assert_encodes(&MountList(mounts.into()), text);
    assert_encodes(&MountList::default(), "00000000");
}

#[test]
fn export_lists_paths_and_their_groups() {
    let export = |path: &'static str, groups: &[&'static str]| Export {
        path: Bytes::from_static(path.as_bytes()),
        groups: groups.iter().map(|group| Bytes::from_static(group.as_bytes())).collect(),
    };
    let exports = vec![export("/a", &[]), export("/b", &["box", "host"])];
    let text = "
        00000001 00000002 2f61 0000                             # '/a'
            00000000                                            # for everybody
        00000001 00000002 2f62 0000                             # '/b'
            00000001 00000003 626f78 00                         # for 'box'
            00000001 00000004 686f7374                          # and 'host'
            00000000
        00000000
    ";
    assert_encodes(&ExportList(exports), text);
}

#[test]
fn numbers_and_names_of_procedures_agree_with_the_rfc() {
    for (number, name) in (0..).zip(["NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"]) {
        let procedure = Procedure::from_number(number).expect("6 procedures");
        assert_eq!((procedure as u32, procedure.name()), (number, name));
    }
    assert_eq!(Procedure::from_number(6), None);
}
